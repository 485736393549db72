//! Queues of other clients and products, made by hand: kind, roles and order in JSON and on screen.

#![allow(clippy::expect_used, clippy::many_single_char_names, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use inspect::{Scene, quit, text};
use integration::pty::Key;
use serde_json::Value;
use support::SOON;
use uuid::Uuid;
use view::{Client, curator, hex};

/// What a lock has to look like.
struct Wanted {
    path: String,
    kind: &'static str,
    dialect: &'static str,
    /// Data and role of the holders, and of the waiters with whom they are behind.
    holders: Vec<(&'static str, &'static str)>,
    waiters: Vec<(&'static str, &'static str, &'static [&'static str])>,
}

/// Makes contenders in this order; each has its data, and the prefix of its name.
async fn queue(client: &Client, path: &str, contenders: &[(&str, String)]) {
    client.raw.mkdir(path).await;
    for (data, prefix) in contenders {
        client.queue(path, prefix, data.as_bytes()).await;
    }
}

type Names = Vec<(&'static str, String)>;
type Holders = Vec<(&'static str, &'static str)>;
type Waiters = Vec<(&'static str, &'static str, &'static [&'static str])>;

/// Layouts that are one queue in one folder.
#[expect(clippy::too_many_lines, reason = "a table")]
fn queues() -> Vec<(&'static str, &'static str, &'static str, Names, Holders, Waiters)> {
    let uuid = || Uuid::new_v4().to_string();
    let c = |data, marker: &str| (data, curator(marker));
    let plain = |data, prefix: &str| (data, prefix.to_owned());
    let exclusive: (Holders, Waiters) = (
        vec![("one", "exclusive")],
        vec![("two", "exclusive", &["one"]), ("three", "exclusive", &["two"])],
    );
    let lead: (Holders, Waiters) = (
        vec![("one", "candidate")],
        vec![("two", "candidate", &["one"]), ("three", "candidate", &["two"])],
    );
    let three =
        |prefix: fn() -> String| vec![("one", prefix()), ("two", prefix()), ("three", prefix())];
    let (x, w) = exclusive;
    let (l, s) = lead;
    vec![
        ("curator-mutex", "mutex", "curator", three(|| curator("lock-")), x.clone(), w.clone()),
        (
            "kazoo-lock",
            "mutex",
            "kazoo",
            three(|| format!("{}__lock__", hex())),
            x.clone(),
            w.clone(),
        ),
        (
            "go-lock",
            "mutex",
            "go-zookeeper",
            three(|| format!("_c_{}-lock-", hex())),
            x.clone(),
            w.clone(),
        ),
        (
            "kazoo-dash",
            "mutex",
            "kazoo",
            three(|| format!("{}-lock-", hex())),
            x.clone(),
            w.clone(),
        ),
        (
            "zk-c-lock",
            "mutex",
            "zookeeper",
            three(|| "x-0100000a3f2b0001-".into()),
            x.clone(),
            w.clone(),
        ),
        (
            "zk-writelock",
            "mutex",
            "zookeeper",
            three(|| "x-72057594037927936-".into()),
            x.clone(),
            w.clone(),
        ),
        (
            "zk-recipe",
            "mutex",
            "zookeeper",
            three(|| format!("{}-lock-", Uuid::new_v4())),
            x.clone(),
            w.clone(),
        ),
        (
            "accumulo",
            "mutex",
            "accumulo",
            three(|| format!("zlock#{}#", Uuid::new_v4())),
            x.clone(),
            w.clone(),
        ),
        ("ruby-ex", "mutex", "zk-ruby", three(|| "ex".into()), x.clone(), w.clone()),
        ("net-lock", "mutex", "distributed-lock", three(|| "lock-".into()), x, w),
        ("curator-latch", "election", "curator", three(|| curator("latch-")), l.clone(), s.clone()),
        (
            "spark/leader_election",
            "election",
            "curator",
            three(|| curator("latch-")),
            l.clone(),
            s.clone(),
        ),
        (
            "hive/_LEADER",
            "election",
            "curator",
            three(|| curator("72057594037927936-latch-")),
            l.clone(),
            s.clone(),
        ),
        ("zk-election", "election", "zookeeper", three(|| "n_".into()), l.clone(), s.clone()),
        (
            "solr",
            "election",
            "solr",
            three(|| "72057594037927936-host:8983_solr-n_".into()),
            l.clone(),
            s.clone(),
        ),
        (
            "clickhouse-one",
            "election",
            "clickhouse",
            three(|| "leader_election-".into()),
            l.clone(),
            s.clone(),
        ),
        ("mesos", "election", "mesos", three(|| "json.info_".into()), l.clone(), s.clone()),
        ("log_replicas", "election", "mesos", three(String::new), l, s),
        (
            "clickhouse-many",
            "election",
            "clickhouse",
            vec![
                plain("a (multiple leaders Ok)", "leader_election-"),
                plain("b (multiple leaders Ok)", "leader_election-"),
            ],
            vec![
                ("a (multiple leaders Ok)", "candidate"),
                ("b (multiple leaders Ok)", "candidate"),
            ],
            vec![],
        ),
        (
            "curator-rw",
            "rwlock",
            "curator",
            vec![c("r1", "__READ__"), c("r2", "__READ__"), c("w", "__WRIT__"), c("r3", "__READ__")],
            vec![("r1", "read"), ("r2", "read")],
            vec![("w", "write", &["r1", "r2"]), ("r3", "read", &["w"])],
        ),
        (
            "kazoo-rw",
            "rwlock",
            "kazoo",
            vec![
                ("w", format!("{}__lock__", hex())),
                ("r1", format!("{}__rlock__", hex())),
                ("r2", format!("{}__rlock__", hex())),
            ],
            vec![("w", "write")],
            vec![("r1", "read", &["w"]), ("r2", "read", &["w"])],
        ),
        (
            "recipe-rw",
            "rwlock",
            "zookeeper",
            vec![("r1", format!("{}-read-", uuid())), ("w", format!("{}-write-", uuid()))],
            vec![("r1", "read")],
            vec![("w", "write", &["r1"])],
        ),
        (
            "ruby-sh",
            "rwlock",
            "zk-ruby",
            vec![plain("sh1", "sh"), plain("ex1", "ex")],
            vec![("sh1", "read")],
            vec![("ex1", "write", &["sh1"])],
        ),
        (
            "net-rw",
            "rwlock",
            "distributed-lock",
            vec![plain("w", "write-"), plain("r", "read-")],
            vec![("w", "write")],
            vec![("r", "read", &["w"])],
        ),
        (
            "net-sem",
            "semaphore",
            "distributed-lock",
            vec![plain("p1", "semaphore-"), plain("p2", "semaphore-")],
            vec![("p1", "permit"), ("p2", "permit")],
            vec![],
        ),
        (
            "ruby-sem",
            "semaphore",
            "zk-ruby",
            vec![plain("p1", "sem"), plain("p2", "sem")],
            vec![("p1", "permit"), ("p2", "permit")],
            vec![],
        ),
        (
            "mixed",
            "mutex",
            "mixed",
            vec![c("curators", "lock-"), ("kazoos", format!("{}__lock__", hex()))],
            vec![("curators", "exclusive")],
            vec![("kazoos", "exclusive", &["curators"])],
        ),
    ]
}

