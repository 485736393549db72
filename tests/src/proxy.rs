//! A loopback proxy that understands ZooKeeper's frames.

mod frame;
mod pump;
mod rules;

use std::ops::Range;
use std::sync::{Arc, mpsc::sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;

pub use self::frame::{Direction, EventKind, Fate, Frame, Kind, OpCode, ReplyInfo, RequestInfo};
pub use self::rules::Action;

use self::pump::{Command, Shared};
use self::rules::State;

/// The proxy's thread answers a command at once.
const ANSWER: Duration = Duration::from_secs(10);

/// Stands between clients and one server.
///
/// It runs on a thread and a runtime of its own, so it lives as long as this value and never waits for a
/// test. Every control may be used from any thread; when it returns, it is in effect: no frame goes the old
/// way any more. All frames are recorded as they arrive.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    commands: Option<UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy before the server at `host:port`, which need not be there yet.
    pub async fn start(upstream: &str) -> Self {
        let shared = Arc::new(Shared::new(upstream));
        let (commands, inbox) = unbounded_channel();
        let (tell_port, port) = tokio::sync::oneshot::channel();
        let theirs = Arc::clone(&shared);
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let port = listener.local_addr().expect("an address").port();
                let _ = tell_port.send(port);
                pump::run(listener, theirs, inbox).await;
            });
        };
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(serve);
        let thread = thread.expect("a thread");
        let port = port.await.expect("the proxy listens");
        Self { port, shared, commands: Some(commands), thread: Some(thread) }
    }

    /// Where clients connect to: `127.0.0.1:port`.
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Closes all connections, both ways. New ones are accepted.
    pub fn cut(&self) {
        let (done, answer) = sync_channel(1);
        self.command(Command::Cut(done));
        answer.recv_timeout(ANSWER).expect("the proxy answers");
    }

    /// Whether new connections are closed as soon as they are accepted. Those that exist stay: see
    /// [`cut`](Self::cut).
    pub fn refuse(&self, refuse: bool) {
        self.change(move |state| state.refuse = refuse);
    }

    /// From now on nothing gets through either way, but nobody is told: whatever is sent is accepted and held,
    /// the end of a connection too. `false` is [`heal`](Self::heal).
    pub fn blackhole(&self, on: bool) {
        self.hold(on, on);
    }

    /// Holds what clients send, and lets replies and events pass. New connections get no answer.
    pub fn blackhole_requests_only(&self) {
        self.hold(true, false);
    }

    /// Holds what the server sends, and lets requests pass: they are executed, and nobody hears of it.
    pub fn blackhole_replies_only(&self) {
        self.hold(false, true);
    }

    /// Ends a blackhole: what was held goes on, in its order. Connections that were opened and given up
    /// inside it were never seen by the server, as with packets that are lost.
    pub fn heal(&self) {
        self.hold(false, false);
    }

    /// Ends a blackhole: what was held is thrown away, except that ends of connections arrive.
    pub fn heal_dropping(&self) {
        self.on_thread(|shared| {
            shared.gate.send_modify(|gate| {
                (gate.requests, gate.replies) = (false, false);
                gate.discard_before = Some(Instant::now());
            });
        });
    }

    /// Holds every frame for this long, in each direction, in order. For frames that arrive from now on.
    pub fn delay(&self, delay: Duration) {
        self.change(move |state| state.delay = delay);
    }

    /// Drops the `n`-th reply from now, counted from 0; everything after it is delivered. Pings, watch
    /// events, connect replies and restored watches are not counted.
    pub fn drop_reply(&self, n: usize) {
        self.on_reply(|_| true, n..n + 1, Action::Drop);
    }

    /// Drops the next `times` replies that match.
    pub fn drop_reply_matching(
        &self,
        matches: impl FnMut(&ReplyInfo) -> bool + Send + 'static,
        times: usize,
    ) {
        self.on_reply(matches, 0..times, Action::Drop);
    }

    /// Closes the connection in place of the `n`-th reply from now, counted as in
    /// [`drop_reply`](Self::drop_reply): the server has executed the request, the client does not know.
    pub fn cut_instead_of_reply(&self, n: usize) {
        self.on_reply(|_| true, n..n + 1, Action::Cut);
    }

    /// Answers every request with this operation by this error code (-6 is `Unimplemented`), in its turn; the
    /// server never executes it.
    pub fn rewrite_error(&self, opcode: OpCode, code: i32) {
        self.on_request(
            move |request| request.opcode == opcode,
            0..usize::MAX,
            Action::Error(code),
        );
    }

    /// Acts on those of the matching requests, counted from 0 from now on, whose number is in the range.
    /// Pings, connects, restored watches and closes are not asked about. All rules count every request; the
    /// first that applies decides.
    pub fn on_request(
        &self,
        matches: impl FnMut(&RequestInfo) -> bool + Send + 'static,
        numbers: Range<usize>,
        action: Action,
    ) {
        self.change(move |state| state.on_request(matches, numbers, action));
    }

    /// Acts on those of the matching replies, counted from 0 from now on, whose number is in the range.
    /// Which replies are asked about: see [`drop_reply`](Self::drop_reply).
    pub fn on_reply(
        &self,
        matches: impl FnMut(&ReplyInfo) -> bool + Send + 'static,
        numbers: Range<usize>,
        action: Action,
    ) {
        self.change(move |state| state.on_reply(matches, numbers, action));
    }

    /// Forgets all rules for requests and replies.
    pub fn clear_rules(&self) {
        self.change(State::clear_rules);
    }

    /// The next connect replies carry this session instead of the server's; `None` ends it.
    pub fn rewrite_connect_reply_session(&self, session: impl Into<Option<i64>>) {
        let session = session.into();
        self.change(move |state| state.reply_session = session);
    }

    /// Whether a client that comes back with its session asks, unknowingly, for a new one: the server grants
    /// it without a word, as ClickHouse Keeper does.
    pub fn new_session_on_reconnect(&self, on: bool) {
        self.change(move |state| state.new_session = on);
    }

    /// Clients ask for at most this session timeout; `None` ends it.
    pub fn cap_session_timeout(&self, cap: impl Into<Option<Duration>>) {
        let cap = cap.into();
        let cap = cap.map(|cap: Duration| i32::try_from(cap.as_millis()).unwrap_or(i32::MAX));
        self.change(move |state| state.timeout_cap = cap);
    }

    /// All frames since the start or the last [`clear_frames`](Self::clear_frames), as they arrived.
    pub fn frames(&self) -> Vec<Frame> {
        self.shared.state().frames.clone()
    }

    /// Empties the record.
    pub fn clear_frames(&self) {
        self.change(|state| state.frames.clear());
    }

    /// The requests in the record that users of clients asked for: no pings, connects, restored watches or
    /// closes.
    pub fn requests(&self) -> Vec<RequestInfo> {
        let frames = self.frames().into_iter();
        let requests = frames.filter_map(|frame| match frame.kind {
            Kind::Request(request) if request.is_users() => Some(request),
            _ => None,
        });
        requests.collect()
    }

    /// The requests in the record with this operation.
    pub fn requests_by(&self, opcode: OpCode) -> Vec<RequestInfo> {
        let requests = self.requests().into_iter();
        requests.filter(|request| request.opcode == opcode).collect()
    }

    /// The replies in the record, restored watches left out.
    pub fn replies(&self) -> Vec<ReplyInfo> {
        let frames = self.frames().into_iter();
        let replies = frames.filter_map(|frame| match frame.kind {
            Kind::Reply(reply) if reply.is_counted() => Some(reply),
            _ => None,
        });
        replies.collect()
    }

    /// The watch events in the record.
    pub fn events(&self) -> Vec<(EventKind, String)> {
        let frames = self.frames().into_iter();
        let events = frames.filter_map(|frame| match frame.kind {
            Kind::Event { event, path } => Some((event, path)),
            _ => None,
        });
        events.collect()
    }

    fn hold(&self, requests: bool, replies: bool) {
        self.on_thread(move |shared| {
            shared.gate.send_modify(|gate| (gate.requests, gate.replies) = (requests, replies));
        });
    }

    fn change(&self, change: impl FnOnce(&mut State) + Send + 'static) {
        self.on_thread(move |shared| change(&mut shared.state()));
    }

    fn on_thread(&self, change: impl FnOnce(&Shared) + Send + 'static) {
        let (done, answer) = sync_channel(1);
        self.command(Command::Change(Box::new(change), done));
        answer.recv_timeout(ANSWER).expect("the proxy answers");
    }

    fn command(&self, command: Command) {
        let sent = self.commands.as_ref().map(|commands| commands.send(command).is_ok());
        assert_eq!(sent, Some(true), "the proxy has ended");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
