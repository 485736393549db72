//! The command: started, attended, stopped.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use lock_recipes::{LockGuard, LossReason};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::time::{Instant, sleep_until};

use crate::code;
use crate::report::{Failure, say, session};
use crate::signals::{News, Signals, exit_code};

/// The name under which zk-lock starts itself in the place of the command.
const IN_BETWEEN: &str = "zk-lock-exec";
/// How long killed processes may take to be gone; only one that hangs in the kernel needs it.
const KILLED: Duration = Duration::from_secs(2);
/// A process that is forked while its parent is being killed is found by the next look.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The command as it runs.
pub(crate) struct Running {
    pid: Pid,
    /// Its exit code, once it has ended and was reaped.
    ended: Option<u8>,
    /// Processes that were our children before, handed down by an exec: none of our business.
    before: HashSet<i32>,
}

/// How the attendance ended.
pub(crate) enum Ended {
    ByItself(u8),
    Lost(LossReason),
}

impl Running {
    /// Starts the command, with zk-lock's own stdio and process group.
    pub(crate) fn start(command: &[OsString], guard: &LockGuard) -> Result<Self, Failure> {
        // Processes that outlive their parents become our children, so that all are found.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let before = children_of(&processes(), rustix::process::getpid().as_raw_pid());
        let (program, args) = command
            .split_first()
            .map_or_else(|| (OsStr::new(""), &[][..]), |(first, rest)| (first.as_os_str(), rest));
        let spawn = |mut command: Command| {
            command
                .env("ZK_LOCK_TOKEN", guard.token().to_string())
                .env("ZK_LOCK_PATH", guard.path())
                .env("ZK_LOCK_NODE", guard.node())
                .env("ZK_LOCK_SESSION", session(guard.session_id()))
                .spawn()
        };
        // By way of ourselves, because only a process itself can ask to be killed when its parent
        // dies. Without /proc the command has to do without.
        let mut in_between = Command::new("/proc/self/exe");
        in_between.arg0(IN_BETWEEN).arg(std::process::id().to_string()).arg(program).args(args);
        let spawned = if cfg!(target_os = "linux") {
            spawn(in_between).or_else(|_| spawn(direct(program, args)))
        } else {
            spawn(direct(program, args))
        };
        let child = spawned.map_err(|error| cannot_run(program, &error))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new(code::INTERNAL, "a pid of 0".to_owned()))?;
        Ok(Self { pid, ended: None, before })
    }

    /// Waits until the command has ended or the lock is lost. Signals are passed on meanwhile.
    pub(crate) async fn attend(&mut self, guard: &LockGuard, signals: &mut Signals) -> Ended {
        let mut lost = std::pin::pin!(guard.lost());
        loop {
            tokio::select! {
                biased;
                reason = &mut lost => return Ended::Lost(reason),
                news = signals.news() => match news {
                    News::Child => {
                        self.reap();
                        if let Some(code) = self.ended {
                            return Ended::ByItself(code);
                        }
                    }
                    News::Signal(Signal::INT | Signal::QUIT) if in_foreground() => {}
                    News::Signal(signal) => {
                        let _ = rustix::process::kill_process(self.pid, signal);
                    }
                },
            }
        }
    }

    /// Asks the command, and every process that it has started, to end.
    pub(crate) fn signal_all_to_end(&self) {
        self.signal_all(Signal::TERM);
        // One that is stopped could not hear it.
        self.signal_all(Signal::CONT);
    }

    /// Returns when all of them are gone. What is still there after `grace` is killed.
    pub(crate) async fn stop(&mut self, signals: &mut Signals, grace: Duration) {
        if self.gone(signals, Instant::now() + grace).await {
            return;
        }
        let deadline = Instant::now() + KILLED;
        loop {
            self.signal_all(Signal::KILL);
            let look_again = Instant::now() + LOOK_AGAIN;
            if self.gone(signals, look_again).await || look_again > deadline {
                return;
            }
        }
    }

    /// Waits until no process is left; `false` at the deadline. The last one to go is always a
    /// child of ours.
    async fn gone(&mut self, signals: &mut Signals, deadline: Instant) -> bool {
        loop {
            self.reap();
            if self.all().is_empty() {
                return true;
            }
            tokio::select! {
                _ = signals.news() => {}
                () = sleep_until(deadline) => return false,
            }
        }
    }

    /// Takes note of whatever has ended.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.ended = Some(code_of(status));
            }
        }
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.all() {
            // It may have ended meanwhile, or belong to somebody else by way of sudo.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// The command and all its descendants that live.
    fn all(&self) -> Vec<Pid> {
        if !cfg!(target_os = "linux") {
            return if self.ended.is_none() { vec![self.pid] } else { Vec::new() };
        }
        let processes = processes();
        let mut found = vec![rustix::process::getpid().as_raw_pid()];
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            let children = children_of(&processes, parent);
            found.extend(children.into_iter().filter(|child| !self.before.contains(child)));
            next += 1;
        }
        found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
    }
}

fn direct(program: &OsStr, args: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// Where this process was started as [`IN_BETWEEN`]: sees to it that it does not outlive zk-lock,
/// and becomes the command. Returns only if it cannot, with the exit code.
pub(crate) fn exec_for_parent() -> Option<u8> {
    let mut args = std::env::args_os();
    args.next().filter(|name| name == IN_BETWEEN)?;
    let parent = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw);
    let program = args.next()?;
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        // It may have died before.
        if rustix::process::getppid() != parent {
            return Some(exit_code(Signal::KILL.as_raw()));
        }
    }
    let error = Command::new(&program).args(args).exec();
    let failure = cannot_run(&program, &error);
    say(&failure.text);
    Some(failure.code)
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    let program = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(code::NOT_FOUND, format!("cannot run {program:?}: command not found"))
        }
        _ => Failure::new(code::CANNOT_RUN, format!("cannot run {program:?}: {error}")),
    }
}

fn code_of(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => exit_code(signal.unwrap_or(0)),
    }
}

/// Whether a terminal sends the signals of its keys to us, and so to the command.
fn in_foreground() -> bool {
    let group = File::open("/dev/tty").ok().and_then(|tty| rustix::termios::tcgetpgrp(tty).ok());
    group == Some(rustix::process::getpgrp())
}

/// The processes that live, each with its parent. Empty where there is no /proc.
fn processes() -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, parent(&stat)?))
    })
    .collect()
}

/// The parent of a process that lives, from its line `pid (name) state parent …`.
fn parent(stat: &str) -> Option<i32> {
    // The name may contain anything, parentheses too.
    let (_, rest) = stat.rsplit_once(") ")?;
    let (state, rest) = rest.split_once(' ')?;
    let (parent, _) = rest.split_once(' ')?;
    (!matches!(state, "Z" | "X")).then(|| parent.parse().ok()).flatten()
}

fn children_of(processes: &[(i32, i32)], parent: i32) -> HashSet<i32> {
    processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_past_any_name() {
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) S 1 (b) R 7 12"), Some(7));
        assert_eq!(parent("12 (sh) Z 7 12 12 0"), None);
        assert_eq!(parent(""), None);
    }
}
