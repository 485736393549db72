//! What is told of locks, whoever made their nodes: kind, order, who holds, who waits behind whom.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;
#[path = "common/view.rs"]
mod view;

use std::collections::BTreeMap;

use integration::proxy::OpCode;
use integration::{Observer as Raw, Proxy, Server};
use lock_recipes::observe::{Facts, Kind, Method, ObserveError, ObservedLock, Observer, Root};
use lock_recipes::{Coordinator, Dialect, Role};
use support::{MILLIS, SOON, Scene, connect, start};
use uuid::Uuid;
use view::{Client, View, below, curator, hex, names, path};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

/// A contender as it must be told: its name, role, session and data, and those it waits for.
type Who = (String, Role, i64, Vec<u8>, Vec<String>);
/// A lock as it must be told: its kind, its dialect, who holds and who waits.
type Lock = (Kind, Option<Dialect>, Vec<Who>, Vec<Who>);

fn as_told(lock: &ObservedLock) -> Lock {
    let who = |one: &lock_recipes::observe::ObservedContender| {
        let (session, data) =
            one.facts.read().map_or((-1, Vec::new()), |read| (read.session, read.data.to_vec()));
        (one.node.clone(), one.role, session, data, one.behind.clone())
    };
    let holders = lock.holders.iter().map(who).collect();
    (lock.kind, lock.dialect, holders, lock.waiters.iter().map(who).collect())
}

/// Whom each waits for, by their places; those that wait for nobody hold.
type Behind = &'static [&'static [usize]];
const LINE: Behind = &[&[], &[0], &[1]];
const ALL: Behind = &[&[], &[], &[]];
const LAST_WAITS: Behind = &[&[], &[], &[0, 1]];
const FIRST_HOLDS: Behind = &[&[], &[0], &[0]];

/// A lock made by hand, and what must be told of it: with all contenders, and without the first.
struct Made {
    path: String,
    before: Lock,
    after: Lock,
    /// Where the first contender's node is.
    first: (usize, String),
}

struct Maker {
    clients: [Client; 3],
    root: String,
    made: Vec<Made>,
}

impl Maker {
    async fn new(scene: &Scene) -> Self {
        let connect = scene.server.connect_string();
        let client = || Client::connect(&connect);
        let clients = [client().await, client().await, client().await];
        Self { clients, root: scene.path.clone(), made: Vec::new() }
    }

    async fn folder(&self, name: &str) -> String {
        let path = format!("{}/{name}", self.root);
        self.clients[0].raw.mkdir(&path).await;
        path
    }

    fn session(&self, client: usize) -> i64 {
        self.clients[client].session()
    }

    /// What is told when these wait for one another so, the first of them with the number `from`.
    fn told(
        kind: Kind,
        dialect: Option<Dialect>,
        all: &[Who],
        behind: Behind,
        from: usize,
    ) -> Lock {
        let named = all.iter().zip(behind).skip(from).map(|(who, behind)| {
            let behind = behind.iter().filter(|place| **place >= from);
            let (node, role, session, data, _) = who.clone();
            (node, role, session, data, behind.map(|place| all[*place].0.clone()).collect())
        });
        let (holders, waiters) = named.partition(|who: &Who| who.4.is_empty());
        (kind, dialect, holders, waiters)
    }

    fn add(
        &mut self,
        path: &str,
        kind: Kind,
        dialect: impl Into<Option<Dialect>>,
        all: &[Who],
        behind: Behind,
        first: (usize, String),
    ) {
        let dialect = dialect.into();
        let before = Self::told(kind, dialect, all, behind, 0);
        let after = Self::told(kind, dialect, all, behind, 1);
        self.made.push(Made { path: path.to_owned(), before, after, first });
    }

    /// A queue in one folder, each contender of another session in turn.
    async fn queue(
        &mut self,
        name: &str,
        kind: Kind,
        dialect: impl Into<Option<Dialect>>,
        contenders: [(&str, Role); 3],
        behind: Behind,
    ) {
        let path = self.folder(name).await;
        let mut all = Vec::new();
        for (number, (prefix, role)) in contenders.into_iter().enumerate() {
            let data = format!("{name} {number}").into_bytes();
            let node = self.clients[number].queue(&path, prefix, &data).await;
            all.push((node, role, self.session(number), data, Vec::new()));
        }
        let first = (0, format!("{path}/{}", all[0].0));
        self.add(&path, kind, dialect, &all, behind, first);
    }

