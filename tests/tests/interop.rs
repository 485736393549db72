//! Other clients on the same path: whom we honour, who honours us, and what is none of ours.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use integration::{FileRecorder, Helper, Observer, Recorder, Server, stays, within};
use lock_recipes::{Coordinator, Dialect, Lock, Role};
use support::{MILLIS, SECONDS, SOON, Scene, connect};
use tokio::task::JoinSet;
use uuid::Uuid;
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// What each client writes before the number, for an exclusive lock or one that excludes us.
fn prefixes() -> Vec<(String, Dialect, Role)> {
    let (uuid, hex) = (Uuid::new_v4(), Uuid::new_v4().simple().to_string());
    vec![
        (format!("_c_{uuid}-lock-"), Dialect::Curator, Role::Exclusive),
        (format!("_c_{uuid}-__WRIT__"), Dialect::Curator, Role::Write),
        (format!("_c_{uuid}-__READ__"), Dialect::Curator, Role::Read),
        (format!("{hex}__lock__"), Dialect::Kazoo, Role::Exclusive),
        (format!("{hex}-lock-"), Dialect::Kazoo, Role::Exclusive),
        (format!("{hex}__rlock__"), Dialect::Kazoo, Role::Read),
        (format!("_c_{hex}-lock-"), Dialect::GoZookeeper, Role::Exclusive),
        ("x-72057847834509312-".to_owned(), Dialect::ZooKeeper, Role::Exclusive),
        ("x--7205784783450931200-".to_owned(), Dialect::ZooKeeper, Role::Exclusive),
        ("x-0100a3f1b2c40000-".to_owned(), Dialect::ZooKeeper, Role::Exclusive),
    ]
}

