//! The coordinator and its sessions: outages, ends, closing, and acquisitions that wait through all of it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use integration::proxy::{Action, OpCode};
use integration::{Observer, Proxy, Recorder, Server, eventually, stays, within};
use lock_recipes::{
    AcquireError, AcquireOptions, Attempt, CloseError, Coordinator, CoordinatorState, HoldState,
    Lock, LockGuard, LossReason, Phase, ReadError, ReleaseError,
};
use support::{MILLIS, SECONDS, SOON, Scene, connect, session_of};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A session timeout short enough to wait for its end.
const SHORT: Duration = Duration::from_secs(2);

async fn connect_short(cluster: &str) -> Coordinator {
    Coordinator::builder(cluster).session_timeout(SHORT).connect().await.unwrap()
}

/// A lock behind a proxy.
struct Line {
    scene: Scene,
    proxy: Proxy,
    coordinator: Coordinator,
    lock: Lock,
}

impl Line {
    async fn short(name: &str) -> Self {
        let scene = Scene::with_path(name).await;
        let proxy = scene.proxy().await;
        let coordinator = connect_short(&proxy.connect_string()).await;
        let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
        Self { scene, proxy, coordinator, lock }
    }

    async fn new(name: &str) -> Self {
        let scene = Scene::with_path(name).await;
        let proxy = scene.proxy().await;
        let coordinator = connect(&proxy.connect_string()).await;
        let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
        Self { scene, proxy, coordinator, lock }
    }

    /// Acquires in the background; returns once it is in the queue, which has `count` contenders then.
    async fn wait_in_queue(&self, count: usize) -> JoinHandle<Result<LockGuard, AcquireError>> {
        let lock = self.lock.clone();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        self.scene.has(count).await;
        waiting
    }

    fn go_down(&self) {
        self.proxy.refuse(true);
        self.proxy.cut();
    }

    fn come_back(&self) {
        self.proxy.refuse(false);
    }
}

#[tokio::test]
async fn an_outage_is_seen_although_the_session_survives_it() {
    let line = Line::new("health").await;
    let session = session_of(&line.coordinator);
    assert!(line.coordinator.is_connected());
    line.go_down();
    let connected = async || line.coordinator.is_connected().then_some(());
    eventually(SOON, "the outage is seen", async || connected().await.is_none().then_some(()))
        .await;
    assert_eq!(session_of(&line.coordinator), session);
    line.come_back();
    eventually(SOON, "connected again", connected).await;
    line.coordinator.close().await.unwrap();
    assert!(!line.coordinator.is_connected());
}

#[tokio::test]
async fn a_short_outage_changes_nothing_and_a_long_one_brings_a_new_session() {
    let line = Line::short("outage").await;
    let mut states = line.coordinator.watch_state();
    let CoordinatorState::Connected { session, timeout } = states.get() else {
        panic!("{:?}", states.get())
    };
    assert_eq!(timeout, SHORT);
    let guard = line.lock.acquire().await.unwrap();
    line.proxy.cut();
    eventually(SOON, "held again", async || {
        (guard.state() == HoldState::Held && guard.verify().await.is_ok()).then_some(())
    })
    .await;
    assert_eq!(session_of(&line.coordinator), session);
    assert!(tokio::time::timeout(MILLIS(50), states.changed()).await.is_err(), "no change");

    line.go_down();
    assert_eq!(within(SOON, "it is over", states.changed()).await, CoordinatorState::Connecting);
    assert_eq!(line.coordinator.state(), CoordinatorState::Connecting);
    assert!(!guard.is_held());
    line.come_back();
    let CoordinatorState::Connected { session: next, .. } =
        within(SOON, "a new session", states.changed()).await
    else {
        panic!("{:?}", states.get())
    };
    assert_ne!(next, session);
    assert_eq!((next, states.get()), (session_of(&line.coordinator), line.coordinator.state()));
    // A watch that begins now has missed nothing.
    let mut late = line.coordinator.watch_state();
    assert!(tokio::time::timeout(MILLIS(50), late.changed()).await.is_err(), "no change yet");
    // No guard survives its session, and the next one is another.
    assert!(matches!(guard.release().await, Err(ReleaseError::AlreadyLost { .. })));
    line.lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
    line.coordinator.close().await.unwrap();
    assert_eq!(within(SOON, "closed", late.changed()).await, CoordinatorState::Closed);
    assert_eq!(within(SOON, "closed for ever", late.changed()).await, CoordinatorState::Closed);
}

