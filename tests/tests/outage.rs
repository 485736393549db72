//! An outage under fifty callers that go on trying: nothing piles up for the time after it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use integration::{Observer, Proxy, Recorder, Server, within};
use lock_recipes::{AcquireError, Coordinator, Lock, Phase};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[path = "common/scene.rs"]
mod scene;

use scene::{
    SECOND, assert_no_panics, count_panics, creates, lock, millis, only, seconds, session,
};

const CALLERS: usize = 50;
const TIMEOUT: Duration = millis(200);
/// How much later than its timeout a call may return, on a busy machine.
const GRACE: Duration = millis(800);

const PATH: &str = "/locks/a";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Connections are closed, and new ones too.
    Refused,
    /// Whatever is sent is swallowed, and held.
    Blackhole,
    /// The server process stands still.
    Frozen,
}

impl Fault {
    fn begin(self, server: &Server, proxy: &Proxy) {
        match self {
            Self::Refused => {
                proxy.refuse(true);
                proxy.cut();
            }
            Self::Blackhole => proxy.blackhole(true),
            Self::Frozen => server.freeze(),
        }
    }

    fn end(self, server: &Server, proxy: &Proxy) {
        match self {
            Self::Refused => proxy.refuse(false),
            Self::Blackhole => proxy.heal(),
            Self::Frozen => server.thaw(),
        }
    }
}

/// What the callers share.
#[derive(Default)]
struct Callers {
    /// No call succeeds while it is set.
    out: AtomicBool,
    calls: AtomicUsize,
    recorder: Recorder,
}

impl Callers {
    /// Calls while `go`; returns when its last call has.
    async fn call(self: Arc<Self>, name: usize, lock: Lock, go: watch::Receiver<bool>) {
        while *go.borrow() {
            let out = self.out.load(Ordering::SeqCst);
            let start = Instant::now();
            let acquired = lock.acquire_timeout(TIMEOUT).await;
            let (took, late) = (start.elapsed(), self.out.load(Ordering::SeqCst));
            assert!(took < TIMEOUT + GRACE, "{took:?}: {acquired:?}");
            self.calls.fetch_add(1, Ordering::Relaxed);
            match acquired {
                Ok(guard) => {
                    assert!(!(out && late), "granted in the outage: {guard:?}");
                    self.recorder.enter(name, guard.token().as_i64());
                    self.recorder.leave(name);
                    // It may be unconfirmed, at the edges of the outage.
                    let _ = guard.release().await;
                }
                Err(AcquireError::TimedOut { phase, behind, waited, .. }) => {
                    assert!(took >= TIMEOUT, "{took:?}");
                    assert_eq!(waited, TIMEOUT);
                    let known = matches!(phase, Phase::Connecting | Phase::Enqueueing);
                    assert!(known || !(out && late), "{phase:?} in the outage");
                    assert!(!known || behind.is_none(), "{phase:?} {behind:?}");
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

/// How many creates of contenders came to the proxy since its record was emptied.
fn creates_sent(proxy: &Proxy) -> usize {
    let requests = proxy.requests().into_iter();
    let contenders = requests.filter(|request| {
        request.opcode.is_create()
            && request.path.as_ref().is_some_and(|path| path.starts_with(PATH))
    });
    contenders.count()
}

async fn outage(fault: Fault, timeout: Duration, length: Duration) {
    count_panics();
    let server = Server::builder().max_session_timeout(seconds(60)).start().await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let observer = Observer::connect(&server.connect_string()).await;
    observer.mkdir(PATH).await;
    let builder = Coordinator::builder(&proxy.connect_string()).session_timeout(timeout);
    let coordinator = builder.connect().await.unwrap();
    let first_session = session(&coordinator);
    let ours = lock(&coordinator, PATH);
    ours.acquire().await.unwrap().release().await.unwrap();
    let before = creates(&observer, PATH).await;

    let callers = Arc::new(Callers::default());
    proxy.clear_frames();
    fault.begin(&server, &proxy);
    callers.out.store(true, Ordering::SeqCst);
    // They begin while the client still thinks to be connected.
    let (go, going) = watch::channel(true);
    let mut tasks = JoinSet::new();
    for name in 0..CALLERS {
        tasks.spawn(Arc::clone(&callers).call(name, ours.clone(), going.clone()));
    }
    tokio::time::sleep(length).await;
    // From here on everybody makes the call it is in, and no other.
    go.send_replace(false);
    callers.out.store(false, Ordering::SeqCst);
    let sent_before = creates_sent(&proxy);
    fault.end(&server, &proxy);
    while let Some(caller) = within(SECOND, "all calls return", tasks.join_next()).await {
        caller.unwrap();
    }
    let calls = callers.calls.load(Ordering::Relaxed);
    let least = CALLERS * usize::try_from(length.as_millis() / 500).unwrap();
    assert!(calls >= least, "{calls} calls in {length:?}");
    callers.recorder.assert_exclusive();

    let elsewhere = lock(&coordinator, "/locks/b");
    let healthy = within(2 * timeout + seconds(5), "acquired again", elsewhere.acquire()).await;
    healthy.unwrap().release().await.unwrap();
    only(&observer, PATH, &[], SECOND).await;
    let survived = session(&coordinator) == first_session;
    // Where connections are refused the client backs off, and may come back too late.
    if fault != Fault::Refused && length < timeout * 3 / 4 {
        assert!(survived, "the session is another after {length:?}");
    }
    let executed = usize::try_from(creates(&observer, PATH).await - before).unwrap();
    let sent_after = creates_sent(&proxy) - sent_before;
    println!(
        "{fault:?} {length:?}: {calls} calls, {sent_before} + {sent_after} creates sent, {executed} \
         executed, the session survived: {survived}",
    );
    // What was sent before the outage was noticed, and nothing after that,
    assert!(sent_before <= CALLERS, "{sent_before} creates wait for the end of the outage");
    // and then the calls that are still there. Before them, where the session survives, what the
    // client was handed in the moment before it noticed the cut, and kept: one create for each caller
    // at the most, because no other is handed over before those are settled.
    let kept = if survived { CALLERS } else { 0 };
    assert!(sent_after <= kept + CALLERS, "{sent_after} creates after the outage");
    assert!(executed <= sent_before + sent_after);
    // And it goes on as before.
    let again = within(SECOND, "acquired again", ours.acquire()).await.unwrap();
    again.release().await.unwrap();
    only(&observer, PATH, &[], SECOND).await;
    coordinator.close().await.unwrap();
    assert_no_panics();
}

/// One outage that the session survives, and one that it does not.
async fn outages(fault: Fault) {
    let timeout = seconds(3);
    let outage = |length| Box::pin(outage(fault, timeout, length));
    tokio::join!(outage(millis(1_700)), outage(seconds(5)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_refused_connections_leaves_nothing_behind() {
    outages(Fault::Refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_outage_leaves_nothing_behind() {
    outages(Fault::Blackhole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_a_frozen_server_leaves_nothing_behind() {
    outages(Fault::Frozen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "three outages of 20 s; make campaigns"]
async fn outages_of_twenty_seconds_leave_nothing_behind() {
    let twenty = |fault| Box::pin(outage(fault, seconds(6), seconds(20)));
    tokio::join!(twenty(Fault::Refused), twenty(Fault::Blackhole), twenty(Fault::Frozen));
}
