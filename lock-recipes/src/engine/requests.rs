//! The requests behind the actions, as futures that end in an input.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;
use zookeeper_client::{CreateMode, Error, WatchedEvent};

use super::acquisition::Spec;
use super::queue::Seat;
use super::step::{Created, Input, Listed, Watched};
use crate::clock::Moment;
use crate::error::AcquireError;
use crate::health::LossReason;
use crate::node::{self, ContenderName};
use crate::session::{Session, Trouble, WhileAlive};
use crate::settings::ParentMode;
use crate::token::FencingToken;

/// What a request brought.
#[derive(Default)]
pub(super) struct Done {
    pub(super) input: Option<Input<ContenderName>>,
    /// The read that was asked for, and the watch that it left.
    pub(super) read: Option<u64>,
    pub(super) watch: Option<WhileAlive<WatchedEvent>>,
    /// A refusal that ends the acquisition.
    pub(super) failure: Option<AcquireError>,
}

impl From<Input<ContenderName>> for Done {
    fn from(input: Input<ContenderName>) -> Self {
        Self { input: Some(input), ..Self::default() }
    }
}

impl From<AcquireError> for Done {
    fn from(failure: AcquireError) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

pub(super) type Flight = Pin<Box<dyn Future<Output = Done> + Send>>;

fn refused(path: &str, operation: &'static str, source: Error) -> AcquireError {
    let path = path.to_owned();
    match source {
        Error::NoAuth => AcquireError::NotAuthorized { path, operation },
        source => AcquireError::Refused { path, operation, source },
    }
}

/// Creates a node and lists the parent right behind it: the client sends both at once, ZooKeeper
/// executes them in that order, and so the list shows the node and every live contender ahead.
pub(super) fn enqueue(
    session: &Arc<Session>,
    spec: &Arc<Spec>,
    id: Uuid,
    sent: &Arc<AtomicBool>,
) -> Flight {
    let (session, spec, sent) = (Arc::clone(session), Arc::clone(spec), Arc::clone(sent));
    Box::pin(async move {
        session.ready_to_create().await;
        sent.store(true, Ordering::Release);
        let sent_at = Moment::now();
        let prefix = spec.path.child(&node::prefix(spec.dialect, id));
        let options = CreateMode::EphemeralSequential.with_acls(session.settings.acls());
        let client = &session.client;
        // Both are sent here, before either is awaited.
        let create = client.create(&prefix, &spec.data, &options);
        let list = client.list_children(spec.path.as_str());
        let (created, listed) = futures_util::join!(session.answer(create), session.answer(list));
        let mut failure = None;
        let created = match created {
            Ok((stat, _)) if stat.ephemeral_owner != session.id && !stat.is_invalid() => {
                session.end(LossReason::NodeReplaced);
                Created::Unknown
            }
            Ok((stat, sequence)) => {
                session.validity.prove(sent_at, Moment::now());
                let name = format!("{}{sequence}", node::prefix(spec.dialect, id));
                // A server of 3.4 gives no Stat: the node is found and read instead.
                match (ContenderName::parse(&name), FencingToken::from_czxid(stat.czxid)) {
                    (Some(name), Some(token)) => Created::Node(name, token),
                    _ => Created::Unknown,
                }
            }
            Err(Trouble::Refused(Error::NoNode)) => Created::NoParent,
            Err(Trouble::Refused(error)) => {
                failure = Some(refused(spec.path.as_str(), "create", error));
                Created::Refused
            }
            Err(Trouble::Unknown(_)) => Created::Unknown,
        };
        let (listed, list_failure) = seats(listed, &spec);
        let failure = failure.or(list_failure);
        Done { input: Some(Input::Enqueued(created, listed)), failure, ..Done::default() }
    })
}

/// Lists the parent.
pub(super) fn list(session: &Arc<Session>, spec: &Arc<Spec>) -> Flight {
    let (session, spec) = (Arc::clone(session), Arc::clone(spec));
    Box::pin(async move {
        let children = session.ask(|| session.client.list_children(spec.path.as_str())).await;
        let (listed, failure) = seats(children, &spec);
        Done { input: Some(Input::Listed(listed)), failure, ..Done::default() }
    })
}

fn seats(
    children: Result<Vec<String>, Trouble>,
    spec: &Spec,
) -> (Listed<ContenderName>, Option<AcquireError>) {
    match children {
        Ok(children) => (Listed::Seats(recognise(&children).collect()), None),
        Err(Trouble::Refused(Error::NoNode)) => (Listed::NoParent, None),
        Err(Trouble::Refused(error)) => {
            (Listed::Unknown, Some(refused(spec.path.as_str(), "list", error)))
        }
        Err(Trouble::Unknown(_)) => (Listed::Unknown, None),
    }
}

/// The contenders for an exclusive lock among the children.
fn recognise(children: &[String]) -> impl Iterator<Item = Seat<ContenderName>> {
    children
        .iter()
        .filter_map(|child| ContenderName::parse(child))
        .filter(ContenderName::contends_for_exclusive)
        .map(|name| Seat {
            sequence: name.sequence(),
            plain: name.role() == node::Role::Exclusive,
            own_dialect: name.is_own(),
            node: name,
        })
}

/// Reads the `czxid`s by which a queue is ordered whose numbers are used up.
pub(super) fn order(session: &Arc<Session>, spec: &Arc<Spec>, nodes: Vec<ContenderName>) -> Flight {
    let (session, spec) = (Arc::clone(session), Arc::clone(spec));
    Box::pin(async move {
        tracing::warn!(
            path = %spec.path,
            "the sequence numbers below the lock's path are used up, ordering by czxid: let the \
             path become empty and be deleted",
        );
        match session.read_all(&spec.path, &nodes).await {
            Ok(read) => {
                let czxids = read.into_iter().map(|node| node.map(|(_, stat)| stat.czxid));
                Input::Ordered(Some(nodes.into_iter().zip(czxids).collect())).into()
            }
            Err(Trouble::Refused(error)) => {
                refused(spec.path.as_str(), "read the contenders", error).into()
            }
            Err(Trouble::Unknown(_)) => Input::Ordered(None).into(),
        }
    })
}

/// Reads a contender and leaves a watch; `number` tells the read from others of the same node. Never `exists`: on a node that has gone it would leave a
/// watch for ever.
pub(super) fn watch(
    session: &Arc<Session>,
    spec: &Arc<Spec>,
    node: ContenderName,
    number: u64,
    essential: bool,
) -> Flight {
    let (session, spec) = (Arc::clone(session), Arc::clone(spec));
    Box::pin(async move {
        let path = spec.path.child(node.as_str());
        let read = session.ask(|| session.client.get_and_watch_data(&path)).await;
        let (watched, watch) = match read {
            Ok((_, stat, watcher)) => {
                let watch = session.while_alive(async move { watcher.changed().await });
                let owned = stat.ephemeral_owner == session.id;
                match FencingToken::from_czxid(stat.czxid) {
                    Some(token) => (Watched::Armed { token, owned }, Some(watch)),
                    None => (Watched::Gone, None),
                }
            }
            Err(Trouble::Refused(Error::NoNode)) => (Watched::Gone, None),
            Err(Trouble::Refused(error)) if essential => {
                return refused(&path, "read", error).into();
            }
            Err(Trouble::Refused(error)) => {
                tracing::warn!(path, %error, "cannot watch a contender");
                return Done::default();
            }
            Err(Trouble::Unknown(_)) => (Watched::Unknown, None),
        };
        Done {
            input: Some(Input::Watched(node, watched)),
            read: Some(number),
            watch,
            failure: None,
        }
    })
}

/// Makes the lock's path, bottom up: nothing above the first node that exists is asked for.
pub(super) fn make_parents(session: &Arc<Session>, spec: &Arc<Spec>) -> Flight {
    let (session, spec) = (Arc::clone(session), Arc::clone(spec));
    Box::pin(async move {
        let mut mode = match session.settings.parents {
            ParentMode::Container => CreateMode::Container,
            ParentMode::Persistent => CreateMode::Persistent,
            ParentMode::MustExist => {
                return AcquireError::ParentMissing { path: spec.path.to_string() }.into();
            }
        };
        let path = spec.path.as_str();
        // Where each level of the path ends.
        let ends: Vec<_> =
            path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]).collect();
        let mut level = ends.len();
        while let Some(parent) =
            level.checked_sub(1).and_then(|at| ends.get(at)).and_then(|&end| path.get(..end))
        {
            let options = mode.with_acls(session.settings.acls());
            match session.ask(|| session.client.create(parent, b"", &options)).await {
                Ok(_) | Err(Trouble::Refused(Error::NodeExists)) if level == ends.len() => break,
                Ok(_) | Err(Trouble::Refused(Error::NodeExists)) => level += 1,
                Err(Trouble::Refused(Error::NoNode)) if level > 1 => level -= 1,
                Err(Trouble::Refused(Error::NoNode)) => {
                    let chroot = session.settings.cluster.chroot().unwrap_or("/").to_owned();
                    return AcquireError::ChrootMissing { path: path.to_owned(), chroot }.into();
                }
                Err(Trouble::Refused(Error::Unimplemented)) if mode == CreateMode::Container => {
                    mode = CreateMode::Persistent;
                }
                Err(Trouble::Refused(error)) => return refused(parent, "create", error).into(),
                // The next create will tell.
                Err(Trouble::Unknown(_)) => break,
            }
        }
        Input::ParentsMade.into()
    })
}
