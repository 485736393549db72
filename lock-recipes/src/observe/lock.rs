//! What is told of a lock: plain values, without I/O.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::node::{Dialect, Role};
use crate::token::FencingToken;

/// The recipe that the nodes of a lock were made by, as far as their names tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One holder at a time.
    Mutex,
    /// One writer, or any number of readers.
    RwLock,
    /// A number of permits.
    Semaphore,
    /// One leader at a time.
    Election,
}

impl Kind {
    /// The name by which tools print it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Semaphore => "semaphore",
            Self::Election => "election",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A lock as its nodes are at one time, whichever client made them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedLock {
    /// The node below which the contenders stand, or the one node that is the lock.
    pub path: String,
    /// The recipe.
    pub kind: Kind,
    /// The client whose layout it is; `None` where contenders of several stand in one queue.
    pub dialect: Option<Dialect>,
    /// Those who hold it, in the order in which they came.
    pub holders: Vec<ObservedContender>,
    /// Those who wait, in the order in which they will hold.
    pub waiters: Vec<ObservedContender>,
    /// Children that belong to no contender, sorted.
    pub ignored: Vec<String>,
    /// How many children were ever created below the path: the next sequence number. `None` until
    /// it was read, or if it may not be.
    pub creates: Option<u32>,
}

impl ObservedLock {
    /// A lock that nobody holds, for the tests of tools.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: Kind) -> Self {
        Self {
            path: path.into(),
            kind,
            dialect: None,
            holders: Vec::new(),
            waiters: Vec::new(),
            ignored: Vec::new(),
            creates: None,
        }
    }

    /// The part of the 2³¹−1 creates that one path can take which is used up, from 0 to 1.
    #[must_use]
    pub fn counter_used(&self) -> Option<f64> {
        self.creates.map(|creates| f64::from(creates) / f64::from(i32::MAX))
    }

    /// All contenders in order, holders first.
    pub fn contenders(&self) -> impl Iterator<Item = &ObservedContender> {
        self.holders.iter().chain(&self.waiters)
    }
}

/// One contender, as it stands in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedContender {
    /// The name of its node.
    pub node: String,
    /// What it asks for.
    pub role: Role,
    /// Those that must go before it can hold, nearest last; empty for a holder.
    pub behind: Vec<String>,
    /// What its node says.
    pub facts: Facts,
    /// When it was seen to become a holder. `None` for a waiter, and for a holder that was one
    /// already when it was first seen: that one holds since [`NodeFacts::queued_at`] at the earliest.
    pub granted: Option<Instant>,
}

impl ObservedContender {
    /// A contender with nobody ahead, for the tests of tools.
    #[must_use]
    pub fn new(node: impl Into<String>, role: Role, facts: Facts) -> Self {
        Self { node: node.into(), role, behind: Vec::new(), facts, granted: None }
    }
}

/// What is known of a node beyond its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Facts {
    /// It has not been read yet.
    Pending,
    /// ZooKeeper does not let us read it.
    Denied,
    /// It was read.
    Read(NodeFacts),
}

impl Facts {
    /// What was read, if it was.
    #[must_use]
    pub fn read(&self) -> Option<&NodeFacts> {
        match self {
            Self::Read(facts) => Some(facts),
            Self::Pending | Self::Denied => None,
        }
    }
}

/// What a node's `Stat` and data say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeFacts {
    /// The token it holds, or will hold, with: its `czxid`. `None` on servers that do not tell.
    pub token: Option<FencingToken>,
    /// The session that owns it; 0 for a node that no session end removes.
    pub session: i64,
    /// Since when it queues, by the clock of ZooKeeper's leader: since the start of 1970.
    pub queued_at: Duration,
    /// Its data, which anybody may have written: treat it as untrusted.
    pub data: Arc<[u8]>,
}

impl NodeFacts {
    /// Facts of a node, for the tests of tools.
    #[must_use]
    pub fn new(
        token: Option<FencingToken>,
        session: i64,
        queued_at: Duration,
        data: impl Into<Arc<[u8]>>,
    ) -> Self {
        Self { token, session, queued_at, data: data.into() }
    }
}
