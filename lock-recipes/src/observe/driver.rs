//! The task that observes: it owns the watches and the requests, feeds the tree, and tells what has
//! changed.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, poll};
use zookeeper_client::{AddWatchMode, Error};

use super::lock::{ObservedContender, ObservedLock};
use super::outbox::Outbox;
use super::tree::{Batch, Depth, Tree, split};
use super::watches::{Events, Folders};
use super::{Gap, Listed, Method, ObserveError, Progress, Spec, Update};
use crate::coordinator::Coordinator;
use crate::session::{Answer, Question, Session, Trouble, ask_together};

/// How many nodes one request asks for, and how many requests are under way: enough to hide the
/// latency of a far ensemble, and small answers.
const AT_ONCE: usize = 128;
const UNDER_WAY: usize = 8;

/// Before a request is given up. The client notices a dead connection by itself, and sooner.
const ANSWER: Duration = Duration::from_secs(30);

/// After a request that failed although the connection stands.
const PAUSE: Duration = Duration::from_millis(200);

/// How often a listing that brings no answer is begun again when it is read once.
const TRIES: usize = 3;

/// Between two looks at locks that change all the time, in units of what a look takes.
const LOOK_SHARE: u32 = 5;

/// Why it no longer goes on as it did.
enum Outcome {
    /// Read once, and told.
    Done,
    /// To be listed again: time to poll.
    Again,
    /// The connection, or an answer, was lost.
    Lost(Error),
    Failed(ObserveError),
}

type Answers = (Batch, Vec<Question>, Result<Vec<Answer>, Trouble>);

type Requests = FuturesUnordered<BoxFuture<'static, Answers>>;

#[expect(clippy::struct_excessive_bools, reason = "each is asked by itself")]
struct Driver {
    spec: Spec,
    once: bool,
    outbox: Arc<Outbox>,
    tree: Tree,
    told: HashMap<String, Arc<ObservedLock>>,
    /// Locks that are told when everything is listed.
    held_back: BTreeSet<String>,
    /// Everything was told once.
    listed_before: bool,
    /// Everything was told since the connection was lost.
    listed: bool,
    /// What was told to be out of reach.
    denied: Vec<String>,
    missing: Vec<String>,
    lost: Option<Instant>,
    at_once: usize,
    /// The server counts nodes, and has recursive watches: both since 3.6.
    counts: bool,
    watches: bool,
}

/// Says that nothing more will come, however the task ends.
struct Close(Arc<Outbox>);

impl Drop for Close {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Observes, until the end. What was read once is large: it is given back with the observation, so that
/// its reader need not wait for that.
pub(super) async fn run(
    coordinator: Coordinator,
    spec: Spec,
    once: bool,
    outbox: Arc<Outbox>,
) -> Option<Tree> {
    let _close = Close(Arc::clone(&outbox));
    let mut tries = 0;
    let mut driver = Driver {
        tree: Tree::new(spec.roots.clone(), spec.depth),
        spec,
        once,
        outbox,
        told: HashMap::new(),
        held_back: BTreeSet::new(),
        listed_before: false,
        listed: false,
        denied: Vec::new(),
        missing: Vec::new(),
        lost: None,
        at_once: AT_ONCE,
        counts: true,
        watches: !once,
    };
    loop {
        let session = tokio::select! {
            session = coordinator.core.session() => session,
            // Whoever reads once does not wait for servers that may never come back.
            () = tokio::time::sleep(ANSWER), if once => {
                driver.outbox.push(Update::Failed(driver.no_answer(Error::Timeout)));
                return None;
            }
        };
        let Some(session) = session else {
            driver.outbox.push(Update::Failed(ObserveError::Closed));
            return None;
        };
        let outcome = driver.observe(&session).await;
        // Not kept while a new session is waited for.
        drop(session);
        match outcome {
            Outcome::Done => {
                return Some(driver.tree);
            }
            Outcome::Again => {}
            Outcome::Failed(error) => {
                driver.outbox.push(Update::Failed(error));
                return None;
            }
            Outcome::Lost(source) => {
                tracing::debug!(error = %source, "the view of the locks was interrupted");
                tries += 1;
                if once && tries >= TRIES {
                    driver.outbox.push(Update::Failed(driver.no_answer(source)));
                    return None;
                }
                driver.lose();
            }
        }
    }
}

impl Driver {
    fn no_answer(&self, source: Error) -> ObserveError {
        let root = self.spec.roots.first().cloned().unwrap_or_default();
        ObserveError::NoAnswer { root, source }
    }

