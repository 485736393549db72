//! The command `zk-lock`, against a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use integration::server::unique_path;
use integration::{Helper, Observer, Proxy, Server, binary, eventually, init_logs, within};
use tokio::sync::OnceCell;
use zookeeper_client::{Acls, CreateMode};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;
const MILLIS: fn(u64) -> Duration = Duration::from_millis;

/// No run here takes longer.
const LIMIT: Duration = Duration::from_secs(20);
/// What starting and ending processes may cost on a busy machine.
const MARGIN: Duration = Duration::from_millis(1_500);
/// The server's tick, by which it ends sessions.
const TICK: Duration = Duration::from_millis(500);

const USAGE: i32 = 64;
const UNAVAILABLE: i32 = 69;
const BUSY: i32 = 75;
const TIMED_OUT: i32 = 76;
const REFUSED: i32 = 77;
const LOST: i32 = 79;

static ZK_LOCK: LazyLock<PathBuf> = LazyLock::new(|| {
    let build = ["-p", "lock-recipes", "--features", "cli"];
    binary("zk-lock", &build, &["lock-recipes/src"])
});

fn zk_lock(connect: &str, args: &[&str]) -> Command {
    let mut command = Command::new(&*ZK_LOCK);
    command.args(["--connect", connect]).args(args).env_remove("RUST_LOG");
    // Not the foreground group of the terminal that the tests may run in: Ctrl-C is the terminal's.
    command.process_group(0);
    command
}

/// Runs it to its end.
async fn run(connect: &str, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::from(zk_lock(connect, args));
    command.stdin(Stdio::null()).kill_on_drop(true);
    within(LIMIT, format!("zk-lock {args:?} ends"), command.output()).await.unwrap()
}

/// Runs it in the background.
fn start(connect: &str, args: &[&str]) -> Helper {
    Helper::spawn(&mut zk_lock(connect, args))
}

/// The one line that a failure is.
fn only_line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let line = text.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {text:?}"));
    assert!(line.starts_with("zk-lock: ") && !line.contains('\n'), "{text}");
    line.to_owned()
}

/// What it has said so far, waited for: the pipe is read beside.
async fn said(helper: &Helper, part: &str) -> String {
    let what = format!("zk-lock says {part:?}");
    let text = eventually(SECONDS(5), what, async || {
        Some(helper.stderr()).filter(|text| text.contains(part) && text.ends_with('\n'))
    });
    let text = text.await;
    assert!(text.starts_with("zk-lock: ") && text.lines().count() == 1, "{text}");
    text
}

async fn next_line(helper: &mut Helper) -> String {
    helper.wait_line(|_| true, LIMIT).await
}

async fn next_pid(helper: &mut Helper) -> u32 {
    let line = helper.wait_line(|line| line.starts_with("pid "), LIMIT).await;
    line.strip_prefix("pid ").unwrap().parse().unwrap()
}

/// Whether the process lives; a zombie does not.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// One server for all tests. It does not wait for the disk, which on a busy machine may take longer
/// than the sessions here live.
async fn shared() -> (String, Observer) {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    init_logs();
    // A build blocks the runtime for longer than the observer's session would live.
    LazyLock::force(&ZK_LOCK);
    let server = SERVER.get_or_init(|| Server::builder().unsafe_fast().start()).await;
    let connect = server.connect_string();
    let observer = Observer::connect(&connect).await;
    (connect, observer)
}

#[tokio::test]
async fn twenty_commands_run_one_after_the_other_with_rising_tokens() {
    let (connect, observer) = shared().await;
    let path = unique_path("twenty");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record");
    // All of them stand in the queue before the first one runs.
    let mut first = start(&connect, &[&path, "--", "sh", "-c", "echo in; read line"]);
    next_line(&mut first).await;
    let script = format!(
        "echo start $ZK_LOCK_TOKEN >>{0}; sleep 0.01; echo end $ZK_LOCK_TOKEN >>{0}",
        file.display()
    );
    let mut others: Vec<_> =
        (0..20).map(|_| start(&connect, &[&path, "--", "sh", "-c", &script])).collect();
    observer.wait_for_count(&path, 21, LIMIT).await;
    assert!(!file.exists());
    first.close_stdin();
    for other in &mut others {
        assert_eq!(other.exit(LIMIT).await.code(), Some(0), "{}", other.stderr());
        assert_eq!(other.stderr(), "");
    }
    let record = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = record.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let holds: Vec<_> = lines.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(holds.len(), 20);
    for ((start, token), (end, same)) in &holds {
        assert_eq!((*start, *end, token), ("start", "end", same), "{record}");
    }
    assert!(holds.windows(2).all(|two| two[0].0.1 < two[1].0.1), "{record}");
    assert!(observer.children(&path).await.is_empty());
}

