//! Locks that are watched while they change, and while connections, servers and sessions go.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;
#[path = "common/view.rs"]
mod view;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use integration::proxy::{Direction, Kind, OpCode};
use integration::{Ensemble, Observer as Raw, Proxy, Server, eventually, stays, within};
use lock_recipes::observe::{Facts, Method, ObserveError, ObservedLock};
use lock_recipes::{Coordinator, Lock};
use support::{MILLIS, SECONDS, SOON, Scene, connect, session_of, start};
use tokio::task::JoinSet;
use tokio::time::Instant;
use view::{Client, View, below, curator, hex, names, told, truth};
use zookeeper_client::{Acls, CreateMode};

/// How servers count one recursive watch: some among those of data and among those of children.
const WATCH: RangeInclusive<u64> = 1..=2;

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        // Knuth's MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Makes and deletes contenders of its own at random until told to stop; when its last change was
/// answered.
async fn churn(
    client: Arc<Client>,
    paths: Vec<String>,
    stop: Arc<AtomicBool>,
    seed: u64,
) -> Instant {
    let mut dice = Dice(seed);
    let mut mine: Vec<(String, String)> = Vec::new();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if mine.len() > dice.below(8) {
            let (path, name) = mine.swap_remove(dice.below(mine.len()));
            client.delete(&path, &name).await;
        } else {
            let path = &paths[dice.below(paths.len())];
            let prefix =
                if dice.below(2) == 0 { curator("lock-") } else { format!("{}__lock__", hex()) };
            mine.push((path.clone(), client.queue(path, &prefix, b"").await));
        }
        last = Instant::now();
        if dice.below(50) == 0 {
            tokio::time::sleep(MILLIS(20)).await;
        }
    }
    for (path, name) in mine.split_off(mine.len().min(2)) {
        client.delete(&path, &name).await;
        last = Instant::now();
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_of_locks_in_turmoil_is_what_the_server_has_when_they_calm_down() {
    start();
    let server = Server::builder().unsafe_fast().start().await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let raw = Raw::connect(&server.connect_string()).await;
    let paths: Vec<_> = (0..30).map(|number| format!("/locks/{number:02}")).collect();
    for path in &paths {
        raw.mkdir(path).await;
    }
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(Arc::new(Client::connect(&server.connect_string()).await));
    }
    let coordinator = connect(&proxy.connect_string()).await;
    let sessions = server.metric("zk_num_alive_connections").await;
    let watches = server.watch_count().await;
    let mut view = View::watch(&below(&coordinator, "/locks")).await;
    assert_eq!(view.listed[0].by, Method::Watch);
    let one = server.watch_count().await - watches;
    assert!(WATCH.contains(&one), "{one}");
    for round in 0..4 {
        let stop = Arc::new(AtomicBool::new(false));
        let mut working = JoinSet::new();
        for (number, client) in clients.iter().enumerate() {
            let (client, paths, stop) = (Arc::clone(client), paths.clone(), Arc::clone(&stop));
            working.spawn(churn(client, paths, stop, round * 100 + number as u64));
        }
        let until = Instant::now() + SECONDS(1);
        let _ = tokio::time::timeout_at(until, view.until("ever", |_| false)).await;
        stop.store(true, Ordering::Relaxed);
        let last = working.join_all().await.into_iter().max().unwrap();
        let truth = truth(&raw, &paths).await;
        assert!(truth.len() > 3, "{truth:?}");
        // Names first, and what their nodes say when it was read.
        let is_read = |view: &View| {
            let mut all = view.locks.values().flat_map(|lock| lock.contenders());
            all.all(|one| one.facts.read().is_some())
        };
        let right = |view: &View| told(view) == truth && is_read(view);
        view.until_at(last + MILLIS(500), "the truth", right).await;
        assert_eq!(view.listed.len(), 1);
        for lock in view.locks.values() {
            assert!(lock.holders.len() <= 1, "{lock:?}");
            let behind = lock.waiters.iter().map(|waiter| waiter.behind.clone());
            let ahead = lock.contenders().map(|one| vec![one.node.clone()]);
            assert!(behind.eq(ahead.take(lock.waiters.len())), "{lock:?}");
        }
    }
    assert_eq!(server.watch_count().await - watches, one);
    assert_eq!(server.metric("zk_num_alive_connections").await, sessions);
    assert_eq!(proxy.requests_by(OpCode::AddWatch).len(), 1);
    proxy.clear_frames();
    stays(SECONDS(2), "nothing is asked", async || proxy.requests().is_empty()).await;
    assert!(!proxy.frames().is_empty(), "it pings");
    drop(view);
    eventually(SOON, "no watch is left", async || {
        (server.watch_count().await == watches).then_some(())
    })
    .await;
}