    fn lose(&mut self) {
        if !self.listed {
            // An answer that is too large may be what the connection dies of.
            self.at_once = (self.at_once / 2).max(1);
        }
        self.listed = false;
        if self.lost.is_none() {
            self.lost = Some(Instant::now());
            self.outbox.push(Update::Disconnected);
        }
    }

    /// Observes for as long as the connection stands.
    async fn observe(&mut self, session: &Arc<Session>) -> Outcome {
        let mut link = session.link();
        tokio::select! {
            () = session.connected() => {}
            () = tokio::time::sleep(ANSWER), if self.once => return Outcome::Lost(Error::Timeout),
            _ = session.ended() => return Outcome::Lost(Error::SessionExpired),
        }
        link.state();
        let mut tree = Tree::new(self.spec.roots.clone(), self.spec.depth);
        tree.remember(&self.tree);
        self.tree = tree;
        tokio::select! {
            biased;
            // First, since an answer may be the last thing that an old server says.
            outcome = self.serve(session) => outcome,
            _ = link.changed() => Outcome::Lost(Error::ConnectionLoss),
            _ = session.ended() => Outcome::Lost(Error::SessionExpired),
        }
    }

    async fn serve(&mut self, session: &Arc<Session>) -> Outcome {
        match self.begin(session).await {
            Ok(mut events) => self.follow(session, &mut events).await,
            Err(Ended::Failed(error)) => Outcome::Failed(error),
            Err(Ended::Lost(error)) => {
                tokio::time::sleep(PAUSE).await;
                Outcome::Lost(error)
            }
        }
    }

    /// Catches up with the leader, counts, and sets the watches.
    async fn begin(&mut self, session: &Arc<Session>) -> Result<Events, Ended> {
        match answer(session.client.sync("/")).await {
            // Whoever may not ask for it sees what this server has.
            Ok(()) | Err(Trouble::Refused(_)) => {}
            Err(trouble) => return Err(trouble.into_error().into()),
        }
        for root in self.spec.roots.clone() {
            self.count(session, &root).await?;
        }
        let mut events = Events::new(session);
        for root in self.spec.roots.iter().filter(|_| self.watches) {
            match answer(session.client.watch(root, AddWatchMode::PersistentRecursive)).await {
                Ok(watcher) => events.add(watcher),
                Err(Trouble::Refused(error)) => {
                    tracing::info!(%root, %error, "no recursive watch here: listing again and again");
                    self.watches = false;
                    break;
                }
                Err(trouble) => return Err(trouble.into_error().into()),
            }
        }
        if !self.watches {
            events.clear();
        }
        Ok(events)
    }

    /// Asks how many nodes there are, once, if that matters.
    async fn count(&mut self, session: &Session, root: &str) -> Result<(), Ended> {
        let Some(limit) = self.spec.limit.filter(|_| self.counts && !self.listed_before) else {
            return Ok(());
        };
        match answer(session.client.count_descendants_number(root)).await {
            Ok(nodes) if nodes > limit => {
                Err(Ended::Failed(ObserveError::TooLarge { root: root.to_owned(), nodes, limit }))
            }
            Ok(_) => Ok(()),
            Err(Trouble::Refused(error)) => {
                self.counts &= error != Error::Unimplemented;
                Ok(())
            }
            Err(Trouble::Unknown(error)) => Err(error.into()),
        }
    }

