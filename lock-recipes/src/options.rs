//! [`AcquireOptions`]: what one acquisition asks for.

use std::time::Duration;

use crate::engine::acquisition::Spec;
use crate::error::AcquireError;
use crate::health::LossPolicy;
use crate::path::LockPath;
use crate::settings::{DATA_LIMIT, Settings};

/// What one acquisition asks for.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_recipes::{AcquireOptions, LossPolicy};
///
/// let options = AcquireOptions::new()
///     .timeout(Duration::from_secs(10))
///     .data("import of 2026-11-30")
///     .loss_policy(LossPolicy::Session);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing before an acquire_with()"]
pub struct AcquireOptions {
    timeout: Option<Duration>,
    data: Option<Vec<u8>>,
    policy: LossPolicy,
}

impl AcquireOptions {
    /// The defaults: no timeout, the coordinator's identity as data, [`LossPolicy::Presumed`].
    pub fn new() -> Self {
        Self::default()
    }

    /// One deadline for everything: the connection, the create, the wait. Default: none.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The data of the contender's node, for people and tools; at most 512 KiB.
    /// Default: the coordinator's [identity](crate::Builder::identity).
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// When the hold counts as lost although ZooKeeper has not said so.
    /// Default: [`LossPolicy::Presumed`].
    pub fn loss_policy(mut self, policy: LossPolicy) -> Self {
        self.policy = policy;
        self
    }

    pub(crate) fn timeout_set(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn spec(self, settings: &Settings, path: &LockPath) -> Result<Spec, AcquireError> {
        let data = self.data.unwrap_or_else(|| settings.identity.clone().into_bytes());
        if data.len() > DATA_LIMIT {
            let (path, size) = (path.to_string(), data.len());
            return Err(AcquireError::DataTooLarge { path, size, limit: DATA_LIMIT });
        }
        Ok(Spec {
            path: path.clone(),
            data,
            dialect: settings.dialect,
            policy: self.policy,
            asked: tokio::time::Instant::now(),
            timeout: self.timeout,
            requeue: true,
        })
    }
}