    /// One node that is the lock.
    async fn lone(&mut self, folder: &str, name: &str, dialect: Dialect, data: &[u8]) {
        let path = self.folder(folder).await;
        self.clients[0].lone(&path, name, data).await;
        let who = (name.to_owned(), Role::Candidate, self.session(0), data.to_vec(), Vec::new());
        let path = format!("{path}/{name}");
        self.add(&path.clone(), Kind::Election, dialect, &[who], LINE, (0, path));
    }
}

/// Section 2a and 2c of the peers' layouts, one after another.
async fn make_all(maker: &mut Maker) {
    use Dialect as D;
    use Role::{Candidate, Exclusive, Permit, Read, Write};
    let ids = [curator(""), curator(""), curator("")];
    let hexes = [hex(), hex(), hex()];
    let uuids = [0; 3].map(|_| Uuid::new_v4().to_string());
    let same = |prefix: &str| [0; 3].map(|_| prefix.to_owned());
    let ids_with = |marker: &str| ids.each_ref().map(|id| format!("{id}{marker}"));
    let hex_with = |marker: &str| hexes.each_ref().map(|id| format!("{id}{marker}"));
    let uuid_with = |marker: &str| uuids.each_ref().map(|id| format!("{id}{marker}"));
    // All in line, each waiting for the one ahead.
    for (name, kind, dialect, role, prefixes) in [
        ("curator-mutex", Kind::Mutex, D::Curator, Exclusive, ids_with("lock-")),
        ("curator-latch", Kind::Election, D::Curator, Candidate, ids_with("latch-")),
        (
            "session-latch",
            Kind::Election,
            D::Curator,
            Candidate,
            ids_with("72057594037927936-latch-"),
        ),
        ("kazoo-lock", Kind::Mutex, D::Kazoo, Exclusive, hex_with("__lock__")),
        ("kazoo-dash", Kind::Mutex, D::Kazoo, Exclusive, hex_with("-lock-")),
        (
            "go",
            Kind::Mutex,
            D::GoZookeeper,
            Exclusive,
            (hexes.each_ref().map(|id| format!("_c_{id}-lock-"))),
        ),
        (
            "java",
            Kind::Mutex,
            D::ZooKeeper,
            Exclusive,
            (["x-72057847834509312-", "x--720578478345093120-", "x-7-"].map(str::to_owned)),
        ),
        ("c", Kind::Mutex, D::ZooKeeper, Exclusive, same("x-0100a3f1b2c40000-")),
        ("java-election", Kind::Election, D::ZooKeeper, Candidate, same("n_")),
        ("recipe-lock", Kind::Mutex, D::ZooKeeper, Exclusive, uuid_with("-lock-")),
        ("recipe-election", Kind::Election, D::ZooKeeper, Candidate, uuid_with("-n_")),
        (
            "solr",
            Kind::Election,
            D::Solr,
            Candidate,
            (["7-h:8983_solr-n_", "8-core_node1-n_", "-9-h-n_"].map(str::to_owned)),
        ),
        ("clickhouse", Kind::Election, D::ClickHouse, Candidate, same("leader_election-")),
        ("mesos", Kind::Election, D::Mesos, Candidate, same("json.info_")),
        ("mesos-replicas", Kind::Election, D::Mesos, Candidate, same("")),
        (
            "accumulo",
            Kind::Mutex,
            D::Accumulo,
            Exclusive,
            (uuids.each_ref().map(|id| format!("zlock#{id}#"))),
        ),
        ("ruby", Kind::Mutex, D::ZkRuby, Exclusive, same("ex")),
        ("net", Kind::Mutex, D::DistributedLock, Exclusive, same("lock-")),
    ] {
        let contenders = [0, 1, 2].map(|place| (&*prefixes[place], role));
        maker.queue(name, kind, dialect, contenders, LINE).await;
    }
    let mixed = [format!("{}lock-", ids[0]), format!("{}__lock__", hexes[0]), "x-7-".to_owned()];
    let mixed = [0, 1, 2].map(|place| (&*mixed[place], Exclusive));
    maker.queue("mixed", Kind::Mutex, None, mixed, LINE).await;
    for (name, dialect, prefix) in
        [("ruby-permits", D::ZkRuby, "sem"), ("net-permits", D::DistributedLock, "semaphore-")]
    {
        maker.queue(name, Kind::Semaphore, dialect, [(prefix, Permit); 3], ALL).await;
    }
    // Readers, and a writer that waits for all of them.
    for (name, dialect, read, write) in [
        ("curator", D::Curator, ids_with("__READ__"), ids_with("__WRIT__")),
        ("kazoo", D::Kazoo, hex_with("__rlock__"), hex_with("__lock__")),
        ("recipe", D::ZooKeeper, uuid_with("-read-"), uuid_with("-write-")),
        ("ruby", D::ZkRuby, same("sh"), same("ex")),
        ("net", D::DistributedLock, same("read-"), same("write-")),
    ] {
        let contenders = [(&*read[0], Read), (&*read[1], Read), (&*write[2], Write)];
        maker
            .queue(&format!("{name}-readers"), Kind::RwLock, dialect, contenders, LAST_WAITS)
            .await;
    }
    let contenders = [
        (&*format!("{}__WRIT__", ids[0]), Write),
        (&*format!("{}__READ__", ids[1]), Read),
        (&*format!("{}__READ__", ids[2]), Read),
    ];
    maker.queue("curator-writer", Kind::RwLock, D::Curator, contenders, FIRST_HOLDS).await;
    maker.lone("hadoop-ha/ns", "ActiveStandbyElectorLock", D::Hadoop, b"nn1").await;
    maker.lone("hbase", "master", D::HBase, b"host").await;
    maker.lone("kafka", "controller", D::Kafka, b"{\"version\":1,\"brokerid\":3}").await;
    maker.lone("helix/CONTROLLER", "LEADER", D::Helix, b"{}").await;
    several_parts(maker, &ids[0], &hexes[0]).await;
}

