//! Seven sellers, one stock, one lock: `make demo` runs this on a ZooKeeper of its own.
//!
//! Five of them are shell commands under `zk-lock`, two are tasks that use the library. The stock
//! lies in a file that stands for a database: it takes a write only with a token at least as large
//! as any it has seen. Twice something goes wrong on purpose.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use lock_recipes::zookeeper_client::{Client, Error as ClientError};
use lock_recipes::{AcquireOptions, Coordinator, FencingToken, Lock, ReleaseError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T = ()> = Result<T, Failure>;

const PATH: &str = "/demo/inventory";
const TILLS: [&str; 5] = ["till-1", "till-2", "till-3", "till-4", "till-5"];
const WEB: [&str; 2] = ["web-1", "web-2"];
/// As `zk-lock --help` lists it.
const LOST: i32 = 79;
/// No wait for anything is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Watch seven sellers queue for one lock.
#[derive(Debug, Parser)]
struct Args {
    /// ZooKeeper's address
    #[arg(long)]
    connect: String,
    /// The zk-lock binary
    #[arg(long)]
    zk_lock: PathBuf,
    /// How long to go on
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=600))]
    seconds: u32,
}

fn main() -> ExitCode {
    // Started again by itself, under zk-lock: the command of a till.
    let args: Vec<String> = std::env::args().collect();
    let done = match args.get(1..).unwrap_or_default() {
        [sell, dir, name] if sell == "sell" => till(Path::new(dir), name).map(|()| true),
        _ => show(Args::parse()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

// --- The resource: refuses whoever comes with a token smaller than it has seen.

#[derive(Clone, Debug)]
struct Store {
    dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error("stale token {offered}: the store has seen {seen}")]
    Stale { offered: FencingToken, seen: FencingToken },
    #[error("the store is broken: {0}")]
    Broken(Failure),
}

impl Store {
    fn create(dir: &Path, stock: u32) -> Outcome<Self> {
        fs::write(dir.join("stock"), format!("{stock} none"))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// What is in stock, and the largest token seen.
    fn look(&self) -> Outcome<(u32, Option<FencingToken>)> {
        self.locked(|stock, seen| Ok((stock, seen))).map_err(Into::into)
    }

    /// Fences off every earlier holder, and then reads.
    fn open(&self, token: FencingToken, who: &str) -> Result<u32, StoreError> {
        self.write(token, None, &format!("enter {who}"))
    }

    /// Writes what is left. Whether it is right depends on nobody having written in between.
    fn close(&self, token: FencingToken, who: &str, left: u32) -> Result<u32, StoreError> {
        self.write(token, Some(left), &format!("leave {who}"))
    }

    /// One atomic step: compare the token, write, and keep a record.
    fn write(&self, token: FencingToken, left: Option<u32>, what: &str) -> Result<u32, StoreError> {
        self.locked(|stock, seen| {
            if let Some(seen) = seen.filter(|seen| token < *seen) {
                return Err(StoreError::Stale { offered: token, seen });
            }
            let left = left.unwrap_or(stock);
            let file = self.dir.join("stock");
            fs::write(file, format!("{left} {token}"))
                .map_err(|error| StoreError::Broken(error.into()))?;
            self.note(&format!("{what} {token} {left}")).map_err(StoreError::Broken)?;
            Ok(left)
        })
    }

    /// A line in the record, with the time.
    fn note(&self, what: &str) -> Outcome {
        let line = format!("{what} {}\n", monotonic_nanos());
        let record = self.dir.join("record");
        OpenOptions::new().create(true).append(true).open(record)?.write_all(line.as_bytes())?;
        Ok(())
    }

    fn locked<T>(
        &self,
        act: impl FnOnce(u32, Option<FencingToken>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read = || -> Outcome<(File, u32, Option<FencingToken>)> {
            let mut file = File::open(self.dir.join("stock"))?;
            // The store's own transaction: held for this step only, and given back by the drop.
            file.lock()?;
            let mut text = String::new();
            file.rewind()?;
            file.read_to_string(&mut text)?;
            let (stock, token) = text.split_once(' ').ok_or("half a line")?;
            Ok((file, stock.parse()?, token.parse().ok()))
        };
        let (_transaction, stock, seen) = read().map_err(StoreError::Broken)?;
        act(stock, seen)
    }
}

/// The machine's monotonic clock, the same for all its processes.
fn monotonic_nanos() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Serving one customer, in the middle of a sale.
fn customer() -> (u32, Duration) {
    (fastrand::u32(1..=3), Duration::from_millis(fastrand::u64(200..450)))
}

// --- A seller under zk-lock: an ordinary program that takes its token from the environment.

fn till(dir: &Path, name: &str) -> Outcome {
    let token: FencingToken = std::env::var("ZK_LOCK_TOKEN")?.parse()?;
    let store = Store { dir: dir.to_owned() };
    let stock = store.open(token, name)?;
    let (wanted, time) = customer();
    std::thread::sleep(time);
    store.close(token, name, stock - wanted.min(stock))?;
    Ok(())
}

// --- The show.

struct Show {
    args: Args,
    store: Store,
    started: Instant,
    /// No new customers.
    closing: AtomicBool,
    /// Ctrl-C.
    interrupted: AtomicBool,
    /// Web sellers are asked once to fall asleep in mid-sale.
    sleep_wanted: AtomicBool,
    stopped: AtomicU64,
    refused: AtomicU64,
}

impl Show {
    fn tell(&self, text: &str) {
        println!("{:>5.1}  ** {text}", self.started.elapsed().as_secs_f64());
    }

    fn open(&self) -> bool {
        !self.closing.load(Ordering::Relaxed)
    }

    /// Until the next customer comes.
    async fn idle(&self) {
        sleep(Duration::from_millis(fastrand::u64(100..900))).await;
    }

    async fn coordinator(&self) -> Outcome<Coordinator> {
        Ok(Coordinator::connect(&self.args.connect).await?)
    }
}

fn show(args: Args) -> Outcome<bool> {
    let dir = Scratch::create()?;
    let stock = args.seconds * 7;
    let store = Store::create(&dir.0, stock)?;
    println!(
        "\
Seven sellers, one stock of {stock} bicycles, one lock: {PATH}.

  till-1 … till-5  shell commands, each run by   zk-lock {PATH} -- …
  web-1, web-2     tasks that use the library, each with its own session

To sell is to read the stock, serve the customer and write back what is left.
Two at a time would sell one bicycle twice, so only the lock's holder sells.

 time  holder  fencing token     left  waiting, in order of arrival"
    );
    let show = Arc::new(Show {
        args,
        store,
        started: Instant::now(),
        closing: AtomicBool::new(false),
        interrupted: AtomicBool::new(false),
        sleep_wanted: AtomicBool::new(false),
        stopped: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let fine = runtime.block_on(run(&show, stock));
    if show.interrupted.load(Ordering::Relaxed) {
        println!("interrupted");
        return Ok(false);
    }
    fine
}

async fn run(show: &Arc<Show>, stock: u32) -> Outcome<bool> {
    let coordinator = show.coordinator().await?;
    let operator = Client::connect(&show.args.connect).await?;
    let mut sellers = JoinSet::new();
    for name in TILLS {
        sellers.spawn(tills(Arc::clone(show), name));
    }
    for name in WEB {
        sellers.spawn(web(Arc::clone(show), name));
    }
    let watching = tokio::spawn(watch(Arc::clone(show), coordinator.clone(), operator.clone()));
    tokio::spawn(close(Arc::clone(show)));

    let mut failures = Vec::new();
    while let Some(ended) = sellers.join_next().await {
        if let Err(failure) = ended? {
            show.closing.store(true, Ordering::Relaxed);
            failures.push(failure);
        }
    }
    if watching.is_finished() {
        failures.extend(watching.await?.err());
    } else {
        watching.abort();
    }
    coordinator.close().await?;
    let left = tidy_up(&operator).await?;
    for failure in &failures {
        println!("FAILED: {failure}");
    }
    let sound = summary(show, stock, left)?;
    Ok(sound && failures.is_empty())
}

/// Ends the sale: by the clock, sold out, or by Ctrl-C.
async fn close(show: Arc<Show>) {
    let sold_out = async {
        while show.store.look().is_ok_and(|(stock, _)| stock > 0) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = sleep(Duration::from_secs(show.args.seconds.into())) => {
            show.tell("closing time: whoever waits is still served");
        }
        () = sold_out => show.tell("sold out"),
        _ = tokio::signal::ctrl_c() => show.interrupted.store(true, Ordering::Relaxed),
    }
    show.closing.store(true, Ordering::Relaxed);
}

/// A till: one `zk-lock` for each customer.
async fn tills(show: Arc<Show>, name: &'static str) -> Outcome {
    let this = std::env::current_exe()?;
    while show.open() {
        let mut command = tokio::process::Command::new(&show.args.zk_lock);
        command.args(["--connect", &show.args.connect, "--data", name, PATH, "--"]);
        command.arg(&this).arg("sell").arg(&show.store.dir).arg(name);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(PATIENCE, command.output()).await??;
        match output.status.code() {
            Some(0) => {}
            Some(LOST) => {
                show.stopped.fetch_add(1, Ordering::Relaxed);
                show.tell(&format!(
                    "zk-lock stopped {name}'s command; exit code {LOST}: lock lost"
                ));
            }
            _ if show.interrupted.load(Ordering::Relaxed) => return Ok(()),
            code => {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{name}: zk-lock ended with {code:?}: {said}").into());
            }
        }
        show.idle().await;
    }
    Ok(())
}

/// A web seller: the same with the library, in one session for all customers.
async fn web(show: Arc<Show>, name: &'static str) -> Outcome {
    let coordinator = show.coordinator().await?;
    let lock = Lock::new(&coordinator, PATH)?;
    while show.open() {
        let guard = lock.acquire_with(AcquireOptions::new().timeout(PATIENCE).data(name)).await?;
        let stock = show.store.open(guard.token(), name)?;
        let (wanted, time) = customer();
        let left = stock - wanted.min(stock);
        sleep(time).await;
        if show.sleep_wanted.swap(false, Ordering::Relaxed) {
            oversleep(&show, name, guard.token(), guard.node(), left).await?;
            match guard.release().await {
                Err(ReleaseError::AlreadyLost { .. }) => {}
                other => return Err(format!("{name} released what it had lost: {other:?}").into()),
            }
        } else {
            show.store.close(guard.token(), name, left)?;
            guard.release().await?;
        }
        show.idle().await;
    }
    coordinator.close().await?;
    Ok(())
}

/// What no lock can prevent: a holder that stands still while its lock goes to the next one, wakes
/// up and writes.
async fn oversleep(show: &Show, name: &str, token: FencingToken, node: &str, left: u32) -> Outcome {
    show.tell(&format!("{name} freezes in mid-sale, and ZooKeeper gives its lock away"));
    show.store.note(&format!("gone {name} {token} {left}"))?;
    // In a freeze that outlasts the session ZooKeeper deletes the node. This is sooner.
    Client::connect(&show.args.connect).await?.delete(&format!("{PATH}/{node}"), None).await?;
    let overtaken = async {
        loop {
            match show.store.look() {
                Ok((stock, Some(seen))) if seen > token => return Ok(stock),
                Ok(_) => sleep(Duration::from_millis(5)).await,
                Err(error) => return Err(error),
            }
        }
    };
    timeout(PATIENCE, overtaken).await??;
    sleep(Duration::from_millis(100)).await;
    match show.store.close(token, name, left) {
        Err(StoreError::Stale { offered, seen }) => {
            show.refused.fetch_add(1, Ordering::Relaxed);
            show.tell(&format!("{name} wakes up and writes with its token {offered}:"));
            show.tell(&format!("REFUSED, the store has seen {seen}"));
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("{name} wrote after it had lost the lock").into()),
    }
}

/// Prints a line for each holder, and makes trouble: once with a till, once with a web seller.
async fn watch(show: Arc<Show>, coordinator: Coordinator, operator: Client) -> Outcome {
    let lock = Lock::new(&coordinator, PATH)?;
    let span = Duration::from_secs(show.args.seconds.into());
    let (mut deleted, mut slept) = (false, false);
    let mut shown = None;
    loop {
        sleep(Duration::from_millis(10)).await;
        let queue = lock.queue().await?;
        let Some(holder) = queue.holder() else { continue };
        let name = String::from_utf8_lossy(&holder.data).into_owned();
        if shown != holder.token {
            shown = holder.token;
            let waiters =
                queue.waiters().iter().map(|waiter| String::from_utf8_lossy(&waiter.data));
            let waiters = waiters.collect::<Vec<_>>().join(" ");
            let token = holder.token.map_or_else(String::new, |token| token.to_string());
            let (stock, _) = show.store.look()?;
            let now = show.started.elapsed().as_secs_f64();
            println!("{now:>5.1}  {name:<6}  {token:<16}  {stock:>4}  {waiters}");
        }
        let now = show.started.elapsed();
        // Only once the till is at work, so that there is something to stop.
        let at_work = show.store.look()?.1 == holder.token;
        if now > span / 3 && !deleted && at_work && TILLS.contains(&name.as_str()) {
            deleted = true;
            show.tell(&format!("an operator deletes {name}'s znode by hand, in mid-sale"));
            if let Some(token) = holder.token {
                show.store.note(&format!("gone {name} {token} 0"))?;
            }
            match operator.delete(&format!("{PATH}/{}", holder.node), None).await {
                Ok(()) => {}
                // It has just finished: the next one, then.
                Err(ClientError::NoNode) => deleted = false,
                Err(error) => return Err(error.into()),
            }
        }
        if now > span * 3 / 5 && !slept {
            slept = true;
            show.sleep_wanted.store(true, Ordering::Relaxed);
        }
    }
}

/// Removes the lock's path; says how many nodes were left in it.
async fn tidy_up(operator: &Client) -> Outcome<usize> {
    let left = match operator.list_children(PATH).await {
        Ok(children) => children.len(),
        Err(ClientError::NoNode) => 0,
        Err(error) => return Err(error.into()),
    };
    for path in [PATH, "/demo"] {
        // Containers: ZooKeeper may have been faster. Whatever else is in there is not ours.
        let _ = operator.delete(path, None).await;
    }
    Ok(left)
}

/// Reads the record of the store, which all sellers wrote, and says what it proves.
fn summary(show: &Show, stock: u32, nodes: usize) -> Outcome<bool> {
    let record = fs::read_to_string(show.store.dir.join("record"))?;
    let (mut tokens, mut inside) = (Vec::new(), HashSet::new());
    let (mut holds, mut sales, mut overlaps) = (0, 0, 0);
    let (mut last, mut lowest) = (stock, stock);
    let mut lines: Vec<_> =
        record.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
    let time = |line: &Vec<&str>| line.last().and_then(|time| time.parse::<i128>().ok());
    lines.sort_by_key(time);
    let mut sold: HashMap<&str, u32> = HashMap::new();
    for line in &lines {
        let [what, who, token, left, _] = line[..] else { return Err("half a record".into()) };
        let left: u32 = left.parse()?;
        match what {
            "enter" => {
                holds += 1;
                overlaps += usize::from(!inside.is_empty());
                inside.insert(token);
                tokens.push(token.parse::<FencingToken>()?);
            }
            "leave" => {
                sales += 1;
                inside.remove(token);
                *sold.entry(who).or_default() +=
                    last.checked_sub(left).ok_or("stock that grows")?;
                last = left;
                lowest = lowest.min(left);
            }
            _ => {
                inside.remove(token);
            }
        }
    }
    let total: u32 = sold.values().sum();
    let increasing = tokens.windows(2).all(|pair| pair[0] < pair[1]);
    let adds_up = total + last == stock && show.store.look()?.0 == last;
    let yes = |sound: bool| if sound { "yes" } else { "NO" };
    let stopped = show.stopped.load(Ordering::Relaxed);
    let refused = show.refused.load(Ordering::Relaxed);
    println!(
        "
Acquisitions: {holds}, overlaps: {overlaps}
Tokens strictly increasing: {}
Sold: {total} bicycles in {sales} sales, left: {last} of {stock}; it adds up: {}
Commands stopped by zk-lock when their lock was lost: {stopped}
Late writes refused by their token: {refused}
Znodes left: {nodes}

The lock says who should sell; with the token the store refuses who may not.",
        yes(increasing),
        yes(adds_up),
    );
    Ok(overlaps == 0 && increasing && adds_up && nodes == 0 && stopped <= 1 && refused <= 1)
}

/// A directory that goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("lock-recipes-demo-{}", std::process::id()));
        fs::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