#[tokio::test]
async fn close_returns_when_everything_is_deleted_and_everybody_told() {
    let line = Line::new("close").await;
    let guard = line.lock.acquire().await.unwrap();
    let waiting = [line.wait_in_queue(2).await, line.wait_in_queue(3).await];
    let elsewhere = Lock::new(&line.coordinator, format!("{}-other", line.scene.path)).unwrap();
    let other = elsewhere.acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    line.proxy.delay(MILLIS(20));
    within(SECONDS(2), "closed", line.coordinator.close()).await.unwrap();
    assert!(line.scene.children().await.is_empty(), "a node is left");
    assert!(line.scene.observer.children(elsewhere.path().as_str()).await.is_empty());

    assert!(!guard.is_held() && !other.is_held());
    assert_eq!(within(MILLIS(100), "told", lost).await.unwrap(), LossReason::SessionClosed);
    let path = &line.scene.path;
    for waiting in waiting {
        let error = within(SECONDS(1), "told", waiting).await.unwrap().unwrap_err();
        assert!(matches!(&error, AcquireError::Closed { path: at } if at == path), "{error:?}");
    }
    for error in [
        within(MILLIS(100), "told", line.lock.acquire()).await.unwrap_err(),
        within(MILLIS(100), "told", line.lock.try_acquire()).await.unwrap_err(),
        within(MILLIS(100), "told", line.lock.acquire_timeout(SOON)).await.unwrap_err(),
    ] {
        assert!(matches!(&error, AcquireError::Closed { path: at } if at == path), "{error:?}");
        assert!(error.to_string().contains("coordinator is closed"), "{error}");
    }
    let error = within(MILLIS(100), "told", line.lock.queue()).await.unwrap_err();
    assert!(matches!(error, ReadError::Closed { .. }), "{error:?}");
    let error = within(MILLIS(100), "told", guard.release()).await.unwrap_err();
    let ReleaseError::AlreadyLost { reason, .. } = error else { panic!("{error:?}") };
    assert_eq!(reason, LossReason::SessionClosed);
    assert!(other.fenced().check("/", -1).commit().await.is_err());
    assert_eq!(line.coordinator.state(), CoordinatorState::Closed);
    drop(other);
}

#[tokio::test]
async fn every_close_returns_when_the_first_has_done_its_work() {
    let line = Line::new("closes").await;
    let _guard = line.lock.acquire().await.unwrap();
    line.proxy.delay(MILLIS(100));
    let mut closing = JoinSet::new();
    for number in 0..3 {
        let (coordinator, scene) = (line.coordinator.clone(), line.scene.path.clone());
        let observer = line.scene.observer.clone();
        closing.spawn(async move {
            // One at the same time, one soon, one in the middle of it.
            tokio::time::sleep(MILLIS(20) * number).await;
            coordinator.close().await.unwrap();
            (number, observer.children(&scene).await.len())
        });
    }
    for (number, left) in within(SOON, "closed", closing.join_all()).await {
        assert_eq!(left, 0, "close {number} returned before the end");
    }
    within(MILLIS(100), "closed already", line.coordinator.close()).await.unwrap();
}

