//! The client's own task, watched from around it: the state of the connection, and its end.
//!
//! The client spawns one task for its session. It is spawned through [`connect`], which wraps it:
//!
//! * After every poll the state is looked at and published by a channel of ours. The client's
//!   `StateWatcher` is never awaited: waiters that are dropped while it notifies others corrupt its
//!   list (asyncs-sync 0.4.0, `WaiterList::pop_back`), and every contender waits with a `select!`.
//!   A change is published before any event of the connection that follows it can be received,
//!   because between the two the task waits for the network at least once.
//! * When the runtime shuts down, that task vanishes, and a watch of the client panics when it is
//!   polled after. So the end is marked first, and watches are polled through [`WhileAlive`].

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use zookeeper_client::{Client, SessionState, StateWatcher};

/// What the wrapper tells of the client's task.
#[derive(Debug)]
pub(crate) struct Alive {
    /// The task has ended. The lock is held for single polls only.
    gone: RwLock<bool>,
    vanished: Notify,
    client: OnceLock<StateWatcher>,
    state: watch::Sender<SessionState>,
}

impl Alive {
    fn new() -> Self {
        Self {
            gone: RwLock::new(false),
            vanished: Notify::new(),
            client: OnceLock::new(),
            state: watch::Sender::new(SessionState::SyncConnected),
        }
    }

    /// Publishes the client's state if it is another one than before.
    fn look(&self) {
        if let Some(client) = self.client.get() {
            let state = client.peek_state();
            self.state.send_if_modified(|known| std::mem::replace(known, state) != state);
        }
    }

    /// Resolves once the client's task has ended.
    pub(crate) async fn vanished(&self) {
        let mut notified = pin!(self.vanished.notified());
        notified.as_mut().enable();
        if !*self.gone.read().unwrap_or_else(PoisonError::into_inner) {
            notified.await;
        }
    }

    /// The state as it was published last.
    pub(crate) fn state(&self) -> SessionState {
        *self.state.borrow()
    }

    pub(crate) fn link(&self) -> Link {
        let mut state = self.state.subscribe();
        state.mark_unchanged();
        Link(state)
    }
}

/// A view of the connection that remembers what its owner has seen.
#[derive(Clone, Debug)]
pub(crate) struct Link(watch::Receiver<SessionState>);

impl Link {
    /// The state, seen from now on.
    pub(crate) fn state(&mut self) -> SessionState {
        *self.0.borrow_and_update()
    }

    /// The state after a change that was not seen. Two changes may be seen as one.
    pub(crate) async fn changed(&mut self) -> SessionState {
        match self.0.changed().await {
            Ok(()) => self.state(),
            // Nothing changes any more.
            Err(_) => std::future::pending().await,
        }
    }

    /// The state, if there was a change that was not seen.
    pub(crate) fn news(&mut self) -> Option<SessionState> {
        self.0.has_changed().unwrap_or(false).then(|| self.state())
    }
}

/// Runs `connect` so that the task it spawns is wrapped.
pub(crate) async fn connect<E>(
    connect: impl Future<Output = Result<Client, E>>,
) -> Result<(Client, Arc<Alive>), E> {
    let alive = Arc::new(Alive::new());
    let spawner = Spawner { runtime: Handle::current(), alive: Arc::clone(&alive) };
    let mut connect = pin!(connect);
    let connected = std::future::poll_fn(|cx| {
        let _scope = spawns_core::enter(&spawner);
        connect.as_mut().poll(cx)
    });
    let client = connected.await?;
    // Only one is ever set.
    let _ = alive.client.set(client.state_watcher());
    alive.look();
    Ok((client, alive))
}

struct Spawner {
    runtime: Handle,
    alive: Arc<Alive>,
}

impl spawns_core::Spawn for Spawner {
    fn spawn(&self, task: spawns_core::Task) {
        let alive = Arc::clone(&self.alive);
        self.runtime.spawn(Wrapped { task: Some(Box::into_pin(task.future)), alive });
    }
}

struct Wrapped {
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    alive: Arc<Alive>,
}

impl Future for Wrapped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.task.as_mut().map_or(Poll::Ready(()), |task| task.as_mut().poll(cx));
        self.alive.look();
        polled
    }
}

impl Drop for Wrapped {
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
