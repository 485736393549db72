//! The protocol of one contender as a pure state machine: no clock, no I/O, no client.
//!
//! The driver feeds what happened ([`Input`]) together with what is known at that moment
//! ([`Evidence`]) and performs the [`Action`]s in order. The exhaustive model does the same against
//! a simulated ensemble.

use std::hash::Hash;

use super::queue::{Place, Seat, by_czxid, place};
use crate::health::LossReason;
use crate::token::FencingToken;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Input<N> {
    /// The caller wants in, and the connection is up.
    Start,
    /// The create and the list that was sent right behind it.
    Enqueued(Created<N>, Listed<N>),
    /// The parents exist now, or did a moment ago.
    ParentsMade,
    /// The answer to [`Action::List`].
    Listed(Listed<N>),
    /// The answer to [`Action::Order`]: `czxid`s, `None` for what has gone.
    Ordered(Option<Vec<(N, Option<i64>)>>),
    /// The answer to [`Action::Watch`].
    Watched(N, Watched),
    /// A watch fired.
    Fired(N, Event),
    /// The connection is gone.
    LinkDown,
    /// The connection is back, perhaps to another server.
    LinkUp,
    /// The answer to [`Action::Resync`], sent after [`Input::LinkUp`]: the node of the latest
    /// create, if it exists and is not known to belong to another session.
    Resynced(Option<N>),
    /// The session is over, its presumed validity has passed, or a check found another owner.
    Lose(LossReason),
    /// The presumed validity passed and the hold is to be looked at again.
    Doubt,
    /// The caller gave up, timed out, or releases.
    Leave,
}

/// How a create ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Created<N> {
    /// The node exists, and this session owns it.
    Node(N, FencingToken),
    /// The parent does not exist.
    NoParent,
    /// It was not executed, and is not to be tried again.
    Refused,
    /// It may have been executed.
    Unknown,
}

/// How a listing ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Listed<N> {
    /// The contenders among the children.
    Seats(Vec<Seat<N>>),
    /// The parent does not exist, so no contender does.
    NoParent,
    /// No answer.
    Unknown,
}

/// How a read that leaves a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watched {
    /// The node exists and is watched. `owned` says whether this session owns it.
    Armed { token: FencingToken, owned: bool },
    /// The node does not exist. No watch was left.
    Gone,
    /// No answer.
    Unknown,
}

/// What a watch said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// The node was deleted.
    Deleted,
    /// Its data changed.
    Changed,
}

/// What is known when an input is handled, looked up *after* the input was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The watch of the own node was polled once more and has not fired.
    pub(crate) own_pending: bool,
    /// The connection has not changed since the deciding list was sent.
    pub(crate) link_unchanged: bool,
    /// The presumed validity of the session lies in the future.
    pub(crate) valid: bool,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action<N> {
    /// Create a node with a fresh uuid and list the parent, back to back.
    Enqueue,
    /// Make the parents.
    MakeParents,
    /// List the parent.
    List,
    /// Read the `czxid`s of these.
    Order(Vec<N>),
    /// Read the node and leave a watch.
    Watch(N),
    /// Forget the watch of this node.
    Unwatch(N),
    /// Ask the session for a `sync` and what it owns.
    Resync,
    /// The node exists. Told once, before it is waited for.
    Queued(N, FencingToken),
    /// These stand ahead, nearest last.
    Behind(Vec<N>),
    /// The lock is ours.
    Grant(Granted),
    /// The connection changed; the own node is still there.
    Verified,
    /// It is not, or no longer, ours.
    Lost(LossReason),
    /// The sequence limit was passed in company of a client that orders by number.
    Exhausted(i64),
    /// Delete the node: the janitor's from here.
    Delete(N),
    /// A create may have been executed: the sweep's from here.
    Abandon,
    /// Nothing is left to do.
    End,
}

/// What a grant rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Granted {
    /// The deletion of the only contender ahead, with no request in between.
    ByEvent,
    /// A list that shows the own node and nothing ahead.
    ByList,
}

