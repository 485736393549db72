//! `zk-inspect demo`: its workers are seen, and nothing of it stays however it ends.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use inspect::{assert_restored, output, text, zk_inspect};
use integration::pty::Signal;
use integration::{Helper, Observer, Server, Terminal, eventually};
use support::{SECONDS, SOON, start};

const LOCKS: [&str; 3] =
    ["/zk-inspect-demo/inventory", "/zk-inspect-demo/import", "/zk-inspect-demo/scheduler"];

/// Nothing of the demo is there, and no session but the observer's.
async fn nothing_is_left(server: &Server, observer: &Observer) {
    assert_eq!(observer.children("/").await, ["zookeeper"]);
    assert_eq!(server.metric("zk_global_sessions").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_terminal_it_prints_its_locks_and_leaves_nothing() {
    start();
    zk_inspect();
    let server = Server::start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let printed = output(&["demo", "--connect", &server.connect_string()]).await;
    let (stdout, stderr) = (text(&printed.stdout), text(&printed.stderr));
    assert_eq!((printed.status.code(), stderr), (Some(0), ""), "{stdout}");
    let tables: Vec<_> = stdout.split("\n\n").collect();
    assert_eq!(tables.len(), 3, "{stdout}");
    for table in tables {
        let line = |lock: &&str| table.lines().filter(|line| line.contains(*lock)).count() == 1;
        assert!(LOCKS.iter().all(line), "{table}");
        assert!(table.contains("scheduler-") && table.contains("import-"), "{table}");
    }
    nothing_is_left(&server, &observer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_by_a_signal_it_leaves_nothing() {
    start();
    zk_inspect();
    let server = Server::start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let args = ["demo", "--seconds", "600", "--connect", &server.connect_string()];
    let mut demo = Helper::run(zk_inspect(), args);
    demo.wait_line(|line| line.contains("scheduler"), SOON).await;
    demo.terminate();
    assert_eq!(demo.exit(SOON).await.code(), Some(143), "{}", demo.stderr());
    nothing_is_left(&server, &observer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_screen_the_workers_take_turns_and_q_leaves_nothing() {
    start();
    zk_inspect();
    let server = Server::start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let args = ["demo", "--connect", &server.connect_string()];
    let terminal = Terminal::run(zk_inspect(), args, 80, 24);
    terminal.wait_text(" LIVE ", SOON).await;
    for lock in LOCKS {
        terminal.wait_text(lock, SOON).await;
    }
    for worker in ["order-1", "order-2"] {
        let holds = |line: &str| line.contains(LOCKS[0]) && line.contains(worker);
        terminal
            .wait_for(worker, SECONDS(60), |screen| screen.lines().iter().any(|l| holds(l)))
            .await;
    }
    terminal.send("q");
    assert!(terminal.exit(SOON).await.success());
    assert_restored(&terminal);
    nothing_is_left(&server, &observer).await;

    // A signal is as good as a key.
    let terminal = Terminal::run(zk_inspect(), args, 80, 24);
    terminal.wait_text(LOCKS[2], SOON).await;
    terminal.signal(Signal::HUP);
    assert_eq!(terminal.exit(SOON).await.exit_code(), 129);
    nothing_is_left(&server, &observer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_not_let_in_is_told_and_the_others_are_removed() {
    start();
    zk_inspect();
    let server = Server::builder().config("maxClientCnxns=4").start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let args = ["demo", "--connect-timeout", "3", "--connect", &server.connect_string()];
    let printed = output(&args).await;
    let stderr = text(&printed.stderr);
    assert_eq!(printed.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("cannot connect"), "{stderr}");
    eventually(SOON, "nothing is left", async || {
        (observer.children("/").await == ["zookeeper"]).then_some(())
    })
    .await;
}
