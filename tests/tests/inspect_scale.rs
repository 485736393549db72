//! `zk-inspect` on many locks and on many nodes: compared with raw requests in the same run.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests")]

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use integration::proxy::Kind;
use integration::pty::Key;
use integration::{Observer, Proxy, Server, Terminal, binary};
use uuid::Uuid;
use zookeeper_client::{Acls, Client, CreateMode, MultiReadResult, MultiReader};

const LIMIT: Duration = Duration::from_secs(120);

/// How servers count one recursive watch: some among those of data and among those of children.
const WATCH: RangeInclusive<u64> = 1..=2;

/// How many creates are under way.
const AT_ONCE: usize = 2_000;

static ZK_INSPECT: LazyLock<PathBuf> = LazyLock::new(|| {
    binary("zk-inspect", &["-p", "zk-inspect"], &["zk-inspect/src", "lock-recipes/src"])
});

/// Creates nodes, many at once.
async fn create(client: &Client, paths: &[String], mode: CreateMode, data: &[u8]) {
    let options = mode.with_acls(Acls::anyone_all());
    for chunk in paths.chunks(AT_ONCE) {
        let creates: Vec<_> =
            chunk.iter().map(|path| client.create(path, data, &options)).collect();
        for create in creates {
            create.await.unwrap();
        }
    }
}

/// `count` locks below `/locks` with three contenders each.
async fn locks(client: &Client, count: usize) {
    let folders: Vec<_> = (0..count).map(|lock| format!("/locks/lock-{lock:05}")).collect();
    create(client, &["/locks".to_owned()], CreateMode::Persistent, b"").await;
    create(client, &folders, CreateMode::Persistent, b"").await;
    let contenders: Vec<_> = (0..3)
        .flat_map(|_| folders.iter().map(|folder| format!("{folder}/_c_{}-lock-", Uuid::new_v4())))
        .collect();
    create(client, &contenders, CreateMode::EphemeralSequential, b"worker-7").await;
}

/// How many nodes a raw multi-read asks for.
const TOGETHER: usize = 500;

/// The same nodes by the raw client: one list, and everything else in multi-reads, each sent when the
/// one before is answered, or all at once.
async fn raw(connect: &str, all_at_once: bool) -> Duration {
    let start = Instant::now();
    let client = Client::connect(connect).await.unwrap();
    let names = client.list_children("/locks").await.unwrap();
    let folders: Vec<_> = names.iter().map(|name| format!("/locks/{name}")).collect();
    let mut nodes = Vec::new();
    let lists = multi_read(&client, &folders, all_at_once, |reader, path| {
        reader.add_get_children(path).unwrap();
    });
    for (folder, list) in folders.iter().zip(lists.await) {
        let MultiReadResult::Children { children } = list else { panic!("{list:?}") };
        nodes.extend(children.iter().map(|child| format!("{folder}/{child}")));
    }
    nodes.extend(folders);
    let read = multi_read(&client, &nodes, all_at_once, |reader, path| {
        reader.add_get_data(path).unwrap();
    });
    assert_eq!(read.await.len(), names.len() * 4);
    start.elapsed()
}

