//! What the tests of observation share: a reader of updates, and queues made by hand.

#![allow(dead_code, unreachable_pub, reason = "no test file uses everything")]
#![allow(clippy::expect_used, clippy::match_wild_err_arm, clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use integration::{Observer as Raw, within};
use lock_recipes::observe::{
    Listed, Observation, ObserveError, ObservedContender, ObservedLock, Observer, Root, Update,
};
use lock_recipes::{ContenderName, Coordinator, LockPath};
use tokio::time::Instant;
use uuid::Uuid;
use zookeeper_client::{Acls, CreateMode};

use crate::support::SOON;

pub fn root(path: &str) -> Root {
    path.parse().unwrap()
}

/// An observer of everything below this path.
pub fn below(coordinator: &Coordinator, path: &str) -> Observer {
    Observer::new(coordinator).root(root(path))
}

pub fn path(path: &str) -> LockPath {
    LockPath::new(path).unwrap()
}

pub fn names(contenders: &[ObservedContender]) -> Vec<&str> {
    contenders.iter().map(|contender| &*contender.node).collect()
}

/// Reads updates and keeps what they add up to.
pub struct View {
    observation: Observation,
    pub locks: BTreeMap<String, Arc<ObservedLock>>,
    pub listed: Vec<Listed>,
    pub disconnected: usize,
    pub gone: usize,
    pub failed: Option<ObserveError>,
    /// Every name that was told as a holder, by its lock.
    pub held: HashSet<String>,
    /// When the last update came.
    pub last: Instant,
}

impl View {
    pub fn of(observation: Observation) -> Self {
        Self {
            observation,
            locks: BTreeMap::new(),
            listed: Vec::new(),
            disconnected: 0,
            gone: 0,
            failed: None,
            held: HashSet::new(),
            last: Instant::now(),
        }
    }

    /// Watches, and returns when everything has been told.
    pub async fn watch(observer: &Observer) -> Self {
        let mut view = Self::of(observer.watch());
        view.until("it is listed", |view| !view.listed.is_empty()).await;
        view
    }

    fn take(&mut self, update: Update) {
        self.last = Instant::now();
        match update {
            Update::Lock(lock) => {
                let holders = lock.holders.iter();
                self.held.extend(holders.map(|holder| format!("{}/{}", lock.path, holder.node)));
                self.locks.insert(lock.path.clone(), lock);
            }
            Update::Gone(path) => {
                self.gone += 1;
                self.locks.remove(&path);
            }
            Update::Listed(listed) => self.listed.push(listed),
            Update::Disconnected => self.disconnected += 1,
            Update::Failed(error) => self.failed = Some(error),
            _ => {}
        }
    }

    /// Takes what is there already.
    pub fn drain(&mut self) {
        while let Some(update) = self.observation.try_next() {
            self.take(update);
        }
    }

    async fn wait(
        &mut self,
        deadline: Instant,
        what: String,
        mut condition: impl FnMut(&Self) -> bool,
    ) {
        loop {
            // What has come before the deadline counts, however late it is read.
            self.drain();
            if condition(self) {
                return;
            }
            match tokio::time::timeout_at(deadline, self.observation.next()).await {
                Ok(Some(update)) => self.take(update),
                Ok(None) => panic!("it ended before {what}: {self:#?}"),
                Err(_) => panic!("not in time: {what}: {self:#?}"),
            }
        }
    }

    /// Reads until this is so.
    #[track_caller]
    pub fn until(
        &mut self,
        what: &str,
        condition: impl FnMut(&Self) -> bool,
    ) -> impl Future<Output = ()> {
        self.until_at(Instant::now() + SOON, what, condition)
    }

    /// Reads until this is so, at the latest then.
    #[track_caller]
    pub fn until_at(
        &mut self,
        deadline: Instant,
        what: &str,
        condition: impl FnMut(&Self) -> bool,
    ) -> impl Future<Output = ()> {
        let what = format!("{what} ({})", Location::caller());
        self.wait(deadline, what, condition)
    }

