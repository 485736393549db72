//! [`ReentrantLock`]: a lock that its owner may enter again.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout as timeout_after;
use uuid::Uuid;

use crate::coordinator::Coordinator;
use crate::error::{AcquireError, Phase, ReadError, ReenterError};
use crate::guard::{LockGuard, Shared};
use crate::lock::{Attempt, Lock};
use crate::options::AcquireOptions;
use crate::path::{InvalidPath, LockPath};
use crate::snapshot::QueueSnapshot;

tokio::task_local! {
    static CURRENT: Owner;
}

/// Who holds a [`ReentrantLock`]: a value that the caller passes along its calls. Clones are the
/// same owner. It is neither a thread nor a task, so a hold may move between them.
///
/// # Examples
///
/// ```
/// use lock_recipes::Owner;
///
/// let owner = Owner::new();
/// assert_eq!(owner, owner.clone());
/// assert_ne!(owner, Owner::new());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Uuid);

impl Owner {
    /// An owner that is nobody else.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// Makes this the [current](Owner::current) owner while `future` runs. Tasks that it spawns do
    /// not inherit it.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// The owner of the scope that runs, if any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.0)
    }
}

/// An exclusive lock that its [`Owner`] may acquire again while it holds it: the second acquisition
/// enters at once with the same token, and the lock is free when the last guard has gone.
///
/// Choose it where functions that lock call each other. Values for one path and one coordinator are
/// the same lock. Another owner queues like any stranger, on whatever session.
///
/// # Examples
///
/// ```no_run
/// # async fn example(coordinator: lock_recipes::Coordinator) -> Result<(), Box<dyn std::error::Error>> {
/// use lock_recipes::{Owner, ReentrantLock};
///
/// let lock = ReentrantLock::new(&coordinator, "/locks/stock")?.max_holds(16);
/// let owner = Owner::new();
/// let outer = lock.acquire(&owner).await?;
/// let inner = lock.acquire(&owner).await?; // at once
/// assert_eq!(outer.token(), inner.token());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    lock: Lock,
    limit: u32,
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
        Ok(Self { lock: Lock::new(coordinator, path)?, limit: u32::MAX })
    }

    /// How often one owner may hold the lock at a time; the hold that is acquired keeps the limit it
    /// was acquired with. Default: 2³²−1. A limit of 0 counts as 1.
    #[must_use]
    pub fn max_holds(mut self, limit: u32) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// The lock's path.
    #[must_use]
    pub fn path(&self) -> &LockPath {
        self.lock.path()
    }

    /// Enters the owner's hold, or waits until the lock is held.
    ///
    /// # Errors
    ///
    /// [`AcquireError::HoldLost`] if the owner's hold was lost and has guards left,
    /// [`AcquireError::TooManyHolds`] at the limit, and whatever [`Lock::acquire`] fails with.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]. A hold of the owner is not touched.
    pub async fn acquire(&self, owner: &Owner) -> Result<LockGuard, AcquireError> {
        self.acquire_with(owner, AcquireOptions::new()).await
    }

    /// [`ReentrantLock::acquire`] with options, which apply where there is no hold to enter.
    ///
    /// # Errors
    ///
    /// As [`ReentrantLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn acquire_with(
        &self,
        owner: &Owner,
        options: AcquireOptions,
    ) -> Result<LockGuard, AcquireError> {
        let (start, timeout) = (Instant::now(), options.timeout_set());
        let mut entry = self.turn(self.slot(owner), timeout).await?;
        if let Some(entered) = enter(&entry) {
            return entered;
        }
        let options = match timeout {
            Some(timeout) => options.timeout(timeout.saturating_sub(start.elapsed())),
            None => options,
        };
        let acquired = self.lock.acquire_limited(options, self.limit).await;
        let guard = acquired.map_err(|error| match (error, timeout) {
            (AcquireError::TimedOut { path, phase, behind, .. }, Some(waited)) => {
                AcquireError::TimedOut { path, waited, phase, behind }
            }
            (error, _) => error,
        })?;
        *entry = Arc::downgrade(guard.shared());
        Ok(guard)
    }

    /// Two acquisitions of one owner: the second enters what the first is waiting for, or times out.
    async fn turn(
        &self,
        slot: Slot,
        timeout: Option<Duration>,
    ) -> Result<OwnedMutexGuard<Weak<Shared>>, AcquireError> {
        let Some(waited) = timeout else { return Ok(slot.lock_owned().await) };
        if let Ok(entry) = Arc::clone(&slot).try_lock_owned() {
            return Ok(entry);
        }
        // The caller may have no timer.
        let runtime = &self.lock.coordinator().core.runtime;
        let turn = runtime.spawn(async move { timeout_after(waited, slot.lock_owned()).await });
        let path = self.path().to_string();
        match turn.await {
            Ok(Ok(entry)) => Ok(entry),
            Ok(Err(_)) => {
                Err(AcquireError::TimedOut { path, waited, phase: Phase::Waiting, behind: None })
            }
            Err(_) => Err(AcquireError::Closed { path }),
        }
    }

    /// Enters the owner's hold, or acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// As [`ReentrantLock::acquire`] and [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`ReentrantLock::acquire`].
    pub async fn try_acquire(&self, owner: &Owner) -> Result<Attempt, AcquireError> {
        let slot = self.slot(owner);
        let mut entry = loop {
            if let Ok(entry) = slot.try_lock() {
                break entry;
            }
            // Another task of the owner is acquiring. Whom that waits for is not waited for here.
            if let Some(busy) = self.lock.busy().await? {
                return Ok(Attempt::Busy(busy));
            }
        };
        if let Some(entered) = enter(&entry) {
            return entered.map(Attempt::Acquired);
        }
        let attempt = self.lock.try_limited(AcquireOptions::new(), self.limit).await?;
        if let Attempt::Acquired(guard) = &attempt {
            *entry = Arc::downgrade(guard.shared());
        }
        Ok(attempt)
    }

    /// The holder and the waiters, in order.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    pub async fn queue(&self) -> Result<QueueSnapshot, ReadError> {
        self.lock.queue().await
    }

    fn slot(&self, owner: &Owner) -> Slot {
        self.lock.coordinator().core.holds.slot(self.path(), owner)
    }
}

/// The owner's hold, if there is one.
fn enter(entry: &Weak<Shared>) -> Option<Result<LockGuard, AcquireError>> {
    let entered = entry.upgrade()?.enter();
    Some(entered.map_err(|error| match error {
        ReenterError::Lost(lost) => AcquireError::HoldLost { path: lost.path, reason: lost.reason },
        ReenterError::TooManyHolds { path, limit } => AcquireError::TooManyHolds { path, limit },
    }))
}

type Slot = Arc<tokio::sync::Mutex<Weak<Shared>>>;

/// The holds of reentrant locks, by path and owner: values for one path agree through it.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<(LockPath, Owner), Slot>>);

impl Holds {
    fn slot(&self, path: &LockPath, owner: &Owner) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= 64 && slots.len().is_power_of_two() {
            // Now and then, so that it costs nothing: forget who neither holds nor acquires.
            slots.retain(|_, slot| {
                let idle = slot.try_lock().is_ok_and(|entry| entry.strong_count() == 0);
                !idle || Arc::strong_count(slot) > 1
            });
        }
        Arc::clone(slots.entry((path.clone(), owner.clone())).or_default())
    }
}