async fn multi_read(
    client: &Client,
    paths: &[String],
    all_at_once: bool,
    add: impl Fn(&mut MultiReader<'_>, &str),
) -> Vec<MultiReadResult> {
    let requests = paths.chunks(TOGETHER).map(|chunk| {
        let mut reader = client.new_multi_reader();
        for path in chunk {
            add(&mut reader, path);
        }
        reader.commit()
    });
    let mut results = Vec::new();
    if all_at_once {
        for request in requests.collect::<Vec<_>>() {
            results.extend(request.await.unwrap());
        }
    } else {
        for request in requests {
            results.extend(request.await.unwrap());
        }
    }
    results
}

fn list(connect: &str, args: &[&str]) -> (Output, Duration) {
    let start = Instant::now();
    let mut command = Command::new(&*ZK_INSPECT);
    let output = command.args(["--connect", connect, "list"]).args(args).output().unwrap();
    (output, start.elapsed())
}

/// [`Server::watch_count`] of a server that has many nodes to count before it answers.
async fn watch_count(server: &Server) -> u64 {
    let mntr = server.four_letter_within("mntr", LIMIT).await.unwrap();
    let count = mntr.lines().find_map(|line| line.strip_prefix("zk_watch_count"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("{mntr}"))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Scrolls through everything, and sees that each page comes.
async fn scroll(connect: &str, count: usize) -> Duration {
    let args = ["--connect", connect, "--root", "/locks"];
    let terminal = Terminal::run(&*ZK_INSPECT, args, 80, 24);
    let start = Instant::now();
    let thousands = format!("{},{:03} locks", count / 1_000, count % 1_000);
    terminal
        .wait_for("everything is listed", LIMIT, |screen| {
            screen.contains("LIVE") && screen.contains(&thousands)
        })
        .await;
    let first = start.elapsed();
    terminal.send("ssss");
    terminal.wait_text("sort PATH", LIMIT).await;
    terminal.send("G");
    let last = format!("/locks/lock-{:05}", count - 1);
    terminal.wait_text(&last, LIMIT).await;
    for page in 1..=20 {
        let before = terminal.screen().text();
        terminal.press(Key::PageUp);
        let what = format!("page {page} from the end");
        terminal.wait_for(what, LIMIT, |screen| screen.text() != before).await;
    }
    terminal.send("g");
    terminal.wait_text("/locks/lock-00000", LIMIT).await;
    terminal.send("q");
    assert!(terminal.exit(LIMIT).await.success());
    first
}

async fn many_locks(count: usize, rounds: usize) -> f64 {
    LazyLock::force(&ZK_INSPECT);
    let server = Server::builder().unsafe_fast().start().await;
    let connect = server.connect_string();
    let observer = Observer::connect(&connect).await;
    locks(observer.client(), count).await;
    let (mut raws, mut fast, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        raws.push(raw(&connect, false).await);
        fast.push(raw(&connect, true).await);
        let (output, time) = list(&connect, &["--json", "--root", "/locks"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json = String::from_utf8(output.stdout).unwrap();
        assert_eq!(json.matches(r#""path":"/locks/lock-"#).count(), count);
        assert_eq!(json.matches(r#""data":"worker-7""#).count(), count * 3);
        assert_eq!(json.matches(r#""creates":3,"#).count(), count);
        ours.push(time);
    }
    let (raw, fast, ours) = (median(raws), median(fast), median(ours));
    let first = scroll(&connect, count).await;
    let ratio = ours.as_secs_f64() / raw.as_secs_f64();
    let limit = ours.as_secs_f64() / fast.as_secs_f64();
    println!(
        "{count} locks: list --json {ours:?}: {ratio:.2} × raw reads one after the other ({raw:?}), \
         {limit:.2} × all at once ({fast:?}); first screen {first:?}"
    );
    ratio
}

/// What the process has used of the processor so far.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name, which may have blanks: user and system time are fields 14 and 15 of all.
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// Idle on a thousand locks, for so long: what it asks, and what it costs.
async fn idle(length: Duration) -> f64 {
    LazyLock::force(&ZK_INSPECT);
    let server = Server::builder().unsafe_fast().start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    locks(observer.client(), 1_000).await;
    let proxy = Proxy::start(&server.connect_string()).await;
    let args = ["--connect", &proxy.connect_string(), "--root", "/locks"];
    let terminal = Terminal::run(&*ZK_INSPECT, args, 120, 36);
    terminal.wait_text(" LIVE ", LIMIT).await;
    let watches = watch_count(&server).await;
    assert!(WATCH.contains(&watches), "{watches} watches");
    let connections = proxy.frames().iter().map(|frame| frame.connection).max().unwrap();
    let (asked, used) = (proxy.frames().len(), cpu(terminal.pid()));
    tokio::time::sleep(length).await;
    let used = cpu(terminal.pid()).saturating_sub(used);
    let frames = proxy.frames();
    let pings = frames.iter().skip(asked).filter(|frame| frame.kind == Kind::Ping).count();
    let share = used.as_secs_f64() / length.as_secs_f64();
    println!(
        "idle on 1,000 locks for {length:?}: {:.2} % of a core, {} frames, {pings} of them pings",
        share * 100.0,
        frames.len() - asked,
    );
    assert_eq!(frames.len() - asked, pings, "{:#?}", frames.get(asked..));
    assert!(frames.iter().all(|frame| frame.connection <= connections), "one session");
    terminal.send("q");
    assert!(terminal.exit(LIMIT).await.success());
    integration::eventually(LIMIT, "no watch is left", async || {
        (watch_count(&server).await == 0).then_some(())
    })
    .await;
    share
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nothing_happens_it_asks_nothing_and_watches_by_one_watch() {
    idle(Duration::from_secs(4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "60 s, in release; make bench"]
async fn while_nothing_happens_it_takes_a_hundredth_of_a_core() {
    let share = idle(Duration::from_secs(60)).await;
    assert!(share <= 0.01, "{share}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_locks_are_listed_and_scrolled() {
    many_locks(1_000, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "10,000 locks, in release; make bench"]
async fn ten_thousand_locks_take_little_longer_than_reading_their_nodes() {
    let ratio = many_locks(10_000, 5).await;
    assert!(ratio <= 1.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "200,000 nodes; make bench"]
async fn a_large_ensemble_is_not_looked_through_unasked() {
    LazyLock::force(&ZK_INSPECT);
    // So many nodes fill the small heap of other tests, and the server would only collect garbage.
    let server = Server::builder().unsafe_fast().java_opts(["-Xmx1g"]).start().await;
    let connect = server.connect_string();
    let observer = Observer::connect(&connect).await;
    let paths: Vec<_> = (0..200_000).map(|node| format!("/data-{node:06}")).collect();
    create(observer.client(), &paths, CreateMode::Persistent, b"unrelated").await;
    locks(observer.client(), 3).await;

    let (refused, _) = list(&connect, &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("there are 200,0") && stderr.contains("--root PATH"), "{stderr}");
    assert!(stderr.contains("requests") && stderr.contains("--scan-all"), "{stderr}");
    assert_eq!(watch_count(&server).await, 0);

    let terminal = Terminal::run(&*ZK_INSPECT, ["--connect", &connect], 80, 24);
    assert_eq!(terminal.exit(LIMIT).await.exit_code(), 2);
    assert!(terminal.screen().contains("--root PATH"), "{}", terminal.screen());
    assert!(terminal.cooked());

    let (root, near) = list(&connect, &["--root", "/locks"]);
    assert!(root.status.success());
    assert_eq!(String::from_utf8_lossy(&root.stdout).lines().count(), 4);
    let (all, far) = list(&connect, &["--scan-all"]);
    assert_eq!(all.stdout.len(), root.stdout.len());
    println!("200,000 unrelated nodes: --root {near:?}, --scan-all {far:?}");

    watches_by_one(&server, &["--scan-all"]).await;
}

/// Everything is watched by one watch, whatever is looked at, and by none afterwards.
async fn watches_by_one(server: &Server, args: &[&str]) {
    let connect = server.connect_string();
    let args = [&["--connect", &connect], args].concat();
    let terminal = Terminal::run(&*ZK_INSPECT, args, 80, 24);
    terminal.wait_text(" LIVE ", LIMIT).await;
    let watches = watch_count(server).await;
    assert!(WATCH.contains(&watches), "{watches} watches");
    terminal.send("G");
    terminal.wait_text("/lock-00002", LIMIT).await;
    terminal.press(Key::Enter);
    terminal.wait_text("PLACE", LIMIT).await;
    assert_eq!(watch_count(server).await, watches);
    terminal.send("q");
    assert!(terminal.exit(LIMIT).await.success());
    integration::eventually(LIMIT, "no watch is left", async || {
        (watch_count(server).await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_many_other_nodes_there_are_it_watches_by_one_watch_and_leaves_none() {
    LazyLock::force(&ZK_INSPECT);
    let server = Server::builder().unsafe_fast().start().await;
    let observer = Observer::connect(&server.connect_string()).await;
    locks(observer.client(), 3).await;
    let paths: Vec<_> = (0..20_000).map(|node| format!("/locks/data-{node:06}")).collect();
    create(observer.client(), &paths, CreateMode::Persistent, b"unrelated").await;
    assert_eq!(watch_count(&server).await, 0);
    watches_by_one(&server, &["--root", "/locks"]).await;
    // A reading sets none.
    let (all, _) = list(&server.connect_string(), &["--root", "/locks"]);
    assert_eq!(String::from_utf8_lossy(&all.stdout).lines().count(), 4);
    assert_eq!(watch_count(&server).await, 0);
}
