//! From the arguments to a connection and an observer of it.

use std::time::Duration;

use lock_recipes::observe::{ObserveError, Observer};
use lock_recipes::{ConnectError, Coordinator};

use crate::args::Global;
use crate::row;

/// Short, so that a frozen server is noticed within 2.4 seconds. Nothing depends on the session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// More nodes than this are not looked through unless somebody says so.
const NODE_LIMIT: usize = 100_000;

/// Connects within the deadline of the arguments.
pub(crate) async fn connect(global: &Global) -> Result<Coordinator, ConnectError> {
    Coordinator::builder(&global.connect)
        .session_timeout(SESSION_TIMEOUT)
        .connect_timeout(global.connect_timeout())
        .connect()
        .await
}

/// An observer of what the arguments name.
pub(crate) fn observer(coordinator: &Coordinator, global: &Global) -> Observer {
    let observer = Observer::new(coordinator);
    if global.roots.is_empty() && !global.scan_all {
        return observer.node_limit(NODE_LIMIT);
    }
    global.roots.iter().cloned().fold(observer, Observer::root)
}

/// What the roots are, for people.
pub(crate) fn roots(global: &Global) -> String {
    if global.roots.is_empty() {
        return "/".to_owned();
    }
    let roots: Vec<_> = global.roots.iter().map(ToString::to_string).collect();
    roots.join(" ")
}

/// What it would cost to look everywhere, and what to say instead.
pub(crate) fn advice(error: &ObserveError) -> Option<String> {
    let ObserveError::TooLarge { nodes, .. } = error else { return None };
    // A listing asks for 128 nodes in one request; a name takes some 50 bytes each way.
    Some(format!(
        "there are {} nodes here. Looking through all of them takes about {} requests and {} MB, \
         and ZooKeeper would tell this session of every change of any of them. Say where the \
         locks are with --root PATH (it may be given several times), or insist with --scan-all",
        row::count(*nodes),
        row::count(nodes.div_ceil(128)),
        row::count((nodes / 10_000).max(1)),
    ))
}
