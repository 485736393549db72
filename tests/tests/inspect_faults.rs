//! Servers that die, freeze and change: the screen says so, keeps what it knew, and is true again.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::time::{Duration, Instant};

use inspect::{plain, quit, zk_inspect};
use integration::pty::{Key, Screen};
use integration::{Ensemble, Observer as Raw, Server, Terminal, eventually};
use support::{SECONDS, SOON, start};
use view::{Client, curator};

/// An election, or a start, takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Within a second of what can be noticed: two fifths of the session's 6 seconds of silence.
const SILENCE: Duration = Duration::from_millis(2_400 + 1_000);

/// What drawing, and a busy machine, may cost on top.
const MARGIN: Duration = Duration::from_millis(1_500);

const LOCKS: [&str; 3] = ["/locks/a", "/locks/b", "/locks/c"];

/// Three locks with three contenders each; the names of these.
async fn locks(client: &Client) -> Vec<(String, String)> {
    client.raw.mkdir("/locks").await;
    let mut nodes = Vec::new();
    for path in LOCKS {
        client.raw.mkdir(path).await;
        for number in 0..3 {
            let data = format!("{}-{number}", path.rsplit('/').next().unwrap());
            let node = client.queue(path, &curator("lock-"), data.as_bytes()).await;
            nodes.push((path.to_owned(), node));
        }
    }
    nodes
}

fn open(connect: &str) -> Terminal {
    start();
    let args = ["--connect", connect, "--root", "/locks"];
    plain(Terminal::builder(zk_inspect())).args(args).size(120, 36).start()
}

/// The line of a lock.
fn line<'a>(screen: &'a Screen, path: &str) -> Option<&'a str> {
    let path = format!(" {path} ");
    screen.lines().iter().take(30).find(|line| line.contains(&path)).map(String::as_str)
}

/// Every lock with its holder's data, queue and token, as the server has it.
async fn is_true(raw: &Raw, screen: &Screen) -> bool {
    for path in LOCKS {
        let queue = raw.queue(path).await;
        let Some(line) = line(screen, path) else { return false };
        let words: Vec<_> = line.trim_start_matches('>').split_whitespace().collect();
        let wanted = match queue.first() {
            None => ("-".to_owned(), "-".to_owned()),
            Some(first) => {
                (String::from_utf8_lossy(&first.data).into_owned(), format!("{:016x}", first.czxid))
            }
        };
        let length = queue.len().saturating_sub(1).to_string();
        if (words[4], words[6], words[8]) != (&*wanted.0, &*length, &*wanted.1) {
            return false;
        }
    }
    true
}

/// LIVE again, with the gap said, and true within two seconds of that.
async fn recovers(terminal: &Terminal, raw: &Raw) {
    // It may be noticed late, and be over before the next frame: the gap says that it was.
    let live = |screen: &Screen| screen.contains(" LIVE ") && screen.contains("GAP of");
    let screen = terminal.wait_for("it is live again", PATIENCE, live).await;
    let live = Instant::now();
    assert!(!screen.contains("disconnected"), "{screen}");
    eventually(SECONDS(2) + MARGIN, "the screen is true", async || {
        is_true(raw, &terminal.screen()).await.then_some(())
    })
    .await;
    assert!(live.elapsed() < SECONDS(2) + MARGIN);
    // No lock that is not there.
    let screen = terminal.screen();
    let rows =
        screen.lines().iter().filter(|line| line.contains(" /locks/") && line.contains("mutex "));
    assert!(rows.count() <= LOCKS.len() + 1, "{screen}");
}

/// STALE in time; what was known is there, dimmed, and its age is said and goes on.
async fn goes_stale(terminal: &Terminal, limit: Duration) {
    let screen = terminal.wait_text(" STALE ", limit + MARGIN).await;
    for path in LOCKS {
        assert!(line(&screen, path).is_some(), "{path} has gone: {screen}");
    }
    let (row, column) = screen.find(" /locks/b ").unwrap();
    assert!(screen.cell(row, column + 2).dim(), "{screen}");
    assert!(screen.contains("disconnected ") && screen.contains("data as of "), "{screen}");
    terminal
        .wait_for("its age goes on", SOON, |screen| {
            ["1.", "2.", "3."].iter().any(|age| screen.contains(&format!("disconnected {age}")))
        })
        .await;
}