/// A coordinator that watches locks, and a client whose nodes outlive the faults.
struct Fault {
    raw: Client,
    view: View,
    paths: Vec<String>,
}

impl Fault {
    /// Three locks, each with a holder and a waiter.
    async fn new(observed: &Coordinator, cluster: &str) -> Self {
        let raw = Client::connect(cluster).await;
        let paths: Vec<_> = (0..3).map(|number| format!("/locks/{number}")).collect();
        for path in &paths {
            raw.raw.mkdir(path).await;
        }
        let view = View::watch(&below(observed, "/locks")).await;
        let mut fault = Self { raw, view, paths };
        fault.raw.raw.mkdir("/locks/leaves").await;
        fault.raw.queue("/locks/leaves", "x-1-", b"").await;
        fault.view.lock("/locks/leaves", |lock| lock.holders.len() == 1).await;
        for name in fault.raw.raw.children("/locks/leaves").await {
            fault.raw.delete("/locks/leaves", &name).await;
        }
        for _ in 0..2 {
            for path in fault.paths.clone() {
                fault.raw.queue(&path, &curator("lock-"), b"").await;
            }
        }
        fault.agrees().await;
        let mut holders = fault.view.locks.values().flat_map(|lock| &lock.holders);
        assert!(holders.all(|holder| holder.granted.is_some()));
        fault
    }

    /// Reads until what is told is what the server has.
    async fn agrees(&mut self) {
        let truth = truth(&self.raw.raw, &self.paths).await;
        self.view.until("the truth", |view| told(view) == truth).await;
    }

    /// The holder of the first lock goes, and another waiter comes to the second; the third is made
    /// free, and a fourth appears.
    async fn change(&mut self) {
        let paths = self.paths.clone();
        let queues = truth(&self.raw.raw, &paths).await;
        self.raw.delete(&paths[0], &queues[&paths[0]][0]).await;
        self.raw.queue(&paths[1], &curator("lock-"), b"").await;
        for name in &queues[&paths[2]] {
            self.raw.delete(&paths[2], name).await;
        }
        // A lock that is free leaves altogether.
        assert!(self.raw.raw.delete("/locks/leaves").await);
        self.raw.raw.mkdir("/locks/new").await;
        self.raw.queue("/locks/new", &curator("lock-"), b"").await;
        self.paths.push("/locks/new".to_owned());
    }

