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
    let seconds = time.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days: years that begin in March, in eras of 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_796_080_800, "2026-11-30T23:20:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), text);
        }
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
