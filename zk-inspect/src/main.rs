//! Shows the locks of a ZooKeeper ensemble: `zk-inspect --help` says how.

mod age;
mod args;
mod clipboard;
mod connect;
mod demo;
mod exit;
mod filter;
mod input;
mod keys;
mod list;
mod log;
mod model;
mod output;
mod row;
mod sort;
mod source;
mod term;
mod text;
mod theme;
mod tui;
mod update;
mod view;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tokio::runtime::Builder;

use self::args::{Args, Command, Output};
use self::exit::Failure;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = &failure.message {
                list::complain(message);
            }
            failure.exit_code()
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let Args { global, command } = args;
    if let Some(Command::Completions { shell }) = command {
        // Not to stdout at once: it would panic where nobody reads that.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "zk-inspect", &mut script);
        std::io::stdout().write_all(&script)?;
        return Ok(());
    }
    let screen = term::is_usable();
    if !screen || matches!(command, Some(Command::List(_) | Command::Show { .. })) {
        log::start(global.log.as_deref(), false)?;
    }
    // To print once, one thread does it all: a second one would take the server's core on a small
    // machine. A screen, and whoever follows, must not wait while locks are put in order or printed.
    let mut runtime = match command {
        Some(Command::List(output) | Command::Show { output, .. }) if !output.watch => {
            Builder::new_current_thread()
        }
        _ => Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match command {
            Some(Command::List(output)) => list::list(&global, output).await,
            Some(Command::Show { path, output }) => list::show(&global, &path, output).await,
            Some(Command::Demo { seconds }) => demo::run(&global, seconds).await,
            // Printed above.
            Some(Command::Completions { .. }) => Ok(()),
            None if screen => tui::run(&global, None).await,
            None => list::list(&global, Output { json: false, watch: false }).await,
        }
    })
}
