//! The harness's proxy: it does to the frames what it says, and nothing else.

#![allow(clippy::expect_used)]

use std::time::{Duration, Instant};

use integration::proxy::{Action, Direction, EventKind, Kind, OpCode};
use integration::server::unique_path;
use integration::{Observer, Proxy, Server, eventually, stays, within};
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

/// A server, a proxy before it, a client of the proxy, an observer of the server, and a fresh node.
struct Scene {
    proxy: Proxy,
    client: Client,
    observer: Observer,
    path: String,
}

impl Scene {
    async fn new() -> Self {
        let server = Server::shared().await;
        let proxy = Proxy::start(&server.connect_string()).await;
        let observer = Observer::connect(&server.connect_string()).await;
        let path = unique_path("proxy");
        observer.mkdir(&path).await;
        let connector = Client::connector().with_session_timeout(SECONDS(3));
        let client = connector.connect(&proxy.connect_string()).await.expect("a session");
        Self { proxy, client, observer, path }
    }

    /// Creates a node; the request is sent when the future is first polled.
    fn create(&self, name: &str) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let (client, path) = (self.client.clone(), format!("{}/{name}", self.path));
        async move { client.create(&path, b"", &options).await.map(|_| ()) }
    }

    async fn connected(&self) {
        eventually(SECONDS(10), "the client is connected", async || {
            (self.client.state() == SessionState::SyncConnected).then_some(())
        })
        .await;
    }

    /// Cuts, and returns when the client has noticed and is connected again.
    async fn cut_and_reconnect(&self) {
        let mut states = self.client.state_watcher();
        self.proxy.cut();
        within(SECONDS(5), "the cut is seen", states.changed()).await;
        self.connected().await;
    }

    async fn children(&self) -> Vec<String> {
        self.observer.children(&self.path).await
    }

    /// The server has these nodes, or has them soon.
    async fn has(&self, names: &[&str]) {
        self.observer.wait_until(&self.path, |children| children == names, SECONDS(5)).await;
    }
}

#[tokio::test]
async fn frames_are_recorded() {
    let scene = Scene::new().await;
    scene.proxy.clear_frames();
    scene.create("a").await.unwrap();
    let node = format!("{}/a", scene.path);
    let (_, _, watcher) = scene.client.get_and_watch_data(&node).await.unwrap();
    scene.client.delete(&node, None).await.unwrap();
    within(SECONDS(5), "the watch fires", watcher.changed()).await;

    let requests = scene.proxy.requests();
    let opcodes: Vec<_> = requests.iter().map(|request| request.opcode).collect();
    assert_eq!(opcodes, [OpCode::Create2, OpCode::GetData, OpCode::Delete]);
    assert!(requests.iter().all(|request| request.path.as_deref() == Some(&*node)));
    assert_eq!(scene.proxy.requests_by(OpCode::Delete).len(), 1);
    assert_eq!(scene.proxy.replies()[0].created.as_deref(), Some(&*node));
    assert_eq!(scene.proxy.events(), [(EventKind::Deleted, node)]);
}

