//! [`LockGuard`]: a hold on a lock, and what may be believed of it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::coordinator::Coordinator;
use crate::engine::acquisition::{Acquisition, Command};
use crate::error::{EnsureError, Lost, ReenterError, ReleaseError, VerifyError};
use crate::fenced::FencedWriter;
use crate::health::{HoldState, LossReason};
use crate::hold::Hold;
use crate::session::Trouble;
use crate::token::FencingToken;

/// A lock that is held, as far as this process can know.
///
/// It belongs to whoever has the value, not to a thread or a task: send it, store it, release it
/// elsewhere. Dropping it releases the lock soon, in the background; [`LockGuard::release`] says
/// how that went.
///
/// # What is promised
///
/// When another client could hold the lock, [`LockGuard::is_held`] is already `false`, under the
/// assumptions of `docs/not-guaranteed.md`. They can fail: clocks stop, machines are frozen, people
/// delete znodes. **A guard alone protects efficiency, not correctness.** For correctness the
/// protected resource must refuse a stale [`LockGuard::token`], or the write goes through
/// [`LockGuard::fenced`].
///
/// # Examples
///
/// ```no_run
/// # async fn import(token: lock_recipes::FencingToken) {}
/// # async fn example(lock: lock_recipes::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = lock.acquire().await?;
/// // `import` is dropped the moment the lock is lost, and passes the token to the database.
/// match guard.run(import(guard.token())).await {
///     Ok(()) => guard.release().await?,
///     Err(lost) => eprintln!("stopped: {lost}"),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases the lock"]
pub struct LockGuard {
    shared: Arc<Shared>,
}

/// Dropped with the last guard of a hold, which gives the hold up.
pub(crate) struct Shared {
    pub(crate) hold: Arc<Hold>,
    commands: mpsc::UnboundedSender<Command>,
    guards: AtomicU32,
    limit: u32,
    /// A guard keeps its coordinator open.
    _coordinator: Coordinator,
}

impl LockGuard {
    pub(crate) fn new(
        coordinator: &Coordinator,
        hold: Arc<Hold>,
        acquisition: Acquisition,
        limit: u32,
    ) -> Self {
        let shared = Shared {
            hold,
            commands: acquisition.commands,
            guards: AtomicU32::new(1),
            limit,
            _coordinator: coordinator.clone(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn hold(&self) -> &Hold {
        &self.shared.hold
    }

    /// The fencing token of this acquisition. Guards from [`LockGuard::reenter`] have the same.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.hold().token
    }

    /// The lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold().path.as_str()
    }

    /// The name of the contender's node below the lock's path.
    #[must_use]
    pub fn node(&self) -> &str {
        self.hold().node.as_str()
    }

    /// The id of the session that owns the node, as ZooKeeper counts it.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.hold().session_id
    }