/// At no time was the screen empty, or a lock not on it.
fn never_blank(terminal: &Terminal) {
    let frames = terminal.frames();
    assert!(frames.len() > 2);
    for frame in frames {
        for path in LOCKS {
            assert!(frame.contains(path), "{path} is missing: {frame:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_and_comes_back_leaves_the_screen_dimmed_and_then_true() {
    zk_inspect();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    locks(&client).await;
    let terminal = open(&server.connect_string());
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.record(true);
    server.kill().await;
    goes_stale(&terminal, SECONDS(1)).await;
    // Keys work all the same.
    terminal.press(Key::Down);
    terminal.press(Key::Enter);
    terminal.wait_text("PLACE", SOON).await;
    terminal.press(Key::Esc);
    // With what follows at once it would be another key.
    terminal.wait_text("sort WAIT", SOON).await;
    terminal.send("?");
    terminal.wait_text(" Help ", SOON).await;
    terminal.press(Key::Esc);
    terminal.wait_text("sort WAIT", SOON).await;
    terminal.record(true);
    server.restart().await;
    recovers(&terminal, &client.raw).await;
    never_blank(&terminal);
    quit(&terminal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_noticed_and_forgiven() {
    zk_inspect();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    let nodes = locks(&client).await;
    let terminal = open(&server.connect_string());
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.record(true);
    server.freeze();
    goes_stale(&terminal, SILENCE).await;
    server.thaw();
    client.delete(&nodes[0].0, &nodes[0].1).await;
    recovers(&terminal, &client.raw).await;
    never_blank(&terminal);
    quit(&terminal).await;
}

/// The index of the server that the program is connected to, found by its session's timeout.
async fn server_of(ensemble: &Ensemble) -> usize {
    eventually(SOON, "one server has it", async || {
        for (index, server) in ensemble.servers().iter().enumerate() {
            let connections = server.four_letter("cons").await.unwrap_or_default();
            if connections.lines().any(|line| line.contains("to=6000,")) {
                return Some(index);
            }
        }
        None
    })
    .await
}

async fn moves(freeze: bool) {
    zk_inspect();
    let ensemble = Ensemble::start(3).await;
    let terminal = open(&ensemble.connect_string());
    // Everybody else has another timeout.
    let client = Client::connect(&ensemble.connect_string()).await;
    let nodes = locks(&client).await;
    terminal
        .wait_for("all locks", SOON, |screen| {
            screen.contains(" LIVE ") && LOCKS.iter().all(|path| line(screen, path).is_some())
        })
        .await;
    terminal.record(true);
    let index = server_of(&ensemble).await;
    let server = &ensemble.servers()[index];
    if freeze {
        server.freeze();
    } else {
        server.kill().await;
    }
    // Holders change while nobody looks: through the servers that are left.
    let others = ensemble.servers().iter().enumerate().filter(|(other, _)| *other != index);
    let others: Vec<_> = others.map(|(_, server)| server.connect_string()).collect();
    eventually(PATIENCE, "the others elect a leader", async || {
        let connector = zookeeper_client::Client::connector().with_fail_eagerly();
        let client = connector.connect(&others.join(",")).await.ok()?;
        for (path, node) in [&nodes[0], &nodes[3]] {
            match client.delete(&format!("{path}/{node}"), None).await {
                Ok(()) | Err(zookeeper_client::Error::NoNode) => {}
                Err(_) => return None,
            }
        }
        Some(())
    })
    .await;
    let raw = Raw::connect(&others.join(",")).await;
    recovers(&terminal, &raw).await;
    never_blank(&terminal);
    let screen = terminal.screen();
    assert!(line(&screen, "/locks/a").unwrap().contains(" a-1 "), "{screen}");
    if freeze {
        server.thaw();
    }
    // Live, not only read again: the next hand-over is seen.
    raw.delete(&format!("{}/{}", nodes[1].0, nodes[1].1)).await;
    terminal
        .wait_for("a-2 holds", SECONDS(2) + MARGIN, |screen| {
            line(screen, "/locks/a")
                .is_some_and(|line| line.contains(" a-2 ") && !line.contains('≤'))
        })
        .await;
    quit(&terminal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_it_is_on_dies_and_it_goes_on_with_another() {
    moves(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_it_is_on_freezes_and_it_goes_on_with_another() {
    moves(true).await;
}
