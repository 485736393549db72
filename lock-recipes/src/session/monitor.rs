//! The session's watchman: follows the connection, probes the leader while anything is held or
//! waited for, and looks at what the session owns after every reconnect.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use uuid::Uuid;
use zookeeper_client::{Error, SessionState};

use super::{Resynced, Session, Trouble};
use crate::clock::Moment;
use crate::health::LossReason;
use crate::node::ContenderName;
use crate::path::LockPath;

/// Between two looks that brought no answer although the connection stands.
const PAUSE: Duration = Duration::from_millis(100);

/// Probes under way at once: one that is slow does not keep the next from being sent.
const PROBES: usize = 3;

pub(super) async fn run(session: Arc<Session>) {
    let mut link = session.link();
    let mut wanted = session.resync_wanted.subscribe();
    let mut over = pin!(session.ended());
    let mut vanished = pin!(session.alive.vanished());
    let mut connected = link.state() == SessionState::SyncConnected;
    // Whose acknowledgement counts: not before a new connection is known to serve this session.
    let mut verified = connected;
    let mut probes = FuturesUnordered::new();
    let mut next_probe = tokio::time::Instant::now();
    let mut look = pin!(Either::Left(pending()));
    let mut looking = false;
    loop {
        if connected && !looking && *wanted.borrow_and_update() > session.resynced.borrow().number {
            look.set(Either::Right(resync(Arc::clone(&session))));
            looking = true;
        }
        let probing = connected && verified && probes.len() < PROBES;
        tokio::select! {
            reason = &mut over => {
                tracing::debug!(session = %Hex(session.id), %reason, "the session is over");
                return;
            }
            () = &mut vanished => {
                let reason = match link.state() {
                    SessionState::Expired => LossReason::SessionExpired,
                    SessionState::AuthFailed => LossReason::AuthFailed,
                    _ => LossReason::SessionClosed,
                };
                session.end(reason);
                // It must not be polled again, and nothing is left to look after.
                return;
            }
            state = link.changed() => {
                // Two changes may be seen as one: whatever the state is now, it was down.
                connected = state == SessionState::SyncConnected;
                verified = false;
                probes.clear();
                look.set(Either::Left(pending()));
                looking = false;
                match state {
                    SessionState::SyncConnected => {
                        tracing::info!(session = %Hex(session.id), "reconnected to ZooKeeper");
                        session.resync();
                    }
                    SessionState::Expired => session.end(LossReason::SessionExpired),
                    SessionState::AuthFailed => session.end(LossReason::AuthFailed),
                    SessionState::Closed => session.end(LossReason::SessionClosed),
                    _ => tracing::warn!(
                        session = %Hex(session.id), ?state, "the connection to ZooKeeper is lost",
                    ),
                }
            }
            // An error means that the session is being dropped.
            Ok(()) = wanted.changed(), if connected && !looking => {}
            looked = &mut look => {
                look.set(Either::Left(pending()));
                looking = false;
                match looked {
                    Ok((sent, resynced)) => {
                        verified = true;
                        next_probe = tokio::time::Instant::now() + session.validity.probe_interval();
                        session.validity.prove(sent, Moment::now());
                        session.resynced.send_replace(resynced);
                    }
                    Err(Looked::Replaced) => session.end(LossReason::NodeReplaced),
                    // The want stays: the next round looks again.
                    Err(Looked::Nothing(error)) => {
                        tracing::debug!(%error, "the look at the session's nodes failed, trying again");
                    }
                }
            }
            // The first contender's create is a probe of its own.
            () = session.interested.notified(), if session.interest.load(Ordering::Acquire) == 0 => {
                next_probe = tokio::time::Instant::now() + session.validity.probe_interval();
            }
            () = tokio::time::sleep_until(next_probe),
                if probing && session.interest.load(Ordering::Acquire) > 0 =>
            {
                next_probe = tokio::time::Instant::now() + session.validity.probe_interval();
                probes.push(probe(&session));
            }
            Some(sent) = probes.next(), if !probes.is_empty() => {
                if let Some(sent) = sent {
                    session.validity.prove(sent, Moment::now());
                }
            }
        }
    }
}

