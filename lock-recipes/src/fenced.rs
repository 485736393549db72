//! [`FencedWriter`]: writes to ZooKeeper that the server applies only while a lock is held.

use std::fmt;

use zookeeper_client::{CreateOptions, Error, MultiWriteError, MultiWriteResult};

use crate::error::FencedWriteError;
use crate::health::{HoldState, LossReason};
use crate::hold::Hold;

/// Collects operations that are applied together, and only if the lock's node still exists: the
/// leader looks in the order of commits, so no operation of a former holder takes effect after the
/// node has gone. No clock is involved.
///
/// It protects data in the same ensemble. Elsewhere the resource must check the
/// [token](crate::LockGuard::token).
///
/// # Examples
///
/// ```no_run
/// # async fn example(guard: lock_recipes::LockGuard) -> Result<(), lock_recipes::FencedWriteError> {
/// guard.fenced().set_data("/state", b"42", None).delete("/todo/7", None).commit().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written before commit()"]
pub struct FencedWriter<'a> {
    hold: &'a Hold,
    operations: Vec<Operation>,
}

enum Operation {
    Create { path: String, data: Vec<u8>, options: CreateOptions<'static> },
    SetData { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
    Check { path: String, version: i32 },
}

impl<'a> FencedWriter<'a> {
    pub(crate) fn new(hold: &'a Hold) -> Self {
        Self { hold, operations: Vec::new() }
    }

    fn with(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Creates a node.
    pub fn create(
        self,
        path: impl Into<String>,
        data: impl Into<Vec<u8>>,
        options: CreateOptions<'static>,
    ) -> Self {
        self.with(Operation::Create { path: path.into(), data: data.into(), options })
    }

    /// Sets a node's data, if it has this version.
    pub fn set_data(
        self,
        path: impl Into<String>,
        data: impl Into<Vec<u8>>,
        version: Option<i32>,
    ) -> Self {
        self.with(Operation::SetData { path: path.into(), data: data.into(), version })
    }

    /// Deletes a node, if it has this version.
    pub fn delete(self, path: impl Into<String>, version: Option<i32>) -> Self {
        self.with(Operation::Delete { path: path.into(), version })
    }

    /// Applies nothing unless a node has this version.
    pub fn check(self, path: impl Into<String>, version: i32) -> Self {
        self.with(Operation::Check { path: path.into(), version })
    }

    /// Sends everything as one transaction. The results are those of the operations, in order; a
    /// created node's `Stat` is invalid on servers before 3.8.2.
    ///
    /// # Errors
    ///
    /// [`FencedWriteError`]. After [`FencedWriteError::Unknown`] it may have been applied or not.
    ///
    /// # Cancel safety
    ///
    /// From the first poll the transaction may be applied even if the future is dropped.
    pub async fn commit(self) -> Result<Vec<MultiWriteResult>, FencedWriteError> {
        let hold = self.hold;
        hold.check()?;
        let path = hold.path.to_string();
        let closed = || FencedWriteError::Lost(hold.lost_for(LossReason::SessionClosed));
        let session = hold.session().ok_or_else(closed)?;
        let node = hold.path.child(hold.node.as_str());
        let (asking, operations) = (std::sync::Arc::clone(&session), self.operations);
        let answer = session.run(async move {
            let commit = async {
                asking.connected().await;
                let mut writer = asking.client.new_multi_writer();
                // Its name is unique to this acquisition, so any version of it is ours.
                writer.add_check_version(&node, -1)?;
                for (index, operation) in operations.into_iter().enumerate() {
                    operation.add_to(&mut writer).map_err(|source| {
                        MultiWriteError::OperationFailed { index: index + 1, source }
                    })?;
                }
                writer.commit().await
            };
            let timeout = asking.request_timeout;
            tokio::time::timeout(timeout, commit)
                .await
                .unwrap_or(Err(MultiWriteError::RequestFailed { source: Error::Timeout }))
        });
        match answer.await.ok_or_else(closed)? {
            Ok(mut results) => {
                results.drain(..results.len().min(1));
                Ok(results)
            }
            Err(MultiWriteError::OperationFailed { index: 0, source: Error::NoNode }) => {
                hold.learn(HoldState::Lost(LossReason::NodeDeleted));
                Err(hold.lost_for(LossReason::NodeDeleted).into())
            }
            Err(MultiWriteError::OperationFailed { index, source }) => {
                Err(FencedWriteError::Rejected { path, index: index.saturating_sub(1), source })
            }
            Err(MultiWriteError::RequestFailed { source }) => {
                Err(FencedWriteError::Unknown { path, source })
            }
        }
    }
}

impl Operation {
    fn add_to(self, writer: &mut zookeeper_client::MultiWriter<'_>) -> Result<(), Error> {
        match self {
            Self::Create { path, data, options } => writer.add_create(&path, &data, &options),
            Self::SetData { path, data, version } => writer.add_set_data(&path, &data, version),
            Self::Delete { path, version } => writer.add_delete(&path, version),
            Self::Check { path, version } => writer.add_check_version(&path, version),
        }
    }
}

impl fmt::Debug for FencedWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedWriter")
            .field("path", &self.hold.path)
            .field("operations", &self.operations.len())
            .finish_non_exhaustive()
    }
}
