//! At most one holder at a time, first come first served, with tokens that grow: across processes, sessions
//! and the loss of a leader.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use integration::{Ensemble, FileRecorder, Helper, History, Observer, Server, eventually};
use support::{SECONDS, SOON};
use tempfile::TempDir;

const PATH: &str = "/locks/a";

/// Two processes that contend with five sessions each.
struct Contest {
    helpers: [Helper; 2],
    observer: Observer,
    record: PathBuf,
    _dir: TempDir,
}

impl Contest {
    const SESSIONS: usize = 10;

    async fn start(cluster: &str, hold: Duration) -> Self {
        support::start();
        let dir = tempfile::tempdir().expect("a directory");
        let record = dir.path().join("record");
        let hold = hold.as_millis().to_string();
        let observer = Observer::connect(cluster).await;
        let run = |name: &str| {
            let record = record.to_str().expect("a path in ASCII");
            Helper::run(env!("CARGO_BIN_EXE_contend"), [cluster, PATH, name, "5", &hold, record])
        };
        let mut helpers = [run("p1"), run("p2")];
        for helper in &mut helpers {
            helper.wait_line(|line| line == "ready", SOON).await;
        }
        Self { helpers, observer, record, _dir: dir }
    }

    fn history(&self) -> History {
        FileRecorder::read(&self.record)
    }

    /// How often each session held, from the `from`-th hold on.
    fn holds(&self, from: usize) -> HashMap<String, usize> {
        let mut holds = HashMap::new();
        for grant in self.history().grants().iter().skip(from) {
            let session = grant.id.split('/').next().expect("a session").to_owned();
            *holds.entry(session).or_default() += 1;
        }
        holds
    }

    /// Waits until every session has held so often, from the `from`-th hold on.
    async fn everybody_held(&self, from: usize, times: usize, limit: Duration) {
        eventually(limit, "everybody holds again", async || {
            let holds = self.holds(from);
            let all = holds.len() == Self::SESSIONS && holds.values().all(|count| *count >= times);
            all.then_some(())
        })
        .await;
    }

    /// Lets everybody finish. Returns the record and the sum of what the processes counted: holds, losses and
    /// releases without an answer.
    async fn finish(mut self) -> (History, [usize; 3]) {
        let mut sum = [0; 3];
        for helper in &mut self.helpers {
            helper.close_stdin();
        }
        for helper in &mut self.helpers {
            let done = helper.wait_line(|line| line.starts_with("done "), SOON).await;
            for (total, count) in sum.iter_mut().zip(done.split(' ').skip(1)) {
                *total += count.parse::<usize>().expect("a number");
            }
            assert!(helper.exit(SOON).await.success(), "{}", helper.stderr());
        }
        // Whatever the janitors had to do is done: the sessions were closed.
        assert!(self.observer.children(PATH).await.is_empty());
        (self.history(), sum)
    }
}

/// Exclusive, first come first served, increasing.
fn check(history: &History) {
    history.assert_exclusive();
    assert!(history.holders().is_empty());
    // The token is the transaction that put the contender into the queue: its order is that of coming.
    assert!(history.tokens_increase());
    // The numbers of the nodes, drawn by the server, say the same independently.
    let drawn = |id: &str| id.rsplit('/').next().and_then(|number| number.parse::<i64>().ok());
    let numbers: Vec<_> =
        history.order().into_iter().map(|id| drawn(id).expect("a number")).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

async fn contest_on_one_server(length: Duration) {
    let server = Server::builder().unsafe_fast().start().await;
    let contest = Contest::start(&server.connect_string(), Duration::from_millis(3)).await;
    tokio::time::sleep(length).await;
    let holds = contest.holds(0);
    let (history, [total, losses, unconfirmed]) = contest.finish().await;
    check(&history);
    assert_eq!((history.grants().len(), losses, unconfirmed), (total, 0, 0));
    // In a queue everybody has the same number of turns, but for the start and for who is next.
    let (fewest, most) = (holds.values().min().unwrap(), holds.values().max().unwrap());
    println!(
        "{total} holds in {length:?}, {fewest} to {most} for each of {} sessions",
        holds.len()
    );
    assert_eq!(holds.len(), Contest::SESSIONS);
    assert!(most - fewest <= most / 10 + 5, "{holds:?}");
    assert!(total > 100, "only {total} holds");
}

#[tokio::test]
async fn two_processes_with_ten_sessions_never_hold_together_and_are_served_in_order() {
    contest_on_one_server(SECONDS(6)).await;
}

#[tokio::test]
#[ignore = "30 s; make campaigns"]
async fn two_processes_with_ten_sessions_never_hold_together_for_thirty_seconds() {
    contest_on_one_server(SECONDS(30)).await;
}

async fn contest_while_the_leader_is_killed(kills: usize) {
    let ensemble = Ensemble::start_with(3, Server::builder().unsafe_fast()).await;
    let contest = Contest::start(&ensemble.connect_string(), Duration::from_millis(20)).await;
    for _ in 0..kills {
        let held = contest.history().grants().len();
        contest.everybody_held(held, 2, SOON).await;
        let leader = ensemble.leader().await;
        // Somebody holds and the others wait.
        contest.observer.wait_for_count(PATH, Contest::SESSIONS, SOON).await;
        eventually(SOON, "somebody holds", async || {
            (!contest.history().holders().is_empty()).then_some(())
        })
        .await;
        let held = contest.history().grants().len();
        ensemble.kill(leader).await;
        let killed = std::time::Instant::now();
        contest.everybody_held(held, 1, SECONDS(60)).await;
        println!("everybody has held again {:?} after the leader was killed", killed.elapsed());
        contest.everybody_held(held, 3, SECONDS(60)).await;
        ensemble.restart(leader).await;
        ensemble.ready().await;
    }
    let (history, [total, losses, unconfirmed]) = contest.finish().await;
    println!("{total} holds, {losses} of them lost; {unconfirmed} releases without an answer");
    check(&history);
    assert_eq!(history.grants().len(), total);
}

#[tokio::test]
async fn everybody_goes_on_when_the_leader_is_killed_while_the_lock_is_held() {
    contest_while_the_leader_is_killed(1).await;
}

#[tokio::test]
#[ignore = "30 s; make campaigns"]
async fn everybody_goes_on_when_one_leader_after_the_other_is_killed() {
    contest_while_the_leader_is_killed(4).await;
}
