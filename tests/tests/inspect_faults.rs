//! Servers that die, freeze and change: the screen says so, keeps what it knew, and is true again.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use inspect::{plain, quit, wait_selected, zk_inspect};
use integration::proxy::{Direction, Kind};
use integration::pty::{Frame, Key, Screen};
use integration::{Ensemble, Observer as Raw, Proxy, Server, Terminal, eventually};
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

/// The lines of the list: 120 columns and 36 rows.
const LIST: Range<usize> = 4..26;

/// The line of a lock.
fn line<'a>(lines: &'a [String], path: &str) -> Option<&'a str> {
    let path = format!(" {path} ");
    lines[LIST].iter().find(|line| line.contains(&path)).map(String::as_str)
}

/// Holder, number of those who wait, and token of every lock that is shown, by its path.
fn shown(lines: &[String]) -> BTreeMap<String, [String; 3]> {
    let line = |line: &String| {
        let words: Vec<_> = line.trim_start_matches('>').split_whitespace().collect();
        let path = words.get(2).filter(|word| word.starts_with("/locks/"))?;
        Some(((*path).to_owned(), [words[4], words[6], words[8]].map(str::to_owned)))
    };
    lines[LIST].iter().filter_map(line).collect()
}

/// The same as the server has it.
async fn truth(raw: &Raw) -> BTreeMap<String, [String; 3]> {
    let mut truth = BTreeMap::new();
    for name in raw.children("/locks").await {
        let path = format!("/locks/{name}");
        let queue = raw.queue(&path).await;
        let dash = || "-".to_owned();
        let holder =
            queue.first().map_or_else(dash, |first| String::from_utf8_lossy(&first.data).into());
        let token = queue.first().map_or_else(dash, |first| format!("{:016x}", first.czxid));
        truth.insert(path, [holder, queue.len().saturating_sub(1).to_string(), token]);
    }
    truth
}

/// LIVE again, with the gap said, and true within two seconds of that: no lock is missing, and none is
/// there that is not on the server.
async fn recovers(terminal: &Terminal, raw: &Raw) {
    // It may be noticed late, and be over before the next frame: the gap says that it was.
    let live = |screen: &Screen| screen.contains(" LIVE ") && screen.contains("GAP of");
    let screen = terminal.wait_for("it is live again", PATIENCE, live).await;
    let live = Instant::now();
    assert!(!screen.contains("disconnected"), "{screen}");
    let (row, column) = screen.find(" /locks/b ").unwrap();
    assert!(!screen.cell(row, column + 2).dim(), "{screen}");
    eventually(SECONDS(2) + MARGIN, "the screen is true", async || {
        (truth(raw).await == shown(terminal.screen().lines())).then_some(())
    })
    .await;
    assert!(live.elapsed() < SECONDS(2) + MARGIN);
}

/// STALE in time; what was known is there, dimmed, and its age is said and goes on.
async fn goes_stale(terminal: &Terminal, since: Instant, limit: Duration) {
    let screen = terminal.wait_text(" STALE ", limit + MARGIN).await;
    println!("STALE after {:?} at most", since.elapsed());
    assert!(since.elapsed() < limit + MARGIN);
    assert!(screen.contains("disconnected ") && screen.contains("data as of "), "{screen}");
    for path in LOCKS {
        let (row, _) = screen.find(&format!(" {path} ")).unwrap();
        for column in 0..120 {
            let cell = screen.cell(row, column);
            assert!(cell.dim() || cell.contents().trim().is_empty(), "{column}: {screen}");
        }
    }
    for age in 1..=2 {
        let aged = move |screen: &Screen| {
            let status = screen.line_with("disconnected ")?.split_once("disconnected ")?.1;
            let (seconds, _) = status.split_once('s')?;
            // The header says the same.
            let header = format!(" STALE {seconds}s ");
            (seconds.parse::<f64>().ok()? >= f64::from(age) && screen.contains(&header))
                .then_some(())
        };
        let what = format!("its age is {age} s");
        terminal.wait_for(what, SOON, |screen| aged(screen).is_some()).await;
    }
}

