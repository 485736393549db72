//! [`Builder`]: the settings of a coordinator.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Acl, Connector};

use crate::cluster::{Cluster, InvalidConnectString};
use crate::coordinator::Coordinator;
use crate::error::ConnectError;
use crate::node::Dialect;
use crate::settings::{IDENTITY_LIMIT, ParentMode, Settings};

/// Collects the settings of a [`Coordinator`]. `docs/defaults.md` lists them with their reasons.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_recipes::ConnectError> {
/// use std::time::Duration;
/// use lock_recipes::Coordinator;
///
/// let coordinator = Coordinator::builder("zk1:2181,zk2:2181/shop")
///     .session_timeout(Duration::from_secs(10))
///     .create_chroot(true)
///     .identity("orders-7")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing before connect()"]
pub struct Builder {
    settings: Result<Settings, InvalidConnectString>,
}

impl Builder {
    pub(crate) fn new(cluster: &str) -> Self {
        Self { settings: Cluster::parse(cluster).map(Settings::new) }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        if let Ok(settings) = &mut self.settings {
            change(settings);
        }
        self
    }

    /// The session timeout T to ask for; the server may set another. Default: 15 seconds.
    ///
    /// A dead holder's lock is free after T. Under [`LossPolicy::Presumed`](crate::LossPolicy) a
    /// hold survives an outage of T/3.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.session_timeout = timeout)
    }

    /// How long connecting may take. Default: 30 seconds.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.connect_timeout = timeout)
    }

    /// How long one request may stay unanswered before its fate is looked up.
    /// Default: a third of the session timeout.
    pub fn request_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.request_timeout = Some(timeout))
    }

    /// Whether to create the chroot of the connect string if it does not exist. Default: no.
    pub fn create_chroot(self, create: bool) -> Self {
        self.with(|settings| settings.create_chroot = create)
    }

    /// What becomes of a lock's path that does not exist. Default: [`ParentMode::Container`].
    pub fn parents(self, mode: ParentMode) -> Self {
        self.with(|settings| settings.parents = mode)
    }

    /// How contenders are named. Default: [`Dialect::Curator`], which Curator, go-zookeeper and
    /// zookeeper-client honour. [`Dialect::Kazoo`] is the only other one that is written.
    pub fn dialect(self, dialect: Dialect) -> Self {
        self.with(|settings| settings.dialect = dialect)
    }

    /// The ACL of every node that is created. Default: all permissions for anyone.
    pub fn acls(self, acls: Vec<Acl>) -> Self {
        self.with(|settings| settings.acls = Some(acls))
    }

    /// What contenders carry as data unless an acquisition says otherwise: one line by which people
    /// find the holder, at most 4 KiB. Default: `<host>/<process id>`.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        self.with(|settings| settings.identity = identity.into())
    }

    /// Makes the client's connector, for every session anew: this is where TLS, SASL and
    /// credentials are set. The session timeout is set on top of it. Hosts that speak TLS are headed
    /// with `tcp+tls://` in the connect string.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lock_recipes::ConnectError> {
    /// use lock_recipes::{Coordinator, zookeeper_client::Client};
    ///
    /// let coordinator = Coordinator::builder("zk1:2181")
    ///     .with_connector(|| Client::connector().with_auth("digest", b"user:password"))
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_connector(self, make: impl Fn() -> Connector + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.connector = Some(Arc::new(make)))
    }

    /// Connects. Must be called on a tokio runtime with I/O and time enabled: the session lives on
    /// it, and ends with it.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    ///
    /// # Panics
    ///
    /// On a tokio runtime that was built without time, as tokio's timers do.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the connection up.
    pub async fn connect(self) -> Result<Coordinator, ConnectError> {
        Coordinator::open(self.settle()?).await
    }

    /// Refuses what makes no sense, before anything is sent.
    fn settle(self) -> Result<Settings, ConnectError> {
        let settings = self.settings?;
        let check = |name, wrong: bool, reason: &str| {
            let reason = reason.to_owned();
            if wrong { Err(ConnectError::Setting { name, reason }) } else { Ok(()) }
        };
        let (session, longest) = (settings.session_timeout, Duration::from_secs(24 * 60 * 60));
        check("session_timeout", session < Duration::from_millis(100), "shorter than 100 ms")?;
        check("session_timeout", session > longest, "longer than a day")?;
        check("connect_timeout", settings.connect_timeout.is_zero(), "zero")?;
        check("connect_timeout", settings.connect_timeout > longest, "longer than a day")?;
        if let Some(request) = settings.request_timeout {
            check("request_timeout", request.is_zero(), "zero")?;
            let reason = "longer than half the session timeout, in which a hold is presumed lost";
            check("request_timeout", request > session / 2, reason)?;
        }
        check("identity", settings.identity.len() > IDENTITY_LIMIT, "longer than 4 KiB")?;
        let written = matches!(settings.dialect, Dialect::Curator | Dialect::Kazoo);
        check("dialect", !written, "names of this dialect are read, never written")?;
        check("acls", settings.acls.as_ref().is_some_and(Vec::is_empty), "empty")?;
        Ok(settings)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.settings).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: Builder) -> String {
        match builder.settle() {
            Err(ConnectError::Setting { name, .. }) => name.to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn incoherent_settings_are_refused_before_anything_is_sent() {
        let builder = || Builder::new("localhost:2181");
        assert_eq!(refused(builder().session_timeout(Duration::ZERO)), "session_timeout");
        assert_eq!(refused(builder().session_timeout(Duration::MAX)), "session_timeout");
        assert_eq!(refused(builder().connect_timeout(Duration::ZERO)), "connect_timeout");
        assert_eq!(refused(builder().request_timeout(Duration::from_secs(8))), "request_timeout");
        assert_eq!(refused(builder().identity("x".repeat(5_000))), "identity");
        assert_eq!(refused(builder().dialect(Dialect::ZooKeeper)), "dialect");
        assert_eq!(refused(builder().acls(Vec::new())), "acls");
        assert!(builder().settle().is_ok());
        assert!(matches!(Builder::new("").settle(), Err(ConnectError::ConnectString(_))));
    }
}
