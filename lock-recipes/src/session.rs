//! One ZooKeeper session and what belongs to it: its client, its validity, its nodes.
//!
//! A session lives once. When it is over, everything of it is told so and dropped, and the
//! coordinator opens another one.

mod janitor;
mod link;
mod monitor;
mod read;
mod registry;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use uuid::Uuid;
use zookeeper_client::{Client, SessionState};

use self::link::Alive;
pub(crate) use self::link::{Link, WhileAlive};
pub(crate) use self::monitor::Hex;
pub(crate) use self::read::{Answer, Question, ask_together};
use self::registry::Registry;
use crate::clock::Moment;
use crate::health::{LossReason, Validity};
use crate::path::LockPath;
use crate::settings::Settings;

/// After a request that brought no answer although its deadline has not passed.
const PAUSE: Duration = Duration::from_millis(10);

/// What a session-wide look found: the nodes it owns, by the uuid in their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resynced {
    pub(crate) number: u64,
    pub(crate) nodes: Arc<HashMap<Uuid, (LockPath, String)>>,
}

/// A request that brought no answer which says what happened.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// ZooKeeper refused it: nothing was done.
    Refused(zookeeper_client::Error),
    /// It may have been done: no answer in time, or the connection was lost.
    Unknown(zookeeper_client::Error),
}

impl Trouble {
    pub(crate) fn into_error(self) -> zookeeper_client::Error {
        match self {
            Self::Refused(error) | Self::Unknown(error) => error,
        }
    }
}

impl From<zookeeper_client::Error> for Trouble {
    fn from(error: zookeeper_client::Error) -> Self {
        use zookeeper_client::Error as E;
        match error {
            E::NoNode
            | E::NoAuth
            | E::BadVersion
            | E::BadArguments(_)
            | E::NoChildrenForEphemerals
            | E::NodeExists
            | E::NotEmpty
            | E::InvalidAcl
            | E::NotReadOnly
            | E::NoWatcher
            | E::QuotaExceeded
            | E::MarshallingError
            | E::Unimplemented
            | E::UnexpectedErrorCode(_) => Self::Refused(error),
            _ => Self::Unknown(error),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) id: i64,
    pub(crate) timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) validity: Arc<Validity>,
    pub(crate) settings: Arc<Settings>,
    runtime: Handle,
    alive: Arc<Alive>,
    over: watch::Sender<Option<LossReason>>,
    registry: Mutex<Registry>,
    /// Parents in which ZooKeeper does not let us delete.
    undeletable: Mutex<HashSet<LockPath>>,
    resynced: watch::Sender<Resynced>,
    resync_wanted: watch::Sender<u64>,
    /// Contenders that hold or wait: while there are any, the session is probed.
    interest: AtomicUsize,
    interested: Notify,
    /// Creates that are unanswered and whose callers have left.
    given_up: watch::Sender<usize>,
    janitor: mpsc::UnboundedSender<janitor::Job>,
    /// Dropped with the last use of the session.
    _gone: oneshot::Sender<()>,
}

/// A session and the sign that nothing uses it any more.
pub(crate) struct Opened {
    pub(crate) session: Arc<Session>,
    pub(crate) gone: oneshot::Receiver<()>,
}

impl Session {
    /// Connects and starts the session's tasks on the current runtime.
    pub(crate) async fn open(settings: &Arc<Settings>) -> Result<Opened, zookeeper_client::Error> {
        let sent = Moment::now();
        let connector = settings.connector().with_fail_eagerly();
        // Boxed, because with TLS and SASL it is 19 KB that every caller's future would carry.
        let connect = Box::pin(connector.connect(settings.cluster.hosts()));
        let (client, alive) = link::connect(connect).await?;
        let client = match settings.cluster.chroot() {
            None => client,
            // The chroot was checked when the connect string was read.
            Some(chroot) => client.chroot(chroot).unwrap_or_else(|client| client),
        };
        let timeout = client.session_timeout();
        let (gone_sender, gone) = oneshot::channel();
        let (janitor, jobs) = mpsc::unbounded_channel();
        let session = Arc::new(Self {
            id: client.session_id().0,
            timeout,
            // The server may have set a shorter session timeout than the setting was checked against.
            request_timeout: settings.request_timeout.unwrap_or(timeout / 3).min(timeout / 2),
            validity: Arc::new(Validity::new(timeout, sent)),
            settings: Arc::clone(settings),
            runtime: Handle::current(),
            alive,
            over: watch::Sender::new(None),
            registry: Mutex::default(),
            undeletable: Mutex::default(),
            resynced: watch::Sender::default(),
            resync_wanted: watch::Sender::new(0),
            interest: AtomicUsize::new(0),
            interested: Notify::new(),
            given_up: watch::Sender::new(0),
            janitor,
            _gone: gone_sender,
            client,
        });
        // Both keep the session until it is over.
        tokio::spawn(monitor::run(Arc::clone(&session)));
        tokio::spawn(janitor::run(Arc::clone(&session), jobs));
        Ok(Opened { session, gone })
    }

    /// Latches the end of the session.
    pub(crate) fn end(&self, reason: LossReason) {
        self.over.send_if_modified(|over| over.is_none() && over.replace(reason).is_none());
    }

    /// Why the session is over, if it is.
    pub(crate) fn over(&self) -> Option<LossReason> {
        *self.over.borrow()
    }

