//! The driver: performs the actions of [`Step`] on a session.
//!
//! One task per acquisition, on the runtime that connected, owns every future and watch of the
//! client. Callers await our own channels, so they may be dropped at any poll and polled from
//! anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;
use zookeeper_client::{Error, EventType, SessionState, WatchedEvent};

use super::acquisition::{Command, Spec, Status, until};
use super::requests::{self, Done, Flight};
use super::step::{Action, Event, Evidence, Input, Step};
use super::watches::Watches;
use crate::clock::Moment;
use crate::error::{AcquireError, Phase, ReleaseError};
use crate::health::{HoldState, LossPolicy, LossReason};
use crate::hold::Hold;
use crate::node::{ContenderName, fresh_id};
use crate::session::{GivenUp, Hex, Interest, Link, Resynced, Session, Trouble, WhileAlive};
use crate::token::FencingToken;

/// How often the lock's path is made anew when it vanishes before the contender is created.
const PARENT_TRIES: u32 = 100;

/// How a contender ended.
pub(super) enum End {
    Done,
    /// Its place was lost before it was granted.
    Requeue(LossReason),
}

pub(super) struct Driver<'a> {
    session: Arc<Session>,
    spec: Arc<Spec>,
    deadline: Option<Instant>,
    status: &'a watch::Sender<Status>,
    commands: &'a mut mpsc::UnboundedReceiver<Command>,
    step: Step<ContenderName>,
    /// The uuid of the latest create, and whether it was sent.
    id: Option<Uuid>,
    sent: Arc<AtomicBool>,
    node: Option<(ContenderName, FencingToken)>,
    link: Link,
    /// A change of the connection that was seen while evidence was gathered.
    link_news: Option<SessionState>,
    watches: Watches<ContenderName, WhileAlive<WatchedEvent>>,
    /// The nodes whose watches are wanted, each with the number of the read that leaves its watch.
    watching: Vec<(ContenderName, u64)>,
    reads: u64,
    flights: FuturesUnordered<Flight>,
    resyncs: watch::Receiver<Resynced>,
    /// The first resync that answers the question of the step.
    ticket: Option<u64>,
    parent_tries: u32,
    hold: Option<Arc<Hold>>,
    given_up: Option<GivenUp>,
    /// The caller has left or released, or was told of a failure: no more commands.
    left: bool,
    reply: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    lost: Option<LossReason>,
    /// The node to delete at the end.
    unwanted: Option<ContenderName>,
    /// The create was handed over to the sweep.
    abandoned: bool,
    _interest: Interest,
}