/// What does not lie in one queue.
async fn several_parts(maker: &mut Maker, id: &str, hex: &str) {
    use Role::{Permit, Read, Write};
    // A writer of Curator that reads as well: an ephemeral node with its own number.
    let path = maker.folder("curator-downgrade").await;
    let write = maker.clients[0].queue(&path, &format!("{id}__WRIT__"), b"").await;
    let other = maker.clients[1].queue(&path, &format!("{id}__WRIT__"), b"").await;
    let read = maker.clients[0].lone(&path, &write.replace("__WRIT__", "__READ__"), b"").await;
    let (zero, one) = (maker.session(0), maker.session(1));
    let all = [
        (write.clone(), Write, zero, vec![], vec![]),
        (read, Read, zero, vec![], vec![]),
        (other, Write, one, vec![], vec![]),
    ];
    maker.add(
        &path,
        Kind::RwLock,
        Dialect::Curator,
        &all,
        LAST_WAITS,
        (0, format!("{path}/{write}")),
    );

    let path = maker.folder("several-lead").await;
    let mut all = Vec::new();
    for client in 0..2 {
        let data = b"r (multiple leaders Ok)".to_vec();
        let node = maker.clients[client].queue(&path, "leader_election-", &data).await;
        all.push((node, Role::Candidate, maker.session(client), data, vec![]));
    }
    let first = format!("{path}/{}", all[0].0);
    maker.add(&path, Kind::Election, Dialect::ClickHouse, &all, ALL, (0, first));

    let path = maker.folder("curator-semaphore").await;
    let (entry, leases) = (
        maker.folder("curator-semaphore/locks").await,
        maker.folder("curator-semaphore/leases").await,
    );
    let lock = |client: usize| (client, format!("{}lock-", curator("")));
    let mut all = Vec::new();
    for client in 0..2 {
        // Through the entry, to a lease.
        let (_, prefix) = lock(client);
        let node = maker.clients[client].queue(&entry, &prefix, b"").await;
        let lease = maker.clients[client].queue(&leases, &curator("lease-"), b"me").await;
        maker.clients[client].delete(&entry, &node).await;
        all.push((lease, Permit, maker.session(client), b"me".to_vec(), vec![]));
    }
    let (client, prefix) = lock(2);
    let node = maker.clients[client].queue(&entry, &prefix, b"").await;
    all.push((node, Permit, maker.session(client), vec![], vec![]));
    let first = format!("{leases}/{}", all[0].0);
    maker.add(&path, Kind::Semaphore, Dialect::Curator, &all, LAST_WAITS, (0, first));

    let path = maker.folder("kazoo-semaphore").await;
    maker.clients[0].raw.set_data(&path, b"2").await;
    let entry = maker.folder("kazoo-semaphore-__lock__").await;
    let mut all = Vec::new();
    for (client, name) in [(0, view::hex()), (1, view::hex())] {
        let node = maker.clients[client].lone(&path, &name, b"me").await;
        all.push((node, Permit, maker.session(client), b"me".to_vec(), vec![]));
    }
    let node = maker.clients[2].queue(&entry, &format!("{hex}__lock__"), b"").await;
    all.push((node, Permit, maker.session(2), vec![], vec![]));
    let first = format!("{path}/{}", all[0].0);
    maker.add(&path, Kind::Semaphore, Dialect::Kazoo, &all, LAST_WAITS, (0, first));
}

