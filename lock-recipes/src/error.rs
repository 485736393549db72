//! What can go wrong, one type for each operation. Every message says what was attempted, on which
//! path, what came back and what to do.

use std::time::Duration;

use crate::cluster::InvalidConnectString;
use crate::health::LossReason;
use crate::node::ContenderName;

/// Connecting failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connect string is malformed. Nothing was sent.
    #[error(transparent)]
    ConnectString(#[from] InvalidConnectString),
    /// A setting of the builder makes no sense. Nothing was sent.
    #[error("invalid setting {name}: {reason}")]
    Setting {
        /// The builder's method.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No session was established in time.
    #[error(
        "cannot connect to ZooKeeper at {hosts} within {waited:.1?}; check that the hosts resolve \
         and a server with a quorum listens there"
    )]
    TimedOut {
        /// The hosts of the connect string.
        hosts: String,
        /// How long it was tried.
        waited: Duration,
        /// What the last try ended with.
        source: zookeeper_client::Error,
    },
    /// The chroot of the connect string does not exist.
    #[error(
        "the chroot {chroot} does not exist: create it (zkCli.sh create {chroot}), or let \
         Builder::create_chroot do it"
    )]
    ChrootMissing {
        /// The chroot.
        chroot: String,
    },
    /// ZooKeeper refused the connection or the chroot for good.
    #[error("ZooKeeper at {hosts} refused the session; check the credentials and the chroot's ACL")]
    Refused {
        /// The hosts of the connect string.
        hosts: String,
        /// ZooKeeper's answer.
        source: zookeeper_client::Error,
    },
    /// It was called outside of a tokio runtime, which the session's tasks need.
    #[error("a coordinator connects on a tokio runtime with its I/O and time drivers enabled")]
    NoRuntime,
}

/// How far an acquisition came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// It waited for a connection.
    Connecting,
    /// It waited for its create.
    Enqueueing,
    /// It waited in the queue.
    Waiting,
}

/// Acquiring failed. Whatever was created for it is deleted in the background.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The deadline passed.
    #[error("{path} was not acquired within {waited:.1?}: {}", describe(*phase, behind.as_ref()))]
    TimedOut {
        /// The lock's path.
        path: String,
        /// The deadline that was given.
        waited: Duration,
        /// How far it came.
        phase: Phase,
        /// The contender it waited for.
        behind: Option<ContenderName>,
    },
    /// ZooKeeper denies what a lock needs.
    #[error(
        "not authorized to {operation} at {path}: a lock needs CREATE, READ and DELETE on its path, \
         and READ on the contenders"
    )]
    NotAuthorized {
        /// Where.
        path: String,
        /// The operation that was denied.
        operation: &'static str,
    },
    /// The connect string's chroot does not exist (any more).
    #[error(
        "cannot create {path}: the chroot {chroot} of the connect string does not exist any more; \
         create it again"
    )]
    ChrootMissing {
        /// The lock's path.
        path: String,
        /// The chroot.
        chroot: String,
    },
    /// The lock's path does not exist, and [`ParentMode::MustExist`](crate::ParentMode) was chosen.
    #[error("{path} does not exist, and ParentMode::MustExist keeps it from being created")]
    ParentMissing {
        /// The lock's path.
        path: String,
    },
    /// The lock's path was deleted again and again between its creation and the contender's.
    #[error(
        "{path} keeps being deleted as soon as it is created: {tries} tries; find out who deletes \
         it, or create it as a persistent node"
    )]
    ParentVanishing {
        /// The lock's path.
        path: String,
        /// How often it was created.
        tries: u32,
    },
    /// The contender's data is larger than what ZooKeeper's frames safely carry. Nothing was sent.
    #[error("{size} bytes of data for {path} are above the limit of {limit}")]
    DataTooLarge {
        /// The lock's path.
        path: String,
        /// The size of the data.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The path has seen nearly 2³¹ contenders, and one of another client waits among ours: it
    /// orders by numbers that ZooKeeper has begun to repeat.
    #[error(
        "the sequence numbers below {path} are used up (last: {last}) while clients queue that \
         depend on them: let the path become empty and be deleted, which starts them anew"
    )]
    SequenceExhausted {
        /// The lock's path.
        path: String,
        /// The number that was drawn.
        last: i64,
    },
    /// The place in the queue was lost, and this contender is not to queue again.
    #[error("the place in the queue of {path} was lost: {reason}")]
    Lost {
        /// The lock's path.
        path: String,
        /// Why.
        reason: LossReason,
    },
    /// The owner's hold was lost and is not released yet.
    #[error("the owner's hold on {path} was lost: {reason}; release it before acquiring anew")]
    HoldLost {
        /// The lock's path.
        path: String,
        /// Why.
        reason: LossReason,
    },
    /// The owner holds the lock as often as it may.
    #[error("the owner holds {path} {limit} times already, which is the limit")]
    TooManyHolds {
        /// The lock's path.
        path: String,
        /// The limit.
        limit: u32,
    },
    /// The coordinator was closed, or its runtime has ended.
    #[error("cannot acquire {path}: the coordinator is closed")]
    Closed {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper refused a request for another reason.
    #[error("ZooKeeper refused to {operation} at {path}")]
    Refused {
        /// Where.
        path: String,
        /// The operation.
        operation: &'static str,
        /// ZooKeeper's answer.
        source: zookeeper_client::Error,
    },
}

