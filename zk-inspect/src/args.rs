//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand};
use lock_recipes::LockPath;
use lock_recipes::observe::Root;

const EXAMPLES: &str = "\
Examples:
  zk-inspect --connect zk1:2181,zk2:2181 --root /locks
  zk-inspect list --json | jq '.locks[] | select(.waiters | length > 5) | .path'
  zk-inspect show /locks/orders
  zk-inspect list --watch --root /locks > changes.ndjson

Environment:
  ZOOKEEPER_CONNECT  --connect
  NO_COLOR           no colours, if it is set to anything
  RUST_LOG           what is logged: to stderr, or to a file while the screen is on (see --log)

Exit codes:
  0  done
  1  no lock at that path, or something else went wrong
  2  the arguments are wrong, or say too little for an ensemble of this size
  3  cannot connect to ZooKeeper
  4  some of it could not be read: what was read is printed, and stderr says what is missing
128+n  ended by signal n";

/// Shows the locks of a ZooKeeper ensemble: who holds what, since when, and who waits behind whom.
///
/// Without a command it opens the screen, or prints the table of `list` where there is no terminal.
/// Except for `demo`, it writes nothing.
#[derive(Debug, Parser)]
#[command(name = "zk-inspect", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Clone, Debug, Group)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Global {
    /// ZooKeeper's servers: host:port,host:port,…/chroot, the chroot optional
    #[arg(
        long,
        value_name = "HOSTS",
        env = "ZOOKEEPER_CONNECT",
        hide_env_values = true,
        default_value = "localhost:2181",
        global = true
    )]
    pub(crate) connect: String,

    /// Look for locks below this node only. May be given several times
    #[arg(long = "root", value_name = "PATH", global = true)]
    pub(crate) roots: Vec<Root>,

    /// Look everywhere, however many nodes there are
    #[arg(long, conflicts_with = "roots", global = true)]
    pub(crate) scan_all: bool,

    /// Write nothing to ZooKeeper. Always so, except for `demo`, which this forbids
    #[arg(long, global = true)]
    pub(crate) read_only: bool,

    /// Nothing but ASCII characters
    #[arg(long, global = true)]
    pub(crate) ascii: bool,

    /// No colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,

    /// Give up connecting after so many seconds. The screen goes on trying
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "10",
        value_parser = clap::value_parser!(u64).range(1..=3600),
        global = true
    )]
    connect_timeout: u64,

    /// Log to this file. Default, if the environment asks for a log: stderr, or a file in the state
    /// directory while the screen is on
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) log: Option<PathBuf>,

    /// Panics there two seconds after the start: to try that the terminal survives it
    #[arg(long, hide = true, value_enum)]
    pub(crate) panic_in: Option<PanicIn>,
}

/// Where to panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PanicIn {
    Draw,
    Task,
    Thread,
}

impl Global {
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_timeout)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print all locks
    #[command(visible_alias = "locks")]
    List(Output),
    /// Print one lock with its queue
    Show {
        /// The lock's path
        path: LockPath,
        #[command(flatten)]
        output: Output,
    },
    /// Start workers that contend for a few locks, and show them
    Demo {
        /// End after so many seconds. Default: when the screen is left, or after three snapshots
        /// where there is no terminal
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        seconds: Option<u64>,
    },
    /// Print a completion script: zk-inspect completions bash > /etc/bash_completion.d/zk-inspect
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, Debug, Group)]
pub(crate) struct Output {
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on: print every change, one JSON object a line
    #[arg(long)]
    pub(crate) watch: bool,
}
