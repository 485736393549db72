//! Comparisons within one run, as ratios: nothing here knows an absolute time. `make bench`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "what is measured is printed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use integration::server::{Server, unique_path};
use lock_recipes::{Coordinator, Lock};
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix};

const ROUNDS: usize = 400;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(what: &str, ours: Duration, theirs: Duration) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{what:<52} {ratio:>6.2} ×   ({} µs : {} µs)", ours.as_micros(), theirs.as_micros());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a comparison; make bench"]
async fn a_free_acquire_against_one_raw_create() {
    let server = Server::shared().await;
    let coordinator = Coordinator::connect(&server.connect_string()).await.unwrap();
    let lock = Lock::new(&coordinator, unique_path("free")).unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let raw_path = unique_path("raw");
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(&raw_path, b"", &persistent).await.unwrap();
    let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let peer_path = unique_path("peer");
    client.create(&peer_path, b"", &persistent).await.unwrap();
    let (mut raw, mut ours, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let prefix = format!("{raw_path}/n-");
        let (_, sequence) = client.create(&prefix, b"", &ephemeral).await.unwrap();
        raw.push(start.elapsed());
        client.delete(&format!("{prefix}{sequence}"), None).await.unwrap();

        let start = Instant::now();
        let guard = lock.acquire().await.unwrap();
        ours.push(start.elapsed());
        guard.release().await.unwrap();

        let prefix = LockPrefix::new_curator(&peer_path, "lock-").unwrap();
        let start = Instant::now();
        let held = client.lock(prefix, b"", LockOptions::new(Acls::anyone_all())).await.unwrap();
        peer.push(start.elapsed());
        let path = held.lock_path().to_owned();
        client.delete(&path, None).await.unwrap();
    }
    let (raw, ours, peer) = (median(raw), median(ours), median(peer));
    ratio("free acquire, against one raw create", ours, raw);
    ratio("zookeeper-client's lock, against one raw create", peer, raw);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a comparison; make bench"]
async fn a_hand_over_against_a_raw_deletion_and_its_event() {
    let server = Server::shared().await;
    let connect = server.connect_string();
    for clients in [2, 10] {
        let path = unique_path("hand-over");
        let released = Arc::new(Mutex::new(None::<Instant>));
        let times = Arc::new(Mutex::new(Vec::new()));
        let mut workers = Vec::new();
        for _ in 0..clients {
            let coordinator = Coordinator::connect(&connect).await.unwrap();
            let lock = Lock::new(&coordinator, path.as_str()).unwrap();
            let (released, times) = (Arc::clone(&released), Arc::clone(&times));
            workers.push(tokio::spawn(async move {
                for _ in 0..ROUNDS / clients {
                    let guard = lock.acquire().await.unwrap();
                    if let Some(released) = released.lock().await.take() {
                        times.lock().await.push(released.elapsed());
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    *released.lock().await = Some(Instant::now());
                    guard.release().await.unwrap();
                }
            }));
        }
        for worker in workers {
            worker.await.unwrap();
        }
        let ours = median(times.lock().await.clone());

        let (holder, waiter) =
            (Client::connect(&connect).await.unwrap(), Client::connect(&connect).await.unwrap());
        let mut raw = Vec::new();
        for _ in 0..ROUNDS / 4 {
            let node = unique_path("raw-event");
            let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
            holder.create(&node, b"", &options).await.unwrap();
            let (_, _, watch) = waiter.get_and_watch_data(&node).await.unwrap();
            let event = tokio::spawn(async move {
                watch.changed().await;
                Instant::now()
            });
            tokio::time::sleep(Duration::from_millis(5)).await;
            let start = Instant::now();
            holder.delete(&node, None).await.unwrap();
            raw.push(event.await.unwrap() - start);
        }
        let what = format!("hand-over, {clients} clients, against deletion to event");
        ratio(&what, ours, median(raw));
    }
}
