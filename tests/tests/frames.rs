//! What the library says to ZooKeeper: every request is counted on the wire.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use integration::proxy::{Action, EventKind, Frame, Kind, OpCode, ReplyInfo};
use integration::{Observer, Proxy, Server, eventually, stays, within};
use lock_recipes::{Attempt, Coordinator, Lock};
use support::{MILLIS, SECONDS, SOON, Scene, connect};
use tokio::task::JoinSet;

/// The operations in the record, in order; probes of the session left out.
fn said(proxy: &Proxy) -> Vec<OpCode> {
    let requests = proxy.requests().into_iter().map(|request| request.opcode);
    requests.filter(|opcode| *opcode != OpCode::Sync).collect()
}

/// Waits until so many requests, and no more, have been recorded.
async fn said_soon(proxy: &Proxy, count: usize) -> Vec<OpCode> {
    eventually(SOON, "the requests are sent", async || (said(proxy).len() >= count).then_some(()))
        .await;
    said(proxy)
}

struct Client {
    scene: Scene,
    proxy: Proxy,
    lock: Lock,
}

impl Client {
    async fn of(scene: Scene) -> Self {
        let proxy = scene.proxy().await;
        let coordinator = connect(&proxy.connect_string()).await;
        let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
        proxy.clear_frames();
        Self { scene, proxy, lock }
    }

    async fn new(name: &str) -> Self {
        Self::of(Scene::with_path(name).await).await
    }
}

#[tokio::test]
async fn a_free_lock_takes_four_requests_and_nothing_more() {
    let client = Client::new("free").await;
    let guard = client.lock.acquire().await.unwrap();
    let node = format!("{}/{}", client.scene.path, guard.node());
    guard.release().await.unwrap();
    let requests = client.proxy.requests();
    let opcodes: Vec<_> = requests.iter().map(|request| request.opcode).collect();
    assert_eq!(opcodes, [OpCode::Create2, OpCode::GetChildren, OpCode::GetData, OpCode::Delete]);
    let paths: Vec<_> = requests.iter().filter_map(|request| request.path.as_deref()).collect();
    assert_eq!(paths[1..], [&*client.scene.path, &*node, &*node]);
    assert!(node.starts_with(paths[0]), "{node} {}", paths[0]);
    // Nothing follows when all watches and tasks of the acquisition have gone.
    let four = async || client.proxy.requests().len() == 4;
    stays(MILLIS(300), "nothing more is sent", four).await;
}