#[tokio::test]
async fn close_without_a_connection_says_what_is_left_and_goes_on() {
    let line = Line::new("cut").await;
    let guard = line.lock.acquire().await.unwrap();
    let node = format!("{}/{}", line.scene.path, guard.node());
    let _waiting = line.wait_in_queue(2).await;
    line.go_down();
    eventually(SOON, "seen", async || (guard.state() == HoldState::Suspect).then_some(())).await;
    let start = Instant::now();
    let error = line.coordinator.close_timeout(MILLIS(400)).await.unwrap_err();
    assert!((MILLIS(400)..MILLIS(700)).contains(&start.elapsed()), "{:?}", start.elapsed());
    let CloseError { waited, session_timeout, left, .. } = &error;
    assert_eq!((*waited, *session_timeout), (MILLIS(400), support::T));
    let nodes = line.scene.children().await;
    let nodes: Vec<_> = nodes.iter().map(|name| format!("{}/{name}", line.scene.path)).collect();
    assert_eq!(*left, nodes, "both nodes");
    assert!(left.contains(&node));
    assert!(error.to_string().contains("2 node(s)"), "{error}");
    // Another close has no better news.
    let again = line.coordinator.close_timeout(MILLIS(100)).await;
    assert!(again.is_err(), "nothing is confirmed yet: {again:?}");
    assert!(matches!(guard.release().await, Err(ReleaseError::AlreadyLost { .. })));
    // With the connection the session ends, long before its timeout.
    line.come_back();
    line.scene.observer.wait_for_count(&line.scene.path, 0, SECONDS(2)).await;
    within(SOON, "closed", line.coordinator.close()).await.unwrap();
}

#[tokio::test]
async fn close_while_there_is_no_session_is_quick() {
    let line = Line::short("between").await;
    let waiting = line.wait_in_queue(1).await;
    let guard = within(SOON, "granted", waiting).await.unwrap().unwrap();
    line.go_down();
    let mut states = line.coordinator.watch_state();
    assert_eq!(within(SOON, "over", states.changed()).await, CoordinatorState::Connecting);
    let lock = line.lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    stays(MILLIS(50), "it waits for a session", async || !waiting.is_finished()).await;
    within(SECONDS(1), "closed", line.coordinator.close()).await.unwrap();
    let error = within(SECONDS(1), "told", waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::Closed { .. }), "{error:?}");
    assert_eq!(line.coordinator.state(), CoordinatorState::Closed);
    drop(guard);
}

#[tokio::test]
async fn the_session_ends_with_the_last_handle_and_not_before() {
    let Line { scene, proxy, coordinator, lock } = Line::new("handles").await;
    let guard = lock.acquire().await.unwrap();
    let connections = async || scene.server.metric("zk_num_alive_connections").await;
    let with_us = connections().await;
    drop(coordinator);
    drop(lock);
    guard.verify().await.unwrap();
    assert!(guard.is_held());
    let start = Instant::now();
    drop(guard);
    scene.observer.wait_for_count(&scene.path, 0, SECONDS(1)).await;
    // Other tests open and close connections too: ours is told by the proxy.
    eventually(SECONDS(1), "the session is closed", async || {
        let closes = |frame: &integration::proxy::Frame| match &frame.kind {
            integration::proxy::Kind::Request(request) => request.opcode == OpCode::CloseSession,
            _ => false,
        };
        proxy.frames().iter().any(closes).then_some(())
    })
    .await;
    println!("gone {:?} after the last handle; {with_us} connections before", start.elapsed());
}

