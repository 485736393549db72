//! Input that cannot work: one clear error, and nothing is lost or left behind.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use integration::{Observer, Proxy, Server, eventually, stays, within};
use lock_recipes::{
    AcquireError, AcquireOptions, Attempt, ConnectError, ContenderName, Coordinator,
    CoordinatorState, EnsureError, FencedWriteError, InvalidPath, Lock, LockPath, LossReason, Lost,
    ParentMode, Phase, ReadError, ReenterError, ReleaseError, VerifyError,
};
use support::{MILLIS, SECONDS, SOON, Scene, connect};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Error, Permission};

/// A port on which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The error and the causes behind it, as a log prints them.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
    text
}

#[tokio::test]
async fn a_malformed_connect_string_is_refused_before_anything_is_sent() {
    for (text, reason) in [
        ("", "a host is empty"),
        (",", "a host is empty"),
        ("127.0.0.1:2181,", "a host is empty"),
        ("127.0.0.1:2181,,127.0.0.1:2182", "a host is empty"),
        (":2181", "a host is empty"),
        ("127.0.0.1:0", "\"0\" is no port"),
        ("127.0.0.1:", "\"\" is no port"),
        ("127.0.0.1:zookeeper", "\"zookeeper\" is no port"),
        ("127.0.0.1:65536", "\"65536\" is no port"),
        ("127.0.0.1:2181 /a", "\"2181 \" is no port"),
        ("zk1 zk2", "no host name"),
        ("zk1/a,zk2", "no host name"),
        ("http://zk1:2181", "has a scheme other than"),
        ("zk1:2181//", "the chroot is no path"),
        ("zk1:2181/a/", "the chroot is no path"),
        ("zk1:2181/a//b", "the chroot is no path"),
        ("zk1:2181/zookeeper/a", "the chroot is no path"),
    ] {
        let start = Instant::now();
        let error = Coordinator::connect(text).await.unwrap_err();
        assert!(matches!(error, ConnectError::ConnectString(_)), "{text:?}: {error:?}");
        let told = told(&error);
        for part in [&format!("{text:?}"), reason, "expected host:port,host:port,…/chroot"] {
            assert!(told.contains(part), "{text:?}: {told} should say {part:?}");
        }
        assert!(start.elapsed() < SECONDS(1), "{text:?} took {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_builder_refuses_what_makes_no_sense() {
    let builder = || Coordinator::builder("127.0.0.1:1");
    for (name, builder) in [
        ("session_timeout", builder().session_timeout(Duration::ZERO)),
        ("session_timeout", builder().session_timeout(SECONDS(90_000))),
        ("connect_timeout", builder().connect_timeout(Duration::ZERO)),
        ("connect_timeout", builder().connect_timeout(Duration::MAX)),
        ("request_timeout", builder().request_timeout(Duration::ZERO)),
        ("request_timeout", builder().request_timeout(SECONDS(8))),
        ("identity", builder().identity("x".repeat(4_097))),
        ("dialect", builder().dialect(lock_recipes::Dialect::GoZookeeper)),
        ("acls", builder().acls(Vec::new())),
    ] {
        let error = within(SECONDS(1), name, builder.connect()).await.unwrap_err();
        assert!(told(&error).starts_with(&format!("invalid setting {name}: ")), "{error}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_resolve_does_not_keep_a_good_one_from_being_used() {
    let scene = Scene::new("hosts").await;
    let good = scene.server.connect_string();
    for hosts in [
        format!("no-such-host.invalid:2181,{good}"),
        format!("{good},no-such-host.invalid:2181"),
        format!("127.0.0.1:{},{good}", closed_port()),
    ] {
        let coordinator = within(SECONDS(10), &hosts, connect(&hosts)).await;
        let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
        lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn connecting_ends_at_its_deadline_whatever_is_wrong_with_the_hosts() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (hosts, limit) in [
        (format!("127.0.0.1:{},127.0.0.1:{}", closed_port(), closed_port()), SECONDS(2)),
        (format!("127.0.0.1:{}", silent.local_addr().unwrap().port()), SECONDS(2)),
        ("no-such-host.invalid:2181".to_owned(), SECONDS(2)),
        (format!("127.0.0.1:{}", closed_port()), MILLIS(20)),
    ] {
        let start = Instant::now();
        let builder = Coordinator::builder(&hosts).connect_timeout(limit);
        let error = builder.connect().await.unwrap_err();
        let elapsed = start.elapsed();
        let ConnectError::TimedOut { waited, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*waited, limit);
        assert!(elapsed < limit + SECONDS(1), "{hosts}: {elapsed:?}");
        let told = told(&error);
        for part in [&*hosts, &format!("{limit:.1?}"), "check that the hosts resolve"] {
            assert!(told.contains(part), "{told} should say {part}");
        }
    }
}

#[tokio::test]
async fn a_missing_chroot_is_named_and_made_on_demand() {
    let scene = Scene::new("chroot").await;
    let cluster = format!("{}{}/deep", scene.server.connect_string(), scene.path);
    let error = Coordinator::connect(&cluster).await.unwrap_err();
    let ConnectError::ChrootMissing { chroot } = &error else { panic!("{error:?}") };
    assert_eq!(*chroot, format!("{}/deep", scene.path));
    let told = told(&error);
    assert!(told.contains(chroot) && told.contains("Builder::create_chroot"), "{told}");
    assert!(scene.observer.stat(&scene.path).await.is_none());

    // Whoever makes it first.
    let make = || Coordinator::builder(&cluster).create_chroot(true).connect();
    let (one, other) = tokio::join!(make(), make());
    let (one, other) = (one.unwrap(), other.unwrap());
    let held = Lock::new(&one, "/a").unwrap().acquire().await.unwrap();
    assert_eq!(held.path(), "/a");
    let Attempt::Busy(_) = Lock::new(&other, "/a").unwrap().try_acquire().await.unwrap() else {
        panic!("two holders");
    };
    assert_eq!(scene.observer.children(chroot).await, ["a"]);
    assert!(Coordinator::connect(&cluster).await.is_ok());
    held.release().await.unwrap();

    // Deleted later, it is missed by the first lock that needs it.
    scene.observer.delete(&format!("{chroot}/a")).await;
    assert!(scene.observer.delete(chroot).await);
    let error = Lock::new(&one, "/a").unwrap().acquire_timeout(SOON).await.unwrap_err();
    let AcquireError::ChrootMissing { path, chroot: missing } = &error else { panic!("{error:?}") };
    assert_eq!((path.as_str(), missing), ("/a", chroot));
}

#[tokio::test]
async fn an_invalid_path_is_refused_with_its_place_and_nothing_is_sent() {
    let scene = Scene::new("paths").await;
    let proxy = scene.proxy().await;
    let coordinator = connect(&proxy.connect_string()).await;
    proxy.clear_frames();
    let long = format!("/{}", "x".repeat(4_000));
    for (path, at) in [
        ("", 0),
        ("a", 0),
        ("/", 0),
        ("/a/", 2),
        ("/a//b", 3),
        ("/.", 1),
        ("/a/../b", 3),
        ("/a\tb", 2),
        ("/a\0", 2),
        ("/locks/file:///v", 13),
        ("/locks/🔒", 7),
        ("/zookeeper/x", 1),
        (long.as_str(), 2_048),
    ] {
        let error: InvalidPath = Lock::new(&coordinator, path).unwrap_err();
        assert_eq!(error.at(), at, "{path:?}: {error}");
        let told = told(&error);
        assert!(told.contains(error.reason()) && told.len() < 300, "{told}");
        let escaped = LockPath::escape(path);
        assert_eq!(LockPath::unescape(&escaped).as_deref(), Some(path));
        if path.len() < 100 {
            LockPath::new(format!("/{escaped}"))
                .unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
    }
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());

    // What is unusual but right works, escaped or not.
    for name in ["部署", "\u{202e}abc", "a b", &LockPath::escape("🔒/../\0"), &"n".repeat(1_900)]
    {
        let path = format!("{}/{name}", scene.path);
        let guard = Lock::new(&coordinator, path.as_str()).unwrap().acquire_timeout(SOON).await;
        guard.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn too_much_data_is_refused_here_and_the_other_locks_of_the_session_notice_nothing() {
    let scene = Scene::with_path("data").await;
    let proxy = scene.proxy().await;
    let coordinator = connect(&proxy.connect_string()).await;
    let other = format!("{}/other", scene.path);
    let held = Lock::new(&coordinator, other.as_str()).unwrap().acquire().await.unwrap();
    let lock = Lock::new(&coordinator, format!("{}/large", scene.path)).unwrap();
    proxy.clear_frames();
    for size in [512 * 1024 + 1, 700 * 1024, 1_100_000] {
        let options = AcquireOptions::new().data(vec![b'x'; size]);
        let error = lock.acquire_with(options.clone()).await.unwrap_err();
        let AcquireError::DataTooLarge { size: told_size, limit, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((*told_size, *limit), (size, 512 * 1024));
        assert!(told(&error).contains(lock.path().as_str()));
        assert!(lock.try_acquire_with(options).await.is_err());
    }
    let large = lock.path().as_str();
    let about = |path: &Option<String>| path.as_deref().is_some_and(|path| path.starts_with(large));
    assert!(!proxy.requests().iter().any(|request| about(&request.path)), "something was sent");
    // As much as is allowed goes through, by the longest path too.
    let deep = Lock::new(&coordinator, format!("{}/{}", scene.path, "n".repeat(1_900))).unwrap();
    for lock in [&lock, &deep] {
        let options = AcquireOptions::new().data(vec![b'x'; 512 * 1024]);
        let guard = lock.acquire_with(options.timeout(SOON)).await.unwrap();
        let data = scene.observer.data(&format!("{}/{}", lock.path(), guard.node())).await.unwrap();
        assert_eq!(data.len(), 512 * 1024);
        guard.release().await.unwrap();
    }
    held.verify().await.unwrap();
    assert!(held.is_held());
    let connects = |proxy: &Proxy| proxy.frames().iter().map(|frame| frame.connection).max();
    assert_eq!(connects(&proxy), Some(0), "the connection was lost");
}

/// The one who may do everything below the path, and sets who else may do what.
struct Boss(Client);

impl Boss {
    async fn of(scene: &Scene) -> Self {
        let boss = Observer::connect(&scene.server.connect_string()).await.client().clone();
        boss.auth("digest", b"boss:secret").await.unwrap();
        Self(boss)
    }

    /// The boss everything, everybody else this.
    fn acls(others: Permission) -> Vec<Acl> {
        vec![Acl::new(Permission::ALL, AuthId::authed()), Acl::new(others, AuthId::anyone())]
    }

    async fn allow(&self, path: &str, others: Permission) {
        let acls = Self::acls(others);
        self.0.set_acl(path, &acls, None).await.unwrap();
    }

    async fn create(&self, path: &str, mode: CreateMode, others: Permission) -> String {
        let acls = Self::acls(others);
        let options = mode.with_acls(Acls::new(&acls));
        let (_, sequence) = self.0.create(path, b"", &options).await.unwrap();
        if mode == CreateMode::EphemeralSequential {
            format!("{path}{sequence}")
        } else {
            path.into()
        }
    }
}

/// What may be done on the path without one permission.
async fn denied(others: Permission) -> (Scene, Boss, Coordinator, Lock) {
    let scene = Scene::new("denied").await;
    let boss = Boss::of(&scene).await;
    boss.create(&scene.path, CreateMode::Persistent, others).await;
    let coordinator = scene.coordinator().await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    (scene, boss, coordinator, lock)
}

fn not_authorized(error: &AcquireError, path: &str, operation: &str) {
    let AcquireError::NotAuthorized { path: at, operation: denied } = error else {
        panic!("{error:?}")
    };
    assert_eq!((at.as_str(), *denied), (path, operation));
    let told = told(error);
    for part in [path, operation, "needs CREATE, READ and DELETE"] {
        assert!(told.contains(part), "{told} should say {part}");
    }
}

#[tokio::test]
async fn without_create_an_acquisition_is_not_authorized() {
    let (scene, boss, _coordinator, lock) = denied(Permission::READ | Permission::DELETE).await;
    let error = within(SECONDS(5), "told", lock.acquire()).await.unwrap_err();
    not_authorized(&error, &scene.path, "create");
    let attempt = within(SECONDS(5), "told", lock.try_acquire()).await;
    not_authorized(&attempt.unwrap_err(), &scene.path, "create");
    // Below it neither: the path itself cannot be made.
    let below = Lock::new(lock_coordinator(&scene).await, format!("{}/a/b", scene.path)).unwrap();
    let error = within(SECONDS(5), "told", below.acquire()).await.unwrap_err();
    not_authorized(&error, &format!("{}/a", scene.path), "create");
    // Once it may, it does.
    boss.allow(&scene.path, Permission::ALL).await;
    lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
}

/// One more coordinator, for the rest of the test.
async fn lock_coordinator(scene: &Scene) -> &'static Coordinator {
    Box::leak(Box::new(scene.coordinator().await))
}

#[tokio::test]
async fn without_read_an_acquisition_is_not_authorized_and_leaves_nothing() {
    let (scene, boss, _coordinator, lock) = denied(Permission::CREATE | Permission::DELETE).await;
    let error = within(SECONDS(5), "told", lock.acquire()).await.unwrap_err();
    not_authorized(&error, &scene.path, "list");
    let attempt = within(SECONDS(5), "told", lock.try_acquire()).await;
    not_authorized(&attempt.unwrap_err(), &scene.path, "list");
    let error = within(SECONDS(5), "told", lock.queue()).await.unwrap_err();
    assert!(matches!(error, ReadError::Refused { source: Error::NoAuth, .. }), "{error:?}");
    assert!(told(&error).contains(&scene.path));
    eventually(SOON, "nothing is left", async || {
        boss.0.list_children(&scene.path).await.unwrap().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_delete_the_first_release_says_so_and_the_path_is_not_acquired_again() {
    let (scene, boss, coordinator, lock) = denied(Permission::CREATE | Permission::READ).await;
    let guard = lock.acquire_timeout(SOON).await.unwrap();
    let node = format!("{}/{}", scene.path, guard.node());
    let error = within(SECONDS(5), "told", guard.release()).await.unwrap_err();
    let ReleaseError::NotAuthorized { node: left } = &error else { panic!("{error:?}") };
    assert_eq!(*left, node);
    let told = told(&error);
    assert!(told.contains(&node) && told.contains("grant DELETE"), "{told}");
    // At once, without queueing behind what was left.
    for _ in 0..3 {
        let error = within(SECONDS(2), "told at once", lock.acquire()).await.unwrap_err();
        not_authorized(&error, &scene.path, "delete");
    }
    // To a try it is no busy lock either: what is in the way is ours.
    not_authorized(&lock.try_acquire().await.unwrap_err(), &scene.path, "delete");
    assert_eq!(scene.children().await.len(), 1);
    // Another path works.
    let other = Lock::new(&coordinator, format!("{}-other", scene.path)).unwrap();
    other.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
    // The janitor goes on, and where it succeeds the path works again.
    boss.allow(&scene.path, Permission::ALL).await;
    scene.observer.wait_for_count(&scene.path, 0, SECONDS(10)).await;
    lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_predecessor_that_may_not_be_read_is_told_and_not_waited_for() {
    let scene = Scene::with_path("unreadable").await;
    let boss = Boss::of(&scene).await;
    let prefix = format!("{}/_c_{}-lock-", scene.path, uuid::Uuid::new_v4());
    let node = boss.create(&prefix, CreateMode::EphemeralSequential, Permission::NONE).await;
    let coordinator = scene.coordinator().await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let error = within(SECONDS(5), "told", lock.acquire()).await.unwrap_err();
    not_authorized(&error, &node, "read");
    // Refused by the look alone, which reads no nodes.
    assert!(matches!(lock.try_acquire().await.unwrap(), Attempt::Busy(_)));
    scene.has(1).await;
    boss.0.delete(&node, None).await.unwrap();
    lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn credentials_are_shown_again_after_a_reconnect() {
    let scene = Scene::new("digest").await;
    let proxy = scene.proxy().await;
    let boss = Boss::of(&scene).await;
    boss.create(&scene.path, CreateMode::Persistent, Permission::NONE).await;
    let connector = || Client::connector().with_auth("digest", b"boss:secret");
    let builder = Coordinator::builder(&proxy.connect_string()).session_timeout(support::T);
    let acls = vec![Acl::new(Permission::ALL, AuthId::authed())];
    let coordinator = builder.with_connector(connector).acls(acls).connect().await.unwrap();
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let guard = lock.acquire_timeout(SOON).await.unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_timeout(SOON).await });
    let queued =
        async || (boss.0.list_children(&scene.path).await.unwrap().len() == 2).then_some(());
    eventually(SOON, "one waits", queued).await;
    for _ in 0..2 {
        proxy.cut();
        within(SOON, "verified", async { while guard.verify().await.is_err() {} }).await;
    }
    guard.release().await.unwrap();
    let next = within(SOON, "granted", waiting).await.unwrap().unwrap();
    next.release().await.unwrap();
    // Without credentials nobody gets in.
    let stranger = Lock::new(lock_coordinator(&scene).await, scene.path.as_str()).unwrap();
    not_authorized(&stranger.acquire_timeout(SOON).await.unwrap_err(), &scene.path, "create");
}

#[tokio::test]
async fn the_timeout_that_the_server_sets_is_the_one_that_counts() {
    let scene = Scene::with_path("negotiated").await;
    // Ticks of 500 ms: from 1 to 10 seconds.
    for (asked, set) in
        [(SECONDS(60), SECONDS(10)), (MILLIS(200), SECONDS(1)), (SECONDS(4), SECONDS(4))]
    {
        let proxy = scene.proxy().await;
        let builder = Coordinator::builder(&proxy.connect_string()).session_timeout(asked);
        let coordinator = builder.connect().await.unwrap();
        let CoordinatorState::Connected { timeout, .. } = coordinator.state() else {
            panic!("{:?}", coordinator.state())
        };
        assert_eq!(timeout, set);
        let path = format!("{}/{}", scene.path, set.as_secs());
        let guard = Lock::new(&coordinator, path).unwrap().acquire_timeout(SOON).await.unwrap();
        let remaining = guard.remaining();
        assert!(remaining <= set / 2 && remaining > set / 4, "{remaining:?} of {set:?}");
        // Requests have a third of it, and the hold a half, from the last answer.
        if set <= SECONDS(4) {
            proxy.blackhole(true);
            let start = Instant::now();
            let (verified, reason) = tokio::join!(guard.verify(), guard.lost());
            let elapsed = start.elapsed();
            assert!(verified.is_err());
            assert_eq!(reason, LossReason::ValidityPassed);
            assert!(elapsed <= set / 2 + MILLIS(700), "{elapsed:?} of {set:?}");
            proxy.heal();
        }
    }
}

#[tokio::test]
async fn a_request_timeout_never_outlives_the_validity_of_a_shorter_session() {
    let scene = Scene::with_path("short").await;
    let proxy = scene.proxy().await;
    proxy.cap_session_timeout(SECONDS(3));
    let builder = Coordinator::builder(&proxy.connect_string()).session_timeout(SECONDS(20));
    let coordinator = builder.request_timeout(SECONDS(9)).connect().await.unwrap();
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let guard = lock.acquire_timeout(SOON).await.unwrap();
    proxy.refuse(true);
    proxy.cut();
    let start = Instant::now();
    let verified = within(SOON, "the request ends", guard.verify()).await;
    assert!(verified.is_err(), "nobody answered");
    assert!(start.elapsed() <= MILLIS(2_700), "{:?} for a session of 3 s", start.elapsed());
}

#[tokio::test]
async fn a_missing_path_stays_missing_where_it_must_exist() {
    let scene = Scene::new("must").await;
    let builder = Coordinator::builder(&scene.server.connect_string());
    let coordinator = builder.parents(ParentMode::MustExist).connect().await.unwrap();
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    for error in [
        within(SECONDS(5), "told", lock.acquire()).await.unwrap_err(),
        within(SECONDS(5), "told", lock.try_acquire()).await.unwrap_err(),
    ] {
        let AcquireError::ParentMissing { path } = &error else { panic!("{error:?}") };
        assert_eq!(*path, scene.path);
        assert!(told(&error).contains("ParentMode::MustExist"));
    }
    assert!(lock.queue().await.unwrap().contenders.is_empty());
    assert!(scene.observer.stat(&scene.path).await.is_none());
    scene.observer.mkdir(&scene.path).await;
    lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn new_parents_are_containers_unless_told_otherwise() {
    let check = "-Dznode.container.checkIntervalMs=200";
    let server = Server::builder().unsafe_fast().java_opts([check]).start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    for mode in [ParentMode::Persistent, ParentMode::Container] {
        let builder = Coordinator::builder(&server.connect_string()).parents(mode);
        let coordinator = builder.connect().await.unwrap();
        let path = format!("/{mode:?}/a");
        let lock = Lock::new(&coordinator, path.as_str()).unwrap();
        lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
        if mode == ParentMode::Container {
            observer.wait_gone("/Container", SOON).await;
            // It is made again when it is needed.
            lock.acquire_timeout(SOON).await.unwrap().release().await.unwrap();
        }
    }
    // The server has looked meanwhile.
    assert!(observer.stat("/Persistent/a").await.is_some());
}

#[tokio::test]
async fn a_lock_below_an_ephemeral_node_is_refused() {
    let scene = Scene::with_path("ephemeral").await;
    let node = scene.observer.create_ephemeral_like(&scene.path, "session-").await;
    let path = format!("{}/{node}", scene.path);
    let coordinator = scene.coordinator().await;
    for path in [path.clone(), format!("{path}/a")] {
        let lock = Lock::new(&coordinator, path.as_str()).unwrap();
        let error = within(SECONDS(5), "told", lock.acquire()).await.unwrap_err();
        let AcquireError::Refused { path: at, source, .. } = &error else { panic!("{error:?}") };
        assert_eq!((at.as_str(), source), (path.as_str(), &Error::NoChildrenForEphemerals));
        let told = told(&error);
        assert!(told.contains(&path) && told.contains("ephemeral node"), "{told}");
    }
}

#[tokio::test]
async fn a_deadline_of_nothing_is_kept() {
    let scene = Scene::with_path("zero").await;
    let coordinator = scene.coordinator().await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let held = lock.acquire().await.unwrap();
    for timeout in [Duration::ZERO, Duration::from_nanos(1), MILLIS(1)] {
        let start = Instant::now();
        let error = lock.acquire_timeout(timeout).await.unwrap_err();
        let AcquireError::TimedOut { waited, phase, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*waited, timeout);
        assert!(start.elapsed() < SECONDS(1), "{:?} in {phase:?}", start.elapsed());
    }
    // One that never comes is none.
    let waiting = lock.clone();
    let waiting = tokio::spawn(async move { waiting.acquire_timeout(Duration::MAX).await });
    scene.has(2).await;
    stays(MILLIS(100), "it waits", async || !waiting.is_finished()).await;
    held.release().await.unwrap();
    within(SOON, "granted", waiting).await.unwrap().unwrap().release().await.unwrap();
    scene.has(0).await;
}

/// Every message, without its cause.
fn messages() -> Vec<String> {
    let path = || "/locks/a".to_owned();
    let hosts = || "zk1:2181,zk2:2181".to_owned();
    let (waited, reason, source) = (MILLIS(1_500), LossReason::NodeDeleted, Error::ConnectionLoss);
    let lost = || Lost { path: path(), reason };
    let name = "_c_018f3f62-c3f8-8d71-b9f0-c2a4be6d8e11-lock-0000000007";
    let behind = ContenderName::parse(name);
    let timed_out = |phase, behind| AcquireError::TimedOut { path: path(), waited, phase, behind };
    let refused =
        |operation| AcquireError::Refused { path: path(), operation, source: Error::NoNode };
    let errors: Vec<Box<dyn std::error::Error>> = vec![
        Box::new(ConnectError::TimedOut { hosts: hosts(), waited, source: source.clone() }),
        Box::new(ConnectError::ChrootMissing { chroot: "/shop".into() }),
        Box::new(ConnectError::Refused { hosts: hosts(), source: Error::AuthFailed }),
        Box::new(ConnectError::NoRuntime),
        Box::new(timed_out(Phase::Connecting, None)),
        Box::new(timed_out(Phase::Enqueueing, None)),
        Box::new(timed_out(Phase::Waiting, behind)),
        Box::new(timed_out(Phase::Waiting, None)),
        Box::new(AcquireError::NotAuthorized { path: path(), operation: "create" }),
        Box::new(AcquireError::ChrootMissing { path: path(), chroot: "/shop".into() }),
        Box::new(AcquireError::ParentMissing { path: path() }),
        Box::new(AcquireError::ParentVanishing { path: path(), tries: 100 }),
        Box::new(AcquireError::DataTooLarge { path: path(), size: 700_000, limit: 524_288 }),
        Box::new(AcquireError::SequenceExhausted { path: path(), last: 2_147_483_647 }),
        Box::new(AcquireError::Lost { path: path(), reason }),
        Box::new(AcquireError::HoldLost { path: path(), reason }),
        Box::new(AcquireError::TooManyHolds { path: path(), limit: 3 }),
        Box::new(AcquireError::Closed { path: path() }),
        Box::new(refused("create")),
        Box::new(lost()),
        Box::new(EnsureError::TooShort { path: path(), wanted: SECONDS(5), remaining: waited }),
        Box::new(VerifyError::Unconfirmed { path: path(), source: source.clone() }),
        Box::new(ReenterError::TooManyHolds { path: path(), limit: 3 }),
        Box::new(ReleaseError::AlreadyLost { path: path(), reason }),
        Box::new(ReleaseError::Unconfirmed { path: path(), source: source.clone() }),
        Box::new(ReleaseError::NotAuthorized { node: format!("/locks/a/{name}") }),
        Box::new(ReadError::Refused { path: path(), source: Error::NoAuth }),
        Box::new(ReadError::NoAnswer { path: path(), source: source.clone() }),
        Box::new(ReadError::Closed { path: path() }),
        Box::new(FencedWriteError::Rejected { path: path(), index: 1, source: Error::BadVersion }),
        Box::new(FencedWriteError::Unknown { path: path(), source }),
    ];
    errors.iter().map(ToString::to_string).collect()
}

/// What people read. Every line names what was attempted and where, and, where there is something to do, what.
const MESSAGES: &str = "
cannot connect to ZooKeeper at zk1:2181,zk2:2181 within 1.5s; check that the hosts resolve and a server with a quorum listens there
the chroot /shop does not exist: create it (zkCli.sh create /shop), or let Builder::create_chroot do it
ZooKeeper at zk1:2181,zk2:2181 refused the session; check the credentials and the chroot's ACL
a coordinator connects on a tokio runtime with its I/O and time drivers enabled
/locks/a was not acquired within 1.5s: there was no connection to ZooKeeper
/locks/a was not acquired within 1.5s: ZooKeeper did not answer
/locks/a was not acquired within 1.5s: it waited behind _c_018f3f62-c3f8-8d71-b9f0-c2a4be6d8e11-lock-0000000007
/locks/a was not acquired within 1.5s: it waited in the queue
not authorized to create at /locks/a: a lock needs CREATE, READ and DELETE on its path, and READ on the contenders
cannot create /locks/a: the chroot /shop of the connect string does not exist any more; create it again
/locks/a does not exist, and ParentMode::MustExist keeps it from being created
/locks/a keeps being deleted as soon as it is created: 100 tries; find out who deletes it, or create it as a persistent node
700000 bytes of data for /locks/a are above the limit of 524288
the sequence numbers below /locks/a are used up (last: 2147483647) while clients queue that depend on them: let the path become empty and be deleted, which starts them anew
the place in the queue of /locks/a was lost: its znode was deleted by another client
the owner's hold on /locks/a was lost: its znode was deleted by another client; release it before acquiring anew
the owner holds /locks/a 3 times already, which is the limit
cannot acquire /locks/a: the coordinator is closed
ZooKeeper refused to create at /locks/a
the lock /locks/a is lost: its znode was deleted by another client
the lock /locks/a is presumed valid for 1.5s only, less than 5.0s
whether /locks/a is still held could not be verified
/locks/a is held 3 times already, which is the limit
the lock /locks/a was lost before its release: its znode was deleted by another client
ZooKeeper has not confirmed the release of /locks/a; it is tried on in the background
not authorized to delete /locks/a/_c_018f3f62-c3f8-8d71-b9f0-c2a4be6d8e11-lock-0000000007: grant DELETE on the lock's path; until then the node blocks the queue for as long as the session lives
cannot read the queue of /locks/a
no answer from ZooKeeper about the queue of /locks/a
cannot read the queue of /locks/a: the coordinator is closed
operation 1 of the fenced write under /locks/a was refused; nothing was written
whether the fenced write under /locks/a was applied is unknown: read before trying again
";

#[test]
fn every_message_says_what_where_and_what_to_do() {
    let messages = messages();
    for message in &messages {
        let place = ["/locks/a", "zk1:2181,zk2:2181", "/shop", "a tokio runtime"];
        assert!(place.iter().any(|place| message.contains(place)), "where? {message}");
        let lower = message
            .starts_with(|first: char| !first.is_uppercase() || message.starts_with("ZooKeeper"));
        assert!(lower && !message.ends_with('.') && !message.contains('\n'), "{message}");
    }
    assert_eq!(messages.join("\n"), MESSAGES.trim());
}