    /// Reads until this lock is told as wanted, and returns it.
    #[track_caller]
    pub fn lock(
        &mut self,
        path: &str,
        mut condition: impl FnMut(&ObservedLock) -> bool,
    ) -> impl Future<Output = Arc<ObservedLock>> {
        let (what, path) = (format!("{path} ({})", Location::caller()), path.to_owned());
        async move {
            let wanted = |view: &Self| view.locks.get(&path).is_some_and(|lock| condition(lock));
            self.wait(Instant::now() + SOON, what, wanted).await;
            Arc::clone(&self.locks[&path])
        }
    }

    /// Reads until so many listings have been told, and returns the last.
    #[track_caller]
    pub fn listing(&mut self, count: usize) -> impl Future<Output = Listed> {
        let what = format!("listing {count} ({})", Location::caller());
        async move {
            let listed = |view: &Self| view.listed.len() >= count;
            self.wait(Instant::now() + SOON, what, listed).await;
            self.listed.last().unwrap().clone()
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "listed {:?} failed {:?}", self.listed, self.failed)?;
        self.locks.values().try_for_each(|lock| {
            let (held, waiting) = (names(&lock.holders), names(&lock.waiters));
            writeln!(f, "{} {}: {held:?} | {waiting:?}", lock.path, lock.kind)
        })
    }
}

/// A session of its own that makes nodes as any client would.
pub struct Client {
    pub raw: Raw,
}

impl Client {
    pub async fn connect(cluster: &str) -> Self {
        Self { raw: Raw::connect(cluster).await }
    }

    pub fn session(&self) -> i64 {
        self.raw.client().session_id().0
    }

    /// A contender with this prefix and data; its name.
    pub async fn queue(&self, path: &str, prefix: &str, data: &[u8]) -> String {
        self.make(path, prefix, data, CreateMode::EphemeralSequential).await
    }

    /// An ephemeral node with this name.
    pub async fn lone(&self, path: &str, name: &str, data: &[u8]) -> String {
        self.make(path, name, data, CreateMode::Ephemeral).await
    }

    pub async fn persistent(&self, path: &str, name: &str, data: &[u8]) -> String {
        self.make(path, name, data, CreateMode::Persistent).await
    }

    async fn make(&self, path: &str, name: &str, data: &[u8], mode: CreateMode) -> String {
        let full = format!("{path}/{name}");
        let options = mode.with_acls(Acls::anyone_all());
        let created = within(SOON, &full, self.raw.client().create(&full, data, &options)).await;
        let (_, sequence) = created.unwrap_or_else(|error| panic!("{full}: {error}"));
        match mode {
            CreateMode::EphemeralSequential => format!("{name}{sequence}"),
            _ => name.to_owned(),
        }
    }

    pub async fn delete(&self, path: &str, name: &str) {
        assert!(self.raw.delete(&format!("{path}/{name}")).await, "{path}/{name} was there");
    }
}

pub fn curator(marker: &str) -> String {
    format!("_c_{}-{marker}", Uuid::new_v4())
}

pub fn hex() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Mutexes as they are told: all names in order, the holder first, by the path; none of the free.
pub fn told(view: &View) -> BTreeMap<String, Vec<String>> {
    let queued = view.locks.values().filter(|lock| lock.contenders().next().is_some());
    let names = |lock: &ObservedLock| lock.contenders().map(|one| one.node.clone()).collect();
    queued.map(|lock| (lock.path.clone(), names(lock))).collect()
}

/// The same as the server has them, of these paths.
pub async fn truth(raw: &Raw, paths: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut truth = BTreeMap::new();
    for path in paths {
        let queue = raw.queue(path).await.into_iter().map(|child| child.name);
        let queue: Vec<_> = queue.filter(|name| ContenderName::parse(name).is_some()).collect();
        if !queue.is_empty() {
            truth.insert(path.clone(), queue);
        }
    }
    truth
}
