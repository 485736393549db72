//! `zk-lock`: runs a command while holding a lock. `zk-lock --help` says everything a user needs.

#[cfg(not(unix))]
compile_error!("zk-lock passes on Unix signals; without feature `cli` the library builds here");

mod args;
mod command;
mod report;
mod signals;

use std::process::ExitCode;
use std::time::Duration;

use lock_recipes::{
    AcquireError, AcquireOptions, Attempt, ConnectError, Coordinator, CoordinatorState, Lock,
    LockGuard, ReleaseError,
};
use tokio::time::{Instant, timeout};

use crate::args::Args;
use crate::command::{Ended, Running};
use crate::report::{Failure, explained, holder, say};
use crate::signals::Signals;

/// Exit codes of zk-lock itself: the help lists them.
mod code {
    pub(crate) const USAGE: u8 = 64;
    pub(crate) const UNAVAILABLE: u8 = 69;
    pub(crate) const INTERNAL: u8 = 71;
    pub(crate) const BUSY: u8 = 75;
    pub(crate) const TIMED_OUT: u8 = 76;
    pub(crate) const REFUSED: u8 = 77;
    pub(crate) const LOST: u8 = 79;
    pub(crate) const CANNOT_RUN: u8 = 126;
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// How long connecting may take where no `--timeout` says so.
const CONNECT: Duration = Duration::from_secs(30);
/// How long the release may take, once the command has ended, before the warning.
const RELEASE: Duration = Duration::from_secs(5);
/// How long the end of the session is waited for. ZooKeeper ends it by itself otherwise.
const CLOSE: Duration = Duration::from_secs(2);
/// How long a look at who holds the lock may take.
const LOOK: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    if let Some(code) = command::exec_for_parent() {
        return ExitCode::from(code);
    }
    let args = match Args::read() {
        Ok(args) => args,
        Err(code) => return ExitCode::from(code),
    };
    report::log(args.verbose);
    // One thread, the main one: the kernel ends the command with the *thread* that started it.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("cannot start: {error}"));
            return ExitCode::from(code::INTERNAL);
        }
    };
    let code = runtime.block_on(run(&args)).unwrap_or_else(|failure| {
        say(&failure.text);
        failure.code
    });
    runtime.shutdown_background();
    ExitCode::from(code)
}

async fn run(args: &Args) -> Result<u8, Failure> {
    let started = Instant::now();
    let mut signals = Signals::install()?;
    let coordinator = tokio::select! {
        biased;
        signal = signals.stop() => return Err(interrupted(signal, args)),
        coordinator = connect(args) => coordinator?,
    };
    let outcome = under_lock(args, &coordinator, started, &mut signals).await;
    // Gives back what an acquisition that failed may have left. ZooKeeper does so by itself after
    // the session timeout, so nothing is said if it does not answer.
    let _ = coordinator.close_timeout(CLOSE).await;
    outcome
}

async fn connect(args: &Args) -> Result<Coordinator, Failure> {
    let longest = Duration::from_secs(24 * 60 * 60);
    let mut builder = Coordinator::builder(&args.connect)
        .connect_timeout(args.timeout.unwrap_or(CONNECT).min(longest))
        .create_chroot(args.create_chroot);
    if let Some(session_timeout) = args.session_timeout {
        builder = builder.session_timeout(session_timeout);
    }
    builder.connect().await.map_err(|error| match &error {
        ConnectError::ConnectString(_) | ConnectError::Setting { .. } => {
            Failure::new(code::USAGE, explained(&error))
        }
        ConnectError::TimedOut { .. } => Failure::new(code::UNAVAILABLE, explained(&error)),
        ConnectError::ChrootMissing { chroot } => {
            let text = format!(
                "the chroot {chroot} of the connect string does not exist: create it, or let \
                 --create-chroot do it"
            );
            Failure::new(code::REFUSED, text)
        }
        _ => Failure::new(code::REFUSED, explained(&error)),
    })
}

