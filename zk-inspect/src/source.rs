//! The task that connects and observes, for the screen.

use std::time::Duration;

use lock_recipes::Coordinator;
use lock_recipes::observe::Update;
use tokio::sync::mpsc;

use crate::args::Global;
use crate::connect;
use crate::exit::Failure;
use crate::update::Msg;

/// Between two tries to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// What the task tells.
#[derive(Debug)]
pub(crate) enum Feed {
    Msg(Msg),
    /// There is no point in going on.
    Fatal(Failure),
}

/// Connects, for as long as it takes, and passes on what is observed, until the screen is left.
pub(crate) async fn run(global: Global, feed: mpsc::Sender<Feed>) {
    let connected = tokio::select! {
        () = feed.closed() => None,
        connected = connected(&global, &feed) => connected,
    };
    let Some(coordinator) = connected else { return };
    let mut observation = connect::observer(&coordinator, &global).watch();
    let mut news = Feed::Msg(Msg::Connected);
    while feed.send(news).await.is_ok() {
        let update = tokio::select! {
            () = feed.closed() => break,
            update = observation.next() => update,
        };
        news = match update {
            Some(Update::Failed(error)) => Feed::Fatal(error.into()),
            Some(update) => Feed::Msg(Msg::Observed(update)),
            None => break,
        };
    }
    drop(observation);
    let _ = coordinator.close().await;
}

/// A connection, however many tries it takes; none where there is no point in going on.
async fn connected(global: &Global, feed: &mpsc::Sender<Feed>) -> Option<Coordinator> {
    loop {
        let failure = match connect::connect(global).await {
            Ok(coordinator) => return Some(coordinator),
            Err(error) => Failure::from(error),
        };
        if failure.code == 2 {
            let _ = feed.send(Feed::Fatal(failure)).await;
            return None;
        }
        let message = failure.message.unwrap_or_default();
        feed.send(Feed::Msg(Msg::NotConnected(message))).await.ok()?;
        tokio::time::sleep(PAUSE).await;
    }
}
