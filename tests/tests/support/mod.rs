//! What several of these files need.

// Each file uses a part of it, as a module of its own.
#![allow(dead_code, unreachable_pub, clippy::expect_used, clippy::panic)]

use std::panic;
use std::sync::Once;
use std::time::Duration;

use integration::server::unique_path;
use integration::{Observer, Proxy, Server};
use lock_recipes::{Coordinator, CoordinatorState};

pub const SECONDS: fn(u64) -> Duration = Duration::from_secs;
pub const MILLIS: fn(u64) -> Duration = Duration::from_millis;

/// Nothing that works takes longer, on a machine that is busy with other things.
pub const SOON: Duration = Duration::from_secs(20);

/// The session timeout that these tests ask for.
pub const T: Duration = Duration::from_secs(6);

/// The server that the tests of a file share, and a path that nobody else uses.
pub struct Scene {
    pub server: &'static Server,
    pub observer: Observer,
    pub path: String,
}

impl Scene {
    pub async fn new(name: &str) -> Self {
        start();
        let server = Server::shared().await;
        let observer = Observer::connect(&server.connect_string()).await;
        Self { server, observer, path: unique_path(name) }
    }

    /// The same with the path made.
    pub async fn with_path(name: &str) -> Self {
        let scene = Self::new(name).await;
        scene.observer.mkdir(&scene.path).await;
        scene
    }

    pub async fn coordinator(&self) -> Coordinator {
        connect(&self.server.connect_string()).await
    }

    pub async fn proxy(&self) -> Proxy {
        Proxy::start(&self.server.connect_string()).await
    }

    /// The children of the path.
    pub async fn children(&self) -> Vec<String> {
        self.observer.children(&self.path).await
    }

    /// Waits until the path has this many children.
    pub async fn has(&self, count: usize) -> Vec<String> {
        self.observer.wait_for_count(&self.path, count, SOON).await
    }
}

/// No file of tests takes longer; what hangs in spite of all bounds ends here.
const LONGEST: Duration = Duration::from_secs(400);

/// Prints the logs that are asked for, and ends the tests when a task of the library panics: nobody awaits
/// those tasks, so no test would notice.
pub fn start() {
    static ONCE: Once = Once::new();
    integration::init_logs();
    ONCE.call_once(|| {
        std::thread::spawn(|| {
            std::thread::sleep(LONGEST);
            std::process::abort();
        });
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            report(info);
            let file = info.location().map_or("", |location| location.file());
            if file.contains("lock-recipes/src") || file.contains("zookeeper-client") {
                std::process::abort();
            }
        }));
    });
}

/// A coordinator with a session of its own and the timeout [`T`].
pub async fn connect(cluster: &str) -> Coordinator {
    let builder = Coordinator::builder(cluster).session_timeout(T).connect_timeout(SOON);
    builder.connect().await.unwrap_or_else(|error| panic!("{cluster}: {error}"))
}

/// The id of the session.
pub fn session_of(coordinator: &Coordinator) -> i64 {
    match coordinator.state() {
        CoordinatorState::Connected { session, .. } => session,
        state => panic!("no session: {state:?}"),
    }
}
