//! The task that connects and observes, for the screen.

use std::time::Duration;

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

/// Connects, for as long as it takes, and passes on what is observed.
pub(crate) async fn run(global: Global, feed: mpsc::Sender<Feed>) {
    let coordinator = loop {
        match connect::connect(&global).await {
            Ok(coordinator) => break coordinator,
            Err(error) => {
                let failure = Failure::from(error);
                let end = failure.code == 2;
                let news = if end {
                    Feed::Fatal(failure)
                } else {
                    Feed::Msg(Msg::NotConnected(failure.message.unwrap_or_default()))
                };
                if feed.send(news).await.is_err() || end {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let mut observation = connect::observer(&coordinator, &global).watch();
    let mut news = Feed::Msg(Msg::Connected);
    loop {
        // The screen has been left.
        if feed.send(news).await.is_err() {
            break;
        }
        news = match observation.next().await {
            Some(Update::Failed(error)) => Feed::Fatal(error.into()),
            Some(update) => Feed::Msg(Msg::Observed(update)),
            None => break,
        };
    }
    drop(observation);
    let _ = coordinator.close().await;
}
