//! Locks.
pub mod blocking;
mod builder;
mod clock;
mod cluster;
mod contender;
mod coordinator;
mod engine;
mod error;
mod fenced;
mod guard;
mod health;
mod hold;
mod lock;
mod node;
mod options;
mod path;
mod reentrant;
mod session;
mod settings;
mod snapshot;
mod token;

pub use builder::Builder;
pub use cluster::InvalidConnectString;
pub use contender::Contender;
pub use coordinator::{Coordinator, CoordinatorState, StateWatch};
pub use error::{
    AcquireError, CloseError, ConnectError, EnsureError, FencedWriteError, Lost, Phase, ReadError,
    ReenterError, ReleaseError, VerifyError,
};
pub use fenced::FencedWriter;
pub use guard::LockGuard;
pub use health::{HoldState, LossPolicy, LossReason};
pub use lock::{Attempt, Busy, Lock};
pub use node::{ContenderName, Dialect, Role};
pub use options::AcquireOptions;
pub use path::{InvalidPath, LockPath};
pub use reentrant::{Owner, ReentrantLock};
pub use settings::ParentMode;
pub use snapshot::{ContenderInfo, QueueSnapshot};
pub use token::{FencingToken, InvalidToken};
/// The client, whose types appear in a few places: connectors, ACLs, fenced writes and answers.
pub use zookeeper_client;