/// Makes everything; the sessions must be kept.
async fn make(scene: &Scene) -> (Vec<Wanted>, Vec<Client>) {
    let client = &scene.client;
    let mut wanted = Vec::new();
    for (name, kind, dialect, contenders, holders, waiters) in queues() {
        let path = format!("{}/{name}", scene.root);
        queue(client, &path, &contenders).await;
        wanted.push(Wanted { path, kind, dialect, holders, waiters });
    }
    // Curator's semaphore: three leases, of which the newest belongs to the one at the front of the
    // entry, which waits for a fourth to be returned; and one more at the entry.
    let path = format!("{}/curator-sem", scene.root);
    let (locks, leases) = (format!("{path}/locks"), format!("{path}/leases"));
    queue(client, &leases, &[("p1", curator("lease-")), ("p2", curator("lease-"))]).await;
    let asking = Client::connect(&scene.connect()).await;
    queue(&asking, &locks, &[("entry1", curator("lock-"))]).await;
    queue(&asking, &leases, &[("p3", curator("lease-"))]).await;
    let behind = Client::connect(&scene.connect()).await;
    queue(&behind, &locks, &[("entry2", curator("lock-"))]).await;
    wanted.push(Wanted {
        path,
        kind: "semaphore",
        dialect: "curator",
        holders: vec![("p1", "permit"), ("p2", "permit")],
        waiters: vec![("p3", "permit", &["p1", "p2"]), ("entry2", "permit", &["p3"])],
    });
    // kazoo's: the limit is the data of its node, the entry lies beside it.
    let path = format!("{}/kazoo-sem", scene.root);
    client.raw.mkdir(&path).await;
    client.raw.set_data(&path, b"2").await;
    client.lone(&path, &hex(), b"p1").await;
    client.lone(&path, &hex(), b"p2").await;
    queue(client, &format!("{path}-__lock__"), &[("p3", format!("{}__lock__", hex()))]).await;
    wanted.push(Wanted {
        path,
        kind: "semaphore",
        dialect: "kazoo",
        holders: vec![("p1", "permit"), ("p2", "permit")],
        waiters: vec![("p3", "permit", &["p1", "p2"])],
    });
    // One ephemeral node, without a queue.
    for (folder, name, dialect, data) in [
        ("hadoop-ha/ns1", "ActiveStandbyElectorLock", "hadoop", "namenode-1"),
        ("hbase", "master", "hbase", "master-1"),
        ("kafka", "controller", "kafka", r#"{"version":1,"brokerid":3}"#),
        ("helix/CONTROLLER", "LEADER", "helix", "controller-1"),
    ] {
        let folder = format!("{}/{folder}", scene.root);
        client.raw.mkdir(&folder).await;
        client.lone(&folder, name, data.as_bytes()).await;
        wanted.push(Wanted {
            path: format!("{folder}/{name}"),
            kind: "election",
            dialect,
            holders: vec![(data, "candidate")],
            waiters: vec![],
        });
    }
    // What looks like a lock and is none: queues, what lies beside lone leaders, parties, barriers.
    let others = format!("{}/queue", scene.root);
    client.raw.mkdir(&others).await;
    for prefix in ["lock-", "ex", "", "qn-", "queue-", "entry-100-"] {
        client.raw.create_persistent_like(&others, prefix).await;
    }
    for beside in
        ["hadoop-ha/ns1/ActiveBreadCrumb", "hbase/backup-masters", "kafka/controller_epoch"]
    {
        client.raw.mkdir(&format!("{}/{beside}", scene.root)).await;
    }
    for (folder, name) in
        [("party", format!("{}-me", hex())), ("barrier", Uuid::new_v4().to_string())]
    {
        let folder = format!("{}/{folder}", scene.root);
        queue(client, &folder, &[("me", format!("{}__party__", hex()))]).await;
        client.lone(&folder, &name, b"").await;
    }
    wanted.sort_by(|a, b| a.path.cmp(&b.path));
    (wanted, vec![asking, behind])
}

fn compare(lock: &Value, wanted: &Wanted) {
    let path = &wanted.path;
    assert_eq!(lock["path"], **path);
    assert_eq!(
        (&lock["kind"], &lock["dialect"]),
        (&wanted.kind.into(), &wanted.dialect.into()),
        "{path}"
    );
    let all = lock["holders"].as_array().unwrap().iter().chain(lock["waiters"].as_array().unwrap());
    let data = |node: &Value| {
        let mut all = all.clone();
        let found =
            all.find(|one| one["node"] == *node).unwrap_or_else(|| panic!("{node}: {lock}"));
        found["data"].as_str().unwrap().to_owned()
    };
    let holders: Vec<_> = lock["holders"].as_array().unwrap().iter().collect();
    let shown: Vec<_> = holders
        .iter()
        .map(|one| (one["data"].as_str().unwrap(), one["role"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, wanted.holders, "{path}");
    let waiters = lock["waiters"].as_array().unwrap();
    assert_eq!(waiters.len(), wanted.waiters.len(), "{lock}");
    for (one, (name, role, behind)) in waiters.iter().zip(&wanted.waiters) {
        assert_eq!((&one["data"], &one["role"]), (&(*name).into(), &(*role).into()), "{path}");
        let nodes = one["behind"].as_array().unwrap();
        assert_eq!(nodes.iter().map(data).collect::<Vec<_>>(), *behind, "{path}: {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_layout_is_told_with_kind_roles_and_order() {
    let scene = Scene::new("layouts").await;
    let (wanted, _sessions) = make(&scene).await;
    let output = scene.output(&["list", "--json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let locks = json["locks"].as_array().unwrap();
    let paths: Vec<_> = locks.iter().map(|lock| lock["path"].as_str().unwrap()).collect();
    assert_eq!(paths, wanted.iter().map(|wanted| &*wanted.path).collect::<Vec<_>>());
    for (lock, wanted) in locks.iter().zip(&wanted) {
        compare(lock, wanted);
        let output = scene.output(&["show", &wanted.path, "--json"]).await;
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", wanted.path, text(&output.stderr)));
        compare(&json["locks"][0], wanted);
    }
}

/// The places of those whose data this is, as the screen writes them.
fn places(wanted: &Wanted, behind: &[&str]) -> String {
    let waiters = wanted.waiters.iter().map(|(data, ..)| data);
    let mut all = wanted.holders.iter().map(|(data, _)| data).chain(waiters);
    let mut places: Vec<_> =
        behind.iter().map(|ahead| all.clone().position(|one| one == ahead).unwrap()).collect();
    places.sort_unstable();
    assert!(all.next().is_some());
    match &*places {
        [] => "-".to_owned(),
        [one] => format!("#{one}"),
        [first, .., last] => format!("#{first}-{last}"),
    }
}

/// Whether the line of a table is these cells, in this order, between others.
fn is_line(line: &str, cells: &[&str]) -> bool {
    let ends = cells.iter().try_fold(line, |rest, cell| {
        let (_, after) = rest.split_once(cell)?;
        Some(after)
    });
    ends.is_some()
}

/// The beginning of data, as much of it as every column has room for.
fn start(data: &str) -> &str {
    data.get(..12).unwrap_or(data)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_layout_is_on_the_screen_and_so_is_its_queue() {
    let scene = Scene::new("screens").await;
    let terminal = scene.screen(&[]).size(120, 36).start();
    // Made while it looks on.
    terminal.wait_text(" LIVE ", SOON).await;
    let (wanted, _sessions) = make(&scene).await;
    for wanted in &wanted {
        let name = wanted.path.strip_prefix(&scene.root).unwrap();
        let kind = match wanted.kind {
            "rwlock" => "rw".to_owned(),
            "semaphore" => format!("sem {}", wanted.holders.len()),
            kind => kind.to_owned(),
        };
        let dialect = wanted.dialect;
        let holder = match (&*wanted.holders, wanted.kind) {
            ([(data, _)], _) => start(data).to_owned(),
            (many, "rwlock") => format!("{} readers", many.len()),
            (many, "semaphore") => format!("{} permits", many.len()),
            (many, _) => format!("{} holders", many.len()),
        };
        let waiting = wanted.waiters.len().to_string();
        terminal.send(&format!("/path:{name}"));
        let row = format!("{name} is there, held by {holder}, and {waiting} wait");
        terminal
            .wait_for(row, SOON, |screen| {
                let row = screen.lines().iter().find(|line| line.starts_with('>'));
                // Of a long path the end.
                let end = format!("/{} ", name.rsplit('/').next().unwrap());
                let cells = [&*end, &kind, &holder, &waiting];
                row.is_some_and(|row| is_line(row, &cells))
            })
            .await;
        terminal.press(Key::Enter);
        terminal.press(Key::Enter);
        terminal
            .wait_for(format!("the queue of {name} is right"), SOON, |screen| {
                let lines = screen.lines();
                let total = wanted.holders.len() + wanted.waiters.len();
                let holders =
                    wanted.holders.iter().map(|&(data, role)| ("HOLD", data, role, &[][..]));
                let waiters =
                    wanted.waiters.iter().map(|&(data, role, behind)| ("wait", data, role, behind));
                lines[2].contains(&format!("{kind} ({dialect})"))
                    && lines[4 + total].is_empty()
                    && holders.chain(waiters).zip(&lines[4..]).enumerate().all(
                        |(number, ((place, data, role, behind), line))| {
                            let (number, behind) = (number.to_string(), places(wanted, behind));
                            let cells =
                                [&*number, place, role, start(data), " 0x", &format!(" {behind} ")];
                            is_line(line, &cells)
                        },
                    )
            })
            .await;
        terminal.press(Key::Esc);
        // Two at once would be another key.
        terminal.wait_text("filter path:", SOON).await;
        terminal.press(Key::Esc);
        terminal.wait_text("locks  sort", SOON).await;
    }
    quit(&terminal).await;
}
