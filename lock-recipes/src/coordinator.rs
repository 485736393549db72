//! [`Coordinator`]: the long-lived handle of a service. It owns the current ZooKeeper session and
//! opens a new one when the old one is over.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_client::{CreateMode, Error};

use crate::builder::Builder;
use crate::error::{CloseError, ConnectError};
use crate::health::LossReason;
use crate::reentrant::Holds;
use crate::session::{Hex, Link, Opened, Session, Trouble};
use crate::settings::Settings;

/// Between two tries to connect; doubled after each failure, and drawn at random below.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// How long [`Coordinator::close`] waits for ZooKeeper.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a new session waits for the last use of the old one to end.
const GONE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to ZooKeeper for as long as the service runs. Cheap to clone: clones are the same
/// coordinator.
///
/// Every lock is made from one. It keeps one ZooKeeper session at a time; when that is over, all
/// guards of it are [lost](crate::LockGuard::lost), and a new one is opened in the background.
/// Acquisitions that wait go on in the new session, at the back of the queue.
///
/// Dropping the last clone, with no lock or guard left, ends the session in the background;
/// [`Coordinator::close`] does so and says whether ZooKeeper confirmed it.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_recipes::{Coordinator, Lock};
///
/// let coordinator = Coordinator::connect("zk1:2181,zk2:2181,zk3:2181/shop").await?;
/// let lock = Lock::new(&coordinator, "/locks/orders")?;
/// let guard = lock.acquire().await?;
/// println!("holding with token {}", guard.token());
/// guard.release().await?;
/// coordinator.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Coordinator {
    pub(crate) core: Arc<Core>,
    _open: Arc<Open>,
}

/// The state of a coordinator, for health endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinatorState {
    /// There is no session; one is being opened.
    Connecting,
    /// There is a session. Its connection may be lost for the moment: see
    /// [`Coordinator::is_connected`].
    Connected {
        /// Its id, as ZooKeeper counts it.
        session: i64,
        /// Its timeout as negotiated, which may differ from what was asked for.
        timeout: Duration,
    },
    /// It was closed, or its runtime has ended.
    Closed,
}

/// What locks, guards and tasks need of a coordinator.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Arc<Settings>,
    pub(crate) runtime: Handle,
    pub(crate) holds: Holds,
    current: watch::Receiver<Current>,
    closing: watch::Sender<bool>,
}