fn describe(phase: Phase, behind: Option<&ContenderName>) -> String {
    match (phase, behind) {
        (Phase::Connecting, _) => "there was no connection to ZooKeeper".to_owned(),
        (Phase::Enqueueing, _) => "ZooKeeper did not answer".to_owned(),
        (Phase::Waiting, Some(behind)) => format!("it waited behind {behind}"),
        (Phase::Waiting, None) => "it waited in the queue".to_owned(),
    }
}

/// The hold is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock {path} is lost: {reason}")]
pub struct Lost {
    /// The lock's path.
    pub path: String,
    /// Why.
    pub reason: LossReason,
}

/// What was asked for is more than the presumed validity leaves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnsureError {
    /// The hold is lost.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// It is presumed valid for less than was asked.
    #[error("the lock {path} is presumed valid for {remaining:.1?} only, less than {wanted:.1?}")]
    TooShort {
        /// The lock's path.
        path: String,
        /// What was asked for.
        wanted: Duration,
        /// What is left.
        remaining: Duration,
    },
}

/// The hold could not be verified.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// ZooKeeper gave no answer: the hold is as it was before.
    #[error("whether {path} is still held could not be verified")]
    Unconfirmed {
        /// The lock's path.
        path: String,
        /// What came instead of an answer.
        source: zookeeper_client::Error,
    },
}

/// A hold could not be entered again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReenterError {
    /// It is lost.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// It is held as often as it may be.
    #[error("{path} is held {limit} times already, which is the limit")]
    TooManyHolds {
        /// The lock's path.
        path: String,
        /// The limit.
        limit: u32,
    },
}

/// Releasing did not go as it should.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// There was nothing to release any more. Nothing was deleted.
    #[error("the lock {path} was lost before its release: {reason}")]
    AlreadyLost {
        /// The lock's path.
        path: String,
        /// Why.
        reason: LossReason,
    },
    /// ZooKeeper gave no answer. The deletion goes on in the background until it succeeds or the
    /// session ends.
    #[error("ZooKeeper has not confirmed the release of {path}; it is tried on in the background")]
    Unconfirmed {
        /// The lock's path.
        path: String,
        /// What came instead of an answer.
        source: zookeeper_client::Error,
    },
    /// ZooKeeper does not let us delete our node, which stays until the session ends.
    #[error(
        "not authorized to delete {node}: grant DELETE on the lock's path; until then the node \
         blocks the queue for as long as the session lives"
    )]
    NotAuthorized {
        /// The node.
        node: String,
    },
}

/// A queue could not be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// ZooKeeper refused.
    #[error("cannot read the queue of {path}")]
    Refused {
        /// The lock's path.
        path: String,
        /// ZooKeeper's answer.
        source: zookeeper_client::Error,
    },
    /// ZooKeeper gave no answer.
    #[error("no answer from ZooKeeper about the queue of {path}")]
    NoAnswer {
        /// The lock's path.
        path: String,
        /// What came instead of an answer.
        source: zookeeper_client::Error,
    },
    /// The coordinator was closed, or its runtime has ended.
    #[error("cannot read the queue of {path}: the coordinator is closed")]
    Closed {
        /// The lock's path.
        path: String,
    },
}

/// A fenced write was not, or perhaps not, applied.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FencedWriteError {
    /// The hold is lost. Nothing was written.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// ZooKeeper refused one of the operations. Nothing was written.
    #[error("operation {index} of the fenced write under {path} was refused; nothing was written")]
    Rejected {
        /// The lock's path.
        path: String,
        /// Which operation, from 0.
        index: usize,
        /// ZooKeeper's answer.
        source: zookeeper_client::Error,
    },
    /// ZooKeeper gave no answer: it may have been written or not. It is not tried again for you.
    #[error(
        "whether the fenced write under {path} was applied is unknown: read before trying again"
    )]
    Unknown {
        /// The lock's path.
        path: String,
        /// What came instead of an answer.
        source: zookeeper_client::Error,
    },
}

/// Closing was not confirmed in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "ZooKeeper has not confirmed the end of the session within {waited:.1?}; it ends it by itself \
     within its timeout of {session_timeout:.1?}, until then {} node(s) may be left", left.len()
)]
#[non_exhaustive]
pub struct CloseError {
    /// How long it was waited.
    pub waited: Duration,
    /// After this time ZooKeeper ends the session, and with it the nodes.
    pub session_timeout: Duration,
    /// The nodes that may be left until then.
    pub left: Vec<String>,
}