    /// Resolves when the session is over.
    pub(crate) fn ended(&self) -> impl Future<Output = LossReason> + Send + 'static {
        let mut over = self.over.subscribe();
        async move {
            match over.wait_for(Option::is_some).await {
                Ok(over) => over.unwrap_or(LossReason::SessionClosed),
                Err(_) => LossReason::SessionClosed,
            }
        }
    }

    /// Runs a future on the session's runtime, so that the caller's needs none of its own; `None`
    /// when that runtime has ended.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.runtime.spawn(future).await.ok()
    }

    /// Sends a request once the session is connected, and waits for its answer, both within the
    /// request deadline. What fails otherwise than by the clock pauses for a moment, so that a server
    /// that answers nonsense is not asked in a hot loop.
    pub(crate) async fn ask<T, F>(&self, request: impl FnOnce() -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, zookeeper_client::Error>>,
    {
        let answer = self.answer(async {
            self.connected().await;
            request().await
        });
        let answer = answer.await;
        if let Err(Trouble::Unknown(error)) = &answer
            && !matches!(error, zookeeper_client::Error::Timeout)
        {
            tokio::time::sleep(PAUSE).await;
        }
        answer
    }

    /// Waits for the answer to a request that was sent, within the request deadline.
    pub(crate) async fn answer<T>(
        &self,
        request: impl Future<Output = Result<T, zookeeper_client::Error>>,
    ) -> Result<T, Trouble> {
        match tokio::time::timeout(self.request_timeout, request).await {
            Ok(answer) => answer.map_err(Trouble::from),
            Err(_) => Err(Trouble::Unknown(zookeeper_client::Error::Timeout)),
        }
    }

    /// Waits until requests may be sent. What is handed to the client before is kept by it and
    /// executed after a reconnect, wanted or not.
    pub(crate) async fn connected(&self) {
        let mut link = self.link();
        while link.state() != SessionState::SyncConnected {
            link.changed().await;
        }
    }

    /// A view of the connection that remembers what its owner has seen.
    pub(crate) fn link(&self) -> Link {
        self.alive.link()
    }

    /// As it was published, and as the client knows it this very moment: what is handed over in
    /// between is kept through the outage, and executed after it.
    pub(crate) fn is_connected(&self) -> bool {
        self.alive.state() == SessionState::SyncConnected
            && self.client.state() == SessionState::SyncConnected
    }

    /// A watch of the client, safe to poll after the end of its runtime.
    pub(crate) fn while_alive<T>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> WhileAlive<T> {
        WhileAlive::new(future, &self.alive)
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a look at what the session owns; any [`Resynced`] from this number on will do.
    pub(crate) fn resync(&self) -> u64 {
        let number = self.registry().next_resync();
        self.resync_wanted.send_if_modified(|wanted| {
            let more = *wanted < number;
            *wanted = number.max(*wanted);
            more
        });
        number
    }

    pub(crate) fn resyncs(&self) -> watch::Receiver<Resynced> {
        self.resynced.subscribe()
    }

    /// Hands a node over to the janitor, which deletes it until it is gone or the session over.
    pub(crate) fn delete(&self, id: Uuid, parent: &LockPath, node: &str) {
        if self.registry().condemn(id, parent.clone()) {
            let job = janitor::Job { id, parent: parent.clone(), node: parent.child(node) };
            // Without a janitor the session is over, and the node with it.
            let _ = self.janitor.send(job);
        }
    }

    /// Hands a create over to the sweep: its node may exist, or come to exist.
    pub(crate) fn abandon(&self, id: Uuid) {
        self.registry().abandon(id);
        self.resync();
    }

    pub(crate) fn is_undeletable(&self, parent: &LockPath) -> bool {
        self.undeletable.lock().unwrap_or_else(PoisonError::into_inner).contains(parent)
    }

    /// ZooKeeper does not let us delete `node` below `parent`. Told once per parent.
    pub(crate) fn mark_undeletable(&self, parent: &LockPath, node: &str) {
        let mut parents = self.undeletable.lock().unwrap_or_else(PoisonError::into_inner);
        if parents.insert(parent.clone()) {
            tracing::error!(
                path = %parent, node,
                "ZooKeeper refuses to delete our node: it blocks the queue until the session ends; \
                 grant DELETE on the lock's path",
            );
        }
    }

    /// It does now.
    fn mark_deletable(&self, parent: &LockPath) {
        self.undeletable.lock().unwrap_or_else(PoisonError::into_inner).remove(parent);
    }

    /// Counts a contender that holds or waits.
    pub(crate) fn interest(self: &Arc<Self>) -> Interest {
        self.interest.fetch_add(1, Ordering::AcqRel);
        self.interested.notify_one();
        Interest(Arc::downgrade(self))
    }

    /// A create stays unanswered although its caller has left: others wait for its end, so that an
    /// outage leaves no more creates behind than there are callers.
    pub(crate) fn give_up(self: &Arc<Self>) -> GivenUp {
        self.given_up.send_modify(|count| *count += 1);
        GivenUp(Arc::downgrade(self))
    }

    /// Waits until a create may be sent: connected, and no create of a caller that has gone is
    /// unanswered, or may still be executed.
    pub(crate) async fn ready_to_create(&self) {
        let mut given_up = self.given_up.subscribe();
        loop {
            // The sender lives as long as the session.
            let _ = given_up.wait_for(|count| *count == 0).await;
            if !self.registry().settled() {
                let number = self.resync();
                let _ = self.resyncs().wait_for(|resynced| resynced.number >= number).await;
                continue;
            }
            if self.is_connected() {
                return;
            }
            self.connected().await;
        }
    }
}

/// Ends a contender's interest.
#[derive(Debug)]
pub(crate) struct Interest(Weak<Session>);

impl Drop for Interest {
    fn drop(&mut self) {
        if let Some(session) = self.0.upgrade() {
            session.interest.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Ends the wait for a create that was given up.
#[derive(Debug)]
pub(crate) struct GivenUp(Weak<Session>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(session) = self.0.upgrade() {
            session.given_up.send_modify(|count| *count = count.saturating_sub(1));
        }
    }
}
