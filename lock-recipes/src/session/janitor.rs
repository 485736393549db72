//! The janitor: deletes what nobody wants any more, until it is gone or the session is over.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use uuid::Uuid;
use zookeeper_client::Error;

use super::{Session, Trouble};
use crate::path::LockPath;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One node to delete.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: Uuid,
    pub(super) parent: LockPath,
    pub(super) node: String,
}

/// Works until the session is over. One stuck job does not hold up the others.
pub(super) async fn run(session: Arc<Session>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut over = std::pin::pin!(session.ended());
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            _ = &mut over => return,
            Some(job) = jobs.recv() => running.push(delete(&session, job)),
            Some(()) = running.next(), if !running.is_empty() => {}
        }
    }
}

async fn delete(session: &Session, job: Job) {
    let mut pause = FIRST_PAUSE;
    loop {
        match session.ask(|| session.client.delete(&job.node, None)).await {
            Ok(()) | Err(Trouble::Refused(Error::NoNode)) => {
                tracing::debug!(node = job.node, "deleted a node that was no longer wanted");
                session.registry().forget(job.id);
                session.mark_deletable(&job.parent);
                return;
            }
            Err(Trouble::Refused(Error::NoAuth)) => {
                session.mark_undeletable(&job.parent, &job.node);
            }
            Err(Trouble::Refused(error) | Trouble::Unknown(error)) => {
                tracing::debug!(node = job.node, %error, "a delete failed, trying again");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