    /// After the gap: everything is right again, soon after the connection by this proxy.
    async fn recovers(&mut self, proxy: &Proxy, gaps: usize, granted: Instant) {
        let listed = self.view.listing(1 + gaps).await;
        let gap = listed.gap.unwrap();
        let mut connects = proxy.frames().into_iter().filter(|frame| {
            matches!(frame.kind, Kind::Connect { .. }) && frame.direction == Direction::ToClient
        });
        let connected = connects.next_back().unwrap().at;
        assert!(gap.from < connected && connected < gap.until);
        assert!(gap.until - connected < SECONDS(2), "{:?}", gap.until - connected);
        assert!(listed.missing.is_empty() && listed.denied.is_empty());
        assert_eq!(self.view.disconnected, gaps);
        let truth = truth(&self.raw.raw, &self.paths).await;
        self.view.drain();
        assert_eq!(told(&self.view), truth, "at once with the listing");
        assert!(self.view.locks.keys().eq(&self.paths), "{:?}", self.view);
        let granted = |path: usize| {
            let lock = &self.view.locks[&self.paths[path]];
            lock.holders.first().and_then(|holder| holder.granted).map(|at| at < granted.into_std())
        };
        // New since the gap, held before and after it, free, and new as a whole.
        assert_eq!([0, 1, 2, 3].map(granted), [None, Some(true), None, None]);
        // It is followed again.
        let path = self.paths[1].clone();
        let holder = self.view.locks[&path].holders[0].node.clone();
        self.raw.delete(&path, &holder).await;
        let lock = self.view.lock(&path, |lock| lock.holders[0].node != holder).await;
        assert!(lock.holders[0].granted.is_some());
        self.agrees().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_frozen_server_and_a_restarted_one_everything_is_told_again() {
    start();
    let server = Server::start().await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let coordinator = connect(&proxy.connect_string()).await;
    let mut fault = Fault::new(&coordinator, &server.connect_string()).await;
    let watches = server.watch_count().await;
    // Changes in the gap are made by a client that the fault does not reach.
    let before = Instant::now();
    proxy.blackhole(true);
    fault.view.until("it is noticed", |view| view.disconnected == 1).await;
    fault.change().await;
    proxy.heal_dropping();
    fault.recovers(&proxy, 1, before).await;
    assert_eq!(server.watch_count().await, watches);

    server.freeze();
    fault.view.until("it is noticed", |view| view.disconnected == 2).await;
    server.thaw();
    fault.view.listing(3).await;
    fault.agrees().await;

    server.kill().await;
    fault.view.until("it is noticed", |view| view.disconnected == 3).await;
    server.restart().await;
    fault.view.listing(4).await;
    fault.agrees().await;
    assert!(fault.view.listed.iter().skip(1).all(|listed| listed.gap.is_some()));
    eventually(SOON, "one watch", async || (server.watch_count().await == watches).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_moves_to_another_server_tells_what_it_has_missed() {
    start();
    let ensemble = Ensemble::start(3).await;
    let servers = ensemble.servers();
    let leader = ensemble.leader().await;
    let [one, other] = [1, 2].map(|number| (leader + number) % 3);
    let first = Proxy::start(&servers[one].connect_string()).await;
    let second = Proxy::start(&servers[other].connect_string()).await;
    second.refuse(true);
    let proxies = format!("{},{}", first.connect_string(), second.connect_string());
    let coordinator = connect(&proxies).await;
    let session = session_of(&coordinator);
    let mut fault = Fault::new(&coordinator, &servers[leader].connect_string()).await;
    let before = Instant::now();
    ensemble.freeze(one);
    fault.change().await;
    fault.view.until("it is noticed", |view| view.disconnected == 1).await;
    second.refuse(false);
    fault.recovers(&second, 1, before).await;

    ensemble.thaw(one);
    ensemble.ready().await;
    ensemble.kill(other).await;
    fault.view.until("it is noticed", |view| view.disconnected == 2).await;
    fault.view.listing(3).await;
    fault.agrees().await;
    assert_eq!(session_of(&coordinator), session);
    let watches = servers[one].watch_count().await + servers[leader].watch_count().await;
    assert!(WATCH.contains(&watches), "{watches}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_expires_is_followed_by_one_that_observes_on() {
    start();
    let server = Server::start().await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let builder = Coordinator::builder(&proxy.connect_string()).session_timeout(SECONDS(2));
    let coordinator = builder.connect_timeout(SOON).connect().await.unwrap();
    let mut fault = Fault::new(&coordinator, &server.connect_string()).await;
    let (session, watches) = (session_of(&coordinator), server.watch_count().await);
    let before = Instant::now();
    for gap in 1..=2 {
        // A node that tells of the session's end.
        let guard = Lock::new(&coordinator, "/other").unwrap().acquire().await.unwrap();
        let node = format!("/other/{}", guard.node());
        proxy.refuse(true);
        proxy.cut();
        fault.view.until("it is noticed", |view| view.disconnected == gap).await;
        if gap == 1 {
            fault.change().await;
        }
        fault.raw.raw.wait_gone(&node, SOON).await;
        proxy.refuse(false);
        if gap == 1 {
            fault.recovers(&proxy, 1, before).await;
        }
        fault.view.listing(1 + gap).await;
        fault.agrees().await;
        assert_eq!(server.watch_count().await, watches);
        drop(guard);
    }
    assert_ne!(session_of(&coordinator), session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_recursive_watches_is_asked_again_and_again() {
    start();
    let server = Server::start().await;
    let proxy = Proxy::start(&server.connect_string()).await;
    for opcode in [OpCode::AddWatch, OpCode::GetAllChildrenNumber, OpCode::MultiRead] {
        proxy.rewrite_error(opcode, -6);
    }
    let raw = Client::connect(&server.connect_string()).await;
    raw.raw.mkdir("/locks/a").await;
    let first = raw.queue("/locks/a", &curator("lock-"), b"").await;
    let coordinator = connect(&proxy.connect_string()).await;
    let interval = MILLIS(300);
    let observer = below(&coordinator, "/locks").node_limit(1_000).poll_interval(interval);
    let mut view = View::watch(&observer).await;
    assert_eq!(view.listed[0].by, Method::Poll(interval));
    assert_eq!(view.locks["/locks/a"].holders[0].node, first);
    let second = raw.queue("/locks/a", &curator("lock-"), b"").await;
    view.lock("/locks/a", |lock| lock.waiters.len() == 1).await;
    raw.delete("/locks/a", &first).await;
    let lock = view.lock("/locks/a", |lock| lock.holders[0].node == second).await;
    assert_eq!((lock.waiters.len(), lock.holders[0].granted), (0, None));
    raw.delete("/locks/a", &second).await;
    view.lock("/locks/a", |lock| lock.holders.is_empty()).await;
    assert!(raw.raw.delete("/locks/a").await);
    view.until("it is gone", |view| view.locks.is_empty()).await;
    // Within the interval, not before it: the lists go on, and no faster.
    let lists = || proxy.requests_by(OpCode::GetChildren).len();
    let (before, since) = (lists(), Instant::now());
    eventually(SOON, "it goes on", async || (lists() >= before + 6).then_some(())).await;
    let took = since.elapsed();
    assert!((interval * 2..interval * 10).contains(&took), "{took:?}");
    assert!(view.listed.len() == 1 && view.disconnected == 0, "{view:?}");
    // It does not ask for watches again.
    assert_eq!(proxy.requests_by(OpCode::AddWatch).len(), 1);
}

#[tokio::test]
async fn a_root_that_is_not_there_is_named_and_followed_when_it_comes_goes_and_comes_again() {
    let scene = Scene::new("missing").await;
    let client = Client::connect(&scene.server.connect_string()).await;
    let coordinator = scene.coordinator().await;
    let observer = below(&coordinator, &scene.path);
    assert_eq!(observer.read().await.unwrap().listed.missing, [&*scene.path]);
    let mut view = View::watch(&observer).await;
    assert_eq!((&view.listed[0].missing, view.listed[0].nodes), (&vec![scene.path.clone()], 0));
    let lock = format!("{}/a", scene.path);
    for round in 0..3 {
        client.raw.mkdir(&lock).await;
        let name = client.queue(&lock, &curator("lock-"), b"").await;
        let told = view.lock(&lock, |lock| lock.holders.len() == 1).await;
        assert_eq!((names(&told.holders), told.holders[0].granted.is_some()), (vec![&*name], true));
        assert!(view.listing(2 + 2 * round).await.missing.is_empty());
        if round == 1 {
            // Who begins now sees the same.
            let reading = observer.read().await.unwrap();
            assert!(reading.listed.missing.is_empty() && reading.locks.len() == 1);
        }
        client.delete(&lock, &name).await;
        view.lock(&lock, |lock| lock.holders.is_empty()).await;
        assert!(client.raw.delete(&lock).await && client.raw.delete(&scene.path).await);
        view.until("it has gone", |view| view.locks.is_empty()).await;
        assert_eq!(view.listing(3 + 2 * round).await.missing, [&*scene.path]);
    }
}

#[tokio::test]
async fn whoever_stops_to_observe_leaves_no_watch_and_the_coordinators_end_is_told() {
    let scene = Scene::with_path("dropped").await;
    let coordinator = scene.coordinator().await;
    let watched = async || scene.server.four_letter("wchp").await.unwrap().contains(&scene.path);
    let first = View::watch(&below(&coordinator, &scene.path)).await;
    let mut second = View::watch(&below(&coordinator, &scene.path)).await;
    assert!(watched().await);
    drop(first);
    // The other one goes on.
    let client = Client::connect(&scene.server.connect_string()).await;
    client.queue(&scene.path, &curator("lock-"), b"").await;
    second.lock(&scene.path, |lock| lock.holders.len() == 1).await;
    drop(second);
    eventually(SOON, "no watch is left", async || (!watched().await).then_some(())).await;
    // Dropped while it begins.
    for _ in 0..20 {
        let observation = below(&coordinator, &scene.path).watch();
        tokio::task::yield_now().await;
        drop(observation);
    }
    eventually(SOON, "no watch is left", async || (!watched().await).then_some(())).await;
    let mut view = View::watch(&below(&coordinator, &scene.path)).await;
    within(SOON, "it closes", coordinator.close()).await.unwrap();
    view.until("it is told", |view| matches!(view.failed, Some(ObserveError::Closed))).await;
}

#[tokio::test]
async fn a_lone_leader_that_follows_another_is_not_taken_for_it() {
    let scene = Scene::with_path("hbase").await;
    let cluster = scene.server.connect_string();
    let (old, new) = (Client::connect(&cluster).await, Client::connect(&cluster).await);
    let path = format!("{}/hbase/master", scene.path);
    old.raw.mkdir(&format!("{}/hbase", scene.path)).await;
    old.lone(&format!("{}/hbase", scene.path), "master", b"old").await;
    let proxy = scene.proxy().await;
    let coordinator = connect(&proxy.connect_string()).await;
    let mut view = View::watch(&below(&coordinator, &scene.path)).await;
    let lock = view.lock(&path, |_| true).await;
    assert_eq!(lock.holders[0].granted, None, "nobody knows since when");
    // In one transaction, so that there is nothing to be seen in between.
    let swap = async |client: &Client| {
        let mut swap = client.raw.client().new_multi_writer();
        swap.add_delete(&path, None).unwrap();
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        swap.add_create(&path, b"new", &options).unwrap();
        swap.commit().await.unwrap();
    };
    let leads = |client: &Client| {
        let session = client.session();
        let is_it = move |facts: &Facts| facts.read().is_some_and(|read| read.session == session);
        move |lock: &ObservedLock| is_it(&lock.holders[0].facts)
    };
    for client in [&new, &old] {
        let before = view.locks[&path].holders[0].granted;
        swap(client).await;
        let lock = view.lock(&path, leads(client)).await;
        assert!(lock.holders[0].granted > before, "{lock:?}");
    }
    // While nobody looks: it has the name of the one that was seen to come.
    proxy.refuse(true);
    proxy.cut();
    view.until("it is noticed", |view| view.disconnected == 1).await;
    swap(&new).await;
    proxy.refuse(false);
    view.listing(2).await;
    let lock = view.lock(&path, leads(&new)).await;
    assert_eq!(lock.holders[0].granted, None);
}
