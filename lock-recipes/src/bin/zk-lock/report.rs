//! What is said on stderr.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use lock_recipes::ContenderInfo;
use tracing_subscriber::EnvFilter;

/// Why zk-lock ends, and with which code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: String) -> Self {
        Self { code, text }
    }
}

/// Without `RUST_LOG` only what is not said in zk-lock's own lines: of a loss and of a connection
/// that fails it tells by itself.
const QUIET: &str = "warn,zookeeper_client=error,lock_recipes::engine::driver=error";
const VERBOSE: &str = "info,lock_recipes=debug";

/// Logs to stderr.
pub(crate) fn log(verbose: bool) {
    let filter = match EnvFilter::try_from_default_env() {
        Ok(filter) if std::env::var_os("RUST_LOG").is_some_and(|value| !value.is_empty()) => filter,
        _ => EnvFilter::new(if verbose { VERBOSE } else { QUIET }),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .init();
}

/// One line, whatever is in it. A closed stderr is no reason to stop.
pub(crate) fn say(text: &str) {
    let mut line = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    let _ = writeln!(std::io::stderr(), "zk-lock: {line}");
}

/// The error and what caused it.
pub(crate) fn explained(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, " ({cause})");
        source = cause.source();
    }
    text
}

/// The first contender and how many wait behind it.
pub(crate) fn holder(contenders: &[ContenderInfo]) -> Option<String> {
    let (holder, waiters) = contenders.split_first()?;
    let token = match holder.token {
        Some(token) => format!(", token {token}"),
        None => String::new(),
    };
    Some(format!(
        "held by {} (queued at {}{token}, session {}, node {}); {} waiting",
        printable(&holder.data),
        utc(holder.queued_at),
        session(holder.session),
        holder.node,
        waiters.len(),
    ))
}

/// A session id as it is written everywhere around ZooKeeper.
pub(crate) fn session(id: i64) -> String {
    format!("0x{id:016x}")
}

/// Data of a stranger: quoted, and with everything escaped that a terminal might obey.
fn printable(data: &[u8]) -> String {
    const LONGEST: usize = 80;
    match std::str::from_utf8(data) {
        Ok("") => "somebody without data".to_owned(),
        Ok(text) if text.chars().count() > LONGEST => {
            format!("{:?}…", text.chars().take(LONGEST).collect::<String>())
        }
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("somebody with {} bytes of binary data", data.len()),
    }
}

/// A time since the start of 1970 as RFC 3339 writes it.
fn utc(time: Duration) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "a time unknown".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_none_is_no_reason_to_fail() {
        assert_eq!(utc(Duration::from_secs(951_827_696)), "2000-02-29T12:34:56Z");
        assert_eq!(utc(Duration::MAX), "a time unknown");
    }

    #[test]
    fn data_of_strangers_does_not_reach_the_terminal_raw() {
        assert_eq!(printable(b"host/7"), "\"host/7\"");
        assert_eq!(printable(b"a\x1b[2J\r\nb"), r#""a\u{1b}[2J\r\nb""#);
        assert_eq!(printable("a\u{202e}b".as_bytes()), r#""a\u{202e}b""#);
        assert_eq!(printable(b""), "somebody without data");
        assert_eq!(printable(&[0xff; 3]), "somebody with 3 bytes of binary data");
        assert!(printable(&[b'x'; 500]).chars().count() < 90);
    }
}
