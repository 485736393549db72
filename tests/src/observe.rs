//! An independent look at the server, through the raw client.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, Stat};

use crate::wait::{eventually, within};

/// No look takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// One child of a queue, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its name, without the parent.
    pub name: String,
    /// The session it belongs to; 0 for a node that is not ephemeral.
    pub owner: i64,
    /// The zxid of its creation.
    pub czxid: i64,
    /// Its data.
    pub data: Vec<u8>,
}

/// A session of its own that reads what is there and meddles by hand.
#[derive(Clone, Debug)]
pub struct Observer {
    client: Client,
}

impl Observer {
    /// Opens a session with the longest timeout the server allows.
    pub async fn connect(cluster: &str) -> Self {
        let connect = async {
            let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
            connector.connect(cluster).await.expect("the observer connects")
        };
        Self { client: within(LIMIT, "the observer connects", connect).await }
    }

    /// The raw client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The names of the children, sorted; none if there is no such node. Whatever was committed before the
    /// call is seen, on a follower too.
    pub async fn children(&self, path: &str) -> Vec<String> {
        // Requests of one session are served in order: the list comes after the sync.
        let sync = self.client.sync(path);
        let list = self.client.list_children(path);
        let both = async {
            let _ = sync.await;
            match list.await {
                Err(Error::NoNode) => Vec::new(),
                list => list.unwrap_or_else(|error| panic!("children of {path}: {error}")),
            }
        };
        let mut names = within(LIMIT, "children are listed", both).await;
        names.sort_unstable();
        names
    }

    /// The children in the order in which they were created, with owner and data.
    pub async fn queue(&self, path: &str) -> Vec<Child> {
        let names = self.children(path).await;
        let reads: Vec<_> = names
            .into_iter()
            .map(|name| (self.client.get_data(&join(path, &name)), name))
            .collect();
        let mut queue = Vec::new();
        for (read, name) in reads {
            match within(LIMIT, "a child is read", read).await {
                Ok((data, stat)) => {
                    let Stat { ephemeral_owner: owner, czxid, .. } = stat;
                    queue.push(Child { name, owner, czxid, data });
                }
                Err(Error::NoNode) => {}
                Err(error) => panic!("{name} of {path}: {error}"),
            }
        }
        queue.sort_unstable_by_key(|child| child.czxid);
        queue
    }

    /// The children of `path` that belong to this session, in the order of their creation.
    pub async fn ephemerals_of(&self, path: &str, session: i64) -> Vec<String> {
        let queue = self.queue(path).await.into_iter();
        queue.filter(|child| child.owner == session).map(|child| child.name).collect()
    }

    /// The node's stat, if there is such a node.
    pub async fn stat(&self, path: &str) -> Option<Stat> {
        let sync = self.client.sync(path);
        let stat = self.client.check_stat(path);
        let both = async {
            let _ = sync.await;
            stat.await.unwrap_or_else(|error| panic!("stat of {path}: {error}"))
        };
        within(LIMIT, "a node is checked", both).await
    }

    /// The node's data, if there is such a node.
    pub async fn data(&self, path: &str) -> Option<Vec<u8>> {
        match within(LIMIT, "a node is read", self.client.get_data(path)).await {
            Ok((data, _)) => Some(data),
            Err(Error::NoNode) => None,
            Err(error) => panic!("data of {path}: {error}"),
        }
    }

    /// Makes the node and its parents, persistent ones.
    pub async fn mkdir(&self, path: &str) {
        let options = persistent();
        let mkdir = self.client.mkdir(path, &options);
        let made = within(LIMIT, "a node is made", mkdir).await;
        assert!(matches!(made, Ok(()) | Err(Error::NodeExists)), "mkdir {path}: {made:?}");
    }

    /// Writes the node's data.
    pub async fn set_data(&self, path: &str, data: &[u8]) {
        let set = self.client.set_data(path, data, None);
        let set = within(LIMIT, "data is written", set).await;
        set.unwrap_or_else(|error| panic!("set data of {path}: {error}"));
    }

    /// Deletes the node; says whether there was one.
    pub async fn delete(&self, path: &str) -> bool {
        match within(LIMIT, "a node is deleted", self.client.delete(path, None)).await {
            Ok(()) => true,
            Err(Error::NoNode) => false,
            Err(error) => panic!("delete {path}: {error}"),
        }
    }

    /// Creates an ephemeral sequential child by hand, `path/prefix<sequence>`, as a foreign client would, and
    /// returns its name. The parent must exist.
    pub async fn create_ephemeral_like(&self, path: &str, prefix: &str) -> String {
        self.create_like(path, prefix, CreateMode::EphemeralSequential).await
    }

    /// The same as a persistent node: a contender that no session end removes.
    pub async fn create_persistent_like(&self, path: &str, prefix: &str) -> String {
        self.create_like(path, prefix, CreateMode::PersistentSequential).await
    }

    async fn create_like(&self, path: &str, prefix: &str, mode: CreateMode) -> String {
        let options = mode.with_acls(Acls::anyone_all());
        let full = join(path, prefix);
        let create = self.client.create(&full, b"", &options);
        match within(LIMIT, "a node is created", create).await {
            Ok((_, sequence)) => format!("{prefix}{sequence}"),
            Err(error) => panic!("create {full}: {error}"),
        }
    }

    /// Polls the children until `condition` holds for them, and returns them.
    ///
    /// Panics at the caller's line, with the children last seen, when `limit` has passed.
    #[track_caller]
    pub fn wait_until(
        &self,
        path: &str,
        mut condition: impl FnMut(&[String]) -> bool,
        limit: Duration,
    ) -> impl Future<Output = Vec<String>> {
        let caller = std::panic::Location::caller();
        async move {
            let start = tokio::time::Instant::now();
            loop {
                let children = self.children(path).await;
                if condition(&children) {
                    return children;
                }
                let waited = start.elapsed();
                assert!(waited < limit, "{path} after {waited:?}: {children:#?} ({caller})");
                tokio::time::sleep(crate::wait::POLL).await;
            }
        }
    }

    /// Waits until `path` has exactly `count` children, and returns them.
    #[track_caller]
    pub fn wait_for_count(
        &self,
        path: &str,
        count: usize,
        limit: Duration,
    ) -> impl Future<Output = Vec<String>> {
        self.wait_until(path, move |children| children.len() == count, limit)
    }

    /// Waits until there is no such node.
    #[track_caller]
    pub fn wait_gone(&self, path: &str, limit: Duration) -> impl Future<Output = ()> {
        eventually(limit, format!("{path} is gone"), async move || {
            self.stat(path).await.is_none().then_some(())
        })
    }
}

fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

fn join(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}
