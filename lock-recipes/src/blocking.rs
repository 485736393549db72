//! The same for callers without a runtime.
//!
//! A [`Coordinator`] of this module runs its session on a thread of its own, so that the caller's
//! threads may block, compute or hold locks as they like. Everything else is the asynchronous
//! crate: a [`LockGuard`] derefs to [`crate::LockGuard`], and [`wait`] blocks on any future of it.
//!
//! # Examples
//!
//! ```no_run
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_recipes::blocking::{Coordinator, Lock, wait};
//!
//! let coordinator = Coordinator::connect("zk1:2181")?;
//! let lock = Lock::new(&coordinator, "/locks/report")?;
//! let guard = lock.acquire()?;
//! wait(guard.fenced().set_data("/report/last", guard.token().to_string(), None).commit())?;
//! guard.release()?;
//! coordinator.close()?;
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::builder::Builder;
use crate::coordinator::CoordinatorState;
use crate::error::{AcquireError, CloseError, ConnectError, ReadError, ReenterError, ReleaseError};
use crate::lock::Busy;
use crate::options::AcquireOptions;
use crate::path::{InvalidPath, LockPath};
use crate::reentrant::Owner;
use crate::snapshot::QueueSnapshot;

/// Blocks the thread until a future of this crate is done. It needs no runtime, and on a thread of
/// one it blocks that thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    pollster::block_on(future)
}

/// A [`crate::Coordinator`] on a thread of its own.
#[derive(Clone, Debug)]
pub struct Coordinator {
    inner: crate::Coordinator,
    background: Arc<Background>,
}

/// Ends the thread with the last use of it.
#[derive(Debug)]
struct Background {
    _stop: oneshot::Sender<()>,
}

impl Coordinator {
    /// Connects with the defaults.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    pub fn connect(cluster: &str) -> Result<Self, ConnectError> {
        Self::open(crate::Coordinator::builder(cluster))
    }

    /// Connects with the settings of a builder.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; [`ConnectError::NoRuntime`] if the thread cannot be started.
    pub fn open(builder: Builder) -> Result<Self, ConnectError> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (sender, connected) = mpsc::sync_channel(1);
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                let coordinator = builder.connect().await;
                let serving = coordinator.as_ref().ok().cloned();
                // The caller may have gone meanwhile: then nobody keeps the thread.
                let _ = sender.send(coordinator);
                if let Some(coordinator) = serving {
                    let _ = stopped.await;
                    if let Err(error) = coordinator.close().await {
                        tracing::warn!(%error, "the session was not closed in time");
                    }
                }
            });
        };
        std::thread::Builder::new()
            .name("lock-recipes".to_owned())
            .spawn(serve)
            .map_err(|_| ConnectError::NoRuntime)?;
        let inner = connected.recv().map_err(|_| ConnectError::NoRuntime)??;
        Ok(Self { inner, background: Arc::new(Background { _stop: stop }) })
    }

    /// The state as it is now.
    #[must_use]
    pub fn state(&self) -> CoordinatorState {
        self.inner.state()
    }

    /// Ends the session, and waits until ZooKeeper confirms it. Dropping the last handle does the
    /// same in the background, unless the process ends first.
    ///
    /// # Errors
    ///
    /// [`CloseError`] if there is no confirmation within 5 seconds.
    pub fn close(&self) -> Result<(), CloseError> {
        wait(self.inner.close())
    }
}

/// A [`crate::Lock`] whose verbs block.
#[derive(Clone, Debug)]
pub struct Lock {
    inner: crate::Lock,
    background: Arc<Background>,
}

/// What [`Lock::try_acquire`] found.
#[derive(Debug)]
#[must_use = "dropping it releases a lock that was acquired"]
#[expect(clippy::exhaustive_enums, reason = "a lock is acquired or busy, there is no third")]
pub enum Attempt {
    /// The lock is held now.
    Acquired(LockGuard),
    /// Somebody else holds it, or is about to.
    Busy(Busy),
}

impl Lock {
    /// The lock at `path`. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`].
    pub fn new<P>(coordinator: &Coordinator, path: P) -> Result<Self, InvalidPath>
    where
        P: TryInto<LockPath>,
        InvalidPath: From<P::Error>,
    {
        let background = Arc::clone(&coordinator.background);
        Ok(Self { inner: crate::Lock::new(&coordinator.inner, path)?, background })
    }

    /// Waits until the lock is held.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub fn acquire(&self) -> Result<LockGuard, AcquireError> {
        self.acquire_with(AcquireOptions::new())
    }

    /// Waits no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<LockGuard, AcquireError> {
        self.acquire_with(AcquireOptions::new().timeout(timeout))
    }

    /// Waits as the options say.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub fn acquire_with(&self, options: AcquireOptions) -> Result<LockGuard, AcquireError> {
        wait(self.inner.acquire_with(options)).map(|inner| self.guard(inner))
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub fn try_acquire(&self) -> Result<Attempt, AcquireError> {
        Ok(match wait(self.inner.try_acquire())? {
            crate::Attempt::Acquired(inner) => Attempt::Acquired(self.guard(inner)),
            crate::Attempt::Busy(busy) => Attempt::Busy(busy),
        })
    }

    /// The holder and the waiters, in order.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    pub fn queue(&self) -> Result<QueueSnapshot, ReadError> {
        wait(self.inner.queue())
    }

    fn guard(&self, inner: crate::LockGuard) -> LockGuard {
        LockGuard { inner, background: Arc::clone(&self.background) }
    }
}

/// A [`crate::ReentrantLock`] whose verbs block.
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    inner: crate::ReentrantLock,
    background: Arc<Background>,
}

impl ReentrantLock {
    /// The lock at `path`. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`].
    pub fn new<P>(coordinator: &Coordinator, path: P) -> Result<Self, InvalidPath>
    where
        P: TryInto<LockPath>,
        InvalidPath: From<P::Error>,
    {
        let background = Arc::clone(&coordinator.background);
        Ok(Self { inner: crate::ReentrantLock::new(&coordinator.inner, path)?, background })
    }

    /// How often one owner may hold the lock at a time.
    #[must_use]
    pub fn max_holds(mut self, limit: u32) -> Self {
        self.inner = self.inner.max_holds(limit);
        self
    }

    /// Enters the owner's hold, or waits until the lock is held.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub fn acquire(&self, owner: &Owner) -> Result<LockGuard, AcquireError> {
        self.acquire_with(owner, AcquireOptions::new())
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    pub fn acquire_with(
        &self,
        owner: &Owner,
        options: AcquireOptions,
    ) -> Result<LockGuard, AcquireError> {
        let inner = wait(self.inner.acquire_with(owner, options))?;
        Ok(LockGuard { inner, background: Arc::clone(&self.background) })
    }
}

/// A [`crate::LockGuard`] whose release blocks.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct LockGuard {
    inner: crate::LockGuard,
    background: Arc<Background>,
}

impl LockGuard {
    /// Releases the lock and waits for ZooKeeper's answer.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`].
    pub fn release(self) -> Result<(), ReleaseError> {
        // The thread must outlive the answer.
        let Self { inner, background } = self;
        let released = wait(inner.release());
        drop(background);
        released
    }

    /// Enters the hold again.
    ///
    /// # Errors
    ///
    /// [`ReenterError`].
    pub fn reenter(&self) -> Result<Self, ReenterError> {
        Ok(Self { inner: self.inner.reenter()?, background: Arc::clone(&self.background) })
    }
}

impl Deref for LockGuard {
    type Target = crate::LockGuard;

    fn deref(&self) -> &crate::LockGuard {
        &self.inner
    }
}
