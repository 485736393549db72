//! One real ZooKeeper server on loopback.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use crate::java::{Jvm, run_source};
use crate::ports::free_port;

/// How long a server may take to serve.
pub const READY: Duration = Duration::from_secs(60);

/// How long a four-letter word may take.
pub const FOUR_LETTER: Duration = Duration::from_secs(3);

/// How long [`Server::stop`] lets the server end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// A server that others have the port of is started again on another one, this often.
const ATTEMPTS: usize = 5;

const SEED_COUNTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/SeedCounter.java");

/// How to start a server. Made by [`Server::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    tick_time: Duration,
    force_sync: bool,
    java_opts: Vec<String>,
    config: Vec<String>,
    seeds: Vec<(String, i32)>,
}

impl Builder {
    /// ZooKeeper's tick, 500 ms by default. A session lives for 2 to 20 ticks unless said otherwise.
    #[must_use]
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.tick_time = tick;
        self
    }

    /// The shortest session timeout a client may have: 2 ticks by default.
    #[must_use]
    pub fn min_session_timeout(self, timeout: Duration) -> Self {
        self.config(format!("minSessionTimeout={}", timeout.as_millis()))
    }

    /// The longest session timeout a client may have: 20 ticks by default.
    #[must_use]
    pub fn max_session_timeout(self, timeout: Duration) -> Self {
        self.config(format!("maxSessionTimeout={}", timeout.as_millis()))
    }

    /// Starts with a node `path` under which `creates` children have been created already: the next
    /// sequence number there is `creates`. May be called for several paths.
    #[must_use]
    pub fn seed_counter(mut self, path: impl Into<String>, creates: i32) -> Self {
        self.seeds.push((path.into(), creates));
        self
    }

    /// Does not wait for the disk. For tests that make very many writes and never kill the machine.
    #[must_use]
    pub fn unsafe_fast(mut self) -> Self {
        self.force_sync = false;
        self
    }

    /// More options for `java`, such as `-Dznode.container.checkIntervalMs=500`.
    #[must_use]
    pub fn java_opts(mut self, opts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.java_opts.extend(opts.into_iter().map(Into::into));
        self
    }

    /// One more line for `zoo.cfg`.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Starts the server and returns when it serves.
    pub async fn start(self) -> Server {
        for _ in 1..ATTEMPTS {
            let server = self.clone().launch(free_port(), None);
            match server.await_serving().await {
                Ok(()) => return server,
                Err(failure) if failure.is_port_clash() => {}
                Err(failure) => panic!("{failure}"),
            }
        }
        panic!("{ATTEMPTS} ports in a row were taken by somebody else");
    }

    /// Starts the server on this port, as member `id` of an ensemble if there is one, and does not wait.
    pub(crate) fn launch(self, port: u16, id: Option<usize>) -> Server {
        let dir = tempfile::Builder::new().prefix("zookeeper-").tempdir().expect("a directory");
        let data = dir.path().join("data");
        fs::create_dir(&data).expect("a data directory");
        if let Some(id) = id {
            fs::write(data.join("myid"), id.to_string()).expect("myid is written");
        }
        if !self.seeds.is_empty() {
            let mut args = vec![data.display().to_string()];
            for (path, creates) in &self.seeds {
                args.extend([path.clone(), creates.to_string()]);
            }
            run_source(Path::new(SEED_COUNTER), &args);
        }
        let config = dir.path().join("zoo.cfg");
        fs::write(&config, self.zoo_cfg(port, &data)).expect("zoo.cfg is written");
        let mut java = vec![
            "-Dzookeeper.admin.enableServer=false".to_owned(),
            "-Dzookeeper.4lw.commands.whitelist=*".to_owned(),
            "-Dzookeeper.extendedTypesEnabled=true".to_owned(),
            "-Dorg.slf4j.simpleLogger.showDateTime=true".to_owned(),
        ];
        if !self.force_sync {
            java.push("-Dzookeeper.forceSync=no".to_owned());
        }
        java.extend(self.java_opts);
        java.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned());
        java.push(config.display().to_string());
        let server = Server { port, java, jvm: Mutex::new(None), dir };
        server.launch();
        server
    }

    fn zoo_cfg(&self, port: u16, data: &Path) -> String {
        let mut lines = vec![
            format!("dataDir={}", data.display()),
            format!("clientPort={port}"),
            "clientPortAddress=127.0.0.1".to_owned(),
            format!("tickTime={}", self.tick_time.as_millis()),
            // All clients come from one address.
            "maxClientCnxns=0".to_owned(),
        ];
        lines.extend_from_slice(&self.config);
        lines.join("\n") + "\n"
    }
}

/// A running ZooKeeper server with a data directory of its own.
///
/// It is killed, and its directory removed, when this value is dropped or when this process ends in
/// whatever way. Every method may be called from any thread and any runtime.
#[derive(Debug)]
pub struct Server {
    port: u16,
    java: Vec<String>,
    // Before `dir`: the process goes first.
    jvm: Mutex<Option<Jvm>>,
    dir: TempDir,
}

impl Server {
    /// A server with the defaults: see [`Builder`].
    pub fn builder() -> Builder {
        Builder {
            tick_time: Duration::from_millis(500),
            force_sync: true,
            java_opts: Vec::new(),
            config: Vec::new(),
            seeds: Vec::new(),
        }
    }

    /// Starts a server and returns when it serves.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// The one server of this test binary, for tests that use paths of their own (see [`unique_path`])
    /// and neither kill nor freeze it. The end of the process ends it.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// Where clients connect to: `127.0.0.1:port`.
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The client port. It stays the same over a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the Java process. Panics if the server is down.
    pub fn pid(&self) -> u32 {
        self.running(Jvm::pid)
    }

