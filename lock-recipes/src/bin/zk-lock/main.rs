//! zk-lock.
fn main() {}
