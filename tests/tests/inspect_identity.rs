//! Who holds it, and is that client even alive: what an operator asks of a strange queue.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use inspect::{output, plain, quit, text, zk_inspect};
use integration::pty::Key;
use integration::{Ensemble, Server, Terminal};
use serde_json::Value;
use support::{SOON, start};
use view::{Client, curator, hex};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_asks_of_a_strange_queue_is_there() {
    zk_inspect();
    start();
    let server = Server::builder().seed_counter("/locks", 2_147_000_000).start().await;
    let client = Client::connect(&server.connect_string()).await;
    let first = client.queue("/locks", &curator("lock-"), b"__REVOKE__").await;
    let second = client.raw.create_persistent_like("/locks", &format!("{}__lock__", hex())).await;
    let ctime = client.raw.stat(&format!("/locks/{first}")).await.unwrap().ctime;
    let queued = jiff::Timestamp::from_millisecond(ctime).unwrap();
    let connect = server.connect_string();
    let args = ["--connect", &connect, "show", "/locks"];
    let printed = output(&args).await;
    let shown = text(&printed.stdout);
    for part in [
        "mutex (mixed)",
        "2,147,000,002 (99.98 % of the limit)",
        "__REVOKE__",
        "(no session)",
        &format!("{:#x}", client.session()),
        &first,
        &second,
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let terminal = plain(Terminal::builder(zk_inspect()))
        .args(["--connect", &connect, "--root", "/locks"])
        .start();
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.press(Key::Enter);
    let session = format!("{:#x}", client.session());
    let screen = terminal.wait_text("99.98 % of the limit used", SOON).await;
    let since = format!("; queued {queued:.0} (server's ");
    for part in [&*session, "__REVOKE__", "held before we looked, ≤", &since, "mutex (mixed)"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    terminal.press(Key::Down);
    terminal.wait_text("none: not ephemeral, no session end removes it", SOON).await;
    quit(&terminal).await;
}

/// The number of the server is the first byte of its sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_whose_first_bit_is_set_are_told_as_servers_tell_them() {
    zk_inspect();
    start();
    let ensemble = Ensemble::start_numbered(200, 2, Server::builder()).await;
    let connect = ensemble.connect_string();
    let client = Client::connect(&connect).await;
    assert!(client.session() < 0);
    client.raw.mkdir("/locks/a").await;
    client.queue("/locks/a", &curator("lock-"), b"").await;
    client.queue("/locks/a", &curator("lock-"), b"second").await;
    let session = format!("{:#x}", client.session().cast_unsigned());
    assert!(session.starts_with("0xc"), "{session}");
    let args = ["--connect", &connect, "list", "--json", "--root", "/locks"];
    let printed = output(&args).await;
    let json: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(json["locks"][0]["holders"][0]["session"], *session);
    assert_eq!(json["locks"][0]["waiters"][0]["session"], *session);
    for command in [&["list", "--root", "/locks"][..], &["show", "/locks/a"]] {
        let args = [&["--connect", &*connect], command].concat();
        let printed = output(&args).await;
        assert!(text(&printed.stdout).contains(&session), "{printed:?}");
    }
    let terminal = plain(Terminal::builder(zk_inspect()))
        .args(["--connect", &connect, "--root", "/locks"])
        .size(120, 36)
        .start();
    // The holder has no other name.
    terminal.wait_text(&format!(" {session} "), SOON).await;
    terminal.press(Key::Enter);
    let screen = terminal.wait_text(&format!("session {session} "), SOON).await;
    assert_eq!(screen.text().matches(&*session).count(), 4, "{screen}");
    quit(&terminal).await;
}