#[tokio::test]
async fn whoever_stands_ahead_is_waited_for_in_every_dialect() {
    let scene = Scene::with_path("ahead").await;
    let coordinator = scene.coordinator().await;
    for (prefix, dialect, role) in prefixes() {
        let path = format!("{}/{}", scene.path, Uuid::new_v4().simple());
        scene.observer.mkdir(&path).await;
        let ahead = scene.observer.create_ephemeral_like(&path, &prefix).await;
        let lock = Lock::new(&coordinator, path.as_str()).unwrap();
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        scene.observer.wait_for_count(&path, 2, SOON).await;
        let behind = scene.observer.create_ephemeral_like(&path, &prefix).await;
        let queue = lock.queue().await.unwrap();
        let names: Vec<_> = queue.contenders.iter().map(|one| one.node.as_str()).collect();
        assert_eq!((names[0], names.len(), names[2]), (&*ahead, 3, &*behind));
        let holder = queue.holder().unwrap();
        assert_eq!((holder.node.dialect(), holder.node.role()), (dialect, role), "{ahead}");
        assert!(!holder.node.is_own() && queue.contenders[1].node.is_own());
        assert_eq!(holder.session, scene.observer.client().session_id().0);
        stays(MILLIS(50), "we wait", async || !waiting.is_finished()).await;
        scene.observer.delete(&format!("{path}/{ahead}")).await;
        // The one behind is not waited for.
        let guard = within(SOON, "granted", waiting).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_change_of_the_data_ahead_is_not_taken_for_its_end() {
    let scene = Scene::with_path("revoked").await;
    let coordinator = scene.coordinator().await;
    let prefix = format!("_c_{}-lock-", Uuid::new_v4());
    let ahead = scene.observer.create_ephemeral_like(&scene.path, &prefix).await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    scene.has(2).await;
    for round in 0..5 {
        // Curator's way to ask for a lock back.
        scene.observer.set_data(&format!("{}/{ahead}", scene.path), b"__REVOKE__").await;
        let what = format!("we wait after {round}");
        stays(MILLIS(30), what, async || !waiting.is_finished()).await;
    }
    scene.observer.delete(&format!("{}/{ahead}", scene.path)).await;
    within(SOON, "granted", waiting).await.unwrap().release().await.unwrap();
}

/// The place of each child as the other clients find it, by their own rules; see their sources.
mod theirs {
    /// Curator sorts all children by the text behind the last `lock-`, and the first one holds.
    pub(super) fn curator(mut children: Vec<String>) -> Vec<String> {
        let key = |name: &String| {
            name.rsplit_once("lock-").map_or_else(|| name.clone(), |(_, text)| text.to_owned())
        };
        children.sort_by_key(key);
        children
    }

    /// go-zookeeper takes the number behind the last `lock-`, or else the last `__`, of every child.
    pub(super) fn go_zookeeper(mut children: Vec<String>) -> Vec<String> {
        children.sort_by_key(|name| {
            let (_, number) = name.rsplit_once("lock-").or_else(|| name.rsplit_once("__")).unwrap();
            number.parse::<i64>().unwrap()
        });
        children
    }

    /// kazoo keeps what ends with one of its patterns and ten digits, and sorts by these.
    pub(super) fn kazoo(children: Vec<String>, patterns: &[&str]) -> Vec<String> {
        let number = |name: &String| {
            let (head, number) = name.split_at_checked(name.len().checked_sub(10)?)?;
            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let ours = patterns.iter().any(|pattern| head.ends_with(pattern));
            (digits && ours).then(|| number.to_owned())
        };
        let mut kept: Vec<_> =
            children.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
        kept.sort();
        kept.into_iter().map(|(_, name)| name).collect()
    }
}

/// Whether a name has this form: `u` a uuid's hex digit, `d` a decimal one, anything else itself.
fn has_form(name: &str, form: &str) -> bool {
    name.len() == form.len()
        && name.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'u' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            b'd' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

#[tokio::test]
async fn we_stand_where_the_other_clients_look() {
    let scene = Scene::with_path("form").await;
    let coordinator = scene.coordinator().await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let ours = guard.node().to_owned();
    // `u` stands for the uuid's digits here, the marker's letters are none of them.
    let form = "_c_uuuuuuuu-uuuu-uuuu-uuuu-uuuuuuuuuuuu-lock-dddddddddd";
    assert!(has_form(&ours, form), "{ours}");
    let (curator, hex) = (Uuid::new_v4(), Uuid::new_v4().simple());
    scene.observer.create_ephemeral_like(&scene.path, &format!("_c_{curator}-lock-")).await;
    scene.observer.create_ephemeral_like(&scene.path, &format!("_c_{hex}-lock-")).await;
    for _ in 0..2 {
        let children = scene.children().await;
        for first in [
            &theirs::curator(children.clone())[0],
            &theirs::go_zookeeper(children.clone())[0],
            &theirs::kazoo(children.clone(), &["__lock__", "-lock-"])[0],
        ] {
            assert_eq!(first, &ours, "{children:?}");
        }
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn in_kazoos_dialect_we_stand_where_an_unmodified_kazoo_looks() {
    let scene = Scene::with_path("kazoo").await;
    let builder = Coordinator::builder(&scene.server.connect_string()).dialect(Dialect::Kazoo);
    let coordinator = builder.connect().await.unwrap();
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let form = "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu__lock__dddddddddd";
    assert!(has_form(guard.node(), form), "{}", guard.node());
    let prefix = format!("{}__lock__", Uuid::new_v4().simple());
    scene.observer.create_ephemeral_like(&scene.path, &prefix).await;
    let order = theirs::kazoo(scene.children().await, &["__lock__"]);
    assert_eq!((order.len(), &*order[0]), (2, guard.node()));
    assert_eq!(theirs::go_zookeeper(scene.children().await)[0], guard.node());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_two_dialects_exclude_each_other() {
    let scene = Scene::with_path("mixed").await;
    let recorder = Recorder::new();
    let mut working = JoinSet::new();
    for number in 0..6 {
        let dialect = if number % 2 == 0 { Dialect::Curator } else { Dialect::Kazoo };
        let builder = Coordinator::builder(&scene.server.connect_string()).dialect(dialect);
        let coordinator = builder.connect().await.unwrap();
        let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
        let recorder = recorder.clone();
        working.spawn(async move {
            for _ in 0..20 {
                let guard = lock.acquire().await.unwrap();
                recorder.enter(number, guard.token().as_i64());
                tokio::task::yield_now().await;
                recorder.leave(number);
                guard.release().await.unwrap();
            }
        });
    }
    within(SOON, "all rounds", working.join_all()).await;
    recorder.assert_exclusive();
    assert!(recorder.tokens_increase());
}

#[tokio::test]
async fn what_is_no_contender_is_ignored_and_reported() {
    let scene = Scene::with_path("others").await;
    let (uuid, hex) = (Uuid::new_v4(), Uuid::new_v4().simple());
    let mut others = vec![
        "config".to_owned(),
        "content".to_owned(),
        "targets".to_owned(),
        "my-config".to_owned(),
        "0-config".to_owned(),
        "2015-06-11".to_owned(),
        "block-0000000000".to_owned(),
        "0000000000".to_owned(),
        "lock-".to_owned(),
        "lock-12".to_owned(),
        "lock-0000000000".to_owned(),
        "-lock-0000000000".to_owned(),
        "__lock__0000000000".to_owned(),
        "x__lock__abc".to_owned(),
        "x-1-000000000".to_owned(),
        "_c_".to_owned(),
        format!("_c_{uuid}-lock-"),
        format!("_c_{uuid}-lock-1"),
        format!("_c_{uuid}-lock-00000000001"),
        format!("_c_{uuid}-lock-000000000a"),
        format!("_c_{uuid}-lock-0000000000 "),
        format!("_c_{uuid}lock-0000000000"),
        format!("c_{uuid}-lock-0000000000"),
        format!("_c_{uuid}-lease-0000000000"),
        format!("_c_{uuid}-latch-0000000000"),
        format!("{hex}__party__"),
        format!("{hex}__lock__"),
        "n_0000000000".to_owned(),
        "部署-lock-0000000000".to_owned(),
        "_c_部署部署部署部署部署部署部署-lock-0000000000".to_owned(),
        "\u{202e}kcol".to_owned(),
        "é__lock__0000000000".to_owned(),
        "n".repeat(250),
        format!("{}-lock-0000000000", "é".repeat(120)),
    ];
    others.sort_unstable();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for name in &others {
        let path = format!("{}/{name}", scene.path);
        let made = scene.observer.client().create(&path, b"", &options).await;
        made.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
    let coordinator = scene.coordinator().await;
    let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
    let guard = within(SECONDS(2), "granted at once", lock.acquire()).await.unwrap();
    let queue = lock.queue().await.unwrap();
    assert_eq!(queue.ignored, others);
    assert_eq!(queue.holder().unwrap().node.as_str(), guard.node());
    assert!(queue.waiters().is_empty());
    guard.release().await.unwrap();
    assert_eq!(scene.children().await, others);
}

/// Deletes the path whenever it is empty, until told to stop; says how often it was.
async fn reap(client: Client, paths: Vec<String>, stop: Arc<AtomicBool>) -> usize {
    let mut deleted = 0;
    while !stop.load(Ordering::Relaxed) {
        for path in &paths {
            match client.delete(path, None).await {
                Ok(()) => deleted += 1,
                Err(Error::NotEmpty | Error::NoNode) => {}
                Err(error) => panic!("{path}: {error}"),
            }
        }
    }
    deleted
}

async fn contest_with_a_reaper(length: Duration) {
    let server = Server::builder().unsafe_fast().start().await;
    support::start();
    let reaper = Observer::connect(&server.connect_string()).await.client().clone();
    let stop = Arc::new(AtomicBool::new(false));
    // The parent too, so that every level has to be made again.
    let paths = vec!["/locks/a".to_owned(), "/locks".to_owned()];
    let reaping = tokio::spawn(reap(reaper, paths, Arc::clone(&stop)));
    let (recorder, count) = (Recorder::new(), Arc::new(AtomicUsize::new(0)));
    let mut working = JoinSet::new();
    for number in 0..10 {
        let coordinator = connect(&server.connect_string()).await;
        let lock = Lock::new(&coordinator, "/locks/a").unwrap();
        let (recorder, count, stop) = (recorder.clone(), Arc::clone(&count), Arc::clone(&stop));
        working.spawn(async move {
            let mut pause = number;
            while !stop.load(Ordering::Relaxed) {
                let guard = lock.acquire().await.unwrap();
                recorder.enter(number, guard.token().as_i64());
                tokio::task::yield_now().await;
                recorder.leave(number);
                guard.release().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                // Now crowded, now empty.
                pause = (pause * 7 + 3) % 31;
                tokio::time::sleep(MILLIS(pause)).await;
            }
        });
    }
    tokio::time::sleep(length).await;
    stop.store(true, Ordering::Relaxed);
    within(SOON, "all have stopped", working.join_all()).await;
    let deleted = within(SOON, "it has stopped", reaping).await.unwrap();
    let count = count.load(Ordering::Relaxed);
    println!("{count} acquisitions in {length:?}, while {deleted} nodes were reaped");
    assert!(deleted >= 10 && count >= 100, "{count} acquisitions, {deleted} reaped");
    recorder.assert_exclusive();
    assert!(recorder.tokens_increase());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_that_the_path_is_deleted_whenever_it_is_empty() {
    contest_with_a_reaper(SECONDS(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "30 s; make campaigns"]
async fn nobody_notices_for_thirty_seconds_that_the_path_is_deleted_whenever_it_is_empty() {
    contest_with_a_reaper(SECONDS(30)).await;
}

/// Contends as kazoo does, until stdin ends: `HOSTS PATH RECORD PATTERN…`. The record is that of
/// [`FileRecorder`], the token that of the node.
const KAZOO: &str = r#"
import os, sys, threading, time
from kazoo.client import KazooClient
hosts, path, record, *patterns = sys.argv[1:]
record = os.open(record, os.O_WRONLY | os.O_APPEND)
stop = threading.Event()
def note(verb, id, token):
    os.write(record, f"{verb} {id} {token} {time.monotonic_ns()}\n".encode())
def contend(number):
    client = KazooClient(hosts)
    client.start()
    while not stop.is_set():
        lock = client.Lock(path, extra_lock_patterns=patterns)
        with lock:
            stat = client.exists(f"{path}/{lock.node}")
            note("enter", f"kazoo{number}", stat.czxid)
            time.sleep(0.002)
            note("leave", f"kazoo{number}", 0)
    client.stop()
threads = [threading.Thread(target=contend, args=[number]) for number in range(3)]
for thread in threads: thread.start()
print("ready", flush=True)
sys.stdin.read()
stop.set()
for thread in threads: thread.join()
print("done", flush=True)
"#;

async fn contest_with_kazoo(ours: Dialect, patterns: &[&str]) {
    let packages = tempfile::tempdir().unwrap();
    let mut pip = std::process::Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(packages.path());
    let installed = pip.arg("kazoo==2.11.0").output().expect("python3 runs");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let scene = Scene::with_path("real").await;
    let file = packages.path().join("record");
    let recorder = Arc::new(FileRecorder::open(&file));
    let mut python = std::process::Command::new("python3");
    python.env("PYTHONPATH", packages.path()).args(["-c", KAZOO]);
    python.arg(scene.server.connect_string()).arg(&scene.path).arg(&file).args(patterns);
    let mut kazoo = Helper::spawn(&mut python);
    kazoo.wait_line(|line| line == "ready", SOON).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for number in 0..3 {
        let builder = Coordinator::builder(&scene.server.connect_string()).dialect(ours);
        let coordinator = builder.connect().await.unwrap();
        let lock = Lock::new(&coordinator, scene.path.as_str()).unwrap();
        let (recorder, stop) = (Arc::clone(&recorder), Arc::clone(&stop));
        working.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let guard = lock.acquire().await.unwrap();
                recorder.enter(format!("ours{number}"), guard.token().as_i64());
                tokio::time::sleep(MILLIS(2)).await;
                recorder.leave(format!("ours{number}"));
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(SECONDS(10)).await;
    stop.store(true, Ordering::Relaxed);
    kazoo.close_stdin();
    within(SOON, "ours have stopped", working.join_all()).await;
    kazoo.wait_line(|line| line == "done", SOON).await;
    let history = recorder.history();
    let of = |who| history.order().iter().filter(|id| id.starts_with(who)).count();
    println!("{ours:?}: {} by kazoo, {} by us", of("kazoo"), of("ours"));
    history.assert_exclusive();
    assert!(history.tokens_increase());
    assert!(of("kazoo") > 100 && of("ours") > 100);
    scene.has(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs kazoo from PyPI; make campaigns"]
async fn a_real_kazoo_and_we_take_turns_in_its_dialect() {
    contest_with_kazoo(Dialect::Kazoo, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs kazoo from PyPI; make campaigns"]
async fn a_real_kazoo_that_is_told_our_pattern_and_we_take_turns_in_curators_dialect() {
    contest_with_kazoo(Dialect::Curator, &["-lock-"]).await;
}
