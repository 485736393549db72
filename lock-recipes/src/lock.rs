//! [`Lock`]: an exclusive lock.

use std::fmt;
use std::time::Duration;

use crate::contender::Contender;
use crate::coordinator::Coordinator;
use crate::engine::acquisition::Spec;
use crate::error::{AcquireError, ReadError};
use crate::guard::LockGuard;
use crate::node::ContenderName;
use crate::options::AcquireOptions;
use crate::path::{InvalidPath, LockPath};
use crate::snapshot::{self, QueueSnapshot};

/// An exclusive lock: first come, first served, across processes and clients.
///
/// Choose it unless one caller may have to enter a lock that it already holds; that is
/// [`ReentrantLock`](crate::ReentrantLock)'s. Two acquisitions of a `Lock` queue behind each other
/// whoever makes them, so acquiring twice in one call chain waits for itself.
///
/// A free lock costs one round trip. Waiting costs nothing: each contender watches the one before
/// it and, ahead of time, the one before that.
///
/// # Examples
///
/// ```no_run
/// # async fn example(coordinator: lock_recipes::Coordinator) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use lock_recipes::{AcquireError, Lock};
///
/// let lock = Lock::new(&coordinator, "/locks/import")?;
/// match lock.acquire_timeout(Duration::from_secs(5)).await {
///     Ok(guard) => guard.release().await?,
///     Err(AcquireError::TimedOut { behind, .. }) => println!("still busy: {behind:?}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lock {
    coordinator: Coordinator,
    path: LockPath,
}

/// What [`Lock::try_acquire`] found.
#[derive(Debug)]
#[must_use = "dropping it releases a lock that was acquired"]
pub enum Attempt {
    /// The lock is held now.
    Acquired(LockGuard),
    /// Somebody else holds it, or is about to.
    Busy(Busy),
}

/// Who is in the way. [`Lock::queue`] tells more about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    holder: ContenderName,
    waiters: usize,
}

impl Busy {
    pub(crate) fn of(ahead: &[ContenderName]) -> Option<Self> {
        let (holder, waiters) = ahead.split_first()?;
        Some(Self { holder: holder.clone(), waiters: waiters.len() })
    }

    /// The contender at the front of the queue.
    #[must_use]
    pub fn holder(&self) -> &ContenderName {
        &self.holder
    }

    /// How many wait behind it.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.waiters
    }
}

impl Lock {
    /// The lock at `path`. Nothing is sent: the path is made when a contender needs it.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`].
    pub fn new<P>(coordinator: &Coordinator, path: P) -> Result<Self, InvalidPath>
    where
        P: TryInto<LockPath>,
        InvalidPath: From<P::Error>,
    {
        Ok(Self { coordinator: coordinator.clone(), path: path.try_into()? })
    }

    /// The lock's path.
    #[must_use]
    pub fn path(&self) -> &LockPath {
        &self.path
    }

    pub(crate) fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Waits until the lock is held, for as long as it takes.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]: what ZooKeeper refuses, or a closed coordinator. Lost connections and lost
    /// sessions are no errors: it queues again in the next session.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any poll gives up the place in the queue; what was created is deleted
    /// in the background.
    pub async fn acquire(&self) -> Result<LockGuard, AcquireError> {
        self.acquire_with(AcquireOptions::new()).await
    }

    /// [`Lock::acquire`] with one deadline for everything.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] says how far it came, and behind whom it waited.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<LockGuard, AcquireError> {
        self.acquire_with(AcquireOptions::new().timeout(timeout)).await
    }

    /// [`Lock::acquire`] with options.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn acquire_with(&self, options: AcquireOptions) -> Result<LockGuard, AcquireError> {
        self.acquire_limited(options, u32::MAX).await
    }

    /// The hold may be entered `limit` times.
    pub(crate) async fn acquire_limited(
        &self,
        options: AcquireOptions,
        limit: u32,
    ) -> Result<LockGuard, AcquireError> {
        Contender::start(&self.coordinator, &self.path, options, true)?.into_guard(limit).await
    }

    /// Acquires the lock if it is free, without waiting for anybody.
    ///
    /// A busy lock is told after one round trip that writes nothing, so polling disturbs no queue.
    /// A free one takes two: the look, and the acquisition.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]. Without a connection it waits for one, no longer than the connect timeout.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Attempt, AcquireError> {
        self.try_acquire_with(AcquireOptions::new()).await
    }

    /// [`Lock::try_acquire`] with options; the timeout covers the answers of ZooKeeper.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    pub async fn try_acquire_with(&self, options: AcquireOptions) -> Result<Attempt, AcquireError> {
        self.try_limited(options, u32::MAX).await
    }

    pub(crate) async fn try_limited(
        &self,
        options: AcquireOptions,
        limit: u32,
    ) -> Result<Attempt, AcquireError> {
        let spec = self.try_spec(options)?;
        if let Some(busy) = snapshot::busy(&self.coordinator, &spec).await? {
            return Ok(Attempt::Busy(busy));
        }
        Contender::start_spec(&self.coordinator, spec).into_attempt(limit).await
    }

    /// Who is in the way, if anybody is.
    pub(crate) async fn busy(&self) -> Result<Option<Busy>, AcquireError> {
        snapshot::busy(&self.coordinator, &self.try_spec(AcquireOptions::new())?).await
    }

    fn try_spec(&self, options: AcquireOptions) -> Result<Spec, AcquireError> {
        let settings = &self.coordinator.core.settings;
        let timeout = options.timeout_set().unwrap_or(settings.connect_timeout);
        options.timeout(timeout).spec(settings, &self.path)
    }

    /// The holder and the waiters, in order, as they are read now.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    pub async fn queue(&self) -> Result<QueueSnapshot, ReadError> {
        snapshot::read(&self.coordinator, &self.path).await
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("path", &self.path).finish_non_exhaustive()
    }
}