#[tokio::test]
async fn a_killed_zk_lock_takes_its_command_along_and_frees_the_lock_after_the_session_timeout() {
    let (connect, observer) = shared().await;
    let path = unique_path("killed");
    let session = SECONDS(3);
    let script = "echo pid $$; exec sleep 60";
    let options = ["--session-timeout", "3s", &path, "--", "sh", "-c", script];
    let mut holder = start(&connect, &options);
    let pid = next_pid(&mut holder).await;
    let mut next = start(&connect, &[&path, "--", "echo", "in"]);
    observer.wait_for_count(&path, 2, LIMIT).await;
    let killed = Instant::now();
    assert_eq!(holder.kill().signal(), Some(9));
    eventually(SECONDS(1), "the command is dead", async || (!lives(pid)).then_some(())).await;
    next_line(&mut next).await;
    let waited = killed.elapsed();
    // ZooKeeper last heard of the holder at most a sixth of the session timeout before its death.
    assert!(waited >= session * 2 / 3, "{waited:?}");
    assert!(waited <= session + TICK + MARGIN, "{waited:?}");
    assert!(next.exit(LIMIT).await.success());
}

#[tokio::test]
async fn when_the_node_is_deleted_the_command_and_its_children_are_asked_to_end() {
    let (connect, observer) = shared().await;
    let path = unique_path("deleted");
    let script = "trap 'echo term; exit 0' TERM; sleep 60 & echo pid $!; wait";
    let mut holder = start(&connect, &["--kill-after", "1h", &path, "--", "sh", "-c", script]);
    let grandchild = next_pid(&mut holder).await;
    let [node] = &observer.children(&path).await[..] else { panic!("one node") };
    observer.delete(&format!("{path}/{node}")).await;
    let deleted = Instant::now();
    assert_eq!(next_line(&mut holder).await, "term");
    assert_eq!(holder.exit(LIMIT).await.code(), Some(LOST));
    assert!(deleted.elapsed() < MARGIN, "{:?}", deleted.elapsed());
    assert!(!lives(grandchild));
    let said = said(&holder, "deleted by another client").await;
    assert!(said.contains(&path), "{said}");
}

#[tokio::test]
async fn what_ignores_term_is_killed_in_time_whatever_session_it_fled_to() {
    let (connect, observer) = shared().await;
    let path = unique_path("stubborn");
    let script = "trap '' TERM; echo pid $$; sleep 60 & echo pid $!; \
                  setsid sh -c 'echo pid $$; exec sleep 60' & (sleep 60 & echo pid $!); wait";
    let mut holder = start(&connect, &["--kill-after", "500ms", &path, "--", "sh", "-c", script]);
    let mut pids = Vec::new();
    for _ in 0..4 {
        pids.push(next_pid(&mut holder).await);
    }
    let [node] = &observer.children(&path).await[..] else { panic!("one node") };
    observer.delete(&format!("{path}/{node}")).await;
    let deleted = Instant::now();
    said(&holder, "stopping the command").await;
    assert!(pids.iter().all(|pid| lives(*pid)), "killed without grace");
    assert_eq!(holder.exit(LIMIT).await.code(), Some(LOST));
    let stopped = deleted.elapsed();
    assert!(stopped >= MILLIS(450) && stopped < MILLIS(500) + MARGIN, "{stopped:?}");
    assert!(!pids.iter().any(|pid| lives(*pid)));
}

