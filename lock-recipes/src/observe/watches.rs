//! The watches of one connection, and their events.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use zookeeper_client::{EventType, OneshotWatcher, PersistentWatcher, WatchedEvent};

use super::driver::answer;
use super::tree::Tree;
use crate::session::{Session, WhileAlive};

/// The events of all roots, in the order in which they came.
pub(super) struct Events {
    session: Arc<Session>,
    next: Vec<WhileAlive<(PersistentWatcher, WatchedEvent)>>,
}

impl Events {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), next: Vec::new() }
    }

    /// Forgets all watches.
    pub(super) fn clear(&mut self) {
        self.next.clear();
    }

    pub(super) fn add(&mut self, watcher: PersistentWatcher) {
        let next = self.after(watcher);
        self.next.push(next);
    }

    fn after(
        &self,
        mut watcher: PersistentWatcher,
    ) -> WhileAlive<(PersistentWatcher, WatchedEvent)> {
        self.session.while_alive(async move {
            let event = watcher.changed().await;
            (watcher, event)
        })
    }

    /// The next event; `None` once the connection is lost. Cancel safe.
    pub(super) fn next(&mut self) -> impl Future<Output = Option<WatchedEvent>> {
        std::future::poll_fn(|cx| self.poll_next(cx))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchedEvent>> {
        for index in 0..self.next.len() {
            let Some(next) = self.next.get_mut(index) else { continue };
            let Poll::Ready(ready) = next.poll_unpin(cx) else { continue };
            // A watcher is not asked again after the end of its session.
            let Some((watcher, event)) =
                ready.filter(|(_, event)| event.event_type != EventType::Session)
            else {
                self.next.clear();
                return Poll::Ready(None);
            };
            let after = self.after(watcher);
            if let Some(next) = self.next.get_mut(index) {
                *next = after;
            }
            return Poll::Ready(Some(event));
        }
        Poll::Pending
    }
}

/// Folders with contenders that we may not read: newer servers send no events of these, and a watch
/// of the folder's children is what is left.
pub(super) struct Folders {
    session: Arc<Session>,
    watched: HashSet<String>,
    steps: FuturesUnordered<BoxFuture<'static, (String, Step)>>,
}

enum Step {
    Armed(OneshotWatcher),
    Fired,
    /// Its folder has gone, or the session.
    Failed,
}

impl Folders {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        let steps = FuturesUnordered::new();
        Self { session: Arc::clone(session), watched: HashSet::new(), steps }
    }

    pub(super) fn watch(&mut self, tree: &Tree) {
        for folder in tree.blind() {
            if self.watched.insert(folder.clone()) {
                self.steps.push(arm(Arc::clone(&self.session), folder.clone()).boxed());
            }
        }
    }

    /// A folder to be listed again: its watch has just been set. Cancel safe.
    pub(super) async fn changed(&mut self) -> String {
        loop {
            match self.steps.next().await {
                Some((folder, Step::Armed(watcher))) => {
                    let fired = self.session.while_alive(watcher.changed());
                    let name = folder.clone();
                    let fired = async move {
                        let fired = fired.await;
                        (name, fired.map_or(Step::Failed, |_| Step::Fired))
                    };
                    self.steps.push(fired.boxed());
                    return folder;
                }
                Some((folder, Step::Fired)) => {
                    self.steps.push(arm(Arc::clone(&self.session), folder).boxed());
                }
                // It may come back.
                Some((folder, Step::Failed)) => _ = self.watched.remove(&folder),
                None => std::future::pending().await,
            }
        }
    }
}

async fn arm(session: Arc<Session>, folder: String) -> (String, Step) {
    let watch = answer(session.client.list_and_watch_children(&folder)).await;
    let step = watch.map_or(Step::Failed, |(_, watcher)| Step::Armed(watcher));
    (folder, step)
}
