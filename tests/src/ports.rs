//! Free loopback ports for servers.

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Ports this process has handed out: none is given twice.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port on which nothing listens, and that the kernel does not use for outgoing connections.
///
/// The second half matters while a server is down: a client that keeps connecting to a port of the
/// kernel's own range ends up, now and then, connected to itself, and the restarted server finds its port
/// in use.
pub(crate) fn free_port() -> u16 {
    let first_outgoing = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768_u16);
    let (low, high) =
        if first_outgoing > 12_000 { (10_000, first_outgoing) } else { (61_000, 65_000) };
    for _ in 0..1_000 {
        let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
        let port = low + u16::from_be_bytes([a, b]) % (high - low);
        let unused = TcpListener::bind(("127.0.0.1", port)).is_ok();
        if unused && TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return port;
        }
    }
    panic!("no free port between {low} and {high}");
}
