//! Another process that holds a lock: `holder CLUSTER PATH DATA TIMEOUT_MS`.
//!
//! Prints `held <token> <node>`, and `lost <reason>` when it is. For each line of stdin it tries a fenced
//! write of that line to the node DATA, and prints `written`, or `refused` with the error, and whether it
//! believes to hold.

// It prints: that is what it is for. What goes wrong fails the test that waits for its lines.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::io::Write;
use std::time::Duration;

use lock_recipes::{Coordinator, Lock};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    integration::init_logs();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [cluster, path, data, timeout] = &args[..] else { panic!("four arguments: {args:?}") };
    let timeout = Duration::from_millis(timeout.parse().expect("milliseconds"));
    let builder = Coordinator::builder(cluster).session_timeout(timeout);
    let coordinator = builder.connect().await.expect("a session");
    let lock = Lock::new(&coordinator, path.as_str()).expect("a path");
    let guard = lock.acquire().await.expect("the lock");
    say(&format!("held {} {}", guard.token().as_i64(), guard.node()));
    let lost = guard.lost();
    tokio::spawn(async move { say(&format!("lost {:?}", lost.await)) });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.expect("stdin is readable") {
        let write = guard.fenced().set_data(data, line.as_bytes(), None).commit().await;
        let outcome = match write {
            Ok(_) => "written".to_owned(),
            Err(error) => format!("refused {error}"),
        };
        say(&format!("{outcome}; held: {}", guard.is_held()));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("stdout is open");
}
