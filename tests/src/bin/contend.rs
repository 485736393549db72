//! One process of those that contend for a lock: `contend CLUSTER PATH NAME SESSIONS HOLD_MS RECORD`.
//!
//! Each of its sessions acquires, notes that in the record, holds, notes the end and releases, again and
//! again until stdin ends. A hold is noted as ended as soon as its loss is told. Prints `ready` and, at the
//! end, `done` with the number of holds, of losses, and of releases without an answer.

// It prints: that is what it is for. What goes wrong fails the test that waits for its end.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use integration::FileRecorder;
use lock_recipes::{Coordinator, Lock, ReleaseError};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

struct Contender {
    name: String,
    coordinator: Coordinator,
    path: String,
    hold: Duration,
    record: Arc<FileRecorder>,
    stop: Arc<AtomicBool>,
}

impl Contender {
    async fn contend(self) -> [usize; 3] {
        let [mut holds, mut losses, mut unconfirmed] = [0; 3];
        let lock = Lock::new(&self.coordinator, self.path.as_str()).unwrap();
        while !self.stop.load(Ordering::Relaxed) {
            let guard =
                lock.acquire().await.unwrap_or_else(|error| panic!("{}: {error}", self.name));
            // The number behind the name is that of the node.
            let sequence = guard.node().rsplit('-').next().unwrap_or_default();
            let id = format!("{}/{sequence}", self.name);
            self.record.enter(&id, guard.token().as_i64());
            let held = guard.run(tokio::time::sleep(self.hold)).await;
            self.record.leave(&id);
            holds += 1;
            losses += usize::from(held.is_err());
            match guard.release().await {
                Ok(()) => {}
                Err(ReleaseError::AlreadyLost { .. }) if held.is_err() => {}
                Err(ReleaseError::AlreadyLost { .. } | ReleaseError::Unconfirmed { .. }) => {
                    unconfirmed += 1;
                }
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
        self.coordinator.close().await.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        [holds, losses, unconfirmed]
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    integration::init_logs();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [cluster, path, name, sessions, hold, record] = &arguments[..] else {
        panic!("contend CLUSTER PATH NAME SESSIONS HOLD_MS RECORD, not {arguments:?}");
    };
    let hold = Duration::from_millis(hold.parse().expect("milliseconds"));
    let (record, stop) = (Arc::new(FileRecorder::open(record)), Arc::new(AtomicBool::new(false)));
    let mut contenders = Vec::new();
    for number in 0..sessions.parse().expect("a number of sessions") {
        let builder = Coordinator::builder(cluster).session_timeout(Duration::from_secs(6));
        let contender = Contender {
            name: format!("{name}.{number}"),
            coordinator: builder.connect().await.expect("a session"),
            path: path.clone(),
            hold,
            record: Arc::clone(&record),
            stop: Arc::clone(&stop),
        };
        contenders.push(contender);
    }
    println!("ready");
    let mut contending: JoinSet<_> = contenders.into_iter().map(Contender::contend).collect();
    tokio::io::stdin().read_to_end(&mut Vec::new()).await.expect("stdin is a pipe");
    stop.store(true, Ordering::Relaxed);
    let mut sum = [0; 3];
    while let Some(counts) = contending.join_next().await {
        for (total, count) in sum.iter_mut().zip(counts.expect("no contender fails")) {
            *total += count;
        }
    }
    println!("done {} {} {}", sum[0], sum[1], sum[2]);
}