    /// Lists, tells, and follows the events.
    async fn follow(&mut self, session: &Arc<Session>, events: &mut Events) -> Outcome {
        let mut requests = Requests::new();
        let mut folders = Folders::new(session);
        let mut next_look = Instant::now();
        loop {
            while requests.len() < UNDER_WAY && !self.tree.wants_nothing() {
                let (batch, questions) = self.tree.questions(self.at_once);
                if !questions.is_empty() {
                    requests.push(ask(Arc::clone(session), batch, questions).boxed());
                }
            }
            let complete = requests.is_empty() && self.tree.wants_nothing();
            let now = Instant::now();
            let shows = complete || self.streams();
            if self.tree.is_touched() && shows && (complete || now >= next_look) {
                self.look(now);
                next_look = Instant::now() + now.elapsed() * LOOK_SHARE;
                if self.watches {
                    folders.watch(&self.tree);
                }
                continue;
            }
            if let Some(limit) = self.spec.limit.filter(|_| !self.counts)
                && self.tree.progress().0 > limit
            {
                let (root, nodes) = (self.spec.roots.join(" "), self.tree.progress().0);
                return Outcome::Failed(ObserveError::TooLarge { root, nodes, limit });
            }
            if complete && !self.listed {
                self.tell_listed();
                if self.once {
                    return Outcome::Done;
                }
            } else if complete && self.reaches_otherwise() {
                self.tell_all(Vec::new());
            }
            let waits_to_look = self.tree.is_touched() && shows;
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(event) => self.tree.event(event.event_type, &event.path),
                    None => return Outcome::Lost(Error::ConnectionLoss),
                },
                Some((batch, questions, answers)) = requests.next(), if !requests.is_empty() => {
                    // Events of the changes that the answers show have come before them.
                    if !self.drain(events).await {
                        return Outcome::Lost(Error::ConnectionLoss);
                    }
                    match answers {
                        Ok(answers) => {
                            for (question, answer) in questions.iter().zip(answers) {
                                self.tree.answer(batch, question, answer);
                            }
                            if self.once {
                                self.look_at_settled(&questions);
                            }
                            self.tell_progress(requests.len());
                        }
                        Err(trouble) => {
                            tokio::time::sleep(PAUSE).await;
                            return Outcome::Lost(trouble.into_error());
                        }
                    }
                }
                folder = folders.changed() => self.tree.list_again(&folder),
                () = tokio::time::sleep_until(next_look.into()), if waits_to_look => {}
                () = tokio::time::sleep(self.spec.poll), if complete && !self.watches => {
                    self.listed = false;
                    return Outcome::Again;
                }
            }
        }
    }

    /// Takes every event that is there; whether more may come.
    async fn drain(&mut self, events: &mut Events) -> bool {
        loop {
            match poll!(pin!(events.next())) {
                Poll::Ready(Some(event)) => self.tree.event(event.event_type, &event.path),
                Poll::Ready(None) => return false,
                Poll::Pending => return true,
            }
        }
    }

    /// Tells what has changed.
    fn look(&mut self, now: Instant) {
        for (path, lock) in self.tree.changes() {
            if let Some(lock) = lock.filter(|_| self.is_wanted(&path)) {
                self.see(path, lock, now);
                continue;
            }
            // While everything is listed again, what is not there may be still to come.
            let is_known = self.listed || !self.is_listed_again();
            if is_known && self.told.remove(&path).is_some() {
                self.held_back.remove(&path);
                self.outbox.push(Update::Gone(path));
            }
        }
    }

    /// Looks at locks as soon as they have been read, while more is on its way.
    fn look_at_settled(&mut self, questions: &[Question]) {
        let now = Instant::now();
        // Contenders of one lock are asked about in a row: the last of them will do.
        let of_one_lock = |a: &Question, b: &Question| {
            split(a.path()).map(|(folder, _)| folder) == split(b.path()).map(|(folder, _)| folder)
        };
        for questions in questions.chunk_by(of_one_lock) {
            if let Some(lock) = questions.last().and_then(|last| self.tree.settled(last))
                && self.is_wanted(&lock.path)
            {
                self.see(lock.path.clone(), lock, now);
            }
        }
    }

    fn see(&mut self, path: String, mut lock: ObservedLock, now: Instant) {
        let known = self.told.get(&path);
        for holder in &mut lock.holders {
            let held = known.and_then(|known| known.holders.iter().find(|one| is(one, holder)));
            holder.granted = match held {
                Some(held) => held.granted,
                None => (self.listed && self.watches).then_some(now),
            };
        }
        if known.is_none_or(|known| **known != lock) {
            self.tell(path, lock);
        }
    }

    /// Whether what is found is told at once. What is read once, or again after a loss, is told in
    /// one piece.
    fn streams(&self) -> bool {
        self.listed || !(self.listed_before || self.once)
    }

    /// Whether something was told before the listing that is under way.
    fn is_listed_again(&self) -> bool {
        self.listed_before || self.lost.is_some()
    }

    fn tell(&mut self, path: String, lock: ObservedLock) {
        let lock = Arc::new(lock);
        if self.streams() {
            self.outbox.push(Update::Lock(Arc::clone(&lock)));
        } else {
            self.held_back.insert(path.clone());
        }
        self.told.insert(path, lock);
    }

    fn is_wanted(&self, path: &str) -> bool {
        match self.spec.depth {
            Depth::Everything => true,
            // The first is the lock, the other may be a part of it.
            Depth::Locks => self.spec.roots.first().is_some_and(|root| root == path),
        }
    }

    /// Whether the listing under way is the first one, or the first since the connection was lost.
    fn is_first(&self) -> bool {
        !self.listed_before || self.lost.is_some()
    }

    fn tell_progress(&self, under_way: usize) {
        // A poll is no progress.
        if !self.listed && (self.watches || self.is_first()) {
            let (nodes, left) = self.tree.progress();
            self.outbox.push(Update::Listing(Progress { nodes, left: left + under_way }));
        }
    }

    fn tell_listed(&mut self) {
        // What is left of an earlier listing.
        let known: Vec<_> = self.told.keys().filter(|_| self.is_listed_again()).cloned().collect();
        let mut updates = Vec::with_capacity(self.held_back.len() + 1);
        for path in known {
            if self.tree.lock(&path).is_none() {
                self.told.remove(&path);
                updates.push(Update::Gone(path));
            }
        }
        for path in std::mem::take(&mut self.held_back) {
            updates.extend(self.told.get(&path).cloned().map(Update::Lock));
        }
        self.listed = true;
        if self.watches || self.once || self.is_first() || self.reaches_otherwise() {
            self.tell_all(updates);
            (self.listed_before, self.at_once) = (true, AT_ONCE);
        } else {
            // Of each, the latest will do.
            for update in updates {
                self.outbox.push(update);
            }
        }
    }

    /// Tells these, and that they are all.
    fn tell_all(&mut self, mut updates: Vec<Update>) {
        (self.denied, self.missing) =
            (self.tree.denied().cloned().collect(), self.missing().cloned().collect());
        let gap = self.lost.take().map(|from| Gap { from, until: Instant::now() });
        updates.push(Update::Listed(Listed {
            nodes: self.tree.progress().0,
            denied: self.denied.clone(),
            missing: self.missing.clone(),
            by: match (self.once, self.watches) {
                (true, _) => Method::Once,
                (false, true) => Method::Watch,
                (false, false) => Method::Poll(self.spec.poll),
            },
            gap,
        }));
        self.outbox.push_all(updates);
    }

    /// Of the second path of a lock it does not matter.
    fn missing(&self) -> impl Iterator<Item = &String> {
        self.spec.roots.iter().filter(|root| self.is_wanted(root) && self.tree.is_missing(root))
    }

    /// Whether there is more that cannot be listed, or less, than was told.
    fn reaches_otherwise(&self) -> bool {
        !self.tree.denied().eq(&self.denied) || !self.missing().eq(&self.missing)
    }
}

