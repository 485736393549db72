//! The end of the sequence numbers: after 2^31 − 1 creates below one path ZooKeeper repeats them.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::time::Instant;

use integration::{Observer, Recorder, Server, within};
use lock_recipes::{AcquireError, Attempt, Coordinator, Lock};
use support::{MILLIS, SECONDS, SOON, connect};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

/// Two creates before the number sticks.
const NEARLY: i32 = 2_147_483_645;
/// Two creates before the numbers are no longer trusted.
const MARGIN: i32 = 2_147_483_647 - 1_000_000 - 2;
const PATHS: [(&str, i32); 7] = [
    ("/locks/flight", NEARLY),
    ("/locks/single", NEARLY),
    ("/locks/shared", NEARLY),
    ("/locks/margin", MARGIN),
    ("/locks/foreign", NEARLY),
    ("/locks/intruder", NEARLY),
    ("/locks/past", i32::MAX),
];

/// One server for this file: it starts with the counters as they are after years.
async fn server() -> (&'static Server, Observer) {
    static SHARED: OnceCell<Server> = OnceCell::const_new();
    support::start();
    let server = SHARED.get_or_init(async || {
        let builder = Server::builder().unsafe_fast();
        let seed = |builder: integration::server::Builder, (path, creates)| {
            builder.seed_counter(path, creates)
        };
        PATHS.into_iter().fold(builder, seed).start().await
    });
    let server = server.await;
    (server, Observer::connect(&server.connect_string()).await)
}

/// The number that the server drew for a node.
fn drawn(node: &str) -> i64 {
    node.rsplit_once("-lock-").expect("a contender's name").1.parse().expect("a number")
}

/// 24 acquisitions, by so many contenders at a time, each of a session of its own or all of one: exclusive,
/// first come first served, complete. Returns the numbers of their nodes.
async fn complete(path: &'static str, contenders: usize, own_sessions: bool) -> Vec<i64> {
    const ACQUISITIONS: usize = 24;
    let (server, observer) = server().await;
    let mut coordinators: Vec<Coordinator> = Vec::new();
    for _ in 0..if own_sessions { contenders } else { 1 } {
        coordinators.push(connect(&server.connect_string()).await);
    }
    let recorder = Recorder::new();
    let start = Instant::now();
    let mut working = JoinSet::new();
    for number in 0..contenders {
        let coordinator = &coordinators[number % coordinators.len()];
        let (lock, recorder) = (Lock::new(coordinator, path).unwrap(), recorder.clone());
        working.spawn(async move {
            let mut numbers = Vec::new();
            for _ in 0..ACQUISITIONS / contenders {
                let guard = lock.acquire_timeout(SOON).await.unwrap();
                recorder.enter(number, guard.token().as_i64());
                numbers.push((guard.token(), drawn(guard.node())));
                tokio::time::sleep(MILLIS(2)).await;
                assert!(guard.is_held());
                recorder.leave(number);
                guard.release().await.unwrap();
            }
            numbers
        });
    }
    let mut numbers = within(SECONDS(30), "all are granted", working.join_all()).await.concat();
    recorder.assert_exclusive();
    assert!(recorder.tokens_increase(), "not in the order of coming");
    assert_eq!(recorder.history().grants().len(), ACQUISITIONS);
    observer.wait_for_count(path, 0, SOON).await;
    numbers.sort_unstable();
    let numbers: Vec<_> = numbers.into_iter().map(|(_, number)| number).collect();
    println!("{path}: {ACQUISITIONS} in {:?}, numbers {numbers:?}", start.elapsed());
    numbers
}

