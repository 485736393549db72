//! Several ZooKeeper servers that elect a leader, on loopback.

use std::ops::Range;
use std::time::Duration;

use crate::ports::free_port;
use crate::server::{Builder, READY, Server};
use crate::wait::eventually;

/// Another set of ports is tried, this often.
const ATTEMPTS: usize = 3;

/// How long an election may take.
const ELECTION: Duration = Duration::from_secs(30);

/// A running ensemble. It ends as its servers do: see [`Server`].
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
}

impl Ensemble {
    /// Starts `size` servers with the defaults, and returns when one leads and all others follow.
    pub async fn start(size: usize) -> Self {
        Self::start_with(size, Server::builder()).await
    }

    /// Starts `size` servers with these settings, and returns when one leads and all others follow.
    pub async fn start_with(size: usize, builder: Builder) -> Self {
        Self::start_numbered(1, size, builder).await
    }

    /// The same with servers whose numbers begin with `first`. The number is the first byte of the sessions
    /// that a server opens: from 128 on these are negative.
    pub async fn start_numbered(first: usize, size: usize, builder: Builder) -> Self {
        for _ in 1..ATTEMPTS {
            let ensemble = Self::launch(first..first + size, &builder);
            match ensemble.await_serving().await {
                Ok(()) => {
                    ensemble.ready().await;
                    return ensemble;
                }
                Err(failure) if failure.is_port_clash() => {}
                Err(failure) => panic!("{failure}"),
            }
        }
        panic!("{ATTEMPTS} sets of ports were taken by somebody else");
    }

    /// All members, by their index: what cannot be done here can be done to a member.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Where clients connect to: all members.
    pub fn connect_string(&self) -> String {
        let members: Vec<String> = self.servers.iter().map(Server::connect_string).collect();
        members.join(",")
    }

    /// The index of the leader; waits while there is none, or while two say so.
    ///
    /// A leader that was frozen and has been thawed may believe for a moment that it leads still.
    #[track_caller]
    pub fn leader(&self) -> impl Future<Output = usize> {
        eventually(ELECTION, "one server leads", async move || {
            let modes = self.modes().await;
            let is_leader = |mode: &Option<String>| mode.as_deref() == Some("leader");
            let leader = modes.iter().position(is_leader)?;
            (modes.iter().filter(|mode| is_leader(mode)).count() == 1).then_some(leader)
        })
    }

    /// The index of a server that follows.
    pub async fn follower(&self) -> usize {
        eventually(ELECTION, "a server follows", async || {
            self.modes().await.iter().position(|mode| mode.as_deref() == Some("follower"))
        })
        .await
    }

    /// Kills member `i` and returns when it is gone.
    pub async fn kill(&self, i: usize) {
        self.servers[i].kill().await;
    }

    /// Starts member `i` again, on the same data, and returns when it serves: a majority must be up.
    pub async fn restart(&self, i: usize) {
        self.servers[i].restart().await;
    }

    /// Stops member `i` in its tracks.
    pub fn freeze(&self, i: usize) {
        self.servers[i].freeze();
    }

    /// Lets member `i` go on.
    pub fn thaw(&self, i: usize) {
        self.servers[i].thaw();
    }

    /// Returns when one member leads and all others follow.
    #[track_caller]
    pub fn ready(&self) -> impl Future<Output = ()> {
        eventually(READY, "one server leads, the others follow", async move || {
            let modes = self.modes().await;
            let count = |role| modes.iter().flatten().filter(|mode| *mode == role).count();
            (count("leader") == 1 && count("follower") == modes.len() - 1).then_some(())
        })
    }

    /// The roles of all members, `None` for those that do not serve.
    pub async fn modes(&self) -> Vec<Option<String>> {
        let mut modes = Vec::new();
        for server in &self.servers {
            modes.push(if server.is_running() { server.mode().await } else { None });
        }
        modes
    }

    fn launch(numbers: Range<usize>, builder: &Builder) -> Self {
        let mut builder = builder.clone().config("initLimit=20").config("syncLimit=5");
        for id in numbers.clone() {
            let (quorum, election) = (free_port(), free_port());
            builder = builder.config(format!("server.{id}=127.0.0.1:{quorum}:{election}"));
        }
        let members = numbers.map(|id| builder.clone().launch(free_port(), Some(id)));
        Self { servers: members.collect() }
    }

    async fn await_serving(&self) -> Result<(), crate::server::Failure> {
        for server in &self.servers {
            server.await_serving().await?;
        }
        Ok(())
    }
}