/// Ends the session with the last handle.
#[derive(Debug)]
struct Open(watch::Sender<bool>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

#[derive(Clone, Debug)]
enum Current {
    Connecting,
    Session(Arc<Session>),
    Closed(Option<Ending>),
}

/// A session that is being closed: what every close waits for. It keeps nothing of it alive.
#[derive(Clone, Debug)]
struct Ending {
    link: Link,
    timeout: Duration,
    left: Vec<String>,
}

impl Ending {
    fn of(session: &Session) -> Self {
        Self { link: session.link(), timeout: session.timeout, left: session.registry().left() }
    }
}

impl Coordinator {
    /// Connects with the defaults; [`Coordinator::builder`] changes them.
    ///
    /// `cluster` is `host:port,host:port,…`, perhaps followed by `/chroot`.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the connect string is malformed, no session is established within
    /// 30 seconds, or the chroot does not exist.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the connection up. ZooKeeper ends a session that was established
    /// meanwhile.
    pub async fn connect(cluster: &str) -> Result<Self, ConnectError> {
        Self::builder(cluster).connect().await
    }

    /// Collects settings before connecting.
    pub fn builder(cluster: &str) -> Builder {
        Builder::new(cluster)
    }

    pub(crate) async fn open(settings: Settings) -> Result<Self, ConnectError> {
        let runtime = Handle::try_current().map_err(|_| ConnectError::NoRuntime)?;
        let settings = Arc::new(settings);
        let opened = connect_within(&settings).await?;
        let mut unowned = Unowned(Some(Arc::clone(&opened.session)));
        settle_chroot(&settings, &opened.session).await?;
        unowned.0 = None;
        let (current_sender, current) =
            watch::channel(Current::Session(Arc::clone(&opened.session)));
        let (closing, close) = watch::channel(false);
        let core = Arc::new(Core {
            settings: Arc::clone(&settings),
            runtime: runtime.clone(),
            holds: Holds::default(),
            current,
            closing: closing.clone(),
        });
        runtime.spawn(supervise(settings, opened, current_sender, close));
        Ok(Self { core, _open: Arc::new(Open(closing)) })
    }

    /// The state as it is now.
    #[must_use]
    pub fn state(&self) -> CoordinatorState {
        CoordinatorState::from(&*self.core.current.borrow())
    }

    /// Whether the connection stands at this moment: what a health endpoint asks. `false` during an
    /// outage that the session may survive, when [`Coordinator::state`] still tells of the session.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &*self.core.current.borrow() {
            Current::Session(session) => session.over().is_none() && session.is_connected(),
            Current::Connecting | Current::Closed(_) => false,
        }
    }

    /// Follows the state.
    #[must_use]
    pub fn watch_state(&self) -> StateWatch {
        let mut current = self.core.current.clone();
        // What changed before is no news.
        current.mark_unchanged();
        StateWatch(current)
    }

    /// Ends the session and with it every hold and every acquisition under way, and waits until
    /// ZooKeeper confirms that its nodes are gone. Closing twice is closing once.
    ///
    /// # Errors
    ///
    /// [`CloseError`] if there is no confirmation within 5 seconds; it says what may be left.
    ///
    /// # Cancel safety
    ///
    /// Closing goes on in the background.
    pub async fn close(&self) -> Result<(), CloseError> {
        self.close_timeout(CLOSE_TIMEOUT).await
    }

    /// [`Coordinator::close`] with another deadline.
    ///
    /// # Errors
    ///
    /// [`CloseError`] if there is no confirmation within `timeout`.
    ///
    /// # Cancel safety
    ///
    /// Closing goes on in the background.
    pub async fn close_timeout(&self, timeout: Duration) -> Result<(), CloseError> {
        self.core.closing.send_replace(true);
        let ending = match &*self.core.current.borrow() {
            Current::Session(session) => {
                session.end(LossReason::SessionClosed);
                Some(Ending::of(session))
            }
            Current::Connecting => None,
            Current::Closed(ending) => ending.clone(),
        };
        let Some(Ending { mut link, timeout: session_timeout, left }) = ending else {
            return Ok(());
        };
        let unconfirmed = CloseError { waited: timeout, session_timeout, left };
        // The client ends the session on the server when the last use of it has gone.
        let closed = async move {
            tokio::time::timeout(timeout, async {
                while !link.state().is_terminated() {
                    link.changed().await;
                }
            })
            .await
        };
        match self.core.runtime.spawn(closed).await {
            Ok(Ok(())) | Err(_) => Ok(()),
            Ok(Err(_)) => Err(unconfirmed),
        }
    }
}

impl Core {
    /// The current session, waited for if there is none; `None` once the coordinator is closed.
    pub(crate) async fn session(&self) -> Option<Arc<Session>> {
        let mut current = self.current.clone();
        loop {
            match &*current.borrow_and_update() {
                Current::Session(session) if session.over().is_none() => {
                    return Some(Arc::clone(session));
                }
                Current::Session(_) | Current::Connecting => {}
                Current::Closed(_) => return None,
            }
            current.changed().await.ok()?;
        }
    }
}

/// Follows the state of a [`Coordinator`].
#[derive(Clone)]
pub struct StateWatch(watch::Receiver<Current>);

impl StateWatch {
    /// The state as it is now.
    #[must_use]
    pub fn get(&self) -> CoordinatorState {
        CoordinatorState::from(&*self.0.borrow())
    }

    /// Waits for a change since the last call, and returns the state then.
    ///
    /// # Cancel safety
    ///
    /// No change is missed, but several may be seen as one.
    pub async fn changed(&mut self) -> CoordinatorState {
        if self.0.changed().await.is_err() {
            return CoordinatorState::Closed;
        }
        CoordinatorState::from(&*self.0.borrow_and_update())
    }
}

impl From<&Current> for CoordinatorState {
    fn from(current: &Current) -> Self {
        match current {
            Current::Session(session) if session.over().is_none() => {
                Self::Connected { session: session.id, timeout: session.timeout }
            }
            Current::Session(_) | Current::Connecting => Self::Connecting,
            Current::Closed(_) => Self::Closed,
        }
    }
}

/// A session that no coordinator owns yet: its own tasks would keep it for ever.
struct Unowned(Option<Arc<Session>>);

impl Drop for Unowned {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.end(LossReason::SessionClosed);
        }
    }
}

/// Says that the coordinator is closed, however its task ends: its runtime may have.
struct End(watch::Sender<Current>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.send_if_modified(|current| {
            let open = !matches!(current, Current::Closed(_));
            if open {
                *current = Current::Closed(None);
            }
            open
        });
    }
}

