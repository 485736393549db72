//! Every future of the library is dropped at every poll, on a good connection and on bad ones: it
//! leaves no node, no watch, and nobody stuck behind it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use integration::proxy::{Action, Direction, Kind, OpCode, ReplyInfo};
use integration::server::unique_path;
use integration::{Observer, Proxy, Server, eventually, within};
use lock_recipes::{
    AcquireError, AcquireOptions, Contender, Coordinator, Lock, LockGuard, LockPath, Owner,
    ReentrantLock,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

#[path = "common/scene.rs"]
mod scene;

use scene::{
    SECOND, Scene, assert_no_panics, connect, count_panics, lock, millis, only, seconds, session,
    verified,
};

/// Who is not woken for so long waits for somebody else.
const PARKED: Duration = millis(60);

/// When a future is dropped.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// At this poll, counted from 1, where polls come as it asks for them.
    Poll(usize),
    /// At this poll, where it is polled whenever the other tasks have had their turn.
    Turn(usize),
    /// After this time.
    After(Duration),
}

const POLLS: Range<usize> = 1..9;
const TURNS: [usize; 12] = [2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 150, 400];

fn points() -> Vec<Point> {
    POLLS.map(Point::Poll).chain(TURNS.map(Point::Turn)).collect()
}

/// Across the answers of a connection that takes [`SLOW`] each way.
fn slow_points() -> Vec<Point> {
    let times = (0..8).map(|n| Point::After(SLOW / 2 + n * SLOW));
    POLLS.map(Point::Poll).chain(times).collect()
}

const SLOW: Duration = millis(8);

/// How a cancellation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancelled {
    AtThePoint,
    /// It waited for somebody else, and was dropped there.
    Parked,
    /// It was done before.
    Never,
}

async fn cancel(future: impl Future, point: Point) -> Cancelled {
    let (last, eager, limit) = match point {
        Point::Poll(last) => (last, false, PARKED),
        Point::Turn(last) => (last, true, PARKED),
        Point::After(limit) => (usize::MAX, false, limit),
    };
    let mut polls = 0;
    let mut future = pin!(future);
    let polled = timeout(
        limit,
        poll_fn(|cx| {
            polls += 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(Cancelled::Never),
                Poll::Pending if polls >= last => Poll::Ready(Cancelled::AtThePoint),
                Poll::Pending => {
                    if eager {
                        cx.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            }
        }),
    );
    match (polled.await, point) {
        (Ok(how), _) => how,
        (Err(_), Point::After(_)) => Cancelled::AtThePoint,
        (Err(_), _) => Cancelled::Parked,
    }
}

/// What the connection does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    Slow,
    /// This reply is dropped.
    ReplyLost(usize),
    /// The connection is cut in place of this reply.
    CutAtReply(usize),
    /// The connection is cut when the future is dropped.
    CutAtTheDrop,
}

impl Fault {
    fn begin(self, proxy: &Proxy) {
        match self {
            Self::Nothing | Self::CutAtTheDrop => {}
            Self::Slow => proxy.delay(SLOW),
            // Not that to a read that leaves a watch: a connection that lives loses none, and nobody
            // could know of the watch.
            Self::ReplyLost(n) => {
                let loses = |reply: &ReplyInfo| reply.opcode != OpCode::GetData;
                proxy.on_reply(loses, n..n + 1, Action::Drop);
            }
            Self::CutAtReply(n) => proxy.on_reply(|_| true, n..n + 1, Action::Cut),
        }
    }

    /// The future was dropped; from now on the connection is healthy.
    fn end(self, proxy: &Proxy) {
        if self == Self::CutAtTheDrop {
            proxy.cut();
        }
        proxy.clear_rules();
        proxy.delay(Duration::ZERO);
    }
}

/// What is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Acquire,
    TryAcquire,
    AcquireTimeout,
    Reentrant,
    Enqueue,
    Turn,
    Moved,
    Release,
    Verify,
    Fenced,
}