#[tokio::test]
async fn when_zookeeper_falls_silent_the_command_is_stopped_before_another_can_hold() {
    let (connect, _) = shared().await;
    let proxy = Proxy::start(&connect).await;
    let path = unique_path("silent");
    let session = SECONDS(4);
    let script = "trap 'echo term; exit 0' TERM; echo in; while :; do sleep 0.02; done";
    let options = ["--session-timeout", "4s", &path, "--", "sh", "-c", script];
    let mut holder = start(&proxy.connect_string(), &options);
    next_line(&mut holder).await;
    proxy.blackhole(true);
    let silent = Instant::now();
    assert_eq!(next_line(&mut holder).await, "term");
    let stopped = silent.elapsed();
    assert_eq!(holder.exit(LIMIT).await.code(), Some(LOST));
    // Half the timeout after the last probe that was answered, which was up to a sixth ago.
    assert!(stopped + MILLIS(100) >= session / 3, "{stopped:?}");
    assert!(stopped < session / 2 + MARGIN, "{stopped:?}");
}

#[tokio::test]
async fn a_command_that_ends_well_after_the_loss_does_not_hide_it() {
    let (connect, observer) = shared().await;
    let path = unique_path("hidden");
    let mut holder = start(&connect, &[&path, "--", "sh", "-c", "echo pid $$; read line; exit 0"]);
    let pid = next_pid(&mut holder).await;
    holder.freeze();
    let [node] = &observer.children(&path).await[..] else { panic!("one node") };
    observer.delete(&format!("{path}/{node}")).await;
    holder.close_stdin();
    eventually(SECONDS(5), "the command ends", async || (!lives(pid)).then_some(())).await;
    holder.thaw();
    assert_eq!(holder.exit(LIMIT).await.code(), Some(LOST));
    said(&holder, "lost").await;
}

#[tokio::test]
async fn a_release_that_is_not_confirmed_is_a_warning() {
    let (connect, _) = shared().await;
    let proxy = Proxy::start(&connect).await;
    let path = unique_path("unconfirmed");
    let options =
        ["--session-timeout", "6s", &path, "--", "sh", "-c", "echo in; read line; exit 7"];
    let mut holder = start(&proxy.connect_string(), &options);
    next_line(&mut holder).await;
    proxy.blackhole(true);
    holder.close_stdin();
    assert_eq!(holder.exit(LIMIT).await.code(), Some(7));
    let said = said(&holder, "warning").await;
    assert!(said.contains(&path), "{said}");
}

#[tokio::test]
async fn the_exit_code_is_the_commands_own() {
    let (connect, observer) = shared().await;
    let path = unique_path("codes");
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill $$", 143), ("kill -9 $$", 137)]
    {
        let output = run(&connect, &[&path, "--", "sh", "-c", script]).await;
        assert_eq!((output.status.code(), output.stderr), (Some(code), Vec::new()), "{script}");
        assert!(observer.children(&path).await.is_empty());
    }
    let output = run(&connect, &[&path, "--", "no-such-command"]).await;
    assert_eq!(output.status.code(), Some(127));
    assert!(only_line(&output).contains("\"no-such-command\": command not found"));
    let output = run(&connect, &[&path, "--", "/etc/passwd"]).await;
    assert_eq!(output.status.code(), Some(126));
    assert!(only_line(&output).contains("\"/etc/passwd\": Permission denied"));
    assert!(observer.children(&path).await.is_empty());
}