/// A deliberate fault, for the model: each must lead to a counterexample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(test), allow(dead_code, reason = "only the model breaks the rules"))]
pub(crate) enum Flaw {
    /// Any event of the predecessor's watch is taken for its deletion.
    GrantOnAnyEvent,
    /// The own node's watch is not polled again after the predecessor's event.
    NoSecondPoll,
    /// The own node's watch is not armed again after a data change.
    OwnWatchNotRearmed,
    /// A change of the connection is not noticed before the grant.
    LinkChangeUnseen,
    /// A list without the own node is taken for an empty one.
    AbsentOwnNodeAccepted,
    /// A node that another session owns is adopted.
    AdoptionWithoutOwnerCheck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    /// A create is on its way.
    Enqueueing,
    /// The parents are being made.
    Parents,
    /// A create may have been executed: its fate is looked up.
    Recovering,
    /// The create's node was found; it is being read.
    Adopting,
    /// The node waits in the queue.
    Queued,
    /// The lock is ours.
    Held,
    /// The caller has left while a create was on its way.
    Leaving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Listing {
    Idle,
    Flying,
    /// On its way, and overtaken by an event: its answer is discarded and another one asked for.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Off,
    Arming,
    Armed,
}

/// The connection changed, or the validity ran out: the session looks again at what it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Look {
    Done,
    /// [`Input::Resynced`] is to come.
    Asked,
    /// The own node was found by its name, and is read again: by which session is it owned?
    Reading,
}

/// The state of one contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step<N> {
    phase: Phase,
    link: bool,
    own: Option<N>,
    own_watch: Watch,
    listing: Listing,
    /// The predecessor, and the contender before it.
    near: Option<(N, Watch)>,
    far: Option<(N, Watch)>,
    /// The latest list, on this connection, held only us and the predecessor, both plain.
    sole: bool,
    /// Nothing is decided before it is done.
    look: Look,
    flaw: Option<Flaw>,
}