/// Who is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Nobody,
    /// A holder who stays.
    Holder,
    /// A holder who leaves as the future begins.
    Leaver,
}

const CASES: [(Verb, Ahead); 19] = [
    (Verb::Acquire, Ahead::Nobody),
    (Verb::Acquire, Ahead::Holder),
    (Verb::Acquire, Ahead::Leaver),
    (Verb::TryAcquire, Ahead::Nobody),
    (Verb::TryAcquire, Ahead::Holder),
    (Verb::TryAcquire, Ahead::Leaver),
    (Verb::AcquireTimeout, Ahead::Nobody),
    (Verb::AcquireTimeout, Ahead::Holder),
    (Verb::Reentrant, Ahead::Nobody),
    (Verb::Reentrant, Ahead::Holder),
    (Verb::Enqueue, Ahead::Nobody),
    (Verb::Enqueue, Ahead::Holder),
    (Verb::Turn, Ahead::Holder),
    (Verb::Turn, Ahead::Leaver),
    (Verb::Moved, Ahead::Holder),
    (Verb::Moved, Ahead::Leaver),
    (Verb::Release, Ahead::Nobody),
    (Verb::Verify, Ahead::Nobody),
    (Verb::Fenced, Ahead::Nobody),
];

/// The contender whose future is dropped.
struct Actor {
    coordinator: Coordinator,
    lock: Lock,
    path: LockPath,
    guard: Option<LockGuard>,
    contender: Option<Contender>,
}

impl Actor {
    async fn prepare(coordinator: &Coordinator, path: &str, verb: Verb) -> Self {
        let lock = lock(coordinator, path);
        let path = LockPath::new(path).unwrap();
        let mut actor =
            Self { coordinator: coordinator.clone(), lock, path, guard: None, contender: None };
        match verb {
            Verb::Release | Verb::Verify | Verb::Fenced => {
                actor.guard = Some(actor.lock.acquire().await.unwrap());
            }
            Verb::Turn | Verb::Moved => actor.contender = Some(actor.enqueue().await.unwrap()),
            _ => {}
        }
        actor
    }

    async fn enqueue(&self) -> Result<Contender, AcquireError> {
        Contender::enqueue(&self.coordinator, &self.path, AcquireOptions::new()).await
    }

    /// What is dropped. Whatever it results in is dropped at once, except what existed before.
    async fn act(&mut self, verb: Verb) {
        match verb {
            Verb::Acquire => drop(self.lock.acquire().await),
            Verb::TryAcquire => drop(self.lock.try_acquire().await),
            Verb::AcquireTimeout => drop(self.lock.acquire_timeout(seconds(9)).await),
            Verb::Reentrant => {
                let lock = ReentrantLock::new(&self.coordinator, self.path.as_str()).unwrap();
                let owner = Owner::new();
                if let Ok(outer) = lock.acquire(&owner).await {
                    drop(lock.acquire(&owner).await);
                    drop(outer);
                }
            }
            Verb::Enqueue => drop(self.enqueue().await),
            Verb::Turn => drop(self.contender.take().unwrap().turn().await),
            Verb::Moved => drop(self.contender.as_mut().unwrap().moved().await),
            Verb::Release => drop(self.guard.take().unwrap().release().await),
            Verb::Verify => drop(self.guard.as_ref().unwrap().verify().await),
            Verb::Fenced => {
                let write = self.guard.as_ref().unwrap().fenced();
                drop(write.set_data(self.path.as_str(), b"x", None).commit().await);
            }
        }
    }

    /// The node that it has by right.
    fn node(&self) -> Option<&str> {
        let contender = self.contender.as_ref().map(Contender::node);
        self.guard.as_ref().map(LockGuard::node).or(contender)
    }
}

/// The watches on the nodes below a path, as the server lists them.
async fn watches(server: &Server, path: &str) -> Vec<String> {
    let all = server.four_letter("wchp").await.unwrap();
    let below = format!("{path}/");
    let mut watches = Vec::new();
    let mut node = "";
    for line in all.lines() {
        match line.strip_prefix('\t') {
            Some(session) if node.starts_with(&below) => watches.push(format!("{node} {session}")),
            Some(_) => {}
            None => node = line,
        }
    }
    watches
}

