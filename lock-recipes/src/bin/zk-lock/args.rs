//! The command line, and the help that documents everything.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use lock_recipes::LockPath;

use crate::code;
use crate::report::say;

const DETAILS: &str = "\
Environment of the command:
  ZK_LOCK_TOKEN    the fencing token, 16 hex digits: larger for every later
                   holder. Whatever the command writes to should refuse a token
                   smaller than the largest it has seen.
  ZK_LOCK_PATH     the lock's path
  ZK_LOCK_NODE     the name of the holder's znode below it
  ZK_LOCK_SESSION  the ZooKeeper session, 0x and 16 hex digits

Environment of zk-lock:
  ZOOKEEPER_CONNECT  --connect
  RUST_LOG           what is logged to stderr (default: warnings)

Exit codes:
  the command's own, or 128+n if signal n ended it; otherwise
   64  the arguments are wrong
   69  cannot connect to ZooKeeper
   71  the operating system does not let zk-lock start
   75  --try: the lock is busy
   76  --timeout has passed
   77  ZooKeeper refuses: permissions, credentials, a missing chroot
   79  the lock was lost while the command ran, whatever the command ended with
  126  the command cannot be run
  127  the command was not found
  128+n  signal n came while zk-lock waited for the lock
Every failure is one line on stderr that starts with 'zk-lock: '.

When the lock is lost, the command and every process it has started get TERM,
and KILL after --kill-after. Lost means: the znode is gone, noticed after one
round trip; or half the session timeout has passed since the last probe that
ZooKeeper answered, before anybody else can get the lock. (Not on Linux: only
the command itself is stopped.)

Signals: TERM, HUP, INT, QUIT, USR1 and USR2 are passed on to the command,
unless zk-lock was started with them ignored (nohup). The command stays in
zk-lock's process group, so the keys of a terminal work as without zk-lock;
INT and QUIT are therefore not passed on while zk-lock is in the foreground of
a terminal, which sends them to the command itself. To end it from elsewhere,
send TERM.

If zk-lock is killed (kill -9), Linux kills the command too, unless it is a
setuid program. Processes that the command has started live on, and the lock is
free after the session timeout: this is what the token is for. Processes that
the command leaves behind when it ends are not waited for, and run without the
lock.

Example:
  zk-lock --connect zk1:2181,zk2:2181 --timeout 10s /locks/backup -- \\
    sh -c 'backup --fencing-token \"$ZK_LOCK_TOKEN\"'";

/// Runs a command while holding a lock in ZooKeeper.
#[derive(Debug, Parser)]
#[command(
    name = "zk-lock",
    version,
    max_term_width = 80,
    after_help = DETAILS,
    override_usage = "zk-lock --connect HOSTS [--timeout 10s | --try] PATH -- COMMAND…"
)]
pub(crate) struct Args {
    /// ZooKeeper's servers: host:port,host:port,…/chroot, the chroot optional
    #[arg(long, value_name = "HOSTS", env = "ZOOKEEPER_CONNECT", hide_env_values = true)]
    pub(crate) connect: String,

    /// Give up after this time, connecting included: 500ms, 10s, 5m, 1h. Default: wait for ever,
    /// but connect within 30s
    #[arg(long, value_name = "DURATION", value_parser = wait, conflicts_with = "try_once")]
    pub(crate) timeout: Option<Duration>,

    /// Do not wait: if the lock is busy, say by whom
    #[arg(long = "try")]
    pub(crate) try_once: bool,

    /// The session timeout to ask ZooKeeper for; a dead holder's lock is free after it.
    /// Default: 15s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) session_timeout: Option<Duration>,

    /// What the holder's znode says to people who look. Default: host/pid
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,

    /// Create the chroot of HOSTS if it does not exist
    #[arg(long)]
    pub(crate) create_chroot: bool,

    /// How long the command may take to end, when the lock is lost, between TERM and KILL
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    pub(crate) kill_after: Duration,

    /// Log what happens to stderr
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// The lock: an absolute path in ZooKeeper
    #[arg(value_name = "PATH", value_parser = path)]
    pub(crate) path: LockPath,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

impl Args {
    /// Reads the command line. `Err` is the code to exit with, after everything was said.
    pub(crate) fn read() -> Result<Self, u8> {
        Self::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed pipe (`| head`) is no reason to fail.
                let _ = error.print();
                0
            }
            _ => {
                say(&format!("{}; see zk-lock --help", one_line(&error.to_string())));
                code::USAGE
            }
        })
    }
}

/// clap's message without its heading, its usage and its tips.
fn one_line(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let more =
        |line: &str| ["Usage:", "tip:", "For more"].iter().any(|heading| line.starts_with(heading));
    let lines = message.lines().map(str::trim).take_while(|line| !more(line));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn path(text: &str) -> Result<LockPath, String> {
    LockPath::new(text).map_err(|error| error.to_string())
}

fn wait(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("not to wait is --try".to_owned()),
        wait => Ok(wait),
    }
}

/// A whole number and a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected a number and one of the units ms, s, m, h, as in 10s".to_owned()),
    };
    let number = digits.parse::<u64>().map_err(|error| error.to_string())?;
    let millis = number.checked_mul(millis).ok_or("too long")?;
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for text in ["", "s", "10", "-1s", "1.5s", "10 s", "10d", "10sm", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration(&format!("{}h", u64::MAX)).is_err());
        assert!(wait("0s").is_err());
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn options_are_read_on_both_sides_of_the_path_and_the_command_is_left_alone() {
        let read = |line: &str| Args::try_parse_from(line.split(' '));
        let args = read("zk-lock --connect a --try /x -- ls --try -- -l").unwrap();
        assert_eq!(args.command, ["ls", "--try", "--", "-l"]);
        assert!(read("zk-lock --connect a /x --try -- ls").unwrap().try_once);
        assert!(read("zk-lock --connect a --try --timeout 1s /x -- ls").is_err());
        assert!(read("zk-lock --connect a /x ls").is_err());
        assert!(read("zk-lock --connect a /x --").is_err());
    }

    #[test]
    fn a_usage_error_is_one_line() {
        let error = Args::try_parse_from(["zk-lock", "--connect", "a"]).unwrap_err();
        let line = one_line(&error.to_string());
        assert!(line.contains("<PATH>") && !line.contains(['\n']), "{line}");
    }
}
