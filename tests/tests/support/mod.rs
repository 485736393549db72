//! What several of these files need.

// Each file uses a part of it.
#![allow(dead_code, clippy::expect_used, clippy::panic)]

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
        integration::init_logs();
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
