//! The runtime that connected ends, and with it the session. Guards and futures live on elsewhere:
//! they say so, at once, and nothing panics.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use integration::server::unique_path;
use integration::{Observer, Server, eventually, within};
use lock_recipes::{
    AcquireError, AcquireOptions, Attempt, Contender, Coordinator, CoordinatorState,
    FencedWriteError, HoldState, Lock, LockGuard, LockPath, LossReason, ReadError, ReenterError,
    ReleaseError, VerifyError,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

#[path = "common/scene.rs"]
mod scene;

use scene::{SECOND, assert_no_panics, count_panics, lock, millis, only, seconds};

/// The session timeout: so long the nodes of a runtime that ended stay.
const T: Duration = seconds(2);

#[derive(Clone, Copy, Debug)]
enum Flavor {
    MultiThread,
    CurrentThread,
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// Waits for what its threads are doing at the moment.
    Drop,
    /// Does not.
    Background,
}

const ENDS: [(Flavor, End); 4] = [
    (Flavor::MultiThread, End::Drop),
    (Flavor::MultiThread, End::Background),
    (Flavor::CurrentThread, End::Drop),
    (Flavor::CurrentThread, End::Background),
];

impl Flavor {
    fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::MultiThread => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(4);
                builder
            }
            Self::CurrentThread => Builder::new_current_thread(),
        };
        builder.enable_all().build().unwrap()
    }
}

/// A runtime on a thread of its own.
struct Service {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Service {
    /// Runs `setup` there and returns what it made; the runtime goes on.
    fn start<T: Send + 'static>(
        flavor: Flavor,
        end: End,
        setup: impl Future<Output = T> + Send + 'static,
    ) -> (T, Self) {
        let (made, made_there) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = flavor.runtime();
            runtime.block_on(async move {
                made.send(setup.await).unwrap();
                let _ = stopped.await;
            });
            match end {
                End::Drop => drop(runtime),
                End::Background => runtime.shutdown_background(),
            }
        });
        (made_there.recv().unwrap(), Self { stop, thread })
    }

    fn end(self) {
        let _ = self.stop.send(());
        self.thread.join().unwrap();
    }
}

async fn connect(cluster: String) -> Coordinator {
    scene::settings(&cluster).session_timeout(T).connect().await.unwrap()
}

fn is_closed(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Closed { .. })
}

/// What a future says at its first poll, outside of any runtime.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let polled = std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(value) = polled else { panic!("it waits") };
    value
}

/// Every verb of a guard whose runtime has ended. On a thread without a runtime.
fn lost_at_once(guard: LockGuard) {
    assert!(!guard.is_held());
    assert_eq!(guard.state(), HoldState::Lost(LossReason::SessionClosed));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(at_once(guard.lost()), LossReason::SessionClosed);
    assert!(guard.ensure(Duration::ZERO).is_err());
    assert!(at_once(guard.run(std::future::pending::<()>())).is_err());
    let verified = at_once(guard.verify());
    assert!(matches!(verified, Err(VerifyError::Lost(_))), "{verified:?}");
    let written = at_once(guard.fenced().delete("/nothing", None).commit());
    assert!(matches!(written, Err(FencedWriteError::Lost(_))), "{written:?}");
    let again = guard.reenter();
    assert!(matches!(again, Err(ReenterError::Lost(_))), "{again:?}");
    let released = at_once(guard.release());
    let reason = LossReason::SessionClosed;
    assert!(
        matches!(released, Err(ReleaseError::AlreadyLost { reason: told, .. }) if told == reason),
        "{released:?}"
    );
}