#[tokio::test]
async fn a_busy_lock_is_told_with_its_holder() {
    let (connect, observer) = shared().await;
    let path = unique_path("busy");
    let hold = ["--data", "job \x1b[31m7", &path, "--", "sh", "-c", "echo in; read line"];
    let mut holder = start(&connect, &hold);
    next_line(&mut holder).await;
    let mut waiter = start(&connect, &[&path, "--", "true"]);
    observer.wait_for_count(&path, 2, LIMIT).await;
    let queue = observer.queue(&path).await;
    let token = format!("token {:016x}", queue[0].czxid);
    let session = format!("session 0x{:016x}", queue[0].owner);

    let started = Instant::now();
    let output = run(&connect, &["--try", &path, "--", "true"]).await;
    assert_eq!(output.status.code(), Some(BUSY));
    let busy = only_line(&output);
    for part in [&path, r#""job \u{1b}[31m7""#, &queue[0].name, &token, &session, "; 1 waiting"] {
        assert!(busy.contains(part), "{part}: {busy}");
    }
    assert!(started.elapsed() < MARGIN, "{:?}", started.elapsed());

    let started = Instant::now();
    let output = run(&connect, &["--timeout", "700ms", &path, "--", "true"]).await;
    assert_eq!(output.status.code(), Some(TIMED_OUT));
    let late = only_line(&output);
    for part in [&path, "within 700ms", &queue[0].name, "; 1 waiting"] {
        assert!(late.contains(part), "{part}: {late}");
    }
    assert!(
        (MILLIS(700)..MILLIS(700) + MARGIN).contains(&started.elapsed()),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(observer.children(&path).await.len(), 2);

    holder.close_stdin();
    assert!(waiter.exit(LIMIT).await.success());
    assert_eq!(run(&connect, &["--try", &path, "--", "true"]).await.status.code(), Some(0));
}

#[tokio::test]
async fn every_failure_is_one_line_and_has_a_code_of_its_own() {
    let (connect, observer) = shared().await;
    let refused = unique_path("refused");
    let read_only = CreateMode::Persistent.with_acls(Acls::anyone_read());
    observer.client().create(&refused, b"", &read_only).await.unwrap();
    let (nobody, chroot) = ("127.0.0.1:1".to_owned(), format!("{connect}/no-such-chroot"));
    let cases: [(&str, &[&str], i32, &str); 11] = [
        (&nobody, &["--timeout", "500ms", "/a", "--", "true"], UNAVAILABLE, &nobody),
        (&nobody, &["--timeout", "1h", "a", "--", "true"], USAGE, "a path starts with '/'"),
        (&chroot, &["/a", "--", "true"], REFUSED, "--create-chroot"),
        (&connect, &[&refused, "--", "true"], REFUSED, "not authorized to create"),
        ("a::b", &["/a", "--", "true"], USAGE, "invalid connect string \"a::b\""),
        ("", &["/a", "--", "true"], USAGE, "invalid connect string"),
        (&connect, &["/a//b", "--", "true"], USAGE, "invalid lock path \"/a//b\""),
        (&connect, &["/a"], USAGE, "COMMAND"),
        (&connect, &["--timeout", "10", "/a", "--", "true"], USAGE, "ms, s, m, h"),
        (&connect, &["--try", "--timeout", "1s", "/a", "--", "true"], USAGE, "--try"),
        (&connect, &["--session-timeout", "1ms", "/a", "--", "true"], USAGE, "session_timeout"),
    ];
    for (connect, args, code, part) in cases {
        let output = run(connect, args).await;
        assert_eq!(output.status.code(), Some(code), "{connect} {args:?} {output:?}");
        let line = only_line(&output);
        assert!(line.contains(part), "{part}: {line}");
    }
    let made = format!("{connect}{}", unique_path("chroot"));
    let output = run(&made, &["--create-chroot", "/a", "--", "true"]).await;
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test]
async fn signals_are_passed_on_once_and_the_lock_is_released() {
    let (connect, observer) = shared().await;
    for signal in ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"] {
        let path = unique_path("signal");
        // Passed on in order: when the last one is there, nothing of the first is to come.
        let last = if signal == "USR2" { "USR1" } else { "USR2" };
        let script = format!(
            "trap 'echo got' {signal}; trap 'echo last' {last}; echo in; \
             until read line; do :; done; exit 5"
        );
        let mut holder = start(&connect, &[&path, "--", "bash", "-c", &script]);
        next_line(&mut holder).await;
        let pid = holder.pid().to_string();
        for (signal, line) in [(signal, "got"), (last, "last")] {
            assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
            assert_eq!(next_line(&mut holder).await, line, "{signal}");
        }
        holder.send_line("end");
        assert_eq!(holder.exit(LIMIT).await.code(), Some(5), "{signal}");
        assert_eq!(holder.lines(), ["in", "got", "last"], "{signal}");
        assert!(observer.children(&path).await.is_empty());
    }
    let path = unique_path("signal");
    let mut holder = start(&connect, &[&path, "--", "sh", "-c", "echo in; exec sleep 60"]);
    next_line(&mut holder).await;
    holder.terminate();
    assert_eq!(holder.exit(LIMIT).await.code(), Some(143));
    assert!(observer.children(&path).await.is_empty());
    assert_eq!(holder.stderr(), "");
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_gives_up_the_place() {
    let (connect, observer) = shared().await;
    let path = unique_path("waiting");
    let mut holder = start(&connect, &[&path, "--", "sh", "-c", "echo in; read line"]);
    next_line(&mut holder).await;
    let mut waiter = start(&connect, &[&path, "--", "echo", "in"]);
    observer.wait_for_count(&path, 2, LIMIT).await;
    waiter.interrupt();
    assert_eq!(waiter.exit(LIMIT).await.code(), Some(130));
    assert_eq!(observer.children(&path).await.len(), 1);
    said(&waiter, "SIGINT while waiting").await;
    assert_eq!(waiter.lines(), [""; 0]);
}

#[tokio::test]
async fn a_signal_that_was_ignored_stays_so() {
    let (connect, _) = shared().await;
    let path = unique_path("nohup");
    let zk_lock = ZK_LOCK.display();
    let script = format!(
        "trap '' HUP; exec {zk_lock} --connect {connect} {path} -- grep SigIgn /proc/self/status"
    );
    let mut nohup = Helper::run("sh", ["-c", &script]);
    let line = next_line(&mut nohup).await;
    let mask = u64::from_str_radix(line.strip_prefix("SigIgn:\t").unwrap(), 16).unwrap();
    let ignored = |signal: u32| mask & (1 << (signal - 1)) != 0;
    // Of HUP, PIPE and TERM only what the shell ignored: Rust's own way with PIPE is undone.
    assert_eq!([1, 13, 15].map(ignored), [true, false, false], "{line}");
}

#[tokio::test]
async fn processes_that_zk_lock_did_not_start_survive_a_loss() {
    let (connect, observer) = shared().await;
    let path = unique_path("before");
    let zk_lock = ZK_LOCK.display();
    // The exec hands a child down to zk-lock, as `> >(tee log)` does in bash.
    let script = format!(
        "sleep 60 & echo pid $!; exec {zk_lock} --connect {connect} {path} -- \
         sh -c 'echo pid $$; exec sleep 60'"
    );
    let mut holder = Helper::run("sh", ["-c", &script]);
    let (before, command) = (next_pid(&mut holder).await, next_pid(&mut holder).await);
    let [node] = &observer.children(&path).await[..] else { panic!("one node") };
    observer.delete(&format!("{path}/{node}")).await;
    assert_eq!(holder.exit(LIMIT).await.code(), Some(LOST));
    assert!(lives(before) && !lives(command));
    assert!(Command::new("kill").arg(before.to_string()).status().unwrap().success());
}

#[tokio::test]
async fn the_command_knows_its_token_path_node_and_session() {
    let (connect, observer) = shared().await;
    let path = unique_path("environment");
    let script = "env | grep ^ZK_LOCK_ | sort; echo; read line";
    let mut holder = start(&connect, &["--data", "x", &path, "--", "sh", "-c", script]);
    holder.wait_line(str::is_empty, LIMIT).await;
    let [node] = &observer.queue(&path).await[..] else { panic!("one node") };
    assert_eq!(node.data, b"x");
    let expected = [
        format!("ZK_LOCK_NODE={}", node.name),
        format!("ZK_LOCK_PATH={path}"),
        format!("ZK_LOCK_SESSION=0x{:016x}", node.owner),
        format!("ZK_LOCK_TOKEN={:016x}", node.czxid),
        String::new(),
    ];
    assert_eq!(holder.lines(), expected);
    holder.close_stdin();
    // `read` fails at the end of its input, and that is the command's exit code.
    assert_eq!(holder.exit(LIMIT).await.code(), Some(1));
}
