//! Another process: a contender that can be frozen and killed.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::java::freeze;
use crate::wait::eventually;

/// What a process has printed so far.
#[derive(Clone, Debug, Default)]
struct Printed {
    lines: Vec<String>,
    ended: bool,
}

/// A running process whose lines of output can be waited for. It is killed when this value is dropped.
///
/// Its stdin is a pipe that stays open until then: a helper program that should not outlive a killed test
/// ends when its stdin does.
#[derive(Debug)]
pub struct Helper {
    name: String,
    child: Child,
    pid: Pid,
    stdin: Option<ChildStdin>,
    stdout: watch::Receiver<Printed>,
    stderr: Arc<Mutex<String>>,
    /// The first line that no wait has seen yet.
    next: usize,
    readers: Vec<JoinHandle<()>>,
}

impl Helper {
    /// Runs a program, such as `env!("CARGO_BIN_EXE_…")`, with these arguments.
    pub fn run(
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        Self::spawn(Command::new(program).args(args))
    }

    /// Runs a command; its stdin, stdout and stderr become pipes.
    pub fn spawn(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        let stdin = child.stdin.take();
        let (printed, stdout) = watch::channel(Printed::default());
        let out = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let read_stdout = move || {
            for line in out.lines().map_while(Result::ok) {
                printed.send_modify(|printed| printed.lines.push(line));
            }
            printed.send_modify(|printed| printed.ended = true);
        };
        let stderr = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&stderr);
        let mut err = child.stderr.take().expect("stderr is piped");
        let read_stderr = move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = err.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                lock(&collected).push_str(&text);
            }
        };
        let readers = vec![thread::spawn(read_stdout), thread::spawn(read_stderr)];
        Self { name, child, pid, stdin, stdout, stderr, next: 0, readers }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of stdout that matches, and returns it. Lines that were passed over, and the
    /// line itself, are not looked at again.
    ///
    /// Panics with all output when the line does not come in time, or cannot come any more.
    pub async fn wait_line(&mut self, matches: impl Fn(&str) -> bool, limit: Duration) -> String {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let ended = {
                let printed = self.stdout.borrow_and_update();
                let fresh = printed.lines.get(self.next..).unwrap_or_default();
                if let Some(place) = fresh.iter().position(|line| matches(line)) {
                    let line = fresh[place].clone();
                    self.next += place + 1;
                    return line;
                }
                self.next = printed.lines.len();
                printed.ended
            };
            assert!(!ended, "the output ended before the line came: {}", self.output());
            let changed = tokio::time::timeout_at(deadline, self.stdout.changed()).await;
            assert!(changed.is_ok(), "no such line within {limit:?}: {}", self.output());
        }
    }

    /// The lines of stdout so far.
    pub fn lines(&self) -> Vec<String> {
        self.stdout.borrow().lines.clone()
    }

    /// What was printed to stderr so far.
    pub fn stderr(&self) -> String {
        lock(&self.stderr).clone()
    }

    /// Writes a line to its stdin.
    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the process reads its stdin");
    }

    /// Closes its stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Stops the process in its tracks (SIGSTOP); returns when all its threads have stopped.
    pub fn freeze(&mut self) {
        assert!(self.try_exit().is_none(), "it has ended: {}", self.output());
        freeze(self.pid);
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process (SIGKILL) and returns when it is gone.
    pub fn kill(&mut self) -> ExitStatus {
        // An error means that it has ended already; nobody but us reaps it.
        let _ = self.child.kill();
        self.child.wait().expect("the process is ours")
    }

    /// Asks the process to end (SIGTERM).
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Interrupts the process (SIGINT).
    pub fn interrupt(&mut self) {
        self.signal(Signal::INT);
    }

    /// How the process has ended, if it has.
    pub fn try_exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is ours")
    }

    /// Waits until the process has ended by itself.
    pub async fn exit(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        let child = Mutex::new(&mut self.child);
        eventually(limit, what, async || {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            child.try_wait().expect("the process is ours")
        })
        .await
    }

    fn signal(&mut self, signal: Signal) {
        // Once it was reaped its pid may be another's.
        if self.try_exit().is_none() {
            kill_process(self.pid, signal).expect("the process is ours");
        }
    }

    fn output(&self) -> String {
        format!("{}\n{}\n{}", self.name, self.lines().join("\n"), self.stderr())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
        // Not joined: a grandchild may hold the pipes open.
        self.readers.clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
