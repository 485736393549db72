//! A read model of locks, for tools: which locks there are below some paths, who holds them, who
//! waits behind whom, and every change of that, whichever client made the nodes.
//!
//! An [`Observer`] reads once, or follows. Following costs one session (the coordinator's), one
//! persistent recursive watch for each root, one listing of everything at the start and after each
//! reconnect, and from then on one read for each new contender: nothing is polled. Servers before 3.6
//! lack such watches: there everything is listed again every few seconds, which
//! [`Listed::by`] says.
//!
//! # What is not promised
//!
//! * Between two updates of one lock it may have had other holders: only the latest state is kept.
//! * Events are lost while the connection is: [`Update::Disconnected`], and [`Listed::gap`] after it,
//!   say for how long nobody looked.
//! * A follower of the ensemble may lag behind its leader; what is told is what the server that is
//!   asked knows. After each (re)connect it is synchronised with the leader first.
//! * Who holds is told by the order of the nodes. That a client believes it is another matter.

mod driver;
mod layout;
mod lock;
mod outbox;
mod tree;
mod watches;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

pub use self::lock::{Facts, Kind, NodeFacts, ObservedContender, ObservedLock};
use self::outbox::Outbox;
use self::tree::{Depth, Tree};
use crate::coordinator::Coordinator;
use crate::path::{InvalidPath, LockPath};

/// Where to look for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// All nodes of the ensemble, or of the connect string's chroot; what lies below `/zookeeper` is
    /// left out.
    Everything,
    /// This node and all below it.
    Below(LockPath),
}

impl Root {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Everything => "/",
            Self::Below(path) => path.as_str(),
        }
    }
}

impl FromStr for Root {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        if text == "/" { Ok(Self::Everything) } else { LockPath::new(text).map(Self::Below) }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something new.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Update {
    /// A lock as it is now: a new one, or one that has changed.
    Lock(Arc<ObservedLock>),
    /// What was a lock at this path is none any more: its node has gone.
    Gone(String),
    /// How far a listing has come.
    Listing(Progress),
    /// That is all: every lock has been told, and changes follow. Told again, without a gap, when
    /// there is more or less that cannot be listed.
    Listed(Listed),
    /// The connection was lost: what was told is getting old. Once there is one again everything is
    /// listed again, the differences are told, and then [`Update::Listed`] with its gap.
    Disconnected,
    /// Nothing more will come.
    Failed(ObserveError),
}

/// How far a listing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Nodes found so far.
    pub nodes: usize,
    /// Questions that are still to be asked, as far as is known.
    pub left: usize,
}

impl Progress {
    /// Progress, for the tests of tools.
    #[must_use]
    pub const fn new(nodes: usize, left: usize) -> Self {
        Self { nodes, left }
    }
}

/// A listing that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Nodes that were found.
    pub nodes: usize,
    /// Nodes whose children ZooKeeper does not let us list: locks below them are not told.
    pub denied: Vec<String>,
    /// Roots that do not exist. They are watched, or looked for, all the same.
    pub missing: Vec<String>,
    /// How changes are noticed from now on.
    pub by: Method,
    /// For how long nobody looked, if the connection was lost before.
    pub gap: Option<Gap>,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// By watches: ZooKeeper tells at once.
    Watch,
    /// By listing everything this often: the server is older than 3.6, or refuses the watch.
    Poll(Duration),
    /// Not at all: it was read once.
    Once,
}

/// A time in which changes may have been missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// When the connection was found to be lost.
    pub from: Instant,
    /// When everything had been listed again.
    pub until: Instant,
}

impl Gap {
    /// A gap, for the tests of tools.
    #[must_use]
    pub const fn new(from: Instant, until: Instant) -> Self {
        Self { from, until }
    }
}

/// Why observing has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// There are more nodes below the root than [`Observer::node_limit`] allows.
    #[error("there are {nodes} nodes below {root}, more than the limit of {limit}: name a root")]
    TooLarge {
        /// The root.
        root: String,
        /// How many there are; at least so many where the server cannot count.
        nodes: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// The coordinator was closed, or its runtime has ended.
    #[error("the coordinator is closed")]
    Closed,
    /// Reading once brought no answer, several times in a row.
    #[error("no answer from ZooKeeper while listing {root}")]
    NoAnswer {
        /// The first of the roots.
        root: String,
        /// What the client said last.
        source: zookeeper_client::Error,
    },
}

