//! One acquisition from the caller's side: started, followed, given up; over as many sessions as
//! its deadline allows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

use super::driver::{Driver, End};
use crate::coordinator::Core;
use crate::error::{AcquireError, Phase, ReleaseError};
use crate::health::LossPolicy;
use crate::hold::Hold;
use crate::node::{ContenderName, Dialect};
use crate::path::LockPath;
use crate::token::FencingToken;

/// What an acquisition asks for.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) path: LockPath,
    pub(crate) data: Vec<u8>,
    pub(crate) dialect: Dialect,
    pub(crate) policy: LossPolicy,
    /// When the caller asked: the timeout counts from here.
    pub(crate) asked: Instant,
    pub(crate) timeout: Option<Duration>,
    /// Whether a place that is lost is followed by another at the back of the queue.
    pub(crate) requeue: bool,
}

impl Spec {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| self.asked.checked_add(timeout))
    }

    pub(crate) fn timed_out(&self, phase: Phase, behind: Option<ContenderName>) -> AcquireError {
        let waited = self.timeout.unwrap_or_default();
        AcquireError::TimedOut { path: self.path.to_string(), waited, phase, behind }
    }
}

/// How far an acquisition is.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Connecting,
    Enqueueing,
    /// `ahead` is `None` until the first listing was read.
    Queued {
        node: ContenderName,
        token: FencingToken,
        ahead: Option<Arc<[ContenderName]>>,
    },
    Held(Arc<Hold>),
    Failed(AcquireError),
}

/// What a guard asks of its task. Dropping the sender asks for release without an answer.
#[derive(Debug)]
pub(crate) enum Command {
    Release(oneshot::Sender<Result<(), ReleaseError>>),
}

/// The caller's end. Dropping it gives the acquisition, or the hold, up.
#[derive(Debug)]
pub(crate) struct Acquisition {
    pub(crate) path: LockPath,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
}

impl Acquisition {
    /// Starts an acquisition on the coordinator's runtime.
    pub(crate) fn start(core: &Arc<Core>, spec: Spec) -> Self {
        let path = spec.path.clone();
        let (sender, status) = watch::channel(Status::Connecting);
        let (commands, inbox) = mpsc::unbounded_channel();
        let span = tracing::debug_span!(
            "contender",
            %path,
            node = tracing::field::Empty,
            session = tracing::field::Empty,
            token = tracing::field::Empty,
        );
        core.runtime.spawn(contend(Arc::clone(core), spec, sender, inbox).instrument(span));
        Self { path, status, commands }
    }

    /// Waits until `done` picks something from the status, or the acquisition failed.
    pub(crate) async fn until<T>(
        &mut self,
        done: impl Fn(&Status) -> Option<T>,
    ) -> Result<T, AcquireError> {
        loop {
            let status = self.status.borrow_and_update().clone();
            if let Some(value) = done(&status) {
                return Ok(value);
            }
            if let Status::Failed(error) = status {
                return Err(error);
            }
            if self.status.changed().await.is_err() {
                return Err(AcquireError::Closed { path: self.path.to_string() });
            }
        }
    }

    /// Waits for the grant.
    pub(crate) async fn held(&mut self) -> Result<Arc<Hold>, AcquireError> {
        self.until(|status| match status {
            Status::Held(hold) => Some(Arc::clone(hold)),
            _ => None,
        })
        .await
    }
}

async fn contend(
    core: Arc<Core>,
    spec: Spec,
    status: watch::Sender<Status>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let deadline = spec.deadline();
    let spec = Arc::new(spec);
    let fail = |error| {
        status.send_replace(Status::Failed(error));
    };
    loop {
        let session = tokio::select! {
            biased;
            // Nothing is held yet, so nothing but the end can be asked for.
            _ = commands.recv() => return,
            session = core.session() => session,
            () = until(deadline) => return fail(spec.timed_out(Phase::Connecting, None)),
        };
        let Some(session) = session else {
            return fail(AcquireError::Closed { path: spec.path.to_string() });
        };
        if session.is_undeletable(&spec.path) {
            let path = spec.path.to_string();
            return fail(AcquireError::NotAuthorized { path, operation: "delete" });
        }
        status.send_replace(Status::Enqueueing);
        let driver = Driver::new(session, Arc::clone(&spec), deadline, &status, &mut commands);
        let End::Requeue(reason) = driver.run().await else { return };
        tracing::info!(path = %spec.path, %reason, "lost the place in the queue, queueing again");
        status.send_replace(Status::Connecting);
    }
}

/// Resolves at the deadline, if there is one.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