async fn under_lock(
    args: &Args,
    coordinator: &Coordinator,
    started: Instant,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let lock = Lock::new(coordinator, args.path.clone())
        .map_err(|error| Failure::new(code::USAGE, error.to_string()))?;
    let guard = tokio::select! {
        biased;
        signal = signals.stop() => return Err(interrupted(signal, args)),
        guard = acquire(args, &lock, coordinator, started) => guard?,
    };
    let mut running = match Running::start(&args.command, &guard) {
        Ok(running) => running,
        Err(failure) => {
            // The failure is what matters; the end of the session releases as well.
            let _ = timeout(RELEASE, guard.release()).await;
            return Err(failure);
        }
    };
    match running.attend(&guard, signals).await {
        Ended::ByItself(code) => release(guard, code).await,
        Ended::Lost(reason) => {
            running.signal_all_to_end();
            say(&format!("the lock {} is lost: {reason}; stopping the command", args.path));
            running.stop(signals, args.kill_after).await;
            Ok(code::LOST)
        }
    }
}

async fn acquire(
    args: &Args,
    lock: &Lock,
    coordinator: &Coordinator,
    started: Instant,
) -> Result<LockGuard, Failure> {
    let mut options = AcquireOptions::new();
    if let Some(data) = &args.data {
        options = options.data(data.as_bytes());
    }
    if args.try_once {
        return match lock.try_acquire_with(options).await {
            Ok(Attempt::Acquired(guard)) => Ok(guard),
            Ok(Attempt::Busy(busy)) => {
                let queue = timeout(LOOK, lock.queue()).await.ok().and_then(Result::ok);
                let who = queue.and_then(|queue| holder(&queue.contenders));
                let who = who.unwrap_or_else(|| format!("held by node {}", busy.holder()));
                Err(Failure::new(code::BUSY, format!("{} is busy: {who}", args.path)))
            }
            Err(error) => Err(not_acquired(&error)),
        };
    }
    if let Some(timeout) = args.timeout {
        options = options.timeout(timeout.saturating_sub(started.elapsed()));
    }
    let error = match lock.acquire_with(options).await {
        Ok(guard) => return Ok(guard),
        Err(error) => error,
    };
    match (&error, args.timeout) {
        (AcquireError::TimedOut { behind: Some(behind), .. }, Some(waited)) => {
            let ours = match coordinator.state() {
                CoordinatorState::Connected { session, .. } => session,
                _ => 0,
            };
            let queue = timeout(LOOK, lock.queue()).await.ok().and_then(Result::ok);
            let who = queue.and_then(|mut queue| {
                queue.contenders.retain(|contender| contender.session != ours);
                holder(&queue.contenders)
            });
            let who = who.unwrap_or_else(|| format!("it waited behind {behind}"));
            let text = format!("{} was not acquired within {waited:?}: {who}", args.path);
            Err(Failure::new(code::TIMED_OUT, text))
        }
        _ => Err(not_acquired(&error)),
    }
}

fn not_acquired(error: &AcquireError) -> Failure {
    let code = match error {
        AcquireError::TimedOut { .. } => code::TIMED_OUT,
        AcquireError::DataTooLarge { .. } => code::USAGE,
        AcquireError::Closed { .. } => code::UNAVAILABLE,
        _ => code::REFUSED,
    };
    Failure::new(code, explained(error))
}

/// Gives the lock back after the command has ended with `code`.
async fn release(guard: LockGuard, code: u8) -> Result<u8, Failure> {
    let path = guard.path().to_owned();
    match timeout(RELEASE, guard.release()).await {
        Ok(Ok(())) => {}
        // Whoever relies on the exit code relies on the lock for the whole run.
        Ok(Err(ReleaseError::AlreadyLost { reason, .. })) => {
            let text = format!(
                "the lock {path} was lost while the command ran: {reason}; the command itself \
                 ended with {code}"
            );
            return Err(Failure::new(code::LOST, text));
        }
        Ok(Err(error)) => {
            say(&format!(
                "warning: {}; ZooKeeper frees the lock with the session",
                explained(&error)
            ));
        }
        Err(_) => say(&format!(
            "warning: ZooKeeper has not confirmed the release of {path} within {RELEASE:?}; it \
             frees the lock with the session"
        )),
    }
    Ok(code)
}

fn interrupted(signal: rustix::process::Signal, args: &Args) -> Failure {
    let name = signals::name(signal);
    let text = format!("{name} while waiting for {}; the command was not run", args.path);
    Failure::new(signals::exit_code(signal.as_raw()), text)
}
