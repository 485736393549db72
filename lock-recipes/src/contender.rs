//! [`Contender`]: a place in a queue, for recipes of your own.

use std::fmt;
use std::sync::Arc;

use crate::coordinator::Coordinator;
use crate::engine::acquisition::{Acquisition, Spec, Status};
use crate::error::AcquireError;
use crate::guard::LockGuard;
use crate::lock::{Attempt, Busy};
use crate::node::ContenderName;
use crate::options::AcquireOptions;
use crate::path::LockPath;
use crate::token::FencingToken;

/// One place in the queue of a lock: the piece [`Lock`](crate::Lock) is made of, for recipes that
/// want to do something between taking a place and having their turn.
///
/// Unlike an acquisition of a `Lock`, it is one node for its whole life: when the node is lost, the
/// contender is lost, and does not queue again. Dropping it gives the place up.
///
/// # Examples
///
/// A callback once the place is reserved, and another for every step forward:
///
/// ```no_run
/// # async fn example(coordinator: lock_recipes::Coordinator) -> Result<(), Box<dyn std::error::Error>> {
/// use lock_recipes::{AcquireOptions, Contender, LockPath};
///
/// let path = LockPath::new("/locks/import")?;
/// let mut contender = Contender::enqueue(&coordinator, &path, AcquireOptions::new()).await?;
/// println!("{} waits behind {:?}", contender.node(), contender.predecessor());
/// while !contender.ahead().is_empty() && !contender.has_turn() {
///     contender.moved().await?;
///     println!("{} ahead", contender.ahead().len());
/// }
/// let guard = contender.turn().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a contender gives up its place in the queue"]
pub struct Contender {
    coordinator: Coordinator,
    acquisition: Acquisition,
    place: Option<(ContenderName, FencingToken)>,
    ahead: Arc<[ContenderName]>,
    granted: bool,
}

impl Contender {
    /// Takes a place at the back of the queue of `path`, and returns once its predecessor is known.
    /// The timeout of the options covers everything up to the contender's turn.
    ///
    /// # Errors
    ///
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place up; what was created is deleted in the background.
    pub async fn enqueue(
        coordinator: &Coordinator,
        path: &LockPath,
        options: AcquireOptions,
    ) -> Result<Self, AcquireError> {
        let mut contender = Self::start(coordinator, path, options, false)?;
        contender.placed().await?;
        Ok(contender)
    }

    pub(crate) fn start(
        coordinator: &Coordinator,
        path: &LockPath,
        options: AcquireOptions,
        requeue: bool,
    ) -> Result<Self, AcquireError> {
        let spec = options.spec(&coordinator.core.settings, path)?;
        Ok(Self::start_spec(coordinator, Spec { requeue, ..spec }))
    }

    pub(crate) fn start_spec(coordinator: &Coordinator, spec: Spec) -> Self {
        Self {
            acquisition: Acquisition::start(&coordinator.core, spec),
            coordinator: coordinator.clone(),
            place: None,
            ahead: Arc::new([]),
            granted: false,
        }
    }

    /// The name of the contender's node.
    #[must_use]
    pub fn node(&self) -> &str {
        self.place.as_ref().map_or("", |(node, _)| node.as_str())
    }

    /// The token it will hold with. It orders the contenders of the queue.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.place.as_ref().map(|(_, token)| *token)
    }

    /// The contender right ahead, as last seen.
    #[must_use]
    pub fn predecessor(&self) -> Option<&ContenderName> {
        self.ahead.last()
    }

    /// Everyone ahead, the holder first, as last seen. The queue is read again when one of the two
    /// nearest leaves, so those further ahead may have gone already.
    #[must_use]
    pub fn ahead(&self) -> &[ContenderName] {
        &self.ahead
    }

    /// Whether the turn has come: [`Contender::turn`] will not wait.
    #[must_use]
    pub fn has_turn(&self) -> bool {
        self.granted
    }

    /// Waits until something is different: fewer ahead, or the turn.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the place is lost or the deadline passes.
    ///
    /// # Cancel safety
    ///
    /// The place is kept; no change is missed.
    pub async fn moved(&mut self) -> Result<(), AcquireError> {
        if !self.granted {
            // A sender that has gone is told by the status.
            let _ = self.acquisition.status.changed().await;
            self.placed().await?;
        }
        Ok(())
    }

    /// Waits for the turn.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the place is lost or the deadline passes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place up.
    pub async fn turn(self) -> Result<LockGuard, AcquireError> {
        self.into_guard(u32::MAX).await
    }

    /// Takes in the status: waits until the place is known.
    async fn placed(&mut self) -> Result<(), AcquireError> {
        type Seen = (ContenderName, FencingToken, Option<Arc<[ContenderName]>>);
        let pick = |status: &Status| -> Option<Seen> {
            match status {
                Status::Queued { node, token, ahead: Some(ahead) } => {
                    Some((node.clone(), *token, Some(Arc::clone(ahead))))
                }
                Status::Held(hold) => Some((hold.node.clone(), hold.token, None)),
                _ => None,
            }
        };
        let (node, token, ahead) = self.acquisition.until(pick).await?;
        self.granted = ahead.is_none();
        self.ahead = ahead.unwrap_or_else(|| Arc::new([]));
        self.place = Some((node, token));
        Ok(())
    }

    pub(crate) async fn into_guard(mut self, limit: u32) -> Result<LockGuard, AcquireError> {
        let hold = self.acquisition.held().await?;
        Ok(LockGuard::new(&self.coordinator, hold, self.acquisition, limit))
    }

    /// The turn if it comes at once.
    pub(crate) async fn into_attempt(mut self, limit: u32) -> Result<Attempt, AcquireError> {
        self.placed().await?;
        match Busy::of(&self.ahead) {
            Some(busy) if !self.granted => Ok(Attempt::Busy(busy)),
            _ => self.into_guard(limit).await.map(Attempt::Acquired),
        }
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender")
            .field("path", &self.acquisition.path)
            .field("node", &self.node())
            .field("ahead", &self.ahead.len())
            .finish_non_exhaustive()
    }
}