    /// Whether the process runs, frozen or not.
    pub fn is_running(&self) -> bool {
        self.jvm().as_ref().is_some_and(Jvm::is_alive)
    }

    /// Stops the process in its tracks (SIGSTOP): connections stay open, nothing is answered. Returns
    /// when all its threads have stopped.
    pub fn freeze(&self) {
        self.running(Jvm::freeze);
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn thaw(&self) {
        self.running(Jvm::thaw);
    }

    /// Kills the process (SIGKILL) and returns when it is gone. [`restart`](Self::restart) brings it back.
    pub async fn kill(&self) {
        let jvm = self.jvm().take();
        tokio::task::spawn_blocking(move || drop(jvm)).await.expect("killing does not panic");
    }

    /// Ends the process in an orderly way (SIGTERM), or kills it when that takes too long.
    pub async fn stop(&self) {
        let jvm = self.jvm().take();
        let end = tokio::task::spawn_blocking(move || jvm.map(|jvm| jvm.terminate(GRACE)));
        end.await.expect("stopping does not panic");
    }

    /// Starts the server again, killing it first if it runs: same port, same data. Returns when it serves.
    pub async fn restart(&self) {
        self.relaunch().await;
        self.serving().await;
    }

    /// [`restart`](Self::restart) without waiting until the server serves.
    pub async fn relaunch(&self) {
        self.kill().await;
        self.launch();
    }

    /// Returns when the server serves clients; panics with the end of its log if it does not within
    /// [`READY`].
    pub async fn serving(&self) {
        if let Err(failure) = self.await_serving().await {
            panic!("{failure}");
        }
    }

    /// The answer to a four-letter word such as `mntr`, within [`FOUR_LETTER`].
    ///
    /// # Errors
    ///
    /// What the socket said, or [`io::ErrorKind::TimedOut`], for instance of a frozen server.
    pub async fn four_letter(&self, word: &str) -> io::Result<String> {
        self.four_letter_within(word, FOUR_LETTER).await
    }

    /// [`four_letter`](Self::four_letter) with another limit.
    ///
    /// # Errors
    ///
    /// As [`four_letter`](Self::four_letter).
    pub async fn four_letter_within(&self, word: &str, limit: Duration) -> io::Result<String> {
        let ask = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            stream.write_all(word.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        };
        timeout(limit, ask).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// One number of `mntr`, such as `zk_znode_count`.
    pub async fn metric(&self, name: &str) -> u64 {
        let mntr = self.four_letter("mntr").await.expect("mntr is answered");
        let value = mntr.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {name}: {mntr}"))
    }

    /// How many watches the server keeps, all sessions together.
    pub async fn watch_count(&self) -> u64 {
        self.metric("zk_watch_count").await
    }

    /// The server's role as `srvr` tells it (`standalone`, `leader`, `follower`), or `None` while it does
    /// not serve.
    pub async fn mode(&self) -> Option<String> {
        let srvr = self.four_letter_within("srvr", Duration::from_secs(1)).await.ok()?;
        srvr.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// The directory that holds the server's configuration, data and log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn jvm(&self) -> MutexGuard<'_, Option<Jvm>> {
        self.jvm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running<T>(&self, act: impl FnOnce(&Jvm) -> T) -> T {
        act(self.jvm().as_ref().expect("the server is down"))
    }

    fn launch(&self) {
        let jvm = Jvm::spawn(&self.java, &self.log(), self.dir.path());
        *self.jvm() = Some(jvm);
    }

    /// Waits until the server serves: it answers, has a role, and is ours rather than another's on the
    /// same port.
    pub(crate) async fn await_serving(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + READY;
        let ours = format!("dataDir={}/", self.dir.path().join("data").display());
        loop {
            if !self.is_running() {
                return Err(self.failure("ended"));
            }
            if self.mode().await.is_some() {
                let conf = self.four_letter("conf").await.unwrap_or_default();
                if conf.contains(&ours) {
                    return Ok(());
                }
                if conf.contains("dataDir=") {
                    return Err(
                        self.failure("found another server on its port: Address already in use")
                    );
                }
            }
            if Instant::now() > deadline {
                return Err(self.failure("does not serve"));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn failure(&self, what: &str) -> Failure {
        let log = self.log_tail();
        // The log tells of the ports of an ensemble too, where there is a log.
        let down = !self.is_running();
        let port_clash = log.contains("Address already in use")
            || what.contains("another server")
            || down && TcpListener::bind(("127.0.0.1", self.port)).is_err();
        Failure { text: format!("the server on port {} {what}\n{log}", self.port), port_clash }
    }
}

/// Why a server does not serve, with the end of its log.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    port_clash: bool,
}

impl Failure {
    /// Whether another port would help.
    pub(crate) fn is_port_clash(&self) -> bool {
        self.port_clash
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A path nobody else uses: `/name-<uuid>`, for tests on a shared server.
pub fn unique_path(name: &str) -> String {
    format!("/{name}-{}", uuid::Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_told_from_other_failures() {
        let first = Server::start().await;
        let second = Server::builder().launch(first.port(), None);
        let failure = second.await_serving().await.unwrap_err();
        assert!(failure.is_port_clash(), "{failure}");
        drop(second);
        first.stop().await;
        let broken = Server::builder().config("tickTime=none").launch(first.port(), None);
        let failure = broken.await_serving().await.unwrap_err();
        assert!(!failure.is_port_clash(), "{failure}");
    }
}