#[tokio::test]
async fn an_acquisition_that_waits_queues_again_in_the_next_session() {
    let line = Line::short("again").await;
    let holder = line.scene.coordinator().await;
    let held = Lock::new(&holder, line.scene.path.as_str()).unwrap().acquire().await.unwrap();
    let waiting = line.wait_in_queue(2).await;
    let (lock, limit) = (line.lock.clone(), SECONDS(4));
    let start = Instant::now();
    let hurried = tokio::spawn(async move { lock.acquire_timeout(limit).await });
    let before = line.scene.has(3).await;
    line.go_down();
    line.scene.has(1).await;
    line.come_back();
    let after = line.scene.has(3).await;
    assert_eq!(
        after.iter().filter(|name| before.contains(name)).count(),
        1,
        "{before:?} {after:?}"
    );
    // The deadline of an acquisition covers all its sessions.
    let error = within(SOON, "timed out", hurried).await.unwrap().unwrap_err();
    let AcquireError::TimedOut { phase, waited, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*phase, *waited), (Phase::Waiting, limit));
    assert!((limit..limit + MILLIS(400)).contains(&start.elapsed()), "{:?}", start.elapsed());
    line.scene.has(2).await;
    assert!(!waiting.is_finished());
    let token = held.token();
    held.release().await.unwrap();
    let guard = within(SOON, "granted", waiting).await.unwrap().unwrap();
    assert!(guard.token() > token && guard.is_held());
    assert_eq!(guard.session_id(), session_of(&line.coordinator));
    guard.release().await.unwrap();
}

/// Counts connections, and closes each at once.
async fn count_connections() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, count)
}

#[tokio::test]
async fn an_outage_is_no_storm_of_connections() {
    let scene = Scene::with_path("storm").await;
    let proxy = scene.proxy().await;
    let (address, count) = count_connections().await;
    // Every other try goes to the one that counts.
    let coordinator = connect_short(&format!("{address},{}", proxy.connect_string())).await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..10).map(|_| lock.clone()).collect();
    let waiting: JoinSet<_> = waiting
        .into_iter()
        .map(|lock| async move { lock.acquire().await.unwrap().release().await.unwrap() })
        .collect();
    scene.has(11).await;
    count.store(0, Ordering::Relaxed);
    proxy.refuse(true);
    proxy.cut();
    // Longer than the session lives: both the client's tries to come back and ours to begin anew.
    let start = Instant::now();
    tokio::time::sleep(SECONDS(5)).await;
    let tries = count.load(Ordering::Relaxed);
    println!("{tries} connections to one of two hosts in {:?}", start.elapsed());
    assert_eq!(coordinator.state(), CoordinatorState::Connecting);
    assert!((2..=40).contains(&tries), "{tries} connections in 5 s");
    proxy.refuse(false);
    within(SOON, "all are granted", waiting.join_all()).await;
    drop(guard);
    scene.has(0).await;
}

/// Acquires with two seconds; how long it took and how far it came.
async fn two_seconds(lock: &Lock) -> (Duration, AcquireError) {
    let start = Instant::now();
    let error = within(SOON, "timed out", lock.acquire_timeout(SECONDS(2))).await.unwrap_err();
    (start.elapsed(), error)
}

