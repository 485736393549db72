//! What scripts rely on: the JSON contract of `zk-inspect`, its exit codes, and that it needs no four-letter
//! words.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::collections::BTreeSet;
use std::process::{Command, Output};

use inspect::{Scene, output, plain, quit, text, zk_inspect};
use integration::server::unique_path;
use integration::{Helper, Observer, Proxy, Server, Terminal, within};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use support::SOON;
use view::{curator, hex};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

fn keys(object: &Map<String, Value>) -> BTreeSet<&str> {
    object.keys().map(String::as_str).collect()
}

#[track_caller]
fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no array: {value}"))
}

/// What ZooKeeper itself says of a contender, and what therefore must be told of it.
async fn expected(raw: &Observer, folder: &str, node: &str, role: &str) -> Value {
    let path = format!("{folder}/{node}");
    let stat = raw.stat(&path).await.unwrap();
    let data = raw.data(&path).await.unwrap();
    let queued_at = Timestamp::from_millisecond(stat.ctime).unwrap();
    json!({
        "node": node,
        "role": role,
        "token": format!("{:016x}", stat.czxid),
        "session": format!("0x{:x}", stat.ephemeral_owner),
        "data": String::from_utf8(data).unwrap(),
        "data_base64": null,
        "queued_at": format!("{queued_at:.3}"),
    })
}

fn waits(mut contender: Value, behind: &[&str]) -> Value {
    contender["behind"] = json!(behind);
    contender
}

async fn json(scene: &Scene, args: &[&str]) -> Value {
    let output = scene.output(args).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let line = text(&output.stdout).strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "a document is one line: {line}");
    serde_json::from_str(line).unwrap()
}