/// Keeps one session open after the other, until it is told to close.
async fn supervise(
    settings: Arc<Settings>,
    first: Opened,
    current: watch::Sender<Current>,
    mut close: watch::Receiver<bool>,
) {
    let _end = End(current.clone());
    let mut opened = first;
    loop {
        let Opened { session, gone } = opened;
        let reason = tokio::select! {
            reason = session.ended() => reason,
            _ = close.wait_for(|close| *close) => {
                session.end(LossReason::SessionClosed);
                LossReason::SessionClosed
            }
        };
        let closing = *close.borrow();
        current.send_replace(if closing {
            Current::Closed(Some(Ending::of(&session)))
        } else {
            Current::Connecting
        });
        let id = session.id;
        drop(session);
        if closing {
            return;
        }
        tracing::warn!(session = %Hex(id), %reason, "the ZooKeeper session is over, opening another");
        // No hold of the old session may live on beside the new one.
        let _ = tokio::time::timeout(GONE_TIMEOUT, gone).await;
        opened = tokio::select! {
            opened = reconnect(&settings) => opened,
            _ = close.wait_for(|close| *close) => {
                current.send_replace(Current::Closed(None));
                return;
            }
        };
        tracing::info!(
            session = %Hex(opened.session.id), timeout = ?opened.session.timeout,
            "opened a new ZooKeeper session",
        );
        current.send_replace(Current::Session(Arc::clone(&opened.session)));
    }
}

async fn reconnect(settings: &Arc<Settings>) -> Opened {
    let mut backoff = FIRST_BACKOFF;
    loop {
        match tokio::time::timeout(settings.connect_timeout, Session::open(settings)).await {
            Ok(Ok(opened)) => return opened,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot open a ZooKeeper session, trying again");
            }
            Err(_) => tracing::warn!("cannot open a ZooKeeper session in time, trying again"),
        }
        tokio::time::sleep(jitter(backoff)).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

/// The first session: whatever fails for a moment is tried again within the deadline.
async fn connect_within(settings: &Arc<Settings>) -> Result<Opened, ConnectError> {
    let deadline = Instant::now() + settings.connect_timeout;
    let hosts = || settings.cluster.hosts().to_owned();
    let mut backoff = FIRST_BACKOFF;
    let mut last = Error::Timeout;
    loop {
        match tokio::time::timeout_at(deadline, Session::open(settings)).await {
            Ok(Ok(opened)) => {
                let (asked, timeout) = (settings.session_timeout, opened.session.timeout);
                if asked != timeout {
                    tracing::info!(?asked, ?timeout, "the server set another session timeout");
                }
                return Ok(opened);
            }
            Ok(Err(source @ (Error::AuthFailed | Error::BadArguments(_)))) => {
                return Err(ConnectError::Refused { hosts: hosts(), source });
            }
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
        let pause = jitter(backoff);
        if Instant::now() + pause >= deadline {
            let waited = settings.connect_timeout;
            return Err(ConnectError::TimedOut { hosts: hosts(), waited, source: last });
        }
        tokio::time::sleep(pause).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

/// Makes the chroot, or sees that it exists.
async fn settle_chroot(settings: &Settings, session: &Session) -> Result<(), ConnectError> {
    let Some(chroot) = settings.cluster.chroot() else { return Ok(()) };
    let refused =
        |source| ConnectError::Refused { hosts: settings.cluster.hosts().to_owned(), source };
    let root = session.client.clone().chroot("/").map_err(|_| refused(Error::Timeout))?;
    if settings.create_chroot {
        let options = CreateMode::Persistent.with_acls(settings.acls());
        let made = session.answer(root.mkdir(chroot, &options)).await;
        return made.map_err(|trouble| refused(trouble.into_error()));
    }
    match session.answer(root.check_stat(chroot)).await {
        Ok(None) => Err(ConnectError::ChrootMissing { chroot: chroot.to_owned() }),
        // Since 3.9.2 looking needs READ, which a lock below does not.
        Ok(Some(_)) | Err(Trouble::Refused(Error::NoAuth)) => Ok(()),
        Err(Trouble::Refused(error)) => Err(refused(error)),
        Err(Trouble::Unknown(source)) => {
            let (hosts, waited) = (settings.cluster.hosts().to_owned(), session.request_timeout);
            Err(ConnectError::TimedOut { hosts, waited, source })
        }
    }
}

/// At random between a half and the whole, so that many clients do not come back at once.
fn jitter(backoff: Duration) -> Duration {
    backoff.mul_f64(0.5 + fastrand::f64() / 2.0)
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("cluster", &self.core.settings.cluster.hosts())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StateWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateWatch").field(&self.get()).finish()
    }
}