/// A question that only the leader answers; the time it was sent, if it was answered.
async fn probe(session: &Session) -> Option<Moment> {
    let sent = Moment::now();
    session.ask(|| session.client.sync("/")).await.ok().map(|()| sent)
}

enum Looked {
    /// A node of ours belongs to another session: a reconnect was silently given a new one.
    Replaced,
    Nothing(Error),
}

impl From<Trouble> for Looked {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Refused(error) | Trouble::Unknown(error) => Self::Nothing(error),
        }
    }
}

/// What the session owns, as the leader knows it. Deletes what nobody in this process owns.
async fn resync(session: Arc<Session>) -> Result<(Moment, Resynced), Looked> {
    let result = look(&session).await;
    if let Err(Looked::Nothing(_)) = result {
        tokio::time::sleep(PAUSE).await;
    }
    result
}

async fn look(session: &Session) -> Result<(Moment, Resynced), Looked> {
    let (number, confirmed) = {
        let mut registry = session.registry();
        (registry.start_resync(), registry.confirmed())
    };
    let sent = Moment::now();
    let client = &session.client;
    let owned = session.ask(|| {
        let (sync, list) = (client.sync("/"), client.list_ephemerals("/"));
        async { sync.await.and(list.await) }
    });
    let found = match owned.await {
        Ok(nodes) => nodes.iter().filter_map(|node| own(node)).collect(),
        Err(Trouble::Refused(Error::Unimplemented)) => find_by_parent(session).await?,
        Err(trouble) => return Err(trouble.into()),
    };
    // What was there before, still is, and is not this session's: the connection serves another one,
    // whatever id the client goes on to believe in.
    let missing = confirmed.iter().filter(|(id, _)| !found.contains_key(id));
    let read = missing.map(|(_, node)| session.ask(|| client.get_data(node)));
    if join_all(read).await.iter().any(Result::is_ok) {
        return Err(Looked::Replaced);
    }
    let swept = session.registry().sweep(number, &found);
    for (id, parent, name) in swept {
        tracing::debug!(path = %parent, node = name, "found a node of ours that nobody owns");
        session.delete(id, &parent, &name);
    }
    Ok((sent, Resynced { number, nodes: Arc::new(found) }))
}

fn own(node: &str) -> Option<(Uuid, (LockPath, String))> {
    let (parent, name) = node.rsplit_once('/')?;
    let id = ContenderName::parse(name)?.own_id()?;
    Some((id, (LockPath::new(parent).ok()?, name.to_owned())))
}

/// The same on servers before 3.6: list where nodes of ours may be, and read who owns them.
async fn find_by_parent(session: &Session) -> Result<HashMap<Uuid, (LockPath, String)>, Looked> {
    let mut found = HashMap::new();
    let parents = session.registry().parents();
    for parent in parents {
        let children = match session.ask(|| session.client.list_children(parent.as_str())).await {
            Ok(children) => children,
            Err(Trouble::Refused(Error::NoNode)) => continue,
            Err(trouble) => return Err(trouble.into()),
        };
        let ours = children.into_iter().filter_map(|name| own(&parent.child(&name)));
        let read = |(id, (parent, name)): (Uuid, (LockPath, String))| async move {
            let path = parent.child(&name);
            match session.ask(|| session.client.get_data(&path)).await {
                Ok((_, stat)) if stat.ephemeral_owner == session.id => {
                    Ok(Some((id, (parent, name))))
                }
                Ok(_) | Err(Trouble::Refused(Error::NoNode)) => Ok(None),
                Err(trouble) => Err(Looked::from(trouble)),
            }
        };
        for node in join_all(ours.map(read)).await {
            found.extend(node?);
        }
    }
    Ok(found)
}

/// A session id as ZooKeeper prints it.
pub(crate) struct Hex(pub(crate) i64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
