//! Whether the client's own task still runs.
//!
//! The client spawns one task for its session and panics in a watch whose other end vanished with
//! it, which happens when the runtime shuts down. So that task is spawned through
//! [`connect_alive`], which marks its end, and watches are polled through [`WhileAlive`], which
//! looks at the mark first.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The mark. The lock is held for single polls only.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    gone: RwLock<bool>,
    vanished: Notify,
}

impl Alive {
    /// Resolves once the client's task was dropped before its end.
    pub(crate) async fn vanished(&self) {
        let mut notified = pin!(self.vanished.notified());
        notified.as_mut().enable();
        if !*self.gone.read().unwrap_or_else(PoisonError::into_inner) {
            notified.await;
        }
    }
}

/// Runs `connect` so that the task it spawns bears a mark.
pub(crate) async fn connect_alive<T>(connect: impl Future<Output = T>, alive: &Arc<Alive>) -> T {
    let spawner = Spawner { runtime: Handle::current(), alive: Arc::clone(alive) };
    let mut connect = pin!(connect);
    std::future::poll_fn(|cx| {
        let _scope = spawns_core::enter(&spawner);
        connect.as_mut().poll(cx)
    })
    .await
}

struct Spawner {
    runtime: Handle,
    alive: Arc<Alive>,
}

impl spawns_core::Spawn for Spawner {
    fn spawn(&self, task: spawns_core::Task) {
        let alive = Arc::clone(&self.alive);
        self.runtime.spawn(Marked { task: Some(Box::into_pin(task.future)), alive });
    }
}

struct Marked {
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    alive: Arc<Alive>,
}

impl Future for Marked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.task.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(cx))
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        *self.alive.gone.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.alive.vanished.notify_waiters();
        drop(self.task.take());
    }
}

/// A future of the client, not polled once the client's task has gone: `None` from then on.
pub(crate) struct WhileAlive<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    alive: Arc<Alive>,
}

impl<T> WhileAlive<T> {
    pub(crate) fn new(
        future: impl Future<Output = T> + Send + 'static,
        alive: &Arc<Alive>,
    ) -> Self {
        Self { future: Box::pin(future), alive: Arc::clone(alive) }
    }
}

impl<T> Future for WhileAlive<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let alive = Arc::clone(&self.alive);
        let gone = alive.gone.read().unwrap_or_else(PoisonError::into_inner);
        if *gone { Poll::Ready(None) } else { self.future.as_mut().poll(cx).map(Some) }
    }
}
