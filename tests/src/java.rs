//! A Java process on a leash: it dies with the process that started it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Flags for a small heap and a quick start.
const FLAGS: [&str; 4] =
    ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"];

/// Where Debian puts the jars, and a logger that prints to stderr.
const DEBIAN: &str =
    "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

/// Runs `$3…` with its output in `$1`. A line on stdin ends it; so does the end of stdin, which means
/// that our process is gone: then nobody else will remove the directory `$2`.
const LEASH: &str = r#"
log=$1 dir=$2; shift 2
"$@" </dev/null >>"$log" 2>&1 &
pid=$!
echo $pid
read -r _; parted=$?
kill -9 $pid; wait $pid
[ $parted = 0 ] || rm -rf -- "$dir"
"#;

/// The class path of ZooKeeper: `ZOOKEEPER_CLASSPATH`, or Debian's package.
pub(crate) fn classpath() -> String {
    std::env::var("ZOOKEEPER_CLASSPATH").unwrap_or_else(|_| DEBIAN.to_owned())
}

/// Runs a single-file Java program to its end.
pub(crate) fn run_source(source: &Path, args: &[String]) {
    let output = Command::new("java")
        .args(FLAGS)
        .arg("-cp")
        .arg(classpath())
        .arg(source)
        .args(args)
        .output()
        .expect("java starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {args:?} failed:\n{stderr}", source.display());
}

/// A running Java process.
#[derive(Debug)]
pub(crate) struct Jvm {
    pid: Pid,
    /// The shell that holds the leash. It reaps the Java process only after our word, so `pid` stays ours.
    leash: Child,
}

impl Jvm {
    /// Starts `java` with `args`; the output goes to `log`. If this process dies, `dir` is removed.
    pub(crate) fn spawn(args: &[String], log: &Path, dir: &Path) -> Self {
        let mut leash = Command::new("sh")
            .args(["-c", LEASH, "leash"])
            .args([log, dir])
            .arg("java")
            .args(FLAGS)
            .arg("-cp")
            .arg(classpath())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own: Ctrl-C ends the tests, and their end lets go of the leash.
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        let stdout = leash.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the leash tells the pid");
        let pid = line.trim().parse().ok().and_then(Pid::from_raw).expect("a pid");
        Self { pid, leash }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether the process runs (or is frozen): neither gone nor a zombie.
    pub(crate) fn is_alive(&self) -> bool {
        state(&format!("/proc/{}/stat", self.pid()))
            .is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    /// Stops every thread of the process; returns when all have stopped.
    pub(crate) fn freeze(&self) {
        freeze(self.pid);
    }

    /// Lets a frozen process go on.
    pub(crate) fn thaw(&self) {
        let _ = kill_process(self.pid, Signal::CONT);
    }

    /// Asks the process to end and waits up to `grace` before it is killed.
    pub(crate) fn terminate(self, grace: Duration) {
        let _ = kill_process(self.pid, Signal::TERM);
        self.thaw();
        let deadline = Instant::now() + grace;
        while self.is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        // First the signal, which needs no turn of the shell, then the word that lets it reap and end.
        let _ = kill_process(self.pid, Signal::KILL);
        if let Some(mut stdin) = self.leash.stdin.take() {
            let _ = stdin.write_all(b"end\n");
        }
        let _ = self.leash.wait();
    }
}

/// Sends SIGSTOP and returns when every thread has stopped.
pub(crate) fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).expect("the process exists");
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut running = fs::read_dir(&tasks)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|task| state(&format!("{}/stat", task.path().display())))
            .filter(|state| !matches!(state, 'T' | 'Z' | 'X'));
        if running.next().is_none() {
            return;
        }
        assert!(Instant::now() < deadline, "{pid:?} does not stop");
        thread::sleep(Duration::from_micros(100));
    }
}

/// The state letter in a `stat` file of `/proc`, or `None` if there is no such task.
fn state(stat: &str) -> Option<char> {
    // The command name stands in parentheses and may itself contain some.
    fs::read_to_string(stat).ok()?.rsplit_once(") ")?.1.chars().next()
}
