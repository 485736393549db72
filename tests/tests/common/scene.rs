//! What the tests of faults share: a server, a proxy before it, an observer behind it, a path.

#![allow(dead_code, unreachable_pub, reason = "no test file uses everything")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use integration::proxy::Kind;
use integration::server::unique_path;
use integration::{Observer, Proxy, Server, init_logs};
use lock_recipes::{Builder, Coordinator, CoordinatorState, Lock, LockGuard, VerifyError};
use uuid::Uuid;

pub const SECOND: Duration = Duration::from_secs(1);

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// How long an unanswered request is waited for: short, so that its fate is looked up soon.
pub const REQUEST: Duration = millis(150);

/// A coordinator's settings: a session of 6 seconds, and requests that give up soon.
pub fn settings(cluster: &str) -> Builder {
    Coordinator::builder(cluster).session_timeout(seconds(6)).request_timeout(REQUEST)
}

pub async fn connect(cluster: &str) -> Coordinator {
    settings(cluster).connect().await.unwrap()
}

pub fn lock(coordinator: &Coordinator, path: &str) -> Lock {
    Lock::new(coordinator, path).unwrap()
}

/// The id of the session a coordinator has now; 0 if it has none.
pub fn session(coordinator: &Coordinator) -> i64 {
    match coordinator.state() {
        CoordinatorState::Connected { session, .. } => session,
        _ => 0,
    }
}

/// Panics in the code of the library and of the client, so far, in this process.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// From now on the library's panics are counted: the runtime swallows those of its tasks.
pub fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            // A test's own panic is reported by the test.
            if !place.starts_with("tests/") {
                PANICS.fetch_add(1, Ordering::Relaxed);
                // Not captured: no test may be there to show it.
                let _ = writeln!(std::io::stderr(), "{panic}");
            }
            report(panic);
        }));
    });
}

/// Nothing has panicked in the library since [`count_panics`].
#[track_caller]
pub fn assert_no_panics() {
    let panics = PANICS.load(Ordering::Relaxed);
    assert_eq!(panics, 0, "panics outside the tests");
}

/// A server shared by this binary's tests, a proxy of the test's own, and a path of its own, which
/// exists.
pub struct Scene {
    pub server: &'static Server,
    pub proxy: Proxy,
    pub observer: Observer,
    pub path: String,
}

impl Scene {
    pub async fn new() -> Self {
        Self::on(Server::shared().await).await
    }

    pub async fn on(server: &'static Server) -> Self {
        init_logs();
        count_panics();
        let proxy = Proxy::start(&server.connect_string()).await;
        let observer = Observer::connect(&server.connect_string()).await;
        let scene = Self { server, proxy, observer, path: unique_path("fault") };
        scene.observer.mkdir(&scene.path).await;
        scene
    }

    /// A coordinator on the far side of the proxy.
    pub async fn through_proxy(&self) -> Coordinator {
        connect(&self.proxy.connect_string()).await
    }

    /// A coordinator that no fault of the proxy reaches, and that has patience with a busy machine.
    pub async fn direct(&self) -> Coordinator {
        let builder = Coordinator::builder(&self.server.connect_string());
        builder.session_timeout(seconds(6)).connect().await.unwrap()
    }

    /// A contender that nobody's code stands behind: it stays until it is deleted.
    pub async fn stranger(&self) -> String {
        stranger(&self.observer, &self.path).await
    }

    /// Deletes a contender by hand.
    pub async fn delete(&self, node: &str) {
        assert!(self.observer.delete(&format!("{}/{node}", self.path)).await, "{node} was there");
    }

    pub async fn children(&self) -> Vec<String> {
        self.observer.children(&self.path).await
    }

    /// Exactly these nodes stand in the queue within a second.
    #[track_caller]
    pub fn only(&self, nodes: &[&str]) -> impl Future<Output = ()> {
        only(&self.observer, &self.path, nodes, SECOND)
    }

    /// Waits until every request that came to the proxy has its answer, and no other comes.
    pub async fn settled(&self) {
        settled(&self.proxy).await;
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_no_panics();
        }
    }
}

pub async fn stranger(observer: &Observer, path: &str) -> String {
    observer.create_ephemeral_like(path, &format!("_c_{}-lock-", Uuid::new_v4())).await
}

/// Waits until exactly these nodes stand in the queue.
#[track_caller]
pub fn only(
    observer: &Observer,
    path: &str,
    nodes: &[&str],
    limit: Duration,
) -> impl Future<Output = ()> {
    let mut wanted: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
    wanted.sort_unstable();
    let wait = observer.wait_until(path, move |children| children == wanted, limit);
    async move {
        wait.await;
    }
}

/// Asks until there is an answer; the hold must not be lost.
pub async fn verified(guard: &LockGuard) {
    loop {
        match guard.verify().await {
            Ok(()) => return,
            Err(VerifyError::Unconfirmed { .. }) => tokio::time::sleep(millis(5)).await,
            Err(error) => panic!("{error:?} {guard:?}"),
        }
    }
}

/// How many children were ever created here.
pub async fn creates(observer: &Observer, path: &str) -> i32 {
    let Some(stat) = observer.stat(path).await else { return 0 };
    // Every create and every delete counts one.
    (stat.cversion + stat.num_children) >> 1
}

/// Waits until everything that was asked on the latest connection has its answer, and nothing else
/// has been asked for longer than an unanswered request is waited for.
pub async fn settled(proxy: &Proxy) {
    settled_for(proxy, REQUEST + millis(50)).await;
}

/// The same with another span of silence.
pub async fn settled_for(proxy: &Proxy, quiet: Duration) {
    let mut last = (0, 0);
    let mut since = Instant::now();
    let deadline = since + seconds(5);
    while since.elapsed() < quiet {
        let frames = proxy.frames();
        let latest = frames.iter().map(|frame| frame.connection).max();
        let (mut all, mut open) = (0, 0_isize);
        for frame in &frames {
            let counts = match &frame.kind {
                Kind::Request(request) if request.is_users() => 1,
                Kind::Reply(reply) if reply.xid > 0 => -1,
                _ => continue,
            };
            all += 1;
            open += if Some(frame.connection) == latest { counts } else { 0 };
        }
        if open > 0 || (all, latest.unwrap_or_default()) != last {
            (last, since) = ((all, latest.unwrap_or_default()), Instant::now());
        }
        assert!(Instant::now() < deadline, "it does not settle: {:#?}", proxy.requests());
        tokio::time::sleep(millis(5)).await;
    }
}