#[tokio::test]
async fn create_and_list_leave_before_any_reply_and_no_reply_delays_the_delete() {
    let client = Client::new("pipelined").await;
    client.proxy.blackhole_replies_only();
    let lock = client.lock.clone();
    let acquire = tokio::spawn(async move { lock.acquire().await });
    let sent = said_soon(&client.proxy, 2).await;
    assert_eq!(sent, [OpCode::Create2, OpCode::GetChildren]);
    assert!(client.proxy.requests().len() == 2 && !acquire.is_finished());
    // The reply to the own node's watch is the next one; it never comes before the delete.
    let watch = |reply: &ReplyInfo| reply.opcode == OpCode::GetData;
    client.proxy.on_reply(watch, 0..1, Action::Blackhole);
    client.proxy.heal();
    let guard = within(SOON, "granted without the watch", acquire).await.unwrap().unwrap();
    eventually(SOON, "the watch is held up", async || {
        client.proxy.replies().iter().any(|reply| reply.opcode == OpCode::GetData).then_some(())
    })
    .await;
    let release = tokio::spawn(guard.release());
    assert_eq!(said_soon(&client.proxy, 4).await[3], OpCode::Delete);
    client.proxy.heal();
    within(SOON, "the release is confirmed", release).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_free_lock_takes_two_round_trips() {
    let client = Client::new("trips").await;
    let way = MILLIS(100);
    client.proxy.delay(way);
    let start = Instant::now();
    let guard = client.lock.acquire().await.unwrap();
    let acquired = start.elapsed();
    let start = Instant::now();
    guard.release().await.unwrap();
    let released = start.elapsed();
    for elapsed in [acquired, released] {
        assert!((way * 2..way * 3).contains(&elapsed), "{acquired:?} {released:?}");
    }
}

#[tokio::test]
async fn missing_parents_are_made_from_the_first_that_exists() {
    for (missing, opcodes) in [
        (1, vec![OpCode::CreateContainer]),
        (2, vec![OpCode::CreateContainer; 3]),
        (4, vec![OpCode::CreateContainer; 7]),
    ] {
        let mut scene = Scene::new("parents").await;
        scene.path.push_str(&"/x".repeat(missing - 1));
        let client = Client::of(scene).await;
        client.lock.acquire().await.unwrap().release().await.unwrap();
        let mut expected = vec![OpCode::Create2, OpCode::GetChildren];
        expected.extend(opcodes);
        expected.extend([OpCode::Create2, OpCode::GetChildren, OpCode::GetData, OpCode::Delete]);
        assert_eq!(said(&client.proxy), expected, "{missing} levels");
    }
}

#[tokio::test]
async fn a_taken_lock_takes_two_round_trips_until_parked_and_three_watches_at_most() {
    let client = Client::new("parked").await;
    let mut reads = Vec::new();
    let mut waiting = JoinSet::new();
    for ahead in 0..5 {
        client.proxy.clear_frames();
        let lock = client.lock.clone();
        waiting.spawn(async move { lock.acquire().await });
        // The own node, the predecessor and the one before it; a holder watches its own.
        let watched = (ahead + 1).min(3);
        said_soon(&client.proxy, 2 + watched).await;
        stays(MILLIS(100), "parked", async || said(&client.proxy).len() == 2 + watched).await;
        let opcodes = said(&client.proxy);
        assert_eq!(opcodes[..2], [OpCode::Create2, OpCode::GetChildren]);
        assert!(opcodes[2..].iter().all(|opcode| *opcode == OpCode::GetData), "{opcodes:?}");
        reads.push(watched);
    }
    // The watches leave in one burst: all of them before the first of their replies.
    client.proxy.clear_frames();
    let way = MILLIS(100);
    client.proxy.delay(way);
    let lock = client.lock.clone();
    waiting.spawn(async move { lock.acquire().await });
    said_soon(&client.proxy, 5).await;
    let frames = client.proxy.frames();
    let sent: Vec<_> = requests(&frames).map(|(at, _, _)| at).collect();
    assert!(sent[2] - sent[0] >= way * 2 && sent[4] - sent[2] < way, "{frames:#?}");
    assert_eq!(reads, [1, 2, 3, 3, 3]);
}

/// Time, connection and operation of every request but probes.
fn requests(frames: &[Frame]) -> impl Iterator<Item = (Instant, usize, OpCode)> {
    frames.iter().filter_map(|frame| match &frame.kind {
        Kind::Request(request) if request.is_users() && request.opcode != OpCode::Sync => {
            Some((frame.at, frame.connection, request.opcode))
        }
        _ => None,
    })
}

/// What ten sessions that hold for 5 ms, `rounds` times each, say to each other.
async fn hand_overs(rounds: usize) -> (Vec<Frame>, Vec<(usize, Instant, String)>) {
    const CLIENTS: usize = 10;
    let scene = Scene::with_path("handover").await;
    let proxy = scene.proxy().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        // One after the other: the number of the client is the number of its connection.
        clients.push(connect(&proxy.connect_string()).await);
    }
    proxy.clear_frames();
    let mut working = JoinSet::new();
    for (connection, coordinator) in clients.iter().enumerate() {
        let lock = Lock::new(coordinator, scene.path.as_str()).unwrap();
        working.spawn(async move {
            let mut grants = Vec::new();
            for _ in 0..rounds {
                let guard = lock.acquire().await.unwrap();
                grants.push((connection, Instant::now(), guard.node().to_owned()));
                tokio::time::sleep(MILLIS(5)).await;
                guard.release().await.unwrap();
            }
            grants
        });
    }
    let grants = within(SECONDS(60), "all rounds", working.join_all()).await;
    let frames = proxy.frames();
    // Nobody had to connect again, so the connections are the clients.
    assert!(frames.iter().all(|frame| frame.connection < CLIENTS), "a connection was lost");
    let mut grants = grants.concat();
    grants.sort_by_key(|(_, at, _)| *at);
    (frames, grants)
}

