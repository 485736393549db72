//! The commands that print: `list` and `show`, once or with every change.

use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::slice;
use std::sync::Arc;

use lock_recipes::observe::{Listed, Observation, ObservedLock, Observer, Progress, Update};
use lock_recipes::{Coordinator, LockPath};

use crate::args::{Global, Output};
use crate::connect;
use crate::exit::Failure;
use crate::output::json::{self, Change, Document, Record};
use crate::output::table;
use crate::row::{self, Now};
use crate::term;
use crate::text::{self, Charset};

/// What was read once.
struct Read {
    locks: Vec<Arc<ObservedLock>>,
    listed: Listed,
    _observation: Observation,
}

/// `list`: all locks.
pub(crate) async fn list(global: &Global, output: Output) -> Result<(), Failure> {
    let coordinator = connect::connect(global).await?;
    let done = list_with(&coordinator, global, output).await;
    // What it says about nodes that may be left does not concern a reader.
    let _ = coordinator.close().await;
    done
}

async fn list_with(
    coordinator: &Coordinator,
    global: &Global,
    output: Output,
) -> Result<(), Failure> {
    let observer = connect::observer(coordinator, global);
    if output.watch {
        return watch(&observer, charset(global)).await;
    }
    let read = read(observer.once()).await?;
    if output.json {
        print_json(&Document::new(&read.locks, &read.listed.denied), charset(global))?;
    } else if read.locks.is_empty() {
        // Not on stdout: a script counts lines there.
        complain(&format!(
            "no locks below {} (nodes looked at: {}): nobody holds one, and nobody waits",
            text::clean(&connect::roots(global), charset(global)),
            row::count(read.listed.nodes),
        ));
    } else {
        let locks = read.locks.iter().map(|lock| &**lock);
        print(&table::list(locks, Now::read(), charset(global)))?;
    }
    complete(&read.listed, charset(global))
}

/// `show`: one lock with its queue.
pub(crate) async fn show(global: &Global, path: &LockPath, output: Output) -> Result<(), Failure> {
    let coordinator = connect::connect(global).await?;
    let observer = Observer::of_lock(&coordinator, path);
    let done = if output.watch {
        watch(&observer, charset(global)).await
    } else {
        show_with(&observer, global, path, output).await
    };
    let _ = coordinator.close().await;
    done
}

async fn show_with(
    observer: &Observer,
    global: &Global,
    path: &LockPath,
    output: Output,
) -> Result<(), Failure> {
    let read = read(observer.once()).await?;
    let Some(lock) = read.locks.first() else {
        let path = text::clean(path.as_str(), charset(global));
        return Err(if !read.listed.missing.is_empty() {
            Failure::new(1, format!("there is no node {path}"))
        } else if read.listed.denied.is_empty() {
            let hint = "no child of it is a contender";
            Failure::new(1, format!("{path} is no lock: {hint}; zk-inspect list shows which are"))
        } else {
            Failure::new(4, format!("ZooKeeper does not let us list {path}: it needs READ there"))
        });
    };
    if output.json {
        print_json(&Document::new(slice::from_ref(lock), &read.listed.denied), charset(global))?;
    } else {
        print(&table::show(lock, Now::read(), charset(global)))?;
    }
    complete(&read.listed, charset(global))
}

/// Reads once, and says how far it has come where somebody looks on. What was read is large, and not
/// given back piece by piece before the program ends.
async fn read(mut observation: Observation) -> Result<ManuallyDrop<Read>, Failure> {
    let mut progress = Meter::new();
    let mut locks = Vec::new();
    while let Some(update) = observation.next().await {
        match update {
            Update::Lock(lock) => locks.push(lock),
            Update::Listing(listing) => progress.show(listing),
            Update::Listed(listed) => {
                progress.clear();
                locks.sort_by(|a: &Arc<ObservedLock>, b| a.path.cmp(&b.path));
                return Ok(ManuallyDrop::new(Read { locks, listed, _observation: observation }));
            }
            Update::Failed(error) => {
                progress.clear();
                return Err(error.into());
            }
            _ => {}
        }
    }
    Err(Failure::new(3, "the connection to ZooKeeper has ended"))
}

/// Prints a record for every change, until the output or the program is ended.
async fn watch(observer: &Observer, charset: Charset) -> Result<(), Failure> {
    let mut observation = observer.watch();
    let mut seq = 0;
    while let Some(update) = observation.next().await {
        let change = match &update {
            Update::Lock(lock) => Change::lock(lock),
            Update::Gone(path) => Change::Gone { path },
            Update::Listed(listed) => Change::listed(listed),
            Update::Disconnected => Change::Disconnected,
            Update::Failed(error) => return Err(error.clone().into()),
            _ => continue,
        };
        print_json(&Record::new(seq, Now::read(), change), charset)?;
        seq += 1;
    }
    Err(Failure::new(3, "the connection to ZooKeeper has ended"))
}

/// What could not be read makes the answer a partial one.
fn complete(listed: &Listed, charset: Charset) -> Result<(), Failure> {
    if listed.denied.is_empty() {
        return Ok(());
    }
    let denied: Vec<_> = listed.denied.iter().map(|path| text::clean(path, charset)).collect();
    Err(Failure::new(
        4,
        format!("not complete: ZooKeeper does not let us list {}", denied.join(", ")),
    ))
}

pub(crate) fn charset(global: &Global) -> Charset {
    if global.ascii { Charset::Ascii } else { Charset::Unicode }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One document on one line.
fn print_json(value: &impl serde::Serialize, charset: Charset) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    json::write(&mut out, value, charset)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// A line on stderr.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "zk-inspect: {message}");
}

/// Says on stderr how far a listing has come, where that is a terminal.
struct Meter {
    visible: bool,
    shown: bool,
}

impl Meter {
    fn new() -> Self {
        Self { visible: io::stderr().is_terminal() && !term::is_dumb(), shown: false }
    }

    fn show(&mut self, progress: Progress) {
        if self.visible {
            let Progress { nodes, left, .. } = progress;
            let (nodes, left) = (row::count(nodes), row::count(left));
            let _ = write!(io::stderr(), "\r\x1b[K{nodes} nodes found, {left} to be asked for");
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