    /// What is known of the hold now, without asking ZooKeeper.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold().state()
    }

    /// Whether the lock is presumed held at this moment, without asking ZooKeeper: no loss is known,
    /// and the presumed validity lies in the future.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold().is_held()
    }

    /// For how long the lock is presumed held if ZooKeeper falls silent now: until half a session
    /// timeout after the last probe that was answered. Zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// `Ok` if the lock is presumed held for at least `wanted` from now: ask before a step that
    /// takes that long and must not be overtaken.
    ///
    /// # Errors
    ///
    /// [`EnsureError`] if it is lost, or presumed valid for less.
    pub fn ensure(&self, wanted: Duration) -> Result<(), EnsureError> {
        self.hold().check()?;
        let remaining = self.remaining();
        if remaining < wanted {
            let path = self.path().to_owned();
            return Err(EnsureError::TooShort { path, wanted, remaining });
        }
        Ok(())
    }

    /// Resolves when the lock is lost, and at once if it was. By then [`LockGuard::is_held`] is
    /// `false`. It does not borrow the guard, needs no runtime, and resolves with
    /// [`LossReason::Released`] after a release.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + Sync + 'static + use<> {
        let hold = Arc::clone(&self.shared.hold);
        async move { wait_lost(hold.subscribe()).await }
    }

    /// Runs `work` until it ends or the lock is lost, whichever is first. Loss is looked at before
    /// every poll of `work`.
    ///
    /// # Errors
    ///
    /// [`Lost`]; `work` is dropped at whatever it was awaiting, so it must be cancel-safe.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and leaves the lock held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.hold().check()?;
        let (mut lost, mut work) = (pin!(self.lost()), pin!(work));
        std::future::poll_fn(|cx| {
            if let std::task::Poll::Ready(reason) = lost.as_mut().poll(cx) {
                return std::task::Poll::Ready(Err(self.hold().lost_for(reason)));
            }
            // The clock may have passed while nobody polled.
            self.hold().check()?;
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Asks ZooKeeper whether the node is still there and ours: a `sync` and a read. `Ok` says that
    /// the lock was held at some moment since the call, not that it is held now.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Lost`] if it is not, [`VerifyError::Unconfirmed`] if there was no answer.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    pub async fn verify(&self) -> Result<(), VerifyError> {
        self.hold().check()?;
        let hold = Arc::clone(&self.shared.hold);
        let closed = hold.lost_for(LossReason::SessionClosed);
        let Some(session) = hold.session() else { return Err(closed.into()) };
        let asking = Arc::clone(&session);
        let answer = session.run(async move {
            let path = hold.path.child(hold.node.as_str());
            let read = asking.ask(|| {
                let (sync, read) = (asking.client.sync("/"), asking.client.get_data(&path));
                async { sync.await.and(read.await) }
            });
            let reason = match read.await {
                Ok((_, stat)) if stat.ephemeral_owner != asking.id => LossReason::NodeReplaced,
                Ok((_, stat)) if stat.czxid != hold.token.as_i64() => LossReason::NodeReplaced,
                Ok(_) => return hold.check().map_err(VerifyError::from),
                Err(Trouble::Refused(zookeeper_client::Error::NoNode)) => LossReason::NodeDeleted,
                Err(trouble) => {
                    let (path, source) = (hold.path.to_string(), trouble.into_error());
                    return Err(VerifyError::Unconfirmed { path, source });
                }
            };
            hold.learn(HoldState::Lost(reason));
            Err(hold.lost_for(reason).into())
        });
        answer.await.unwrap_or_else(|| Err(closed.into()))
    }

    /// Starts a write to ZooKeeper that is applied only while this lock is held, checked by the
    /// server itself.
    pub fn fenced(&self) -> FencedWriter<'_> {
        FencedWriter::new(self.hold())
    }

    /// Enters the hold again: another guard of the same hold, with the same token. The node goes
    /// with the last of them.
    ///
    /// # Errors
    ///
    /// [`ReenterError`] if the lock is lost, or held as often as
    /// [`ReentrantLock::max_holds`](crate::ReentrantLock::max_holds) allows.
    pub fn reenter(&self) -> Result<Self, ReenterError> {
        self.shared.enter()
    }

    /// Releases the lock and waits for ZooKeeper's answer. Where the hold was entered more than
    /// once, all but the last release only count down.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`]: lost before (nothing is deleted), not confirmed (the deletion goes on in
    /// the background), or not authorized.
    ///
    /// # Cancel safety
    ///
    /// The release is under way from the first poll, and goes on if the future is dropped. Dropped
    /// before that, the guard releases in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let hold = Arc::clone(&self.shared.hold);
        let already_lost =
            |reason| ReleaseError::AlreadyLost { path: hold.path.to_string(), reason };
        if let Some(reason) = hold.state().loss() {
            return Err(already_lost(reason));
        }
        let shared = Arc::clone(&self.shared);
        drop(self);
        // Of guards that leave at the same moment, one is the last.
        let Some(shared) = Arc::into_inner(shared) else { return Ok(()) };
        let Shared { commands, _coordinator, .. } = shared;
        let (reply, answer) = oneshot::channel();
        let asked = commands.send(Command::Release(reply)).is_ok();
        // A command that is sent while its receiver is being dropped stays until the sender goes.
        drop(commands);
        let answer = if asked { answer.await.ok() } else { None };
        // Without an answer the task has ended: of a loss, or with its runtime.
        answer.unwrap_or_else(|| {
            Err(already_lost(hold.state().loss().unwrap_or(LossReason::SessionClosed)))
        })
    }
}

impl Shared {
    /// Another guard of the same hold.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<LockGuard, ReenterError> {
        self.hold.check()?;
        let more = |guards: u32| (guards < self.limit).then_some(guards + 1);
        if self.guards.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            let path = self.hold.path.to_string();
            return Err(ReenterError::TooManyHolds { path, limit: self.limit });
        }
        Ok(LockGuard { shared: Arc::clone(self) })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.shared.guards.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn wait_lost(mut state: watch::Receiver<HoldState>) -> LossReason {
    match state.wait_for(|state| state.loss().is_some()).await {
        Ok(state) => state.loss().unwrap_or(LossReason::SessionClosed),
        Err(_) => LossReason::SessionClosed,
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("path", &self.path())
            .field("node", &self.node())
            .field("token", &self.token())
            .field("state", &self.state())
            .finish()
    }
}