fn timed_out((elapsed, error): (Duration, AcquireError), expected: Phase, says: &str) {
    let AcquireError::TimedOut { phase, waited, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*phase, *waited), (expected, SECONDS(2)));
    assert!((MILLIS(1_700)..MILLIS(2_300)).contains(&elapsed), "{elapsed:?}");
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn a_deadline_is_kept_while_the_server_is_down_silent_or_the_lock_busy() {
    let server = Server::builder().unsafe_fast().start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    observer.mkdir("/locks/a").await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let coordinator = connect(&proxy.connect_string()).await;
    let lock = Lock::new(&coordinator, "/locks/a").unwrap();
    let other = Lock::new(&coordinator, "/locks/b").unwrap();

    let held = lock.acquire().await.unwrap();
    let outcome = two_seconds(&lock).await;
    let AcquireError::TimedOut { behind: Some(behind), .. } = &outcome.1 else {
        panic!("{:?}", outcome.1)
    };
    assert_eq!(behind.as_str(), held.node());
    timed_out(outcome, Phase::Waiting, held.node());
    observer.wait_for_count("/locks/a", 1, SOON).await;

    // Silent: what was sent may have been executed, and was not.
    proxy.blackhole(true);
    timed_out(two_seconds(&other).await, Phase::Enqueueing, "did not answer");
    proxy.heal();
    held.release().await.ok();
    observer.wait_for_count("/locks/a", 0, SOON).await;
    observer.wait_for_count("/locks/b", 0, SOON).await;

    let held = lock.acquire_timeout(SOON).await.unwrap();
    server.kill().await;
    eventually(SOON, "seen", async || (held.state() != HoldState::Held).then_some(())).await;
    timed_out(two_seconds(&other).await, Phase::Connecting, "no connection");
    server.restart().await;
    drop(held);
    for path in ["/locks/a", "/locks/b"] {
        observer.wait_for_count(path, 0, SOON).await;
        let lock = Lock::new(&coordinator, path).unwrap();
        lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_try_has_one_deadline_and_asks_again_where_there_is_no_answer() {
    let line = Line::short("try").await;
    let options = |timeout| AcquireOptions::new().timeout(timeout);
    line.proxy.blackhole(true);
    let start = Instant::now();
    // Longer than a request, and than the connection, is waited for.
    let limit = MILLIS(1_500);
    let error = line.lock.try_acquire_with(options(limit)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { waited, .. } if waited == limit), "{error:?}");
    assert!((limit..limit + MILLIS(1_000)).contains(&start.elapsed()), "{:?}", start.elapsed());
    // The session ends meanwhile.
    let lock = line.lock.clone();
    let attempt = tokio::spawn(async move { lock.try_acquire_with(options(SOON)).await });
    let mut states = line.coordinator.watch_state();
    assert_eq!(within(SOON, "over", states.changed()).await, CoordinatorState::Connecting);
    line.proxy.heal();
    let attempt = within(SOON, "answered", attempt).await.unwrap().unwrap();
    let Attempt::Acquired(guard) = attempt else { panic!("{attempt:?}") };
    assert_eq!(guard.session_id(), session_of(&line.coordinator));
    // What the look has used is not there for the rest: half the way is silent.
    guard.release().await.unwrap();
    line.proxy.on_request(|request| request.opcode == OpCode::Create2, 0..1, Action::Blackhole);
    line.proxy.delay(MILLIS(250));
    let start = Instant::now();
    let error = line.lock.try_acquire_with(options(SECONDS(1))).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    assert!((SECONDS(1)..MILLIS(1_200)).contains(&start.elapsed()), "{:?}", start.elapsed());
    line.proxy.delay(Duration::ZERO);
    line.proxy.heal();
    line.scene.has(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_outlive_a_session_and_are_granted_in_turn() {
    const WAITERS: usize = 50;
    let line = Line::short("fifty").await;
    let holder = line.scene.coordinator().await;
    let held = Lock::new(&holder, line.scene.path.as_str()).unwrap().acquire().await.unwrap();
    let recorder = Recorder::new();
    let mut waiting = JoinSet::new();
    for number in 0..WAITERS {
        let (lock, recorder) = (line.lock.clone(), recorder.clone());
        waiting.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            recorder.enter(number, guard.token().as_i64());
            tokio::time::sleep(MILLIS(1)).await;
            assert!(guard.is_held());
            recorder.leave(number);
            guard.release().await.unwrap();
        });
    }
    line.scene.has(WAITERS + 1).await;
    line.go_down();
    line.scene.has(1).await;
    line.proxy.clear_frames();
    line.come_back();
    let back = Instant::now();
    line.scene.has(WAITERS + 1).await;
    println!("all in the queue again {:?} after the outage", back.elapsed());
    assert!(recorder.history().grants().is_empty());
    held.release().await.unwrap();
    within(SOON, "all are granted", waiting.join_all()).await;
    recorder.assert_exclusive();
    assert!(recorder.tokens_increase());
    assert_eq!(recorder.history().grants().len(), WAITERS);
    // Each of them asked once, in one session.
    assert_eq!(line.proxy.requests_by(OpCode::Create2).len(), WAITERS);
    line.scene.has(0).await;
}
