//! [`QueueSnapshot`]: who holds a lock and who waits, as it is read at one time.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::Error;

use crate::coordinator::Coordinator;
use crate::engine::acquisition::{Spec, until};
use crate::error::{AcquireError, Phase, ReadError};
use crate::lock::Busy;
use crate::node::ContenderName;
use crate::path::LockPath;
use crate::session::{Session, Trouble};
use crate::token::FencingToken;

/// One contender, as its node says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContenderInfo {
    /// The node's name.
    pub node: ContenderName,
    /// The token it holds, or will hold, with.
    pub token: Option<FencingToken>,
    /// The session that owns the node.
    pub session: i64,
    /// Since when it queues, by the server's clock: since the start of 1970.
    pub queued_at: Duration,
    /// The node's data, which anybody may have written: treat it as untrusted.
    pub data: Vec<u8>,
}

/// The queue of a lock at one time. Between reading the names and the nodes some may have left:
/// they are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// The contenders in order; the first one holds the lock, or is about to.
    pub contenders: Vec<ContenderInfo>,
    /// Children that are no contenders of this lock.
    pub ignored: Vec<String>,
}

impl QueueSnapshot {
    /// The contender at the front.
    #[must_use]
    pub fn holder(&self) -> Option<&ContenderInfo> {
        self.contenders.first()
    }

    /// Those behind it, in order.
    #[must_use]
    pub fn waiters(&self) -> &[ContenderInfo] {
        self.contenders.get(1..).unwrap_or_default()
    }
}

/// Reads a queue.
pub(crate) async fn read(
    coordinator: &Coordinator,
    path: &LockPath,
) -> Result<QueueSnapshot, ReadError> {
    let closed = || ReadError::Closed { path: path.to_string() };
    let (core, asked) = (Arc::clone(&coordinator.core), path.clone());
    let reading = async move {
        let read = async {
            let session = core.session().await.ok_or(Trouble::Unknown(Error::ClientClosed))?;
            read_queue(&session, &asked).await
        };
        let timeout = core.settings.connect_timeout;
        tokio::time::timeout(timeout, read).await.unwrap_or(Err(Trouble::Unknown(Error::Timeout)))
    };
    match coordinator.core.runtime.spawn(reading).await {
        Ok(Ok(snapshot)) => Ok(snapshot),
        Ok(Err(Trouble::Unknown(Error::ClientClosed))) | Err(_) => Err(closed()),
        Ok(Err(Trouble::Unknown(source))) => {
            Err(ReadError::NoAnswer { path: path.to_string(), source })
        }
        Ok(Err(Trouble::Refused(source))) => {
            Err(ReadError::Refused { path: path.to_string(), source })
        }
    }
}

async fn read_queue(session: &Session, path: &LockPath) -> Result<QueueSnapshot, Trouble> {
    let (contenders, ignored) = names(session, path).await?;
    let mut snapshot = QueueSnapshot { contenders: Vec::new(), ignored };
    let read = session.read_all(path, &contenders).await?;
    snapshot.contenders.extend(contenders.into_iter().zip(read).filter_map(|(node, read)| {
        let (data, stat) = read?;
        Some(ContenderInfo {
            node,
            token: FencingToken::from_czxid(stat.czxid),
            session: stat.ephemeral_owner,
            queued_at: Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0)),
            data,
        })
    }));
    // Where numbers are used up, only the token orders; elsewhere both orders are the same.
    snapshot.contenders.sort_by_key(|contender| contender.token);
    Ok(snapshot)
}

/// The contenders by number, and the other children.
async fn names(
    session: &Session,
    path: &LockPath,
) -> Result<(Vec<ContenderName>, Vec<String>), Trouble> {
    let children = match session.ask(|| session.client.list_children(path.as_str())).await {
        Ok(children) => children,
        Err(Trouble::Refused(Error::NoNode)) => Vec::new(),
        Err(trouble) => return Err(trouble),
    };
    let (mut contenders, mut ignored) = (Vec::new(), Vec::new());
    for child in children {
        match ContenderName::parse(&child) {
            Some(name) if name.contends_for_exclusive() => contenders.push(name),
            _ => ignored.push(child),
        }
    }
    contenders.sort_by_key(ContenderName::sequence);
    ignored.sort_unstable();
    Ok((contenders, ignored))
}

/// Whether anybody stands in the queue: one request that writes nothing.
pub(crate) async fn busy(
    coordinator: &Coordinator,
    spec: &Spec,
) -> Result<Option<Busy>, AcquireError> {
    let closed = || AcquireError::Closed { path: spec.path.to_string() };
    let (core, path, deadline) =
        (Arc::clone(&coordinator.core), spec.path.clone(), spec.deadline());
    let looking = async move {
        // Asked again where there is no answer, in the next session where one ends.
        let look = async {
            loop {
                let Some(session) = core.session().await else { return Ok(None) };
                if session.is_undeletable(&path) {
                    return Err(Looked::NotDeletable);
                }
                match names(&session, &path).await {
                    Ok((contenders, _)) => return Ok(Some(Busy::of(&contenders))),
                    Err(Trouble::Refused(error)) => return Err(Looked::Refused(error)),
                    Err(Trouble::Unknown(error)) => {
                        tracing::debug!(%path, %error, "the look at the queue brought no answer");
                    }
                }
            }
        };
        tokio::select! {
            biased;
            looked = look => looked,
            () = until(deadline) => Err(Looked::Silence),
        }
    };
    let denied = |operation| AcquireError::NotAuthorized { path: spec.path.to_string(), operation };
    match coordinator.core.runtime.spawn(looking).await {
        Ok(Ok(Some(busy))) => Ok(busy),
        Ok(Ok(None)) | Err(_) => Err(closed()),
        Ok(Err(Looked::NotDeletable)) => Err(denied("delete")),
        Ok(Err(Looked::Refused(Error::NoAuth))) => Err(denied("list")),
        Ok(Err(Looked::Refused(source))) => {
            let path = spec.path.to_string();
            Err(AcquireError::Refused { path, operation: "list", source })
        }
        Ok(Err(Looked::Silence)) => Err(spec.timed_out(Phase::Connecting, None)),
    }
}

/// Why a look told nothing.
enum Looked {
    /// Our nodes cannot be deleted there.
    NotDeletable,
    Refused(Error),
    Silence,
}