#[tokio::test]
async fn every_layout_is_told_as_it_is_made_and_as_it_is_when_the_first_has_left() {
    let scene = Scene::with_path("layouts").await;
    let coordinator = scene.coordinator().await;
    let observer = below(&coordinator, &scene.path);
    let mut view = View::watch(&observer).await;
    assert!(view.locks.is_empty() && view.listed[0].by == Method::Watch);
    let mut maker = Maker::new(&scene).await;
    make_all(&mut maker).await;
    let wanted = |choose: fn(&Made) -> &Lock| -> BTreeMap<String, Lock> {
        let locks = maker.made.iter().map(|made| (made.path.clone(), choose(made).clone()));
        // Nothing is told of a lone leader that has gone.
        locks.filter(|(_, lock)| !lock.2.is_empty()).collect()
    };
    let told = |view: &View| -> BTreeMap<String, Lock> {
        view.locks.iter().map(|(path, lock)| (path.clone(), as_told(lock))).collect()
    };
    let (before, after) = (wanted(|made| &made.before), wanted(|made| &made.after));
    assert_eq!((before.len(), after.len()), (35, 31));
    settles(&mut view, &before, told).await;
    let read = |locks: Vec<std::sync::Arc<ObservedLock>>| -> BTreeMap<String, Lock> {
        locks.iter().map(|lock| (lock.path.clone(), as_told(lock))).collect()
    };
    let reading = observer.read().await.unwrap();
    assert_eq!(read(reading.locks), before);
    assert!(reading.listed.denied.is_empty() && reading.listed.by == Method::Once);
    for made in &maker.made {
        let (client, node) = &made.first;
        assert!(maker.clients[*client].raw.delete(node).await, "{node}");
    }
    settles(&mut view, &after, told).await;
    assert_eq!(read(observer.read().await.unwrap().locks), after);
}

/// Waits until exactly this is told; otherwise says what is not.
async fn settles(
    view: &mut View,
    wanted: &BTreeMap<String, Lock>,
    told: impl Fn(&View) -> BTreeMap<String, Lock>,
) {
    let waits = view.until("all is right", |view| told(view) == *wanted);
    if tokio::time::timeout(SOON / 2, waits).await.is_err() {
        let told = told(view);
        for path in wanted.keys().chain(told.keys()) {
            assert_eq!(told.get(path), wanted.get(path), "{path}");
        }
    }
}

/// All that anybody may do but read.
fn unreadable() -> [Acl; 4] {
    let all = [Permission::WRITE, Permission::CREATE, Permission::DELETE, Permission::ADMIN];
    all.map(|permission| Acl::new(permission, AuthId::anyone()))
}

async fn create_unreadable(raw: &Raw, path: &str, mode: CreateMode) -> String {
    let acls = unreadable();
    let created = raw.client().create(path, b"secret", &mode.with_acls(Acls::new(&acls))).await;
    let (_, sequence) = created.unwrap();
    let name = path.rsplit('/').next().unwrap();
    if mode == CreateMode::EphemeralSequential {
        format!("{name}{sequence}")
    } else {
        name.to_owned()
    }
}