enum News {
    Link(SessionState),
    Over(LossReason),
    Command(Option<Command>),
    Watch(ContenderName, Option<WatchedEvent>),
    Done(Done),
    Resynced(Resynced),
    Deadline,
    ValidityPassed,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        session: Arc<Session>,
        spec: Arc<Spec>,
        deadline: Option<Instant>,
        status: &'a watch::Sender<Status>,
        commands: &'a mut mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Self {
            link: session.link(),
            resyncs: session.resyncs(),
            _interest: session.interest(),
            session,
            spec,
            deadline,
            status,
            commands,
            step: Step::new(),
            id: None,
            sent: Arc::default(),
            node: None,
            link_news: None,
            watches: Watches::new(),
            watching: Vec::new(),
            reads: 0,
            flights: FuturesUnordered::new(),
            ticket: None,
            parent_tries: 0,
            hold: None,
            given_up: None,
            left: false,
            reply: None,
            lost: None,
            unwanted: None,
            abandoned: false,
        }
    }

    /// Contends until the node is gone or somebody else's to delete.
    pub(super) async fn run(mut self) -> End {
        self.feed(Input::Start).await;
        let ended = self.session.ended();
        let mut over = std::pin::pin!(ended);
        let mut deadline = std::pin::pin!(until(self.deadline));
        while !self.step.ended() {
            let news = match self.link_news.take() {
                Some(state) => News::Link(state),
                None => self.news(over.as_mut(), deadline.as_mut()).await,
            };
            self.handle(news).await;
        }
        self.finish().await
    }

    async fn news(
        &mut self,
        over: impl Future<Output = LossReason>,
        deadline: impl Future<Output = ()>,
    ) -> News {
        let hold = self.hold.clone().filter(|_| self.step.held());
        let validity = async {
            match &hold {
                Some(hold) if hold.state() == HoldState::Held => {
                    // Checked again when it should have passed: it may have been prolonged.
                    tokio::time::sleep(hold.remaining()).await;
                }
                Some(hold) if hold.policy() == LossPolicy::Presumed => {
                    tokio::time::sleep(hold.remaining()).await;
                }
                _ => std::future::pending().await,
            }
        };
        let asked = self.ticket;
        let resynced = async {
            match asked {
                Some(ticket) => {
                    let answer = self.resyncs.wait_for(|resynced| resynced.number >= ticket).await;
                    answer.map(|answer| answer.clone()).ok()
                }
                None => None,
            }
        };
        tokio::select! {
            biased;
            state = self.link.changed() => News::Link(state),
            reason = over => News::Over(reason),
            (node, event) = self.watches.next() => News::Watch(node, event),
            Some(done) = self.flights.next() => News::Done(done),
            command = self.commands.recv(), if !self.left => News::Command(command),
            Some(resynced) = resynced => News::Resynced(resynced),
            () = deadline, if !self.left && hold.is_none() => News::Deadline,
            () = validity => News::ValidityPassed,
        }
    }

    async fn handle(&mut self, news: News) {
        match news {
            News::Link(state) => {
                // Two changes may be seen as one: whatever the state is now, it was down.
                self.ticket = None;
                self.learn(HoldState::Suspect);
                self.feed(Input::LinkDown).await;
                if state == SessionState::SyncConnected {
                    self.feed(Input::LinkUp).await;
                }
            }
            News::Over(reason) => self.feed(Input::Lose(reason)).await,
            News::Watch(node, event) => {
                self.watching.retain(|(watched, _)| *watched != node);
                match event.map(|event| event.event_type) {
                    Some(EventType::NodeDeleted) => {
                        self.feed(Input::Fired(node, Event::Deleted)).await;
                    }
                    // The session is over or its runtime ends: told by other means.
                    None | Some(EventType::Session) => {}
                    Some(_) => self.feed(Input::Fired(node, Event::Changed)).await,
                }
            }
            News::Done(done) => self.done(done).await,
            News::Resynced(resynced) => {
                self.ticket = None;
                let found = self.id.and_then(|id| resynced.nodes.get(&id));
                let node = found.and_then(|(_, name)| ContenderName::parse(name));
                self.feed(Input::Resynced(node)).await;
            }
            News::Command(command) => {
                if let Some(Command::Release(reply)) = command {
                    self.reply = Some(reply);
                }
                self.leave().await;
            }
            News::Deadline => {
                let (phase, behind) = match &*self.status.borrow() {
                    Status::Queued { ahead, .. } => {
                        let nearest = ahead.as_ref().and_then(|ahead| ahead.last().cloned());
                        (Phase::Waiting, nearest)
                    }
                    _ if self.sent.load(Ordering::Acquire) => (Phase::Enqueueing, None),
                    _ => (Phase::Connecting, None),
                };
                self.fail(self.spec.timed_out(phase, behind)).await;
            }
            News::ValidityPassed => match self.hold.as_ref().map(|hold| hold.state()) {
                Some(HoldState::Lost(reason)) => self.feed(Input::Lose(reason)).await,
                Some(HoldState::Suspect) => self.feed(Input::Doubt).await,
                Some(HoldState::Held) | None => {}
            },
        }
    }

    async fn done(&mut self, done: Done) {
        if matches!(done.input, Some(Input::Enqueued(..))) {
            self.given_up = None;
        }
        if let Some(Input::Watched(node, _)) = &done.input {
            let current = |(watched, read): &(_, _)| watched == node && Some(*read) == done.read;
            if !self.watching.iter().any(current) {
                // Forgotten, or asked for anew, while it was on its way.
                return;
            }
            if let Some(watch) = done.watch {
                self.watches.arm(node.clone(), watch);
            }
        }
        if let Some(input) = done.input {
            self.feed(input).await;
        }
        if let Some(failure) = done.failure {
            self.fail(failure).await;
        }
    }

    /// Tells the caller, at once, and cleans up.
    async fn fail(&mut self, error: AcquireError) {
        if self.hold.is_none() {
            self.status.send_replace(Status::Failed(error));
        }
        self.leave().await;
    }

    async fn leave(&mut self) {
        self.left = true;
        self.commands.close();
        // From here on nobody may believe in the hold, whatever becomes of the node.
        self.learn(HoldState::Lost(LossReason::Released));
        self.feed(Input::Leave).await;
        if self.step.ended() {
            return;
        }
        if self.sent.load(Ordering::Acquire) {
            self.given_up.get_or_insert_with(|| self.session.give_up());
        } else {
            // The create was not sent, and now it never is.
            self.flights.clear();
            self.feed(Input::Enqueued(super::step::Created::Refused, super::step::Listed::Unknown))
                .await;
        }
    }

    fn learn(&self, state: HoldState) {
        if let Some(hold) = &self.hold {
            hold.learn(state);
        }
    }

    /// One step, with the evidence looked up after the input was received.
    async fn feed(&mut self, input: Input<ContenderName>) {
        let own_pending = self.watches.own_pending().await;
        if self.link_news.is_none() {
            self.link_news = self.link.news();
        }
        let evidence = Evidence {
            own_pending,
            link_unchanged: self.link_news.is_none(),
            valid: self.session.validity.at(Moment::now()).is_some(),
        };
        for action in self.step.step(input, evidence) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action<ContenderName>) {
        match action {
            Action::Enqueue => self.enqueue(),
            Action::MakeParents => {
                self.parent_tries += 1;
                if self.parent_tries > PARENT_TRIES {
                    let (path, tries) = (self.spec.path.to_string(), PARENT_TRIES);
                    let failure = AcquireError::ParentVanishing { path, tries };
                    self.flights.push(Box::pin(async { failure.into() }));
                } else {
                    self.flights.push(requests::make_parents(&self.session, &self.spec));
                }
            }
            Action::List => self.flights.push(requests::list(&self.session, &self.spec)),
            Action::Order(nodes) => {
                self.flights.push(requests::order(&self.session, &self.spec, nodes));
            }
            Action::Watch(node) => {
                self.reads += 1;
                self.watching.retain(|(watched, _)| *watched != node);
                self.watching.push((node.clone(), self.reads));
                // A hold does not end because its node may not be read.
                let essential = self.hold.is_none();
                let watch = requests::watch(&self.session, &self.spec, node, self.reads, essential);
                self.flights.push(watch);
            }
            Action::Unwatch(node) => {
                self.watching.retain(|(watched, _)| *watched != node);
                self.watches.disarm(&node);
            }
            Action::Resync => self.ticket = Some(self.session.resync()),
            Action::Queued(node, token) => self.queued(node, token),
            Action::Behind(ahead) => {
                if let Some((node, token)) = self.node.clone() {
                    tracing::debug!(
                        path = %self.spec.path, %node, ahead = ahead.len(),
                        predecessor = ahead.last().map(tracing::field::display), "waiting",
                    );
                    let ahead = Some(ahead.into());
                    self.status.send_replace(Status::Queued { node, token, ahead });
                }
            }
            Action::Grant(how) => self.granted(how),
            Action::Verified => {
                if let Some(hold) = &self.hold {
                    hold.verified();
                }
            }
            Action::Lost(reason) => self.lost(reason),
            Action::Exhausted(last) => {
                let path = self.spec.path.to_string();
                let error = AcquireError::SequenceExhausted { path, last };
                self.status.send_replace(Status::Failed(error));
                self.left = true;
            }
            Action::Delete(node) => self.unwanted = Some(node),
            Action::Abandon => {
                self.abandoned = true;
                if let Some(id) = self.id {
                    self.session.abandon(id);
                }
            }
            Action::End => {}
        }
    }

    fn enqueue(&mut self) {
        let id = fresh_id();
        let mut registry = self.session.registry();
        if let Some(former) = self.id.replace(id) {
            // The step asks for another create only when the former certainly left nothing.
            registry.forget(former);
        }
        registry.attempt(id, self.spec.path.clone());
        drop(registry);
        self.sent.store(false, Ordering::Release);
        self.flights.push(requests::enqueue(&self.session, &self.spec, id, &self.sent));
    }

    fn queued(&mut self, node: ContenderName, token: FencingToken) {
        tracing::debug!(
            path = %self.spec.path, %node, %token,
            session = %Hex(self.session.id), "enqueued",
        );
        tracing::Span::current()
            .record("node", tracing::field::display(&node))
            .record("token", tracing::field::display(token))
            .record("session", tracing::field::display(Hex(self.session.id)));
        if let Some(id) = self.id {
            self.session.registry().confirm(id, self.spec.path.child(node.as_str()));
        }
        self.watches.set_own(node.clone());
        self.node = Some((node.clone(), token));
        self.status.send_replace(Status::Queued { node, token, ahead: None });
    }

    fn granted(&mut self, how: super::step::Granted) {
        let Some((node, token)) = self.node.clone() else { return };
        tracing::debug!(
            path = %self.spec.path, %node, %token, ?how,
            session = %Hex(self.session.id), "granted",
        );
        let hold = Arc::new(Hold::new(
            &self.session,
            self.spec.path.clone(),
            node,
            token,
            self.spec.policy,
        ));
        self.hold = Some(Arc::clone(&hold));
        self.status.send_replace(Status::Held(hold));
    }

    fn lost(&mut self, reason: LossReason) {
        self.lost = Some(reason);
        let Some(hold) = &self.hold else { return };
        if hold.state().loss() != Some(LossReason::Released) {
            tracing::warn!(
                path = %self.spec.path, node = %hold.node, token = %hold.token,
                session = %Hex(self.session.id), %reason, "lost a lock",
            );
        }
        hold.learn(HoldState::Lost(reason));
    }

    /// The step has ended: what is left is the node, the answer to a release, and the verdict.
    async fn finish(mut self) -> End {
        let released = if let Some(node) = self.unwanted.take() {
            self.delete(&node).await
        } else {
            if let (false, Some(id)) = (self.abandoned, self.id) {
                self.session.registry().forget(id);
            }
            Err(self.already_lost(self.lost.unwrap_or(LossReason::SessionClosed)))
        };
        if let Some(reply) = self.reply.take() {
            // The caller may have stopped waiting.
            let _ = reply.send(released);
        }
        match self.lost {
            Some(reason) if self.hold.is_none() && !self.left => {
                if self.spec.requeue {
                    return End::Requeue(reason);
                }
                let path = self.spec.path.to_string();
                self.status.send_replace(Status::Failed(AcquireError::Lost { path, reason }));
                End::Done
            }
            _ => End::Done,
        }
    }

    /// Deletes the own node here, which is faster than by the janitor; what is not settled by the
    /// answer is the janitor's.
    async fn delete(&mut self, node: &ContenderName) -> Result<(), ReleaseError> {
        let Some(id) = self.id else { return Ok(()) };
        let (session, path) = (&self.session, self.spec.path.child(node.as_str()));
        if !session.is_connected() {
            session.delete(id, &self.spec.path, node.as_str());
            return Err(self.unconfirmed(Error::ConnectionLoss));
        }
        let answer = tokio::select! {
            reason = session.ended() => return Err(self.already_lost(reason)),
            answer = session.ask(|| session.client.delete(&path, None)) => answer,
        };
        match answer {
            Ok(()) => {
                tracing::debug!(path = %self.spec.path, %node, "released");
                session.registry().forget(id);
                Ok(())
            }
            Err(Trouble::Refused(Error::NoNode)) => {
                session.registry().forget(id);
                Err(self.already_lost(LossReason::NodeDeleted))
            }
            Err(Trouble::Refused(Error::NoAuth)) => {
                // Before the caller knows: its next acquisition must not queue behind this node.
                session.mark_undeletable(&self.spec.path, &path);
                session.delete(id, &self.spec.path, node.as_str());
                Err(ReleaseError::NotAuthorized { node: path })
            }
            Err(Trouble::Refused(error) | Trouble::Unknown(error)) => {
                session.delete(id, &self.spec.path, node.as_str());
                Err(self.unconfirmed(error))
            }
        }
    }

    fn already_lost(&self, reason: LossReason) -> ReleaseError {
        ReleaseError::AlreadyLost { path: self.spec.path.to_string(), reason }
    }

    fn unconfirmed(&self, source: Error) -> ReleaseError {
        ReleaseError::Unconfirmed { path: self.spec.path.to_string(), source }
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        // Dropped before its end: the runtime is shutting down, and the session with it.
        self.learn(HoldState::Lost(LossReason::SessionClosed));
    }
}