/// One cancellation, and everything that must be true after it.
async fn run(
    scene: &Scene,
    actors: &Coordinator,
    others: &Coordinator,
    (verb, ahead): (Verb, Ahead),
    fault: Fault,
    point: Point,
) -> Cancelled {
    let path = unique_path("cancel");
    let what = format!("{verb:?} {ahead:?} {fault:?} {point:?}");
    scene.observer.mkdir(&path).await;
    let mut holder = None;
    if ahead != Ahead::Nobody {
        holder = Some(lock(others, &path).acquire().await.unwrap());
    }
    let mut actor = Actor::prepare(actors, &path, verb).await;
    fault.begin(&scene.proxy);
    if ahead == Ahead::Leaver {
        tokio::spawn(holder.take().unwrap().release());
    }
    let how = cancel(actor.act(verb), point).await;
    fault.end(&scene.proxy);
    // What it had before it keeps; a contender gives its place up with its turn only.
    if matches!(verb, Verb::Verify | Verb::Fenced | Verb::Moved) {
        let held: Vec<_> = holder.iter().map(LockGuard::node).chain(actor.node()).collect();
        only(&scene.observer, &path, &held, SECOND).await;
    } else {
        assert_eq!(actor.node(), None, "{what}");
    }
    if let Some(guard) = &actor.guard {
        within(SECOND, format!("{what}: verified"), verified(guard)).await;
    }
    drop(actor);
    let held: Vec<_> = holder.iter().map(LockGuard::node).collect();
    only(&scene.observer, &path, &held, SECOND).await;
    eventually(SECOND, format!("{what}: one watch for each guard"), async || {
        (watches(scene.server, &path).await.len() == held.len()).then_some(())
    })
    .await;
    // Nobody is stuck behind it.
    let next = lock(others, &path);
    let next =
        async { within(SECOND, format!("{what}: the next is granted"), next.acquire()).await };
    let leave = async {
        if let Some(holder) = holder {
            holder.release().await.unwrap();
        }
    };
    let (next, ()) = tokio::join!(next, leave);
    next.unwrap().release().await.unwrap();
    how
}

