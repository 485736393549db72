//! How a coordinator connects and writes: what the [`Builder`](crate::Builder) collects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Acl, Acls, Client, Connector};

use crate::cluster::Cluster;
use crate::node::Dialect;

/// What is asked of ZooKeeper unless told otherwise; `docs/defaults.md` has the reasons.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(15);
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// ZooKeeper refuses frames above 1 MiB by closing the connection, which would hit every lock of
/// the session; half of it leaves room for the path.
pub(crate) const DATA_LIMIT: usize = 512 * 1024;
/// An identity is one line for people.
pub(crate) const IDENTITY_LIMIT: usize = 4 * 1024;

/// What becomes of a lock's path that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParentMode {
    /// It is created as a container, which ZooKeeper removes some time after the last contender
    /// has left; as a persistent node on servers without containers.
    #[default]
    Container,
    /// It is created as a persistent node, which stays.
    Persistent,
    /// Acquiring fails with [`AcquireError::ParentMissing`](crate::AcquireError::ParentMissing).
    MustExist,
}

type ConnectorFactory = Arc<dyn Fn() -> Connector + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) cluster: Cluster,
    pub(crate) session_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) create_chroot: bool,
    pub(crate) parents: ParentMode,
    pub(crate) dialect: Dialect,
    pub(crate) acls: Option<Vec<Acl>>,
    pub(crate) identity: String,
    pub(crate) connector: Option<ConnectorFactory>,
}

impl Settings {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            session_timeout: SESSION_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: None,
            create_chroot: false,
            parents: ParentMode::default(),
            dialect: Dialect::default(),
            acls: None,
            identity: default_identity(),
            connector: None,
        }
    }

    pub(crate) fn connector(&self) -> Connector {
        let connector = self.connector.as_ref().map_or_else(Client::connector, |factory| factory());
        connector.with_session_timeout(self.session_timeout)
    }

    pub(crate) fn acls(&self) -> Acls<'_> {
        match &self.acls {
            Some(acls) => Acls::new(acls),
            None => Acls::anyone_all(),
        }
    }
}

/// `<host>/<process id>`: enough to find the process.
fn default_identity() -> String {
    #[cfg(target_os = "linux")]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
    format!("{host}/{}", std::process::id())
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("cluster", &self.cluster)
            .field("session_timeout", &self.session_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}
