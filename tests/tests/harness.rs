//! The harness itself: what the other tests rely on.

use std::time::{Duration, Instant};

use integration::server::unique_path;
use integration::{Ensemble, Helper, Observer, Server, eventually, init_logs, stays};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

fn exists(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_dropped_server_leaves_neither_process_nor_directory() {
    init_logs();
    let server = Server::start().await;
    let (pid, dir) = (server.pid(), server.dir().to_owned());
    assert_eq!(server.mode().await.as_deref(), Some("standalone"));
    assert!(exists(pid) && dir.exists());
    server.freeze();
    drop(server);
    assert!(!exists(pid) && !dir.exists());
}

#[tokio::test]
async fn a_restarted_server_has_the_same_port_and_data() {
    let server = Server::builder().unsafe_fast().start().await;
    let port = server.port();
    let observer = Observer::connect(&server.connect_string()).await;
    observer.mkdir("/a/b").await;
    let node = observer.create_ephemeral_like("/a/b", "n-").await;
    server.kill().await;
    assert!(!server.is_running());
    server.restart().await;
    assert_eq!(server.port(), port);
    // The observer's session has survived, and with it its node.
    assert_eq!(observer.children("/a/b").await, [node]);
    server.stop().await;
    assert!(server.four_letter("srvr").await.is_err());
}

#[tokio::test]
async fn a_frozen_server_accepts_and_is_silent() {
    let server = Server::start().await;
    server.freeze();
    let silent = server.four_letter_within("ruok", Duration::from_millis(300)).await;
    assert_eq!(silent.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    server.thaw();
    assert_eq!(server.four_letter("ruok").await.unwrap(), "imok");
}

#[tokio::test]
async fn a_seeded_counter_goes_on_from_there() {
    let server = Server::builder()
        .seed_counter("/locks/a", 2_147_483_645)
        .seed_counter("/locks/b", 7)
        .start()
        .await;
    let observer = Observer::connect(&server.connect_string()).await;
    assert_eq!(observer.create_ephemeral_like("/locks/b", "n-").await, "n-0000000007");
    for sequence in ["2147483645", "2147483646", "2147483647", "2147483647"] {
        let prefix = format!("{}-", uuid::Uuid::new_v4());
        let name = observer.create_ephemeral_like("/locks/a", &prefix).await;
        assert_eq!(name, format!("{prefix}{sequence}"));
    }
}

#[tokio::test]
async fn an_observer_sees_owners_order_and_watches() {
    let server = Server::shared().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let other = Observer::connect(&server.connect_string()).await;
    let path = unique_path("queue");
    assert!(observer.children(&path).await.is_empty());
    observer.mkdir(&path).await;
    let first = other.create_ephemeral_like(&path, "z-").await;
    let second = observer.create_ephemeral_like(&path, "a-").await;
    assert_eq!(observer.children(&path).await, [second.clone(), first.clone()]);
    let queue = observer.queue(&path).await;
    assert_eq!([&queue[0].name, &queue[1].name], [&first, &second]);
    let session = other.client().session_id().0;
    assert_eq!(observer.ephemerals_of(&path, session).await, std::slice::from_ref(&first));

    let before = server.watch_count().await;
    let watcher = observer.client().get_and_watch_data(&format!("{path}/{first}")).await.unwrap();
    assert_eq!(server.watch_count().await, before + 1);
    drop(other);
    observer.wait_for_count(&path, 1, SECONDS(5)).await;
    observer.wait_gone(&format!("{path}/{first}"), SECONDS(5)).await;
    drop(watcher);
    assert!(observer.delete(&format!("{path}/{second}")).await);
    assert!(!observer.delete(&format!("{path}/{second}")).await);
}

#[tokio::test]
async fn a_shared_server_survives_the_runtime_that_started_it() {
    let server = Server::shared().await;
    assert_eq!(server.four_letter("ruok").await.unwrap(), "imok");
    assert!(std::ptr::eq(server, Server::shared().await));
}

#[tokio::test]
#[should_panic(expected = "not within 30ms: never (tests/tests/harness.rs")]
async fn a_wait_ends_and_names_the_caller() {
    eventually(Duration::from_millis(30), "never", async || None::<()>).await;
}

#[tokio::test]
#[should_panic(expected = "always true")]
async fn what_must_stay_is_looked_at_all_the_time() {
    let start = Instant::now();
    stays(SECONDS(5), "always true", async || start.elapsed() < Duration::from_millis(20)).await;
}

#[tokio::test]
async fn a_server_dies_with_the_process_that_started_it() {
    let mut serve = Helper::run(env!("CARGO_BIN_EXE_zk-serve"), [""; 0]);
    let pid = serve.wait_line(|line| line.starts_with("pid "), SECONDS(60)).await;
    let dir = serve.wait_line(|line| line.starts_with("dir "), SECONDS(1)).await;
    let pid = pid.strip_prefix("pid ").unwrap().parse().unwrap();
    let dir = std::path::PathBuf::from(dir.strip_prefix("dir ").unwrap());
    assert!(exists(pid) && dir.exists());
    serve.kill();
    eventually(SECONDS(5), "server and directory are gone", async || {
        (!exists(pid) && !dir.exists()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_helper_is_read_frozen_and_ended() {
    let script = "trap 'echo bye; exit 3' TERM; while read line; do echo got $line; done";
    let mut helper = Helper::run("sh", ["-c", script]);
    helper.send_line("one");
    assert_eq!(helper.wait_line(|line| line.starts_with("got"), SECONDS(5)).await, "got one");
    helper.freeze();
    helper.send_line("two");
    stays(Duration::from_millis(100), "frozen", async || helper.lines().len() == 1).await;
    helper.thaw();
    helper.wait_line(|line| line == "got two", SECONDS(5)).await;
    helper.terminate();
    helper.wait_line(|line| line == "bye", SECONDS(5)).await;
    assert_eq!(helper.exit(SECONDS(5)).await.code(), Some(3));
    let mut killed = Helper::run("sleep", ["60"]);
    killed.freeze();
    let pid = killed.pid();
    drop(killed);
    assert!(!exists(pid));
}

#[tokio::test]
async fn an_ensemble_elects_another_leader() {
    let ensemble = Ensemble::start_with(3, Server::builder().unsafe_fast()).await;
    let observer = Observer::connect(&ensemble.connect_string()).await;
    observer.mkdir("/a").await;
    let first = ensemble.leader().await;
    ensemble.kill(first).await;
    let second = ensemble.leader().await;
    assert_ne!(first, second);
    eventually(SECONDS(10), "the session goes on", async || {
        observer.client().check_stat("/a").await.ok().flatten()
    })
    .await;
    ensemble.restart(first).await;
    ensemble.ready().await;
    assert_ne!(ensemble.follower().await, second);
}