/// Reads locks, once or for as long as it is wanted.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_recipes::Coordinator;
/// use lock_recipes::observe::{Observer, Update};
///
/// let coordinator = Coordinator::connect("zk1:2181").await?;
/// let mut observation = Observer::new(&coordinator).root("/locks".parse()?).watch();
/// while let Some(update) = observation.next().await {
///     match update {
///         Update::Lock(lock) => println!("{}: {} wait", lock.path, lock.waiters.len()),
///         Update::Listed(_) => println!("that is all for now"),
///         Update::Failed(error) => return Err(error.into()),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an observer does nothing before read() or watch()"]
pub struct Observer {
    coordinator: Coordinator,
    spec: Spec,
}

/// What to observe.
#[derive(Clone, Debug)]
struct Spec {
    roots: Vec<String>,
    depth: Depth,
    limit: Option<usize>,
    poll: Duration,
}

/// What was read once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The locks, sorted by path.
    pub locks: Vec<Arc<ObservedLock>>,
    /// What the listing says of itself.
    pub listed: Listed,
}

impl Observer {
    /// An observer of everything, unless roots are named.
    pub fn new(coordinator: &Coordinator) -> Self {
        let spec = Spec {
            roots: Vec::new(),
            depth: Depth::Everything,
            limit: None,
            poll: Duration::from_secs(2),
        };
        Self { coordinator: coordinator.clone(), spec }
    }

    /// An observer of the one lock at this path and of nothing below it. A path whose contenders
    /// have all gone is told as a free [`Kind::Mutex`].
    pub fn of_lock(coordinator: &Coordinator, path: &LockPath) -> Self {
        let mut observer = Self::new(coordinator);
        observer.spec.depth = Depth::Locks;
        // The second may be the entry of kazoo's semaphore, which lies beside it.
        observer.spec.roots = vec![path.to_string(), format!("{path}{}", tree::KAZOO_ENTRY)];
        observer
    }

    /// Looks below this root too. One that lies below another is left out.
    pub fn root(mut self, root: Root) -> Self {
        let root = match root {
            Root::Everything => "/".to_owned(),
            Root::Below(path) => path.to_string(),
        };
        if !self.spec.roots.iter().any(|known| covers(known, &root)) {
            self.spec.roots.retain(|known| !covers(&root, known));
            self.spec.roots.push(root);
        }
        self
    }

    /// Refuses to list a root with more nodes below it: [`ObserveError::TooLarge`]. The server is
    /// asked to count them first, where it can (3.6 and later). Default: no limit.
    pub fn node_limit(mut self, limit: usize) -> Self {
        self.spec.limit = Some(limit);
        self
    }

    /// How often everything is listed again on servers before 3.6. Default: 2 seconds.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.spec.poll = interval;
        self
    }

    /// Reads everything once.
    ///
    /// # Errors
    ///
    /// [`ObserveError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the reading.
    pub async fn read(&self) -> Result<Reading, ObserveError> {
        let mut observation = self.once();
        let mut locks = Vec::new();
        while let Some(update) = observation.next().await {
            match update {
                Update::Lock(lock) => locks.push(lock),
                Update::Listed(listed) => {
                    locks.sort_by(|a, b| a.path.cmp(&b.path));
                    return Ok(Reading { locks, listed });
                }
                Update::Failed(error) => return Err(error),
                Update::Gone(_) | Update::Listing(_) | Update::Disconnected => {}
            }
        }
        Err(ObserveError::Closed)
    }

    /// [`Observer::read`] as a stream, which tells of its progress and ends with
    /// [`Update::Listed`].
    #[must_use]
    pub fn once(&self) -> Observation {
        self.start(true)
    }

    /// Follows: first everything there is, then [`Update::Listed`], then every change.
    #[must_use]
    pub fn watch(&self) -> Observation {
        self.start(false)
    }

    fn start(&self, once: bool) -> Observation {
        let mut spec = self.spec.clone();
        if spec.roots.is_empty() {
            spec.roots.push("/".to_owned());
        }
        let outbox = Arc::new(Outbox::default());
        let observing = driver::run(self.coordinator.clone(), spec, once, Arc::clone(&outbox));
        let task = self.coordinator.core.runtime.spawn(observing);
        Observation { outbox, task }
    }
}

/// Whether `path` is `root` or lies below it.
fn covers(root: &str, path: &str) -> bool {
    root == "/"
        || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Updates as they come. Dropping it ends the observation, and its watches.
#[derive(Debug)]
pub struct Observation {
    outbox: Arc<Outbox>,
    task: JoinHandle<Option<Tree>>,
}

impl Observation {
    /// The next update; `None` when there will be no more. Updates of one lock that nobody has read
    /// yet become one.
    ///
    /// # Cancel safety
    ///
    /// No update is lost.
    pub async fn next(&mut self) -> Option<Update> {
        self.outbox.next().await
    }

    /// An update that is there already, if there is one.
    pub fn try_next(&mut self) -> Option<Update> {
        self.outbox.try_next()
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.task.abort();
    }
}
