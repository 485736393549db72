//! Log output of tests.

use tracing_subscriber::EnvFilter;

/// Prints what `RUST_LOG` asks for, captured per test as `cargo test` does; nothing without it.
///
/// May be called by every test of a binary: the first call counts.
pub fn init_logs() {
    if let Ok(filter) = EnvFilter::try_from_default_env() {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
    }
}
