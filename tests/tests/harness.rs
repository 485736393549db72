//! The harness itself: what the other tests rely on.

use std::time::{Duration, Instant};

use integration::server::unique_path;
use integration::{Observer, Server, eventually, init_logs, stays};

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
    assert_eq!(observer.ephemerals_of(&path, session).await, [first.clone()]);

    let watches = server.watch_count().await;
    let watched = observer.client().get_and_watch_data(&format!("{path}/{first}")).await.unwrap();
    assert_eq!(server.watch_count().await, watches + 1);
    drop(other);
    observer.wait_for_count(&path, 1, SECONDS(5)).await;
    observer.wait_gone(&format!("{path}/{first}"), SECONDS(5)).await;
    drop(watched);
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