#[tokio::test]
async fn exactly_the_nth_reply_is_dropped() {
    let scene = Scene::new().await;
    scene.proxy.drop_reply(1);
    let (a, b) = (scene.create("a"), scene.create("b"));
    within(SECONDS(5), "the first reply arrives", a).await.unwrap();
    // The client has no answer, the server has the node.
    let lost = tokio::time::timeout(Duration::from_millis(300), b).await;
    assert!(lost.is_err(), "{lost:?}");
    scene.has(&["a", "b"]).await;
    assert_eq!(scene.proxy.replies().len(), 2);
    // A reply that is missing in the middle is a fault of the protocol: the client reconnects and goes on.
    scene.cut_and_reconnect().await;
    within(SECONDS(5), "the next reply arrives", scene.create("c")).await.unwrap();
    assert_eq!(scene.children().await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_matching_reply_is_dropped_and_no_other() {
    let scene = Scene::new().await;
    scene.proxy.drop_reply_matching(|reply| reply.created.is_some(), 1);
    scene.client.check_stat("/").await.unwrap();
    let lost = tokio::time::timeout(Duration::from_millis(300), scene.create("a")).await;
    assert!(lost.is_err(), "{lost:?}");
    scene.has(&["a"]).await;
}

#[tokio::test]
async fn a_cut_in_place_of_a_reply_leaves_the_request_executed() {
    let scene = Scene::new().await;
    scene.proxy.cut_instead_of_reply(1);
    let (a, b) = (scene.create("a"), scene.create("b"));
    within(SECONDS(5), "the first reply arrives", a).await.unwrap();
    let lost = within(SECONDS(5), "the second fails", b).await;
    assert!(matches!(lost, Err(Error::ConnectionLoss)), "{lost:?}");
    assert_eq!(scene.children().await, ["a", "b"]);
    scene.connected().await;
}

#[tokio::test]
async fn a_cut_in_place_of_a_request_leaves_nothing() {
    let scene = Scene::new().await;
    let is_create = |opcode| opcode == OpCode::Create2;
    scene.proxy.on_request(move |request| is_create(request.opcode), 0..1, Action::Cut);
    let lost = within(SECONDS(5), "the request fails", scene.create("a")).await;
    assert!(matches!(lost, Err(Error::ConnectionLoss)), "{lost:?}");
    scene.connected().await;
    assert!(scene.children().await.is_empty());
    within(SECONDS(5), "the next one passes", scene.create("a")).await.unwrap();
}

#[tokio::test]
async fn a_cut_is_seen_at_once_and_the_session_goes_on() {
    let scene = Scene::new().await;
    scene.create("a").await.unwrap();
    let mut states = scene.client.state_watcher();
    scene.proxy.refuse(true);
    scene.proxy.cut();
    let state = within(SECONDS(5), "the cut is seen", states.changed()).await;
    assert_eq!(state, SessionState::Disconnected);
    let before = scene.proxy.frames().len();
    stays(Duration::from_millis(200), "refused", async || {
        scene.client.state() == SessionState::Disconnected && scene.proxy.frames().len() == before
    })
    .await;
    scene.proxy.refuse(false);
    scene.connected().await;
    scene.client.sync("/").await.unwrap();
    assert_eq!(scene.children().await, ["a"]);
    let connects = scene.proxy.frames().into_iter().filter_map(|frame| match frame.kind {
        Kind::Connect { session, .. } => Some(session),
        _ => None,
    });
    let session = scene.client.session_id().0;
    let connects: Vec<_> = connects.collect();
    assert_eq!(
        connects,
        [0, session, session, session],
        "asked, granted, asked again, granted again"
    );
}

#[tokio::test]
async fn a_blackhole_holds_everything_until_it_is_healed() {
    let scene = Scene::new().await;
    scene.proxy.blackhole(true);
    let a = scene.create("a");
    let mut a = std::pin::pin!(a);
    let held = tokio::time::timeout(Duration::from_millis(200), &mut a).await;
    assert!(held.is_err() && scene.children().await.is_empty());
    assert_eq!(scene.client.state(), SessionState::SyncConnected);
    scene.proxy.heal();
    within(SECONDS(5), "the held request arrives", a).await.unwrap();

    scene.proxy.blackhole_replies_only();
    let b = scene.create("b");
    let mut b = std::pin::pin!(b);
    let held = tokio::time::timeout(Duration::from_millis(200), &mut b).await;
    assert!(held.is_err());
    scene.has(&["a", "b"]).await;
    scene.proxy.heal();
    within(SECONDS(5), "the held reply arrives", b).await.unwrap();

    scene.proxy.blackhole_requests_only();
    let c = tokio::time::timeout(Duration::from_millis(200), scene.create("c")).await;
    assert!(c.is_err());
    scene.proxy.heal_dropping();
    stays(Duration::from_millis(100), "c was dropped", async || scene.children().await.len() == 2)
        .await;
}

#[tokio::test]
async fn a_blackhole_can_begin_at_a_reply() {
    let scene = Scene::new().await;
    scene.proxy.on_reply(|reply| reply.created.is_some(), 1..2, Action::Blackhole);
    let (a, b) = (scene.create("a"), scene.create("b"));
    within(SECONDS(5), "what came before arrives", a).await.unwrap();
    let mut b = std::pin::pin!(b);
    let held = tokio::time::timeout(Duration::from_millis(200), &mut b).await;
    assert!(held.is_err());
    scene.has(&["a", "b"]).await;
    let c = tokio::time::timeout(Duration::from_millis(100), scene.create("c")).await;
    assert!(c.is_err());
    assert_eq!(scene.children().await, ["a", "b"]);
    scene.proxy.heal();
    within(SECONDS(5), "the held reply arrives", b).await.unwrap();
    scene.has(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn a_session_expires_in_a_long_blackhole() {
    let scene = Scene::new().await;
    scene.create("a").await.unwrap();
    scene.proxy.blackhole(true);
    scene.observer.wait_for_count(&scene.path, 0, SECONDS(6)).await;
    assert_eq!(scene.client.state(), SessionState::Disconnected);
    scene.proxy.clear_frames();
    scene.proxy.heal();
    eventually(SECONDS(5), "the client learns of it", async || {
        (scene.client.state() == SessionState::Expired).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_connection_given_up_in_a_blackhole_is_never_seen() {
    let scene = Scene::new().await;
    scene.proxy.blackhole(true);
    let connect = || {
        let connector = Client::connector().with_connection_timeout(Duration::from_millis(100));
        let cluster = scene.proxy.connect_string();
        async move { connector.with_fail_eagerly().connect(&cluster).await }
    };
    let given_up = within(SECONDS(5), "the attempt ends", connect()).await;
    assert!(given_up.is_err(), "{given_up:?}");
    scene.proxy.heal();
    within(SECONDS(5), "another connects", connect()).await.unwrap();
    let granted = scene.proxy.frames().into_iter().filter(|frame| {
        matches!(frame.kind, Kind::Connect { .. }) && frame.direction == Direction::ToClient
    });
    let connections: Vec<_> = granted.map(|frame| frame.connection).collect();
    assert_eq!(connections.len(), 2, "{connections:?}");
    assert!(connections[1] > 1, "{connections:?}");
}

#[tokio::test]
async fn a_delay_counts_both_ways_and_keeps_the_order() {
    let scene = Scene::new().await;
    scene.proxy.delay(Duration::from_millis(50));
    let start = Instant::now();
    let names: Vec<String> = (0..20).map(|i| format!("n{i:02}")).collect();
    let creates: Vec<_> = names.iter().map(|name| tokio::spawn(scene.create(name))).collect();
    for create in creates {
        create.await.unwrap().unwrap();
    }
    let took = start.elapsed();
    // Once there and once back; one after the other they would take two seconds.
    assert!((Duration::from_millis(100)..SECONDS(1)).contains(&took), "{took:?}");
    assert_eq!(scene.children().await, names);
    let queue = scene.observer.queue(&scene.path).await;
    assert!(queue.iter().map(|child| &child.name).eq(&names));
}

#[tokio::test]
async fn an_error_stands_in_for_a_request_that_is_not_executed() {
    let scene = Scene::new().await;
    scene.proxy.rewrite_error(OpCode::Create2, -6);
    let refused = scene.create("a").await;
    assert!(matches!(refused, Err(Error::Unimplemented)), "{refused:?}");
    assert!(scene.children().await.is_empty());
    scene.client.check_stat("/").await.unwrap();
    scene.proxy.clear_rules();
    scene.create("a").await.unwrap();
    let executed = |reply: &integration::proxy::ReplyInfo| reply.opcode == OpCode::Delete;
    scene.proxy.on_reply(executed, 0..1, Action::Error(-102));
    let delete = scene.client.delete(&format!("{}/a", scene.path), None).await;
    assert!(matches!(delete, Err(Error::NoAuth)), "{delete:?}");
    assert!(scene.children().await.is_empty());
}

#[tokio::test]
async fn a_session_can_be_replaced_silently() {
    let scene = Scene::new().await;
    let session = scene.client.session_id();
    scene.proxy.new_session_on_reconnect(true);
    scene.create("a").await.unwrap();
    scene.cut_and_reconnect().await;
    // The client thinks it is the same session.
    scene.create("b").await.unwrap();
    assert_eq!(scene.client.session_id(), session);
    let queue = scene.observer.queue(&scene.path).await;
    assert_eq!([&*queue[0].name, &*queue[1].name], ["a", "b"]);
    assert_eq!(queue[0].owner, session.0);
    assert_ne!(queue[1].owner, session.0);
}

#[tokio::test]
async fn a_connect_reply_can_name_another_session() {
    let scene = Scene::new().await;
    scene.proxy.rewrite_connect_reply_session(77);
    scene.proxy.cap_session_timeout(SECONDS(2));
    let client = Client::connector().connect(&scene.proxy.connect_string()).await.unwrap();
    assert_eq!(client.session_id().0, 77);
    assert_eq!(client.session_timeout(), SECONDS(2));
}