impl<N: Clone + Eq + Hash> Step<N> {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::New,
            link: true,
            own: None,
            own_watch: Watch::Off,
            listing: Listing::Idle,
            near: None,
            far: None,
            sole: false,
            look: Look::Done,
            flaw: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn flawed(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::new() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(crate) fn held(&self) -> bool {
        self.phase == Phase::Held
    }

    pub(crate) fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// The own node, once it is known.
    #[cfg(test)]
    pub(crate) fn own(&self) -> Option<&N> {
        self.own.as_ref()
    }

    /// Takes one step.
    pub(crate) fn step(&mut self, input: Input<N>, evidence: Evidence) -> Vec<Action<N>> {
        let mut actions = Vec::new();
        if self.phase == Phase::Ended {
            return actions;
        }
        let out = &mut actions;
        match input {
            Input::Start => {
                if self.phase == Phase::New {
                    self.enqueue(out);
                }
            }
            Input::Enqueued(created, listed) => self.enqueued(created, listed, evidence, out),
            Input::ParentsMade => {
                if self.phase == Phase::Parents {
                    self.enqueue(out);
                }
            }
            Input::Listed(listed) => self.listed(listed, evidence, out),
            Input::Ordered(nodes) => self.ordered(nodes, evidence, out),
            Input::Watched(node, watched) => self.watched(&node, watched, evidence, out),
            Input::Fired(node, event) => self.fired(&node, event, evidence, out),
            Input::LinkDown => {
                self.link = false;
                self.sole = false;
                self.overtake();
            }
            Input::LinkUp => {
                self.link = true;
                self.sole = false;
                self.overtake();
                self.resync(out);
            }
            Input::Resynced(found) => self.resynced(found, out),
            Input::Lose(reason) => self.lose(reason, out),
            Input::Doubt => self.resync(out),
            Input::Leave => self.leave(out),
        }
        actions
    }

    fn enqueue(&mut self, out: &mut Vec<Action<N>>) {
        self.phase = Phase::Enqueueing;
        self.listing = Listing::Flying;
        out.push(Action::Enqueue);
    }

    fn enqueued(
        &mut self,
        created: Created<N>,
        listed: Listed<N>,
        evidence: Evidence,
        out: &mut Vec<Action<N>>,
    ) {
        match (self.phase, created) {
            (Phase::Enqueueing, Created::Node(node, token)) => {
                self.queue(node, token, out);
                if self.listing == Listing::Stale {
                    self.listing = Listing::Idle;
                    self.resync(out);
                } else {
                    self.listed(listed, evidence, out);
                }
            }
            (Phase::Enqueueing, Created::NoParent) => {
                self.listing = Listing::Idle;
                self.phase = Phase::Parents;
                out.push(Action::MakeParents);
            }
            (Phase::Enqueueing, Created::Unknown) => {
                self.listing = Listing::Idle;
                self.phase = Phase::Recovering;
                self.resync(out);
            }
            (Phase::Leaving, Created::Node(node, _)) => {
                out.push(Action::Delete(node));
                self.end(out);
            }
            (Phase::Leaving, Created::NoParent)
            | (Phase::Enqueueing | Phase::Leaving, Created::Refused) => {
                self.end(out);
            }
            (Phase::Leaving, Created::Unknown) => {
                out.push(Action::Abandon);
                self.end(out);
            }
            _ => {}
        }
    }

    fn queue(&mut self, node: N, token: FencingToken, out: &mut Vec<Action<N>>) {
        self.phase = Phase::Queued;
        self.own = Some(node.clone());
        out.push(Action::Queued(node, token));
    }

    fn listed(&mut self, listed: Listed<N>, evidence: Evidence, out: &mut Vec<Action<N>>) {
        let stale = self.listing == Listing::Stale;
        self.listing = Listing::Idle;
        if self.phase != Phase::Queued {
            return;
        }
        let Some(own) = self.own.clone() else { return };
        let seats = match listed {
            Listed::Seats(seats) if !stale => seats,
            Listed::NoParent if !stale => Vec::new(),
            Listed::Seats(_) | Listed::NoParent | Listed::Unknown => {
                self.list(out);
                return;
            }
        };
        match place(seats, &own) {
            Place::Absent if self.has(Flaw::AbsentOwnNodeAccepted) => {
                self.decide(Vec::new(), false, evidence, out);
            }
            Place::Absent => self.lose(LossReason::NodeDeleted, out),
            Place::Behind(seats) => {
                let sole = seats.len() == 1 && seats.iter().all(|seat| seat.plain);
                let ahead = seats.into_iter().map(|seat| seat.node).collect();
                self.decide(ahead, sole, evidence, out);
            }
            Place::Unordered(nodes) => {
                self.listing = Listing::Flying;
                out.push(Action::Order(nodes));
            }
            Place::Exhausted(number) => {
                out.push(Action::Exhausted(number));
                self.leave(out);
            }
        }
    }

    fn ordered(
        &mut self,
        nodes: Option<Vec<(N, Option<i64>)>>,
        evidence: Evidence,
        out: &mut Vec<Action<N>>,
    ) {
        let stale = self.listing == Listing::Stale;
        self.listing = Listing::Idle;
        let (Phase::Queued, Some(own)) = (self.phase, self.own.clone()) else { return };
        match nodes {
            Some(nodes) if !stale => match by_czxid(nodes, &own) {
                Some(ahead) => self.decide(ahead, false, evidence, out),
                None => self.lose(LossReason::NodeDeleted, out),
            },
            _ => self.list(out),
        }
    }

    /// A list shows the own node, and these ahead of it.
    fn decide(&mut self, ahead: Vec<N>, sole: bool, evidence: Evidence, out: &mut Vec<Action<N>>) {
        if self.look != Look::Done || !self.linked(evidence) {
            // The list may be of another connection: the resync that follows asks again.
            return;
        }
        if ahead.is_empty() {
            if !self.own_there(evidence) {
                // Its event is the next input. Where the node only changed, this list decides.
                self.list(out);
            } else if evidence.valid {
                self.grant(Granted::ByList, out);
            } else {
                self.resync(out);
            }
            return;
        }
        self.sole = sole;
        self.watch_own(out);
        let mut nearest = ahead.iter().rev().cloned();
        let (near, far) = (nearest.next(), nearest.next());
        self.watch_ahead(near, far, out);
        out.push(Action::Behind(ahead));
    }

    fn watch_own(&mut self, out: &mut Vec<Action<N>>) {
        if let (Watch::Off, Some(own)) = (self.own_watch, &self.own) {
            self.own_watch = Watch::Arming;
            out.push(Action::Watch(own.clone()));
        }
    }

    /// Keeps the watches that still serve, forgets the others and arms what is missing.
    fn watch_ahead(&mut self, near: Option<N>, far: Option<N>, out: &mut Vec<Action<N>>) {
        let mut kept: Vec<(N, Watch)> = [self.near.take(), self.far.take()]
            .into_iter()
            .flatten()
            .filter(|(_, watch)| *watch != Watch::Off)
            .collect();
        let mut arm = |node: Option<N>, out: &mut Vec<Action<N>>| {
            let node = node?;
            if let Some(at) = kept.iter().position(|(other, _)| *other == node) {
                return Some(kept.swap_remove(at));
            }
            out.push(Action::Watch(node.clone()));
            Some((node, Watch::Arming))
        };
        self.near = arm(near, out);
        self.far = arm(far, out);
        out.extend(kept.into_iter().map(|(node, _)| Action::Unwatch(node)));
    }

    fn watched(
        &mut self,
        node: &N,
        watched: Watched,
        evidence: Evidence,
        out: &mut Vec<Action<N>>,
    ) {
        if self.own.as_ref() == Some(node) {
            self.own_watched(watched, out);
        } else if let Some((near, watch)) = self.near.as_mut().filter(|(near, _)| near == node) {
            match watched {
                Watched::Armed { .. } => *watch = Watch::Armed,
                Watched::Gone => {
                    *watch = Watch::Off;
                    self.predecessor_gone(evidence, out);
                }
                Watched::Unknown if self.link => out.push(Action::Watch(near.clone())),
                Watched::Unknown => *watch = Watch::Off,
            }
        } else if let Some((far, watch)) = self.far.as_mut().filter(|(far, _)| far == node) {
            match watched {
                Watched::Armed { .. } => *watch = Watch::Armed,
                Watched::Gone => {
                    *watch = Watch::Off;
                    self.list(out);
                }
                Watched::Unknown if self.link => out.push(Action::Watch(far.clone())),
                Watched::Unknown => *watch = Watch::Off,
            }
        }
    }

    fn own_watched(&mut self, watched: Watched, out: &mut Vec<Action<N>>) {
        match watched {
            Watched::Armed { token, owned } => {
                self.own_watch = Watch::Armed;
                if !owned && !self.has(Flaw::AdoptionWithoutOwnerCheck) {
                    self.lose(LossReason::NodeReplaced, out);
                    return;
                }
                let looked = self.look == Look::Reading;
                if looked {
                    self.look = Look::Done;
                }
                match self.phase {
                    Phase::Adopting => {
                        if let Some(own) = self.own.clone() {
                            self.queue(own, token, out);
                        }
                        self.list(out);
                    }
                    Phase::Queued if looked => self.list(out),
                    Phase::Held if looked => out.push(Action::Verified),
                    _ => {}
                }
            }
            Watched::Gone => {
                self.own_watch = Watch::Off;
                self.lose(LossReason::NodeDeleted, out);
            }
            Watched::Unknown => {
                self.own_watch = Watch::Off;
                if self.link {
                    self.watch_own(out);
                }
            }
        }
    }

    fn fired(&mut self, node: &N, event: Event, evidence: Evidence, out: &mut Vec<Action<N>>) {
        if self.own.as_ref() == Some(node) {
            self.own_watch = Watch::Off;
            match event {
                Event::Deleted => self.lose(LossReason::NodeDeleted, out),
                Event::Changed if self.has(Flaw::OwnWatchNotRearmed) => {
                    self.own_watch = Watch::Armed;
                }
                Event::Changed => self.watch_own(out),
            }
        } else if let Some((_, watch)) = self.near.as_mut().filter(|(near, _)| near == node) {
            *watch = Watch::Off;
            match event {
                Event::Changed if !self.has(Flaw::GrantOnAnyEvent) => self.list(out),
                Event::Deleted | Event::Changed => self.predecessor_gone(evidence, out),
            }
        } else if let Some((_, watch)) = self.far.as_mut().filter(|(far, _)| far == node) {
            *watch = Watch::Off;
            self.list(out);
        }
    }

    fn predecessor_gone(&mut self, evidence: Evidence, out: &mut Vec<Action<N>>) {
        if self.phase != Phase::Queued {
            return;
        }
        let sure = self.sole
            && self.own_watch == Watch::Armed
            && self.own_there(evidence)
            && self.linked(evidence)
            && evidence.valid;
        if sure {
            self.grant(Granted::ByEvent, out);
        } else {
            self.list(out);
        }
    }

    fn own_there(&self, evidence: Evidence) -> bool {
        evidence.own_pending || self.has(Flaw::NoSecondPoll)
    }

    fn linked(&self, evidence: Evidence) -> bool {
        self.link && evidence.link_unchanged || self.has(Flaw::LinkChangeUnseen)
    }

    fn grant(&mut self, how: Granted, out: &mut Vec<Action<N>>) {
        self.phase = Phase::Held;
        self.sole = false;
        self.watch_ahead(None, None, out);
        out.push(Action::Grant(how));
        self.watch_own(out);
    }

    fn list(&mut self, out: &mut Vec<Action<N>>) {
        if self.phase != Phase::Queued {
            return;
        }
        self.sole = false;
        if self.look != Look::Done || !self.link {
            // Asked again when the session has been looked at.
        } else if self.listing == Listing::Idle {
            self.listing = Listing::Flying;
            out.push(Action::List);
        } else {
            self.listing = Listing::Stale;
        }
    }

    fn overtake(&mut self) {
        if self.listing == Listing::Flying {
            self.listing = Listing::Stale;
        }
    }

    /// A new session-wide look at what exists; [`Input::Resynced`] follows. While the connection is
    /// down, [`Input::LinkUp`] asks for it.
    fn resync(&mut self, out: &mut Vec<Action<N>>) {
        if matches!(self.phase, Phase::Recovering | Phase::Adopting | Phase::Queued | Phase::Held) {
            self.look = Look::Asked;
            if self.link {
                out.push(Action::Resync);
            }
        }
    }

    fn resynced(&mut self, found: Option<N>, out: &mut Vec<Action<N>>) {
        self.look = Look::Done;
        match (self.phase, found) {
            (Phase::Recovering, Some(node)) => {
                self.phase = Phase::Adopting;
                self.own = Some(node);
                self.own_watch = Watch::Off;
                self.watch_own(out);
            }
            (Phase::Recovering, None) => self.enqueue(out),
            (Phase::Adopting | Phase::Queued | Phase::Held, Some(_)) => {
                self.look = Look::Reading;
                if let (Watch::Arming | Watch::Armed, Some(own)) = (self.own_watch, &self.own) {
                    out.push(Action::Unwatch(own.clone()));
                }
                self.own_watch = Watch::Off;
                self.watch_own(out);
            }
            (Phase::Adopting | Phase::Queued | Phase::Held, None) => {
                self.lose(LossReason::NodeDeleted, out);
            }
            _ => {}
        }
    }

    fn lose(&mut self, reason: LossReason, out: &mut Vec<Action<N>>) {
        match self.phase {
            Phase::New | Phase::Parents => {}
            Phase::Enqueueing | Phase::Recovering | Phase::Leaving => out.push(Action::Abandon),
            Phase::Adopting | Phase::Queued | Phase::Held => {
                // The queue must move on where the node outlives its hold.
                if reason == LossReason::ValidityPassed
                    && let Some(own) = self.own.clone()
                {
                    out.push(Action::Delete(own));
                }
            }
            Phase::Ended => return,
        }
        if self.phase != Phase::Leaving {
            out.push(Action::Lost(reason));
        }
        self.end(out);
    }

    fn leave(&mut self, out: &mut Vec<Action<N>>) {
        match self.phase {
            Phase::Enqueueing => self.phase = Phase::Leaving,
            Phase::Recovering => {
                out.push(Action::Abandon);
                self.end(out);
            }
            Phase::Adopting | Phase::Queued | Phase::Held => {
                out.extend(self.own.clone().map(Action::Delete));
                self.end(out);
            }
            Phase::New | Phase::Parents => self.end(out),
            Phase::Leaving | Phase::Ended => {}
        }
    }

    fn end(&mut self, out: &mut Vec<Action<N>>) {
        self.phase = Phase::Ended;
        out.push(Action::End);
    }
}
