//! Shows the locks of a ZooKeeper ensemble: `zk-inspect --help` says how.

mod age;
mod args;
mod clipboard;
mod connect;
mod demo;
mod exit;
mod filter;
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

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

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
        clap_complete::generate(shell, &mut Args::command(), "zk-inspect", &mut std::io::stdout());
        return Ok(());
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match command {
            Some(Command::List(output)) => list::list(&global, output).await,
            Some(Command::Show { path, output }) => list::show(&global, &path, output).await,
            Some(Command::Demo { seconds }) => demo::run(&global, seconds).await,
            // Printed above.
            Some(Command::Completions { .. }) => Ok(()),
            None if term::is_usable() => tui::run(&global, None).await,
            None => list::list(&global, Output { json: false, watch: false }).await,
        }
    })
}