/// Every case with this fault, at every point up to that at which it is done or parked.
async fn drop_everything(fault: Fault, points: fn() -> Vec<Point>) {
    Server::shared().await;
    // So many at a time.
    let turns = Arc::new(Semaphore::new(5));
    let mut runs = JoinSet::new();
    for case in CASES {
        let turns = Arc::clone(&turns);
        runs.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            let scene = Scene::new().await;
            let (actors, others) = (scene.through_proxy().await, scene.direct().await);
            let (mut dropped, mut last) = (0, None);
            for point in points() {
                // Once it is done or parked, later points are the same.
                let kind = std::mem::discriminant(&point);
                if last == Some(kind) {
                    continue;
                }
                let how = run(&scene, &actors, &others, case, fault, point).await;
                dropped += usize::from(how != Cancelled::Never);
                if how != Cancelled::AtThePoint {
                    last = Some(kind);
                }
            }
            assert!(dropped >= 2, "{case:?} {fault:?}: dropped {dropped} times");
            actors.close().await.unwrap();
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

#[tokio::test]
async fn every_future_may_be_dropped_at_any_poll() {
    drop_everything(Fault::Nothing, points).await;
}

#[tokio::test]
async fn every_future_may_be_dropped_on_a_slow_connection() {
    drop_everything(Fault::Slow, slow_points).await;
}

#[tokio::test]
async fn every_future_may_be_dropped_when_its_first_reply_is_lost() {
    drop_everything(Fault::ReplyLost(0), points).await;
}

#[tokio::test]
async fn every_future_may_be_dropped_when_its_second_reply_is_lost() {
    drop_everything(Fault::ReplyLost(1), points).await;
}

#[tokio::test]
async fn every_future_may_be_dropped_when_a_cut_stands_for_a_reply() {
    drop_everything(Fault::CutAtReply(0), points).await;
    drop_everything(Fault::CutAtReply(1), points).await;
}

#[tokio::test]
async fn every_future_may_be_dropped_as_the_connection_is_cut() {
    drop_everything(Fault::CutAtTheDrop, points).await;
}

/// The sessions that the server knows.
async fn sessions(server: &Server) -> String {
    server.four_letter("dump").await.unwrap()
}

#[tokio::test]
async fn connecting_may_be_dropped_at_any_poll() {
    const T: Duration = seconds(2);
    let scene = Scene::new().await;
    let cluster = format!("{}{}", scene.proxy.connect_string(), scene.path);
    for fault in [
        Fault::Nothing,
        Fault::Slow,
        Fault::ReplyLost(0),
        Fault::CutAtReply(0),
        Fault::CutAtTheDrop,
    ] {
        for point in points().into_iter().chain(slow_points()) {
            fault.begin(&scene.proxy);
            let builder = scene::settings(&cluster).session_timeout(T);
            cancel(builder.connect(), point).await;
            fault.end(&scene.proxy);
        }
    }
    // A session whose grant nobody heard of ends with its timeout, any other at once.
    let granted = scene.proxy.frames().into_iter().filter_map(|frame| match frame.kind {
        Kind::Connect { session, .. } if frame.direction == Direction::ToClient => Some(session),
        _ => None,
    });
    // 0 says that a session is over.
    let granted = granted.filter(|session| *session != 0);
    let granted: Vec<_> = granted.map(|session| format!("0x{session:x}")).collect();
    assert!(granted.len() > 20, "{} sessions", granted.len());
    eventually(T + seconds(2), "all sessions are over", async || {
        let known = sessions(scene.server).await;
        (!granted.iter().any(|session| known.contains(session))).then_some(())
    })
    .await;
    scene.through_proxy().await.close().await.unwrap();
}

#[tokio::test]
async fn closing_may_be_dropped_at_any_poll_and_happens() {
    let scene = Scene::new().await;
    for fault in [Fault::Nothing, Fault::Slow, Fault::CutAtTheDrop] {
        for point in points().into_iter().chain(slow_points()) {
            let coordinator = scene.through_proxy().await;
            let id = format!("0x{:x}", session(&coordinator));
            let ours = lock(&coordinator, &scene.path);
            let guard = ours.acquire().await.unwrap();
            let waiter = tokio::spawn(async move { ours.acquire().await });
            scene.observer.wait_for_count(&scene.path, 2, SECOND).await;
            fault.begin(&scene.proxy);
            cancel(coordinator.close(), point).await;
            fault.end(&scene.proxy);
            let what = format!("{fault:?} {point:?}");
            scene.only(&[]).await;
            eventually(SECOND, format!("{what}: the session is over"), async || {
                (!sessions(scene.server).await.contains(&id)).then_some(())
            })
            .await;
            assert!(!guard.is_held(), "{what}");
            let told = within(SECOND, format!("{what}: the waiter is told"), waiter).await;
            assert!(matches!(told.unwrap(), Err(AcquireError::Closed { .. })), "{what}");
        }
    }
}

#[tokio::test]
async fn two_hundred_timeouts_leave_nothing() {
    count_panics();
    let server = Server::start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let (holder, other) =
        (connect(&server.connect_string()).await, connect(&server.connect_string()).await);
    let guard = lock(&holder, "/a").acquire().await.unwrap();
    eventually(SECOND, "the guard's watch", async || {
        (server.watch_count().await == 1).then_some(())
    })
    .await;
    let ours = lock(&other, "/a");
    for _ in 0..10 {
        let mut calls = JoinSet::new();
        for n in 0..20 {
            let ours = ours.clone();
            // From before the create to well behind the others.
            calls.spawn(async move { ours.acquire_timeout(millis(3 * n)).await });
        }
        while let Some(call) = calls.join_next().await {
            let timed_out = call.unwrap();
            assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })), "{timed_out:?}");
        }
    }
    only(&observer, "/a", &[guard.node()], SECOND).await;
    assert_eq!(ours.queue().await.unwrap().contenders.len(), 1);
    assert!(observer.ephemerals_of("/a", session(&other)).await.is_empty());
    eventually(SECOND, "no watch but the guard's", async || {
        (server.watch_count().await == 1).then_some(())
    })
    .await;
    let next = tokio::spawn(async move { ours.acquire().await });
    observer.wait_for_count("/a", 2, SECOND).await;
    guard.release().await.unwrap();
    drop(within(SECOND, "the next is granted", next).await.unwrap().unwrap());
    assert_no_panics();
}