/// Whether it is the same node still, as far as is known: lone leaders have the same name.
fn is(one: &ObservedContender, other: &ObservedContender) -> bool {
    let token = |contender: &ObservedContender| contender.facts.read().and_then(|read| read.token);
    let differ = |(one, other)| one != other;
    one.node == other.node && !token(one).zip(token(other)).is_some_and(differ)
}

/// Why it did not begin.
enum Ended {
    Lost(Error),
    Failed(ObserveError),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Lost(error)
    }
}

pub(super) async fn answer<T>(
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(ANSWER, request).await {
        Ok(answer) => answer.map_err(Trouble::from),
        Err(_) => Err(Trouble::Unknown(Error::Timeout)),
    }
}

/// Asks together, and one by one where the whole is refused.
async fn ask(session: Arc<Session>, batch: Batch, questions: Vec<Question>) -> Answers {
    let mut answers = answer(ask_together(&session.client, &questions)).await;
    if let Err(Trouble::Refused(_)) = answers {
        let mut each = Vec::with_capacity(questions.len());
        for question in &questions {
            match answer(ask_together(&session.client, std::slice::from_ref(question))).await {
                Ok(answer) => each.extend(answer),
                Err(Trouble::Refused(error)) => each.push(Answer::Refused(error)),
                Err(trouble) => return (batch, questions, Err(trouble)),
            }
        }
        answers = Ok(each);
    }
    (batch, questions, answers)
}