#[tokio::test]
async fn a_contender_that_may_not_be_read_is_told_by_its_name_and_when_it_goes() {
    let scene = Scene::new("secret").await;
    let client = Client::connect(&scene.server.connect_string()).await;
    let lock = format!("{}/lock", scene.path);
    client.raw.mkdir(&lock).await;
    let secret = format!("{lock}/{}", curator("lock-"));
    let secret = create_unreadable(&client.raw, &secret, CreateMode::EphemeralSequential).await;
    let open = client.queue(&lock, &curator("lock-"), b"open").await;
    let mut view = View::watch(&below(&scene.coordinator().await, &scene.path)).await;
    let told = view.lock(&lock, |lock| lock.contenders().count() == 2).await;
    let holder = &told.holders[0];
    assert_eq!(
        (&*holder.node, holder.role, &holder.facts),
        (&*secret, Role::Exclusive, &Facts::Denied)
    );
    let waiter = &told.waiters[0];
    assert_eq!((&*waiter.node, &*waiter.behind), (&*open, &[secret.clone()][..]));
    assert_eq!(waiter.facts.read().unwrap().data[..], *b"open");
    assert!(view.listed[0].denied.is_empty());
    for _ in 0..3 {
        let holder = view.locks[&lock].holders[0].node.clone();
        client.delete(&lock, &holder).await;
        let told = view.lock(&lock, |lock| lock.holders.iter().all(|one| one.node != holder)).await;
        assert!(told.holders.len() <= 1 && told.waiters.is_empty(), "{told:?}");
        // Another one, which is not seen where events of such nodes are not sent, and then an open one.
        let secret = format!("{lock}/{}", curator("lock-"));
        create_unreadable(&client.raw, &secret, CreateMode::EphemeralSequential).await;
        let told =
            view.lock(&lock, |lock| lock.contenders().any(|one| one.facts == Facts::Denied)).await;
        assert!(told.contenders().count() <= 2);
    }
}

#[tokio::test]
async fn a_folder_that_may_not_be_listed_is_named_and_the_others_are_told() {
    let scene = Scene::with_path("denied").await;
    let client = Client::connect(&scene.server.connect_string()).await;
    let hidden = format!("{}/hidden", scene.path);
    create_unreadable(&client.raw, &hidden, CreateMode::Persistent).await;
    client.queue(&hidden, &curator("lock-"), b"").await;
    client.raw.mkdir(&format!("{}/open", scene.path)).await;
    let open = format!("{}/open", scene.path);
    client.queue(&open, &curator("lock-"), b"").await;
    let observer = below(&scene.coordinator().await, &scene.path);
    let mut view = View::watch(&observer).await;
    assert_eq!(view.listed[0].denied, [&*hidden]);
    // Who came before is not known: nobody is taken for the holder.
    client.queue(&hidden, &curator("lock-"), b"").await;
    client.queue(&open, &curator("lock-"), b"").await;
    view.lock(&open, |lock| lock.waiters.len() == 1).await;
    assert!(view.locks.keys().eq([&open]));
    // Another one comes and goes.
    let another = format!("{}/other", scene.path);
    create_unreadable(&client.raw, &another, CreateMode::Persistent).await;
    assert_eq!(view.listing(2).await.denied, [&*hidden, &*another]);
    assert!(client.raw.delete(&another).await);
    assert_eq!(view.listing(3).await.denied, [&*hidden]);
    assert_eq!(observer.read().await.unwrap().listed.denied, [hidden]);
}

#[tokio::test]
async fn locks_are_told_below_a_root_although_the_top_may_not_be_listed() {
    start();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    client.raw.mkdir("/locks/a").await;
    client.queue("/locks/a", &curator("lock-"), b"").await;
    client.raw.client().set_acl("/", &unreadable(), None).await.unwrap();
    let coordinator = connect(&server.connect_string()).await;
    let everything = Observer::new(&coordinator).read().await.unwrap();
    assert_eq!((everything.locks.len(), everything.listed.denied), (0, vec!["/".to_owned()]));
    let mut view = View::watch(&below(&coordinator, "/locks")).await;
    assert!(view.listed[0].denied.is_empty() && view.locks.len() == 1);
    client.queue("/locks/a", &curator("lock-"), b"").await;
    view.lock("/locks/a", |lock| lock.waiters.len() == 1).await;
}