/// A guard, from a runtime of its own that goes on meanwhile.
struct Service {
    runtime: Option<Runtime>,
    coordinator: Coordinator,
    path: String,
}

impl Service {
    fn start(server: &'static Server) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let coordinator = runtime.block_on(connect(&server.connect_string()));
        Self { runtime: Some(runtime), coordinator, path: unique_path("drop") }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap()
    }

    fn guard(&self) -> LockGuard {
        self.runtime().block_on(lock(&self.coordinator, &self.path).acquire()).unwrap()
    }

    /// The guard is dropped, and the node deleted.
    fn released(&self, server: &'static Server) {
        self.runtime().block_on(async {
            let observer = Observer::connect(&server.connect_string()).await;
            only(&observer, &self.path, &[], SECOND).await;
        });
    }
}

/// Drops what it holds when its thread ends.
struct AtThreadEnd(RefCell<Option<LockGuard>>);

thread_local! {
    static KEPT: AtThreadEnd = const { AtThreadEnd(RefCell::new(None)) };
}

static HELD: Mutex<Vec<LockGuard>> = Mutex::new(Vec::new());

#[test]
fn a_guard_may_be_dropped_anywhere() {
    count_panics();
    let outer = Builder::new_current_thread().enable_all().build().unwrap();
    let server = outer.block_on(Server::shared());
    let mut service = Service::start(server);

    let guard = service.guard();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    service.released(server);

    let guard = service.guard();
    let unwound = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("a panic of the user's");
    }));
    assert!(unwound.is_err());
    service.released(server);

    let guard = service.guard();
    std::thread::spawn(move || KEPT.with(|kept| kept.0.replace(Some(guard)))).join().unwrap();
    service.released(server);

    // By the end of a task, and by that of the set it belongs to.
    let local = LocalSet::new();
    let (first, second) = (service.guard(), {
        let elsewhere = format!("{}-2", service.path);
        service.runtime().block_on(lock(&service.coordinator, &elsewhere).acquire()).unwrap()
    });
    local.spawn_local(async move { drop(first) });
    local.spawn_local(async move {
        let _guard = second;
        std::future::pending::<()>().await;
    });
    local.block_on(&outer, async { tokio::task::yield_now().await });
    drop(local);
    service.released(server);
    let elsewhere = Service { path: format!("{}-2", service.path), ..Service::start(server) };
    elsewhere.released(server);

    // By the end of another runtime, whose task has it.
    let guard = service.guard();
    let inner = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    inner.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    drop(inner);
    service.released(server);

    // By a static, after the end of its own runtime; one of them never.
    let (guard, task) = (service.guard(), service.coordinator.clone());
    let path = format!("{}-3", service.path);
    service.runtime().spawn(async move {
        let _guard = lock(&task, &path).acquire().await;
        std::future::pending::<()>().await;
    });
    HELD.lock().unwrap().push(guard);
    drop(service.runtime.take());
    let guard = HELD.lock().unwrap().pop().unwrap();
    assert!(!guard.is_held());
    std::thread::spawn(move || drop(guard)).join().unwrap();
    HELD.lock().unwrap().push(elsewhere.guard());
    drop(elsewhere);
    assert_no_panics();
}
