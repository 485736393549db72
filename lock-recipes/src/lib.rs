//! Locks.
mod clock;
mod engine;
mod health;
mod node;
mod path;
mod token;
pub use health::{HoldState, LossPolicy, LossReason};
pub use node::{ContenderName, Dialect, Role};
pub use path::{InvalidPath, LockPath};
pub use token::{FencingToken, InvalidToken};