/// Deletions that were told: connection, time, node.
fn deletions(frames: &[Frame]) -> impl Iterator<Item = (usize, Instant, &str)> {
    frames.iter().filter_map(|frame| match &frame.kind {
        Kind::Event { event: EventKind::Deleted, path } => {
            Some((frame.connection, frame.at, path.rsplit('/').next()?))
        }
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_is_an_event_without_a_request_that_at_most_two_sessions_hear_of() {
    let (frames, grants) = hand_overs(30).await;
    let (mut silent, mut talked, mut delays) = (0, 0, Vec::new());
    for pair in grants.windows(2) {
        let [(_, _, before), (connection, granted, _)] = pair else { unreachable!() };
        let event = deletions(&frames)
            .filter(|(to, at, node)| to == connection && node == before && at < granted)
            .map(|(_, at, _)| at)
            .next();
        // Where nobody was queued yet there was nothing to hand over.
        let Some(event) = event else { continue };
        delays.push(*granted - event);
        let between = requests(&frames)
            .filter(|(at, from, _)| from == connection && (event..*granted).contains(at));
        if between.count() == 0 { silent += 1 } else { talked += 1 }
    }
    delays.sort_unstable();
    let handed = silent + talked;
    println!(
        "{silent} of {handed} hand-overs without a request; event to grant p50 {:?} p99 {:?}",
        delays[handed / 2],
        delays[handed * 99 / 100],
    );
    assert!(handed >= 250, "only {handed} hand-overs");
    assert!(silent * 100 >= handed * 95, "{talked} of {handed} hand-overs asked first");

    let mut heard: HashMap<&str, HashSet<usize>> = HashMap::new();
    for (connection, _, node) in deletions(&frames) {
        heard.entry(node).or_default().insert(connection);
    }
    for (owner, _, node) in &grants {
        let others =
            heard.get(node.as_str()).map_or(0, |all| all.iter().filter(|c| *c != owner).count());
        assert!(others <= 2, "{others} sessions heard of {node}");
    }
}

#[tokio::test]
async fn try_acquire_on_a_busy_lock_is_one_question_that_writes_nothing() {
    let client = Client::new("busy").await;
    let other = client.scene.coordinator().await;
    let held = Lock::new(&other, client.scene.path.as_str()).unwrap().acquire().await.unwrap();
    let before = client.scene.observer.stat(&client.scene.path).await.unwrap();
    let way = MILLIS(100);
    client.proxy.delay(way);
    let start = Instant::now();
    let attempt = client.lock.try_acquire().await.unwrap();
    let elapsed = start.elapsed();
    let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
    assert_eq!((busy.holder().as_str(), busy.waiters()), (held.node(), 0));
    assert!((way * 2..way * 3).contains(&elapsed), "{elapsed:?}");
    stays(MILLIS(400), "one question", async || {
        client.proxy.requests().iter().map(|request| request.opcode).eq([OpCode::GetChildren])
    })
    .await;
    let after = client.scene.observer.stat(&client.scene.path).await.unwrap();
    assert_eq!((before.cversion, before.pzxid), (after.cversion, after.pzxid));
}

#[tokio::test]
async fn an_idle_guard_is_proven_by_one_sync_per_sixth_of_the_timeout() {
    let scene = Scene::with_path("idle").await;
    let proxy = scene.proxy().await;
    let timeout = SECONDS(3);
    let builder = Coordinator::builder(&proxy.connect_string()).session_timeout(timeout);
    let coordinator = builder.connect().await.unwrap();
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    // Without a lock there is nothing to prove.
    proxy.clear_frames();
    stays(timeout / 6 * 4, "nothing is asked", async || proxy.requests().is_empty()).await;
    let guard = lock.acquire().await.unwrap();
    said_soon(&proxy, 3).await;
    proxy.clear_frames();
    let start = Instant::now();
    eventually(SOON, "six probes", async || (proxy.requests().len() >= 6).then_some(())).await;
    let elapsed = start.elapsed();
    assert!((MILLIS(2_300)..MILLIS(3_600)).contains(&elapsed), "six probes in {elapsed:?}");
    assert!(said(&proxy).is_empty(), "{:?}", said(&proxy));
    assert!(guard.is_held() && guard.remaining() > timeout / 6);
    // And without a lock again, but for a probe that was due already.
    guard.release().await.unwrap();
    proxy.clear_frames();
    let quiet = async || proxy.requests_by(OpCode::Sync).len() <= 1;
    stays(timeout / 6 * 4, "no more probes", quiet).await;
}

/// What the server and this runtime keep.
async fn kept(server: &Server, observer: &Observer) -> [u64; 4] {
    let nodes = observer.client().count_descendants_number("/").await.unwrap();
    [
        server.watch_count().await,
        server.metric("zk_num_alive_connections").await,
        nodes as u64,
        tokio::runtime::Handle::current().metrics().num_alive_tasks() as u64,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_piles_up_over_a_thousand_acquisitions() {
    let server = Server::builder().unsafe_fast().start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    observer.mkdir("/locks/a").await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(connect(&server.connect_string()).await);
    }
    let before = kept(&server, &observer).await;
    let start = Instant::now();
    let mut working = JoinSet::new();
    for coordinator in &clients {
        let lock = Lock::new(coordinator, "/locks/a").unwrap();
        working.spawn(async move {
            for _ in 0..200 {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    within(SECONDS(60), "a thousand acquisitions", working.join_all()).await;
    println!("1,000 acquisitions by 5 contenders in {:?}", start.elapsed());
    let same = async || (kept(&server, &observer).await == before).then_some(());
    let what = format!("watches, connections, nodes and tasks are {before:?} again");
    eventually(SECONDS(10), what, same).await;
}

#[tokio::test]
async fn what_goes_wrong_in_between_leaves_no_watch_either() {
    let server = Server::builder().unsafe_fast().start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    observer.mkdir("/locks/a").await;
    // The holder is another session: two watches of one session on one node count once.
    let holder = connect(&server.connect_string()).await;
    let held = Lock::new(&holder, "/locks/a").unwrap().acquire().await.unwrap();
    let coordinator = connect(&server.connect_string()).await;
    let lock = Lock::new(&coordinator, "/locks/a").unwrap();
    let settled = async |watches: u64, nodes: usize| {
        observer.wait_for_count("/locks/a", nodes, SOON).await;
        let what = format!("{watches} watches");
        let same = async || (server.watch_count().await == watches).then_some(());
        eventually(SECONDS(10), what, same).await;
    };
    settled(1, 1).await;
    for _ in 0..20 {
        assert!(lock.acquire_timeout(MILLIS(20)).await.is_err());
    }
    settled(1, 1).await;
    let mut waiting = JoinSet::new();
    for count in 2..=21 {
        let lock = lock.clone();
        waiting.spawn(async move { lock.acquire().await });
        observer.wait_for_count("/locks/a", count, SOON).await;
    }
    waiting.shutdown().await;
    settled(1, 1).await;
    drop(held);
    settled(0, 0).await;
}