/// How often the most frequent number was drawn.
fn most(numbers: &[i64]) -> usize {
    let mut counts = HashMap::new();
    for number in numbers {
        *counts.entry(number).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

#[tokio::test]
async fn six_sessions_in_flight_are_served_in_order_past_the_last_number() {
    let numbers = complete("/locks/flight", 6, true).await;
    // The numbers did what they do: they sank, or stood still.
    assert!(!numbers.is_sorted() || most(&numbers) > 1, "{numbers:?}");
}

#[tokio::test]
async fn six_contenders_of_one_session_are_served_in_order_past_the_last_number() {
    let numbers = complete("/locks/shared", 6, false).await;
    assert!(!numbers.is_sorted() || most(&numbers) > 1, "{numbers:?}");
}

#[tokio::test]
async fn one_at_a_time_is_served_past_the_last_number() {
    let numbers = complete("/locks/single", 1, true).await;
    assert!(most(&numbers) > 10, "{numbers:?}");
}

#[tokio::test]
async fn a_lock_whose_numbers_are_used_up_already_works() {
    let numbers = complete("/locks/past", 4, true).await;
    assert!(!numbers.is_sorted() || most(&numbers) > 1, "{numbers:?}");
}

#[tokio::test]
async fn the_order_changes_over_between_two_contenders_without_a_gap() {
    // Trusted numbers and others stand in one queue here.
    let numbers = complete("/locks/margin", 6, true).await;
    let first = i64::from(MARGIN);
    assert!(numbers.iter().copied().eq(first..first + 24), "{numbers:?}");
}

/// A contender of a client that orders by number.
async fn foreign(observer: &Observer, path: &str) -> String {
    let prefix = format!("_c_{}-lock-", uuid::Uuid::new_v4());
    observer.create_ephemeral_like(path, &prefix).await
}

fn exhausted(error: &AcquireError, at: &str) {
    let AcquireError::SequenceExhausted { path, last } = error else { panic!("{error:?}") };
    assert_eq!(path, at);
    assert!(*last >= i64::from(NEARLY) || *last < 0, "{last}");
    let told = error.to_string();
    for part in [at, &last.to_string(), "let the path become empty and be deleted"] {
        assert!(told.contains(part), "{told} should say {part}");
    }
}

#[tokio::test]
async fn where_another_client_orders_by_number_the_cure_is_told_and_nothing_is_left() {
    let (server, observer) = server().await;
    let path = "/locks/foreign";
    let node = foreign(&observer, path).await;
    let coordinator = connect(&server.connect_string()).await;
    let lock = Lock::new(&coordinator, path).unwrap();
    for _ in 0..3 {
        exhausted(&within(SECONDS(5), "told", lock.acquire()).await.unwrap_err(), path);
        observer.wait_for_count(path, 1, SECONDS(1)).await;
    }
    let Attempt::Busy(busy) = lock.try_acquire().await.unwrap() else { panic!("two holders") };
    assert_eq!(busy.holder().as_str(), node);
    assert_eq!(observer.children(path).await, [node.as_str()]);
    // The cure.
    observer.delete(&format!("{path}/{node}")).await;
    assert!(observer.delete(path).await);
    let guard = lock.acquire_timeout(SOON).await.unwrap();
    assert_eq!(drawn(guard.node()), 0);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_that_orders_by_number_and_comes_later_never_makes_two_of_ours_hold() {
    let (server, observer) = server().await;
    let path = "/locks/intruder";
    let (one, other) =
        (connect(&server.connect_string()).await, connect(&server.connect_string()).await);
    let held = Lock::new(&one, path).unwrap().acquire_timeout(SOON).await.unwrap();
    let lock = Lock::new(&other, path).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire_timeout(SOON).await });
    observer.wait_for_count(path, 2, SOON).await;
    let node = foreign(&observer, path).await;
    assert!(held.is_held());
    held.release().await.unwrap();
    // Ours stands before it and would be next; but the other client may think the same of itself.
    let error = within(SECONDS(5), "told", waiting).await.unwrap().unwrap_err();
    exhausted(&error, path);
    let only = |children: &[String]| children == [node.as_str()];
    observer.wait_until(path, only, SECONDS(1)).await;
}