/// Every verb of a coordinator whose runtime has ended.
async fn closed_at_once(coordinator: &Coordinator, lock: &Lock) {
    // A runtime that is shut down in the background drops one task after the other.
    eventually(SECOND, "it is closed", async || {
        (coordinator.state() == CoordinatorState::Closed).then_some(())
    })
    .await;
    let mut state = coordinator.watch_state();
    assert_eq!(state.get(), CoordinatorState::Closed);
    assert_eq!(state.changed().await, CoordinatorState::Closed);
    let error = lock.acquire().await.unwrap_err();
    assert!(is_closed(&error), "{error:?}");
    let error = lock.acquire_timeout(seconds(60)).await.unwrap_err();
    assert!(is_closed(&error), "{error:?}");
    match lock.try_acquire().await {
        Err(error) => assert!(is_closed(&error), "{error:?}"),
        Ok(Attempt::Acquired(_) | Attempt::Busy(_)) => panic!("without a session"),
    }
    let path: &LockPath = lock.path();
    let enqueued = Contender::enqueue(coordinator, path, AcquireOptions::new()).await;
    assert!(is_closed(&enqueued.map(|_| ()).unwrap_err()));
    let queue = lock.queue().await;
    assert!(matches!(queue, Err(ReadError::Closed { .. })), "{queue:?}");
    coordinator.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_and_futures_outlive_their_runtime_and_say_so() {
    count_panics();
    let server = Server::shared().await;
    let observer = Observer::connect(&server.connect_string()).await;
    for (flavor, end) in ENDS {
        let path = unique_path("runtime");
        let theirs = path.clone();
        let ((coordinator, guard, entered), service) = Service::start(flavor, end, async move {
            let coordinator = connect(server.connect_string()).await;
            let guard = lock(&coordinator, &theirs).acquire().await.unwrap();
            let entered = guard.reenter().unwrap();
            (coordinator, guard, entered)
        });
        // Futures of this runtime, and of a thread's.
        let ours = lock(&coordinator, &path);
        let waiting = tokio::spawn({
            let ours = ours.clone();
            async move { ours.acquire().await }
        });
        observer.wait_for_count(&path, 2, SECOND).await;
        let contender =
            Contender::enqueue(&coordinator, ours.path(), AcquireOptions::new()).await.unwrap();
        let turn = std::thread::spawn(move || {
            Flavor::CurrentThread.runtime().block_on(within(seconds(20), "told", contender.turn()))
        });
        let lost = tokio::spawn(guard.lost());
        assert!(guard.is_held());
        guard.verify().await.unwrap();

        service.end();
        let reason = within(SECOND, "the loss is told", lost).await.unwrap();
        assert_eq!(reason, LossReason::SessionClosed);
        let error = within(SECOND, "the waiter is told", waiting).await.unwrap().unwrap_err();
        assert!(is_closed(&error), "{error:?}");
        let error = turn.join().unwrap().unwrap_err();
        assert!(is_closed(&error), "{error:?}");
        within(2 * SECOND, "at once", closed_at_once(&coordinator, &ours)).await;
        // The last one is dropped, not released.
        std::thread::spawn(move || {
            lost_at_once(guard);
            drop(entered);
            drop(coordinator);
        })
        .join()
        .unwrap();
        only(&observer, &path, &[], 2 * T).await;
        assert_no_panics();
    }
}

#[test]
fn callers_need_no_drivers_and_no_runtime_that_connects() {
    count_panics();
    let outer = Flavor::MultiThread.runtime();
    let server = outer.block_on(Server::shared());
    let path = unique_path("drivers");
    let coordinator = outer.block_on(connect(server.connect_string()));
    let ours = lock(&coordinator, &path);
    // Neither I/O nor time.
    let bare = Builder::new_current_thread().build().unwrap();
    let guard = bare.block_on(async {
        let guard = ours.acquire_timeout(seconds(5)).await.unwrap();
        guard.verify().await.unwrap();
        let timed_out = ours.acquire_timeout(millis(50)).await;
        assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })), "{timed_out:?}");
        assert!(matches!(ours.try_acquire().await, Ok(Attempt::Busy(_))));
        guard
    });
    drop(bare);
    std::thread::spawn(move || drop(guard)).join().unwrap();
    outer.block_on(async {
        let again = within(SECOND, "it was released", ours.acquire()).await.unwrap();
        again.release().await.unwrap();
        coordinator.close().await.unwrap();
    });
    assert_no_panics();
}

/// One runtime ends while its contenders wait on watches and its acquisitions are under way.
fn shut_down(server: &'static Server, outer: &Runtime, round: u64, (flavor, end): (Flavor, End)) {
    const LOCKS: usize = 3;
    let (made, service) = Service::start(flavor, end, async move {
        let coordinator = connect(server.connect_string()).await;
        let mut guards = Vec::new();
        let mut locks = Vec::new();
        for _ in 0..LOCKS {
            let lock = lock(&coordinator, &unique_path("race"));
            guards.push(lock.acquire().await.unwrap());
            locks.push(lock);
        }
        (guards, locks)
    });
    let (guards, locks) = made;
    let (queued, queue) = mpsc::channel();
    let waiting: Vec<_> = locks
        .iter()
        .cycle()
        .take(4 * LOCKS)
        .map(|lock| {
            let (lock, queued) = (lock.clone(), queued.clone());
            outer.spawn(async move {
                let read = lock.queue().await;
                queued.send(read.is_ok()).unwrap();
                lock.acquire().await
            })
        })
        .collect();
    let free = locks[0].clone();
    for _ in 0..4 * LOCKS {
        queue.recv().unwrap();
    }
    // From the creates on their way to everybody parked.
    std::thread::sleep(Duration::from_micros(round * 97 % 7_000));
    let leaving = outer.spawn(async move {
        let mut guards = guards.into_iter();
        // One hold is released while the runtime ends, and one dropped.
        let released = guards.next().unwrap().release().await;
        drop(guards.next());
        (released, guards.next().unwrap())
    });
    service.end();
    outer.block_on(async {
        let (_, guard) = within(seconds(5), "the release returns", leaving).await.unwrap();
        within(seconds(5), "the loss is told", guard.lost()).await;
        assert!(!guard.is_held());
        for waiter in waiting {
            match within(seconds(5), "the waiter is told", waiter).await.unwrap() {
                Ok(guard) => assert!(!guard.is_held()),
                Err(error) => assert!(is_closed(&error), "{error:?}"),
            }
        }
        let error = free.acquire().await.unwrap_err();
        assert!(is_closed(&error), "{error:?}");
    });
    assert_no_panics();
}

#[test]
fn no_watch_panics_when_its_runtime_ends() {
    count_panics();
    let outer = Flavor::MultiThread.runtime();
    let server = outer.block_on(Server::shared());
    for round in 0..240 {
        let kind = ENDS[usize::try_from(round).unwrap() % ENDS.len()];
        shut_down(server, &outer, round, kind);
    }
}
