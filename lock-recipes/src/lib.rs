//! Distributed locks on Apache ZooKeeper that say when they are lost, and a **fencing token** that
//! lets the protected resource refuse a former holder.
//!
//! *The lock says who should be operating; fencing guarantees who can.*
//!
//! # Start
//!
//! ```no_run
//! # async fn import(token: lock_recipes::FencingToken) -> std::io::Result<()> { Ok(()) }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_recipes::{Coordinator, Lock};
//!
//! // Once, for as long as the service runs.
//! let coordinator = Coordinator::connect("zk1:2181,zk2:2181,zk3:2181/shop").await?;
//!
//! let lock = Lock::new(&coordinator, "/locks/import")?;
//! let guard = lock.acquire().await?;
//! // `import` is dropped the moment the lock is lost; the database checks the token.
//! guard.run(import(guard.token())).await??;
//! guard.release().await?;
//!
//! coordinator.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which one
//!
//! | you want | take |
//! |---|---|
//! | one at a time, in the order of arrival | [`Lock`] |
//! | … and a function that holds it calls another that takes it | [`ReentrantLock`] with an [`Owner`] |
//! | to act between taking a place and having one's turn | [`Contender`] |
//! | no runtime | [`blocking`] |
//! | a shell script or a cron job | the command `zk-lock` (feature `cli`) |
//!
//! # Efficiency or correctness
//!
//! Ask what happens if two holders work at once. If it only costs work, a guard is enough. If it
//! corrupts something, it is not: no lock with a timeout can keep a paused process from waking up
//! and finishing its write. Then one of these must hold as well:
//!
//! * the resource compares [`LockGuard::token`] with the largest it has seen and refuses smaller
//!   ones, in one atomic step with the write;
//! * the write goes to ZooKeeper itself, through [`LockGuard::fenced`], which the server checks;
//! * the work can be done twice without harm (a unique key), and the lock only saves the work.
//!
//! # What is promised
//!
//! * Grants of one path are in the order of tokens, each after the node of the one before has gone.
//! * Any future may be dropped at any poll, and any guard anywhere: what was created for it is
//!   deleted, by a janitor that does not give up before the session ends.
//! * A lost hold says so: [`LockGuard::lost`] resolves when its node is deleted, its session ends,
//!   a reconnect was given another session, or ZooKeeper has been silent for half the session
//!   timeout ([`LossPolicy`]).
//! * Nothing panics, whatever the server answers or names its nodes.
//!
//! `docs/not-guaranteed.md` says what is **not** promised, and why nothing could.
//!
//! # Losing connections and sessions
//!
//! A [`Coordinator`] keeps one ZooKeeper session at a time. A lost connection makes holds
//! [`Suspect`](HoldState::Suspect) and is repaired by itself. A session that is over loses its
//! holds for good, and another one is opened; acquisitions that wait go on in it, at the back of
//! the queue.
//!
//! # Runtime
//!
//! The session's tasks live on the tokio runtime that connected (time must be enabled; the client
//! brings its own I/O). Guards and futures may be used from any thread or executor; when that
//! runtime ends, they are lost, and say so.
//!
//! # Features
//!
//! None is on by default, and none changes what the others do: `serde` (tokens as text), `cli` (the
//! command `zk-lock`), `tls`, `sasl-digest-md5` and `sasl-gssapi` (passed to the client, used through
//! [`Builder::with_connector`]).
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
pub mod observe;
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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
