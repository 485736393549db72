//! From the task that observes to whoever reads: of one lock only the latest since the last loss or
//! listing is kept, so that a slow reader costs no more than there are locks for each of these.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Update;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Item>,
    /// The latest of each lock since the last update about all of them.
    locks: HashMap<String, Update>,
    closed: bool,
}

#[derive(Debug)]
enum Item {
    Lock(String),
    /// Of a lock that was told before something that concerns all, and changed after it.
    Settled(Update),
}

impl Outbox {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, update: Update) {
        let mut guard = self.inner();
        let inner = &mut *guard;
        match &update {
            Update::Lock(lock) => inner.tell(lock.path.clone(), update),
            Update::Gone(path) => inner.tell(path.clone(), update),
            Update::Listing(_) => {
                // Only the latest progress is of interest.
                if matches!(inner.queue.back(), Some(Item::Settled(Update::Listing(_)))) {
                    inner.queue.pop_back();
                }
                inner.queue.push_back(Item::Settled(update));
            }
            _ => {
                inner.settle();
                inner.queue.push_back(Item::Settled(update));
            }
        }
        drop(guard);
        self.news.notify_one();
    }

    /// What is told of many locks, of each once, and then of all of them.
    pub(super) fn push_all(&self, updates: impl IntoIterator<Item = Update>) {
        let mut guard = self.inner();
        guard.settle();
        guard.queue.extend(updates.into_iter().map(Item::Settled));
        drop(guard);
        self.news.notify_one();
    }

    pub(super) fn close(&self) {
        self.inner().closed = true;
        self.news.notify_one();
    }

    pub(super) fn try_next(&self) -> Option<Update> {
        let mut inner = self.inner();
        loop {
            match inner.queue.pop_front()? {
                Item::Settled(update) => return Some(update),
                Item::Lock(path) => {
                    if let Some(update) = inner.locks.remove(&path) {
                        return Some(update);
                    }
                }
            }
        }
    }

    pub(super) async fn next(&self) -> Option<Update> {
        loop {
            let news = self.news.notified();
            if let Some(update) = self.try_next() {
                return Some(update);
            }
            if self.inner().closed {
                // The last may have come in between.
                return self.try_next();
            }
            news.await;
        }
    }
}

impl Inner {
    /// What was told so far stays before what comes now.
    fn settle(&mut self) {
        for item in &mut self.queue {
            if let Item::Lock(path) = item
                && let Some(lock) = self.locks.remove(path)
            {
                *item = Item::Settled(lock);
            }
        }
    }

    fn tell(&mut self, path: String, update: Update) {
        if self.locks.insert(path.clone(), update).is_none() {
            self.queue.push_back(Item::Lock(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Progress;

    fn gone(path: &str) -> Update {
        Update::Gone(path.to_owned())
    }

    fn all(outbox: &Outbox) -> Vec<String> {
        std::iter::from_fn(|| outbox.try_next()).map(|update| format!("{update:?}")).collect()
    }

    #[test]
    fn of_one_lock_only_the_latest_is_kept_and_what_concerns_all_keeps_its_place() {
        let outbox = Outbox::default();
        for _ in 0..1_000 {
            outbox.push(gone("/a"));
            outbox.push(gone("/b"));
        }
        outbox.push(Update::Disconnected);
        outbox.push(gone("/a"));
        outbox.push(Update::Listing(Progress { nodes: 1, left: 2 }));
        outbox.push(Update::Listing(Progress { nodes: 2, left: 0 }));
        assert_eq!(
            all(&outbox),
            [
                r#"Gone("/a")"#,
                r#"Gone("/b")"#,
                "Disconnected",
                r#"Gone("/a")"#,
                "Listing(Progress { nodes: 2, left: 0 })",
            ],
        );
    }
}
