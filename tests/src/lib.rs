//! Real ZooKeeper servers, a fault proxy, and independent witnesses, for the tests of `lock-recipes`.
//!
//! - [`Server`] and [`Ensemble`] run ZooKeeper on loopback and can freeze, kill and restart it;
//! - [`Proxy`] stands between a client and a server, understands the frames, and cuts, holds, drops,
//!   delays or rewrites them;
//! - [`Helper`] runs another process that can be frozen and killed;
//! - [`Terminal`] runs a program in a terminal and looks at its screen as a person would;
//! - [`binary`] finds the programs of the other packages, and builds them where that is needed;
//! - [`Observer`] looks at the server through the raw client, never through the library under test, and
//!   [`Recorder`] checks that at most one holder was ever inside;
//! - [`eventually`], [`stays`] and [`within`] are the only ways to wait: every wait has a bound.
//!
//! Nothing here is meant to recover: whatever goes wrong in the harness panics with what is known.

// A harness that cannot set up its servers has nothing better to do than to fail the test loudly.
#![allow(clippy::expect_used, clippy::missing_panics_doc, clippy::panic, clippy::unwrap_used)]
// Its callers are tests, which look at what they ask for; and ZooKeeper is a name, not code.
#![allow(clippy::must_use_candidate, clippy::doc_markdown)]

mod binary;
mod java;
mod logs;
mod ports;

pub mod ensemble;
pub mod observe;
pub mod process;
pub mod proxy;
pub mod pty;
pub mod record;
pub mod server;
pub mod wait;

pub use binary::binary;
pub use ensemble::Ensemble;
pub use logs::init_logs;
pub use observe::Observer;
pub use process::Helper;
pub use proxy::Proxy;
pub use pty::Terminal;
pub use record::{FileRecorder, History, Recorder};
pub use server::Server;
pub use wait::{eventually, stays, within};