/// At no time was the screen empty, or a lock not on it; and while it was old it did not change.
fn never_blank(terminal: &Terminal) {
    assert!(terminal.try_exit().is_none());
    let frames = terminal.frames();
    assert!(frames.len() > 2);
    let known = shown(&frames[0].lines);
    assert_eq!(known.len(), LOCKS.len());
    let (mut old, mut first) = (0, true);
    for frame in &frames {
        let shown = shown(&frame.lines);
        for path in LOCKS {
            assert!(shown.contains_key(path), "{path} is missing: {frame:?}");
        }
        // Afterwards there may be another gap.
        first &= old == 0 || frame.contains(" STALE ");
        if frame.contains(" STALE ") && first {
            assert_eq!(shown, known, "{frame:?}");
        }
        old += usize::from(frame.contains(" STALE "));
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
    let killed = Instant::now();
    server.kill().await;
    goes_stale(&terminal, killed, SECONDS(1)).await;
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
    let frozen = Instant::now();
    server.freeze();
    goes_stale(&terminal, frozen, SILENCE).await;
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
    terminal.wait_text(" LIVE ", SOON).await;
    eventually(SOON, "the screen is true", async || {
        (truth(&client.raw).await == shown(terminal.screen().lines())).then_some(())
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
    let limit = if freeze { SILENCE } else { SECONDS(1) };
    let noticed = |screen: &Screen| screen.contains(" STALE ") || screen.contains("GAP of");
    terminal.wait_for("it is noticed", limit + MARGIN, noticed).await;
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
    assert!(line(screen.lines(), "/locks/a").unwrap().contains(" a-1 "), "{screen}");
    if freeze {
        server.thaw();
    }
    // Live, not only read again: the next hand-over is seen.
    raw.delete(&format!("{}/{}", nodes[1].0, nodes[1].1)).await;
    terminal
        .wait_for("a-2 holds", SECONDS(2) + MARGIN, |screen| {
            line(screen.lines(), "/locks/a")
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

/// Without a connection for so long that its session is over, while everything changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_its_session_has_expired_it_shows_what_is_and_nothing_that_was() {
    zk_inspect();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    let nodes = locks(&client).await;
    // A lock that will go, and the contenders of a session that will end.
    client.raw.mkdir("/locks/d").await;
    client.queue("/locks/d", &curator("lock-"), b"ghost").await;
    let other = Client::connect(&server.connect_string()).await;
    other.queue("/locks/b", &curator("lock-"), b"ghost").await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let terminal = open(&proxy.connect_string());
    terminal
        .wait_for("all locks", SOON, |screen| {
            screen.contains(" LIVE ") && shown(screen.lines()).len() == LOCKS.len() + 1
        })
        .await;
    let sessions = server.metric("zk_num_alive_connections").await;
    let of_terminal = session_of(&proxy);
    terminal.record(true);
    let cut = Instant::now();
    proxy.refuse(true);
    proxy.cut();
    terminal.wait_text(" STALE ", SECONDS(1) + MARGIN).await;
    println!("STALE after {:?} at most", cut.elapsed());
    client.delete(&nodes[0].0, &nodes[0].1).await;
    let gone = client.raw.queue("/locks/d").await.remove(0);
    client.delete("/locks/d", &gone.name).await;
    assert!(client.raw.delete("/locks/d").await);
    client.raw.mkdir("/locks/e").await;
    client.queue("/locks/e", &curator("lock-"), b"new").await;
    for node in &nodes[6..] {
        client.delete(&node.0, &node.1).await;
    }
    drop(other);
    eventually(PATIENCE, "the sessions are over", async || {
        let left = server.metric("zk_global_sessions").await;
        let queue = client.raw.queue("/locks/b").await;
        // Ours and nobody else's.
        (left <= 1 && queue.len() == 3).then_some(())
    })
    .await;
    assert!(sessions > 1);
    proxy.refuse(false);
    recovers(&terminal, &client.raw).await;
    assert_ne!(session_of(&proxy), of_terminal);
    let (frames, truth) = (terminal.frames(), truth(&client.raw).await);
    assert_eq!(truth.keys().collect::<Vec<_>>(), ["/locks/a", "/locks/b", "/locks/c", "/locks/e"]);
    assert_eq!(truth["/locks/c"][0], "-");
    let was_old = frames.iter().position(|frame| frame.contains(" STALE ")).unwrap();
    let live = |frame: &&Frame| frame.contains(" LIVE ");
    for frame in frames[was_old..].iter().filter(live) {
        assert_eq!(shown(&frame.lines), truth, "{frame:?}");
    }
    let reconnected = proxy.frames().into_iter().rfind(is_connected).unwrap().at;
    let live = frames[was_old..].iter().find(live).unwrap().at;
    println!("true {:?} after the reconnect", live.saturating_duration_since(reconnected));
    assert!(live.saturating_duration_since(reconnected) < SECONDS(2) + MARGIN);
    quit(&terminal).await;
}

fn is_connected(frame: &integration::proxy::Frame) -> bool {
    frame.direction == Direction::ToClient && matches!(frame.kind, Kind::Connect { .. })
}

/// The session of the only client behind it.
fn session_of(proxy: &Proxy) -> i64 {
    match proxy.frames().into_iter().rfind(is_connected).unwrap().kind {
        Kind::Connect { session, .. } => session,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_connection_every_key_works_and_what_is_frozen_stays() {
    zk_inspect();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    let nodes = locks(&client).await;
    let terminal = open(&server.connect_string());
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.send("ssss");
    terminal.wait_text("sort PATH", SOON).await;
    terminal.press(Key::Home);
    wait_selected(&terminal, "/locks/a ").await;
    server.kill().await;
    terminal.wait_text(" STALE ", SOON).await;
    terminal.send("j");
    wait_selected(&terminal, "/locks/b ").await;
    terminal.send("k");
    wait_selected(&terminal, "/locks/a ").await;
    terminal.press(Key::Enter);
    let screen = terminal.wait_text(" a-2 ", SOON).await;
    assert!(screen.contains(" STALE ") && screen.contains("disconnected "), "{screen}");
    terminal.send("j");
    wait_selected(&terminal, " a-1 ").await;
    terminal.press(Key::Esc);
    // With what follows at once it would be another key.
    terminal.wait_text("locks  sort PATH", SOON).await;
    terminal.send("?");
    terminal.wait_text(" Help ", SOON).await;
    terminal.press(Key::Esc);
    terminal.wait_for("no help", SOON, |screen| !screen.contains(" Help ")).await;
    terminal.send("/path:/c");
    terminal.press(Key::Enter);
    let screen = terminal.wait_text("(1 of 3)", SOON).await;
    assert_eq!(shown(screen.lines()).into_keys().collect::<Vec<_>>(), ["/locks/c"]);
    terminal.press(Key::Esc);
    let screen = terminal.wait_text("locks  sort PATH", SOON).await;
    let known = shown(screen.lines());
    // Frozen during the outage: what happens afterwards is not shown until it is thawed.
    terminal.send(" ");
    terminal.wait_text(" FROZEN ", SOON).await;
    terminal.record(true);
    server.restart().await;
    client.delete(&nodes[0].0, &nodes[0].1).await;
    terminal.wait_text("GAP of", PATIENCE).await;
    client.delete(&nodes[3].0, &nodes[3].1).await;
    eventually(SOON, "it has asked", async || {
        let frames = terminal.frames().len();
        (frames > 3).then_some(())
    })
    .await;
    for frame in terminal.frames() {
        assert!(frame.contains(" FROZEN "), "{frame:?}");
        assert_eq!(shown(&frame.lines), known, "{frame:?}");
    }
    terminal.send(" ");
    recovers(&terminal, &client.raw).await;
    assert_ne!(shown(terminal.screen().lines()), known);
    // And it can be left.
    server.kill().await;
    terminal.wait_text(" STALE ", SOON).await;
    quit(&terminal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "an outage of 30 s"]
async fn half_a_minute_without_a_server_is_said_and_then_the_screen_is_true() {
    zk_inspect();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    locks(&client).await;
    let terminal = open(&server.connect_string());
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.record(true);
    let killed = Instant::now();
    server.kill().await;
    goes_stale(&terminal, killed, SECONDS(1)).await;
    terminal.wait_text("disconnected 30s: data as of ", PATIENCE).await;
    server.restart().await;
    let raw = Raw::connect(&server.connect_string()).await;
    recovers(&terminal, &raw).await;
    never_blank(&terminal);
    // The clients have been away for too long: their nodes go only now.
    for path in LOCKS {
        raw.wait_for_count(path, 0, PATIENCE).await;
    }
    eventually(SECONDS(2) + MARGIN, "the screen is true", async || {
        (truth(&raw).await == shown(terminal.screen().lines())).then_some(())
    })
    .await;
    quit(&terminal).await;
}
