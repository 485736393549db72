//! `demo`: workers that contend for a few locks, and the screen on them.
//!
//! Every worker has a session of its own and uses the library as a service would. They say who they
//! are, hold for a while, and queue again.

use std::io::Write;
use std::time::Duration;

use lock_recipes::zookeeper_client::{Client, Error as ClientError};
use lock_recipes::{AcquireOptions, Coordinator, Lock};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{Global, Output};
use crate::exit::{Failure, chain};
use crate::term::{self, Outside, Signals};
use crate::{list, tui};

/// Everything the demo makes lies below this, and is removed at its end.
const ROOT: &str = "/zk-inspect-demo";

/// The folders of [`ROOT`].
const FOLDERS: [&str; 3] =
    ["/zk-inspect-demo/inventory", "/zk-inspect-demo/import", "/zk-inspect-demo/scheduler"];

/// Who wants what, and for how long (in milliseconds) they hold it.
const WORKERS: [(&str, &str, (u64, u64)); 10] = [
    ("order-1", "/zk-inspect-demo/inventory", (200, 1_500)),
    ("order-2", "/zk-inspect-demo/inventory", (200, 1_500)),
    ("order-3", "/zk-inspect-demo/inventory", (200, 1_500)),
    ("order-4", "/zk-inspect-demo/inventory", (200, 1_500)),
    ("order-5", "/zk-inspect-demo/inventory", (200, 1_500)),
    ("import-a", "/zk-inspect-demo/import", (3_000, 6_000)),
    ("import-b", "/zk-inspect-demo/import", (3_000, 6_000)),
    ("import-c", "/zk-inspect-demo/import", (3_000, 6_000)),
    ("scheduler-1", "/zk-inspect-demo/scheduler", (12_000, 20_000)),
    ("scheduler-2", "/zk-inspect-demo/scheduler", (12_000, 20_000)),
];

/// How many times the table is printed where there is no terminal, and how long after the other.
const SNAPSHOTS: u32 = 3;
const BETWEEN: Duration = Duration::from_secs(2);

/// How long connecting to the servers of the demo may take: they may have been started just now.
const CONNECT: Duration = Duration::from_secs(20);

/// Runs the demo until the screen is left, or the time is over.
pub(crate) async fn run(global: &Global, seconds: Option<u64>) -> Result<(), Failure> {
    if global.read_only {
        return Err(Failure::new(2, "demo takes locks, which --read-only forbids"));
    }
    let mut signals = Signals::new()?;
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    let shown = tokio::select! {
        started = start(global, &mut workers, &stopped) => match started {
            Ok(()) => show(global, seconds.map(Duration::from_secs), signals).await,
            Err(failure) => Err(failure),
        },
        ended = ended(&mut signals) => Err(ended),
    };
    stop.send_replace(true);
    let began = !workers.is_empty();
    while workers.join_next().await.is_some() {}
    if began {
        clean(global).await;
    }
    shown
}

/// Starts the workers. They connect one after the other, so that a wrong address is told at once.
async fn start(
    global: &Global,
    workers: &mut JoinSet<()>,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    for (name, path, hold) in WORKERS {
        let coordinator = Coordinator::builder(&global.connect)
            .session_timeout(Duration::from_secs(10))
            .connect_timeout(CONNECT.min(global.connect_timeout()))
            .identity(name)
            .connect()
            .await?;
        workers.spawn(work(coordinator, name, path, hold, stopped.clone()));
    }
    Ok(())
}

/// Shows what the workers do, for so long or until somebody has seen enough.
async fn show(
    global: &Global,
    length: Option<Duration>,
    mut signals: Signals,
) -> Result<(), Failure> {
    let mut global = global.clone();
    (global.roots, global.scan_all) = (vec![ROOT.parse().map_err(|_| Failure::silent(1))?], false);
    if term::is_usable() {
        // It has signals of its own.
        drop(signals);
        return tui::run(&global, length).await;
    }
    tokio::select! {
        printed = print(&global, length) => printed,
        ended = ended(&mut signals) => Err(ended),
    }
}

/// A signal that ends the program.
async fn ended(signals: &mut Signals) -> Failure {
    loop {
        match signals.next().await {
            Outside::End(signal) => return Failure::silent(128 + signal),
            Outside::Panicked => return Failure::silent(1),
            Outside::Continued | Outside::Resized => {}
        }
    }
}

/// Takes the lock again and again.
async fn work(
    coordinator: Coordinator,
    name: &'static str,
    path: &'static str,
    (shortest, longest): (u64, u64),
    mut stopped: watch::Receiver<bool>,
) {
    let working = async {
        let lock = Lock::new(&coordinator, path)?;
        loop {
            let guard = lock.acquire_with(AcquireOptions::new()).await?;
            let work = Duration::from_millis(fastrand::u64(shortest..longest));
            // Whoever loses the lock stops working, and queues again.
            if guard.run(tokio::time::sleep(work)).await.is_ok() {
                let _ = guard.release().await;
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(50..500))).await;
        }
    };
    let ended: Result<(), Box<dyn std::error::Error + Send + Sync>> = tokio::select! {
        ended = working => ended,
        _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
    };
    if let Err(error) = ended {
        tracing::warn!(worker = name, error = chain(&*error), "a worker has ended");
    }
    let _ = coordinator.close().await;
}

/// Without a terminal: the table, a few times.
async fn print(global: &Global, length: Option<Duration>) -> Result<(), Failure> {
    let times = length.map_or(SNAPSHOTS, |length| {
        u32::try_from(length.as_secs() / BETWEEN.as_secs()).unwrap_or(u32::MAX).max(1)
    });
    for time in 0..times {
        tokio::time::sleep(BETWEEN).await;
        if time > 0 {
            writeln!(std::io::stdout())?;
        }
        list::list(global, Output { json: false, watch: false }).await?;
    }
    Ok(())
}

/// Removes what was made, unless somebody else uses it.
async fn clean(global: &Global) {
    let cleaning = async {
        let client = Client::connect(&global.connect).await?;
        for path in FOLDERS.into_iter().chain([ROOT]) {
            match client.delete(path, None).await {
                Ok(()) | Err(ClientError::NoNode | ClientError::NotEmpty) => {}
                Err(error) => return Err(error),
            }
        }
        // The session is closed once its client is dropped, which nothing else tells of.
        let state = client.state_watcher();
        drop(client);
        while !state.peek_state().is_terminated() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok::<(), ClientError>(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(5), cleaning).await {
        list::complain(&format!("could not remove {ROOT}: {error}"));
    }
}