/// Makes this many contenders, many at once.
async fn crowd(client: &Client, path: &str, count: usize) {
    client.raw.mkdir(path).await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefixes: Vec<_> = (0..count).map(|_| format!("{path}/{}", curator("lock-"))).collect();
    for chunk in prefixes.chunks(500) {
        let creates: Vec<_> =
            chunk.iter().map(|prefix| client.raw.client().create(prefix, b"w", &options)).collect();
        for create in creates {
            create.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_thousand_contenders_all_are_told_in_order_and_a_few_requests_are_enough() {
    start();
    let server = Server::builder().unsafe_fast().start().await;
    let client = Client::connect(&server.connect_string()).await;
    crowd(&client, "/locks/big", 10_000).await;
    crowd(&client, "/other/two", 2_000).await;
    let coordinator = connect(&server.connect_string()).await;
    let mut view = View::watch(&below(&coordinator, "/locks")).await;
    let lock = view.locks["/locks/big"].clone();
    assert_eq!((lock.holders.len(), lock.waiters.len(), lock.creates), (1, 9_999, Some(10_000)));
    let number = |name: &str| lock_recipes::ContenderName::parse(name).unwrap().sequence();
    assert!(lock.contenders().map(|one| number(&one.node)).eq(0..10_000));
    assert!(lock.contenders().all(|one| one.facts.read().is_some()));
    assert_eq!(view.listed[0].nodes, 10_002);
    client.delete("/locks/big", &lock.holders[0].node).await;
    let next = view.lock("/locks/big", |lock| lock.waiters.len() == 9_998).await;
    assert_eq!(number(&next.holders[0].node), 1);

    // Far away: time is round trips.
    let proxy = Proxy::start(&server.connect_string()).await;
    let far = connect(&proxy.connect_string()).await;
    proxy.delay(MILLIS(40));
    proxy.clear_frames();
    let lock = below(&far, "/other").read().await.unwrap().locks.remove(0);
    assert_eq!(lock.waiters.len(), 1_999);
    assert!(lock.contenders().all(|one| one.facts.read().is_some()));
    let requests = proxy.requests().len();
    assert!(requests < 30, "{requests} requests, even if each waited for the one before");
}

#[tokio::test]
async fn more_nodes_than_the_limit_are_counted_and_not_listed_or_watched() {
    let scene = Scene::with_path("limit").await;
    let client = Client::connect(&scene.server.connect_string()).await;
    for number in 0..20 {
        client.persistent(&scene.path, &format!("{number}"), b"").await;
    }
    let proxy = scene.proxy().await;
    let coordinator = connect(&proxy.connect_string()).await;
    let observer = below(&coordinator, &scene.path);
    proxy.clear_frames();
    let mut view = View::of(observer.clone().node_limit(19).watch());
    view.until("it fails", |view| view.failed.is_some()).await;
    let Some(ObserveError::TooLarge { root, nodes, limit }) = view.failed.clone() else {
        panic!("{view:?}");
    };
    assert_eq!((root, nodes, limit), (scene.path.clone(), 20, 19));
    assert!(matches!(
        observer.clone().node_limit(19).read().await,
        Err(ObserveError::TooLarge { .. })
    ));
    let opcodes: Vec<_> = proxy.requests().into_iter().map(|request| request.opcode).collect();
    assert!(
        opcodes.iter().all(|code| matches!(code, OpCode::Sync | OpCode::GetAllChildrenNumber)),
        "{opcodes:?}"
    );
    // As many as the limit are allowed; a root that is missing has none.
    assert!(observer.clone().node_limit(20).read().await.is_ok());
    let missing = below(&coordinator, &format!("{}/missing", scene.path)).node_limit(0);
    assert!(missing.read().await.is_ok());
    // Where the server cannot count, it is counted while it is listed.
    proxy.rewrite_error(OpCode::GetAllChildrenNumber, -6);
    let failed = observer.node_limit(19).read().await;
    assert!(matches!(failed, Err(ObserveError::TooLarge { nodes: 20.., .. })), "{failed:?}");
}

#[tokio::test]
async fn one_lock_is_told_free_or_held_or_not_at_all() {
    let scene = Scene::with_path("one").await;
    let client = Client::connect(&scene.server.connect_string()).await;
    let coordinator = scene.coordinator().await;
    let make = async |name: &str| {
        let path = format!("{}/{name}", scene.path);
        client.raw.mkdir(&path).await;
        path
    };
    let read = async |at: &str| {
        let reading = Observer::of_lock(&coordinator, &path(at)).read().await.unwrap();
        let told = |lock: &ObservedLock| {
            (lock.path.clone(), lock.kind, lock.contenders().count(), lock.creates)
        };
        let locks: Vec<_> = reading.locks.iter().map(|lock| told(lock)).collect();
        (locks, reading.listed.missing)
    };
    let told = |lock: &str, kind: Kind, count: usize, creates: u32| {
        (vec![(lock.to_owned(), kind, count, Some(creates))], Vec::<String>::new())
    };
    let held = make("held").await;
    // Below it are others, which are none of this.
    client.queue(&make("held/below").await, &curator("lock-"), b"").await;
    let name = client.queue(&held, &curator("lock-"), b"").await;
    assert_eq!(read(&held).await, told(&held, Kind::Mutex, 1, 2));
    let free = make("free").await;
    let node = client.queue(&free, &curator("lock-"), b"").await;
    client.delete(&free, &node).await;
    assert_eq!(read(&free).await, told(&free, Kind::Mutex, 0, 1));
    let never = make("never").await;
    assert_eq!(read(&never).await, (vec![], vec![]));
    let plain = make("plain").await;
    client.persistent(&plain, "config", b"").await;
    assert_eq!(read(&plain).await, (vec![], vec![]));
    let missing = format!("{}/nowhere", scene.path);
    let (locks, missed) = read(&missing).await;
    assert!(locks.is_empty() && missed.contains(&missing), "{missed:?}");
    let semaphore = make("semaphore").await;
    let (entry, leases) = (make("semaphore/locks").await, make("semaphore/leases").await);
    client.queue(&leases, &curator("lease-"), b"").await;
    client.queue(&entry, &curator("lock-"), b"").await;
    assert_eq!(read(&semaphore).await, told(&semaphore, Kind::Semaphore, 2, 2));
    // Asked for by itself, its entry is the mutex that it is.
    assert_eq!(read(&entry).await, told(&entry, Kind::Mutex, 1, 1));

    let mut view = View::watch(&Observer::of_lock(&coordinator, &path(&held))).await;
    client.delete(&held, &name).await;
    view.lock(&held, |lock| lock.holders.is_empty()).await;
    let name = client.queue(&held, &curator("lock-"), b"").await;
    let lock = view.lock(&held, |lock| lock.creates == Some(3)).await;
    assert_eq!(names(&lock.holders), [name]);
    assert!(view.locks.len() == 1);
    // A free one stays told while nothing happens to it but a change of its data.
    let mut view = View::watch(&Observer::of_lock(&coordinator, &path(&free))).await;
    client.raw.set_data(&free, b"new").await;
    client.queue(&free, &curator("lock-"), b"").await;
    view.lock(&free, |lock| lock.holders.len() == 1).await;
    assert_eq!(view.gone, 0);
}

#[tokio::test]
async fn below_a_chroot_paths_are_told_without_it() {
    let scene = Scene::with_path("chroot").await;
    let client = Client::connect(&scene.server.connect_string()).await;
    let lock = format!("{}/locks/a", scene.path);
    client.raw.mkdir(&lock).await;
    let first = client.queue(&lock, &curator("lock-"), b"").await;
    let cluster = format!("{}{}", scene.server.connect_string(), scene.path);
    let coordinator: Coordinator = connect(&cluster).await;
    for root in [Root::Everything, "/locks".parse().unwrap()] {
        let mut view = View::watch(&Observer::new(&coordinator).root(root)).await;
        assert_eq!(names(&view.locks["/locks/a"].holders), [&*first]);
        let second = client.queue(&lock, &curator("lock-"), b"").await;
        view.lock("/locks/a", |lock| names(&lock.waiters) == [&*second]).await;
        client.delete(&lock, &second).await;
        view.lock("/locks/a", |lock| lock.waiters.is_empty()).await;
        assert_eq!(view.locks.len(), 1);
    }
}