#[tokio::test]
async fn every_field_of_list_and_show_is_what_zookeeper_says() {
    let scene = Scene::new("fields").await;
    let (client, raw) = (&scene.client, &scene.client.raw);
    let node = async |path: &str, prefix: String, data: &str| {
        client.queue(path, &prefix, data.as_bytes()).await
    };
    let lock = |path: &str, kind: &str, dialect: &str, creates: u32| {
        json!({
            "path": path, "kind": kind, "dialect": dialect, "holders": [], "waiters": [],
            "ignored": [], "creates": creates, "counter_used": f64::from(creates) / 2_147_483_647.0,
        })
    };
    let (exclusive, read, write) = ("exclusive", "read", "write");

    let mutex = scene.folder("a-mutex").await;
    let first = node(&mutex, curator("lock-"), "").await;
    let second = node(&mutex, curator("lock-"), "two").await;
    let third = node(&mutex, curator("lock-"), "three").await;
    for other in ["config", "_c_almost-lock-1"] {
        raw.mkdir(&format!("{mutex}/{other}")).await;
    }
    raw.client()
        .create(
            &format!("{mutex}/bytes"),
            b"\xff",
            &CreateMode::Persistent.with_acls(Acls::anyone_all()),
        )
        .await
        .unwrap();
    let mut told = lock(&mutex, "mutex", "curator", 6);
    told["holders"] = json!([expected(raw, &mutex, &first, exclusive).await]);
    told["waiters"] = json!([
        waits(expected(raw, &mutex, &second, exclusive).await, &[&first]),
        waits(expected(raw, &mutex, &third, exclusive).await, &[&second]),
    ]);
    told["ignored"] = json!(["_c_almost-lock-1", "bytes", "config"]);
    let mut all = vec![told];

    let both = scene.folder("b-rw").await;
    let reader = node(&both, curator("__READ__"), "r1").await;
    let other = node(&both, curator("__READ__"), "r2").await;
    let writer = node(&both, curator("__WRIT__"), "w").await;
    let late = node(&both, curator("__READ__"), "r3").await;
    let mut told = lock(&both, "rwlock", "curator", 4);
    told["holders"] = json!([
        expected(raw, &both, &reader, read).await,
        expected(raw, &both, &other, read).await,
    ]);
    told["waiters"] = json!([
        waits(expected(raw, &both, &writer, write).await, &[&reader, &other]),
        waits(expected(raw, &both, &late, read).await, &[&writer]),
    ]);
    all.push(told);

    // Contenders of two kinds of clients, and one that no session owns.
    let mixed = scene.folder("c-mixed").await;
    let stays = raw.create_persistent_like(&mixed, &curator("lock-")).await;
    let kazoo = node(&mixed, format!("{}__lock__", hex()), "kazoo").await;
    let mut told = lock(&mixed, "mutex", "mixed", 2);
    told["holders"] = json!([expected(raw, &mixed, &stays, exclusive).await]);
    told["waiters"] = json!([waits(expected(raw, &mixed, &kazoo, exclusive).await, &[&stays])]);
    assert_eq!(told["holders"][0]["session"], "0x0");
    all.push(told);

    // A semaphore of two permits: who wants the next one waits at the entry.
    let semaphore = scene.folder("d-sem").await;
    let (locks, leases) = (format!("{semaphore}/locks"), format!("{semaphore}/leases"));
    raw.mkdir(&locks).await;
    raw.mkdir(&leases).await;
    let one = node(&leases, curator("lease-"), "one").await;
    let two = node(&leases, curator("lease-"), "two").await;
    let mut told = lock(&semaphore, "semaphore", "curator", 2);
    told["holders"] = json!([
        expected(raw, &leases, &one, "permit").await,
        expected(raw, &leases, &two, "permit").await,
    ]);
    all.push(told);

    let election = scene.folder("e-leader").await;
    let leader = node(&election, curator("latch-"), "leads").await;
    let mut told = lock(&election, "election", "curator", 1);
    told["holders"] = json!([expected(raw, &election, &leader, "candidate").await]);
    all.push(told);

    let list = json(&scene, &["list", "--json"]).await;
    for (told, expected) in array(&list["locks"]).iter().zip(&all) {
        assert_eq!(told, expected);
    }
    assert_eq!(list, json!({"schema": 1, "locks": all}));
    for expected in &all {
        let show = json(&scene, &["show", expected["path"].as_str().unwrap(), "--json"]).await;
        assert_eq!(show, json!({"schema": 1, "locks": [expected]}));
    }
    // Below the same root the order of the fields is the documented one.
    let output = scene.output(&["list", "--json"]).await;
    let start = format!(r#"{{"schema":1,"locks":[{{"path":"{mutex}","kind":"mutex","dialect":"#);
    assert!(text(&output.stdout).starts_with(&start));
    // Nobody's any more: only `show` knows it.
    client.delete(&election, &leader).await;
    assert_eq!(array(&json(&scene, &["list", "--json"]).await["locks"]).len(), all.len() - 1);
    let show = json(&scene, &["show", &election, "--json"]).await;
    assert_eq!(show["locks"][0]["holders"], json!([]));
    assert_eq!(show["locks"][0]["waiters"], json!([]));
    assert_eq!(show["locks"][0]["dialect"], "unknown");
    assert_eq!(show["locks"][0]["creates"], 1);
}

/// Creates a node that may not be read.
async fn unreadable(raw: &Observer, path: &str, mode: CreateMode) -> String {
    let all = [Permission::WRITE, Permission::CREATE, Permission::DELETE, Permission::ADMIN];
    let acls = all.map(|permission| Acl::new(permission, AuthId::anyone()));
    let created = raw.client().create(path, b"secret", &mode.with_acls(Acls::new(&acls))).await;
    let (_, sequence) = created.unwrap();
    if mode == CreateMode::EphemeralSequential {
        format!("{path}{sequence}")
    } else {
        path.to_owned()
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_null_and_makes_the_answer_partial_only_where_it_hides_locks() {
    let scene = Scene::new("denied").await;
    let raw = &scene.client.raw;
    let path = scene.lock("a", &["holder"]).await;
    let mode = CreateMode::EphemeralSequential;
    let full = unreadable(raw, &format!("{path}/{}", curator("lock-")), mode).await;
    let node = full.rsplit('/').next().unwrap();
    let list = json(&scene, &["list", "--json"]).await;
    let holder = &list["locks"][0]["holders"][0]["node"];
    let nothing = json!({
        "node": node, "role": "exclusive", "token": null, "session": null, "data": null,
        "data_base64": null, "queued_at": null, "behind": [holder],
    });
    assert_eq!(list["locks"][0]["waiters"], json!([nothing]));
    let show = scene.output(&["show", &path]).await;
    assert!(text(&show.stdout).contains("(no permission)"), "{show:?}");
    assert_eq!(show.status.code(), Some(0));

    // A folder that may not be listed hides whether there are locks in it.
    let hidden = unreadable(raw, &format!("{}/hidden", scene.root), CreateMode::Persistent).await;
    for args in [&["list"][..], &["list", "--json"]] {
        let output = scene.output(args).await;
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let message = text(&output.stderr);
        assert!(
            message.starts_with("zk-inspect: not complete: ") && message.contains(&hidden),
            "{message}"
        );
        assert!(text(&output.stdout).contains(&path), "what was read is printed");
    }
    let output = scene.output(&["list", "--json"]).await;
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["denied"], json!([hidden]));
    assert_eq!(keys(list.as_object().unwrap()), BTreeSet::from(["schema", "locks", "denied"]));
    let output = scene.output(&["show", &hidden]).await;
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(text(&output.stderr).contains(&hidden) && output.stdout.is_empty(), "{output:?}");
    let terminal = scene.live(&[]).await;
    terminal.wait_text("no permission to list 1: ", SOON).await;
    quit(&terminal).await;
}

#[tokio::test]
async fn every_record_of_watch_has_the_fields_of_its_type() {
    let scene = Scene::new("watched").await;
    let proxy = Proxy::start(&scene.connect()).await;
    let path = scene.lock("a", &["holder"]).await;
    let connect = proxy.connect_string();
    let args = ["list", "--watch", "--connect", &connect, "--root", &scene.root];
    let mut watch = Helper::spawn(Command::new(zk_inspect()).args(args));
    let started = Timestamp::now();
    let mut records: Vec<Value> = Vec::new();
    let mut next = async |wanted: &str| loop {
        let line = watch.wait_line(|_| true, SOON).await;
        let record: Value = serde_json::from_str(&line).unwrap();
        records.push(record.clone());
        if record["type"] == wanted {
            return record;
        }
    };
    let listed = next("listed").await;
    assert_eq!(
        (&listed["denied"], &listed["missing"], &listed["by"], &listed["gap_seconds"]),
        (&json!([]), &json!([]), &json!("watch"), &Value::Null)
    );
    // The root, the lock, and its contender.
    assert_eq!(listed["nodes"], 3);
    let name = scene.contend(&path, b"waiter").await;
    let told = loop {
        let record = next("lock").await;
        if let [told] = array(&record["lock"]["waiters"])
            && told["data"] == "waiter"
        {
            break told.clone();
        }
    };
    let all = json(&scene, &["list", "--json"]).await;
    assert_eq!(told, all["locks"][0]["waiters"][0]);
    assert_eq!(told["node"], *name);
    proxy.cut();
    next("disconnected").await;
    let listed = next("listed").await;
    assert!(listed["gap_seconds"].as_f64().is_some_and(|gap| gap >= 0.0), "{listed}");
    for child in scene.client.raw.children(&path).await {
        scene.client.delete(&path, &child).await;
    }
    while !array(&next("lock").await["lock"]["holders"]).is_empty() {}
    assert!(scene.client.raw.delete(&path).await);
    let gone = next("gone").await;
    assert_eq!(gone["path"], *path);
    watch.terminate();
    watch.exit(SOON).await;

    let mut last = started;
    for (seq, record) in records.iter().enumerate() {
        let own: &[&str] = match record["type"].as_str().unwrap() {
            "lock" => &["lock"],
            "gone" => &["path"],
            "listed" => &["nodes", "denied", "missing", "by", "gap_seconds"],
            "disconnected" => &[],
            other => panic!("{other}"),
        };
        let fields = own.iter().chain(&["schema", "seq", "at", "type"]).copied();
        assert_eq!(keys(record.as_object().unwrap()), fields.collect(), "{record}");
        assert_eq!((&record["schema"], &record["seq"]), (&json!(1), &json!(seq)));
        let at: Timestamp = record["at"].as_str().unwrap().parse().unwrap();
        assert!(at.as_millisecond() >= last.as_millisecond() && at <= Timestamp::now(), "{record}");
        last = at;
    }

    // One lock alone, which may come to be only while it is watched.
    let mut args = scene.args().to_vec();
    args.truncate(2);
    let late = format!("{}/late", scene.root);
    let all = ["show".to_owned(), late.clone(), "--watch".to_owned()];
    let mut watch = Helper::spawn(Command::new(zk_inspect()).args(all).args(args));
    let line = watch.wait_line(|line| line.contains(r#""type":"listed""#), SOON).await;
    let listed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(listed["missing"], json!([late]));
    scene.lock("late", &["come"]).await;
    watch.wait_line(|line| line.contains(r#""data":"come""#), SOON).await;
}

/// The code and the one line on stderr.
#[track_caller]
fn assert_fails(output: &Output, code: i32, part: &str) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let message = text(&output.stderr);
    assert!(output.stdout.is_empty() && message.contains(part), "{output:?}");
    let usage = message.contains("--help");
    assert!(
        usage || message.starts_with("zk-inspect: ") && message.lines().count() == 1,
        "{message}"
    );
}

#[tokio::test]
async fn the_exit_code_says_what_became_of_it() {
    let scene = Scene::new("codes").await;
    let connect = scene.connect();
    // No locks: that is an answer.
    let none = scene.output(&["list"]).await;
    assert_eq!(none.status.code(), Some(0), "{none:?}");
    assert!(none.stdout.is_empty() && text(&none.stderr).contains("no locks below"), "{none:?}");
    let none = scene.output(&["list", "--json"]).await;
    assert_eq!(text(&none.stdout), "{\"schema\":1,\"locks\":[]}\n");
    assert!(none.status.success() && none.stderr.is_empty(), "{none:?}");
    let nowhere = unique_path("nowhere");
    let none = output(&["list", "--connect", &connect, "--root", &nowhere]).await;
    assert_eq!(none.status.code(), Some(0), "{none:?}");

    for json in [&["show", &nowhere][..], &["show", &nowhere, "--json"]] {
        assert_fails(&scene.output(json).await, 1, "there is no node");
    }
    // A node without children, and one whose children are no contenders.
    assert_fails(&scene.output(&["show", &scene.root]).await, 1, "is no lock");
    scene.folder("a").await;
    assert_fails(&scene.output(&["show", &scene.root]).await, 1, "is no lock");
    let path = scene.lock("a", &["holder"]).await;
    assert!(scene.output(&["show", &path]).await.status.success());

    for usage in [
        &["show"][..],
        &["show", "no-slash"],
        &["show", "/a//b"],
        &["show", "/a/"],
        &["list", "--root", "x"],
        &["--nonsense"],
        &["nonsense"],
        &["list", "--connect"],
        &["list", "--connect-timeout", "0"],
        &["list", "--root", "/a", "--scan-all"],
    ] {
        assert_fails(&output(usage).await, 2, "");
    }
    for connect in
        ["", ":", "host:port", "localhost:0", "localhost:70000", "localhost:2181/a//b", ","]
    {
        let list = output(&["list", "--connect", connect]).await;
        assert_fails(&list, 2, "");
    }
    // Nobody listens there.
    for args in [&["list"][..], &["list", "--json"], &["list", "--watch"], &["show", "/a"]] {
        let more = ["--connect", "127.0.0.1:1", "--connect-timeout", "1"];
        let output = output(&[args, &more].concat()).await;
        assert_fails(&output, 3, "127.0.0.1:1");
    }
    assert!(output(&["--version"]).await.status.success());
    assert!(output(&["--help"]).await.status.success());
    assert!(output(&["list", "--help"]).await.status.success());
    // Ended by a signal while it watches.
    let args = ["list", "--watch", "--connect", &connect, "--root", &scene.root];
    let mut watch = Helper::spawn(Command::new(zk_inspect()).args(args));
    watch.wait_line(|line| line.contains("listed"), SOON).await;
    watch.interrupt();
    assert!(!watch.exit(SOON).await.success());
}

#[tokio::test]
async fn a_server_that_refuses_four_letter_words_is_shown_like_any_other() {
    support::start();
    zk_inspect();
    // What the harness itself asks for, and no more.
    let only = ["-Dzookeeper.4lw.commands.whitelist=srvr,conf"];
    let server = Server::builder().java_opts(only).start().await;
    let refused = server.four_letter("mntr").await.unwrap();
    assert!(refused.contains("is not executed because it is not in the whitelist"), "{refused}");
    let connect = server.connect_string();
    let client = view::Client::connect(&connect).await;
    client.raw.mkdir("/locks/a").await;
    client.queue("/locks/a", &curator("lock-"), b"holder").await;
    let list = output(&["list", "--connect", &connect]).await;
    assert!(list.status.success() && list.stderr.is_empty(), "{list:?}");
    assert!(text(&list.stdout).contains("/locks/a") && text(&list.stdout).contains("holder"));
    let terminal = plain(Terminal::builder(zk_inspect())).args(["--connect", &connect]).start();
    terminal.wait_text(" LIVE ", SOON).await;
    let screen = terminal.wait_text("holder", SOON).await;
    assert!(!screen.contains("whitelist") && !screen.contains("permission"), "{screen}");
    quit(&terminal).await;
    within(SOON, "it stops", server.stop()).await;
}
