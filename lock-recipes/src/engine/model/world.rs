//! The world: an ensemble and its clients, and what each move does.

use std::fmt;
use std::sync::Arc;

use super::super::step::{Event, Flaw, Granted, Step};
use super::client::{Channel, Client, Creation, Link, Reading, Request, Sent, Slot};
use super::ensemble::{CLIENTS, Ensemble, Node, Set, Txn};
use super::moves::{Doubt, Move};
use crate::health::LossReason;

/// How often each thing may go wrong, and all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) total: u8,
    /// Connections lost.
    pub(super) cuts: u8,
    /// Requests that the driver gives up while they go on: slow, or their answer is lost.
    pub(super) timeouts: u8,
    pub(super) expiries: u8,
    /// Reconnects that are given a new session.
    pub(super) new_sessions: u8,
    /// Nodes deleted by hand.
    pub(super) deletions: u8,
    /// Data changed by hand.
    pub(super) changes: u8,
    /// Callers that leave before they hold.
    pub(super) cancels: u8,
    /// Moments at which a live session is not presumed valid, before and while it holds.
    pub(super) doubts: u8,
    /// Holds whose presumed validity passes.
    pub(super) passes: u8,
    /// Empty parents that the server deletes.
    pub(super) reaps: u8,
}

impl Faults {
    fn take(&mut self, class: impl Fn(&mut Self) -> &mut u8) {
        *class(self) -= 1;
        self.total -= 1;
        if self.total == 0 {
            *self = Self::default();
        }
    }
}

#[allow(clippy::struct_excessive_bools, reason = "independent switches")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) contenders: u8,
    pub(super) faults: Faults,
    pub(super) flaw: Option<Flaw>,
    /// The answer to a resync names the node whoever owns it: servers without `list_ephemerals`.
    pub(super) owner_unknown: bool,
    /// Every sequence number is 2³¹−1.
    pub(super) stuck_numbers: bool,
    /// The lock's path is not there at first.
    pub(super) no_parent: bool,
    /// The presumed validity never outlives the session (`fencing.md` A1–A4).
    pub(super) validity_holds: bool,
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults { total, .. } = self.faults;
        let classes = [
            ("cut", self.faults.cuts),
            ("timeout", self.faults.timeouts),
            ("expiry", self.faults.expiries),
            ("new session", self.faults.new_sessions),
            ("deletion", self.faults.deletions),
            ("change", self.faults.changes),
            ("cancel", self.faults.cancels),
            ("doubt", self.faults.doubts),
            ("pass", self.faults.passes),
            ("reap", self.faults.reaps),
        ];
        write!(f, "{} contenders, {total} faults", self.contenders)?;
        let of: Vec<String> = classes
            .iter()
            .filter(|(_, times)| *times > 0)
            .map(|(class, times)| format!("{class} {}", times.min(&total)))
            .collect();
        if !of.is_empty() {
            write!(f, " ({})", of.join(", "))?;
        }
        let switches = [
            (self.owner_unknown, "owner unknown"),
            (self.stuck_numbers, "stuck numbers"),
            (self.no_parent, "no parent"),
            (!self.validity_holds, "validity outlives the session"),
        ];
        for (_, name) in switches.iter().filter(|(on, _)| *on) {
            write!(f, ", {name}")?;
        }
        self.flaw.map_or(Ok(()), |flaw| write!(f, ", {flaw:?}"))
    }
}

/// What the latest move did, for the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Note {
    pub(super) sight: Option<Sight>,
    /// A grant without the own node, or with somebody ahead of it.
    pub(super) groundless: bool,
    /// A grant of a smaller token than one before.
    pub(super) out_of_order: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sight {
    Granted(Granted),
    Adopted,
    Verified,
    Swept,
    Lost(LossReason),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) ensemble: Ensemble,
    pub(super) clients: Vec<Arc<Client>>,
    pub(super) left: Faults,
    /// The largest token granted so far.
    pub(super) highest: Option<Node>,
    /// How many contenders have had a node.
    pub(super) numbered: u8,
    pub(super) note: Note,
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        assert!(config.contenders <= CLIENTS);
        let ensemble = Ensemble::new(config.contenders, !config.no_parent);
        let client =
            |session| Arc::new(Client::new(session, Step::flawed(config.flaw), ensemble.view));
        let clients = (0..config.contenders).map(client).collect();
        Self {
            clients,
            ensemble,
            left: config.faults,
            highest: None,
            numbered: 0,
            note: Note::default(),
        }
    }

    pub(super) fn alive(&self, client: &Client) -> bool {
        self.ensemble.sessions.contains(client.session)
    }

    pub(super) fn make(&mut self, config: &Config, next: Move) {
        self.note = Note::default();
        match next {
            Move::Start(number) => self.start(number),
            Move::Handle(number, input, doubt) => {
                if doubt == Doubt::Spurious {
                    self.left.take(|left| &mut left.doubts);
                }
                self.handle(config, number, input, doubt);
            }
            Move::Commit(number) => self.commit(number),
            Move::Answer(number) => self.answer(config, number),
            Move::Apply(number) => self.apply(number),
            Move::SetAgain(number, node) => {
                let client = self.client(number);
                let place = client.set_again.iter().position(|&(other, _)| other == node);
                let (_, event) = client.set_again.remove(place.unwrap());
                client.fire(node, event);
            }
            Move::GiveUp(number, place) => {
                self.left.take(|left| &mut left.timeouts);
                self.client(number).give_up(place);
            }
            Move::Cut(number) => {
                self.left.take(|left| &mut left.cuts);
                self.client(number).cut(Link::Down);
            }
            Move::Reconnect(number, at) => self.reconnect(number, at),
            Move::ReconnectAnew(number, at) => {
                self.left.take(|left| &mut left.new_sessions);
                let client = self.client(number);
                client.session += CLIENTS;
                let session = client.session;
                self.ensemble.sessions.insert(session);
                self.reconnect(number, at);
            }
            Move::Expire(session) => {
                if self.clients.iter().any(|client| client.session == session) {
                    self.left.take(|left| &mut left.expiries);
                }
                self.ensemble.commit(Txn::Close(session));
            }
            Move::TellExpired(number) => self.client(number).expired = true,
            Move::Delete(number, node) => {
                self.ensemble.commit(Txn::Delete(node));
                self.client(number).jobs.remove(node);
            }
            Move::Sweep(number) => self.sweep(number),
            Move::DeleteByHand(node) => {
                self.left.take(|left| &mut left.deletions);
                self.ensemble.by_hand.insert(node);
                self.ensemble.commit(Txn::Delete(node));
            }
            Move::ChangeByHand(node) => {
                self.left.take(|left| &mut left.changes);
                self.ensemble.commit(Txn::Change(node));
            }
            Move::Leave(number) => {
                if !self.clients[usize::from(number)].step.held() {
                    self.left.take(|left| &mut left.cancels);
                }
                self.leave(number);
            }
            Move::PassValidity(number) => {
                self.left.take(|left| &mut left.passes);
                self.pass_validity(number);
            }
            Move::Doubt(number) => {
                self.left.take(|left| &mut left.doubts);
                self.doubt(number);
            }
            Move::Reap => {
                self.left.take(|left| &mut left.reaps);
                self.ensemble.commit(Txn::DeleteParent);
            }
        }
        self.normalise();
    }

    pub(super) fn client(&mut self, number: u8) -> &mut Client {
        Arc::make_mut(&mut self.clients[usize::from(number)])
    }

    fn commit(&mut self, number: u8) {
        let Self { ensemble, clients, .. } = self;
        let client = Arc::make_mut(&mut clients[usize::from(number)]);
        for request in &mut client.requests {
            match request {
                Request::Create { sent: sent @ Sent::ToServer, .. } => {
                    let node = ensemble.create(client.session);
                    *sent = node.map_or_else(|| Sent::Settled(ensemble.end()), Sent::Committed);
                    client.latest = node;
                    if node.is_some() && number >= self.numbered {
                        self.number_next(number);
                    }
                    return;
                }
                Request::MakeParents(sent @ Sent::ToServer) => {
                    if !ensemble.view.parent {
                        ensemble.commit(Txn::MakeParent);
                    }
                    *sent = Sent::Settled(ensemble.end());
                    return;
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, config: &Config, number: u8) {
        let Self { ensemble, clients, .. } = self;
        let client = Arc::make_mut(&mut clients[usize::from(number)]);
        let view = client.view;
        match client.requests.remove(0) {
            Request::Create { given_up, .. } => {
                if !given_up {
                    client.created = Slot::Ready(Creation::NoParent);
                }
            }
            Request::ListBehind => client.list_behind = Slot::Ready(Some(view)),
            Request::List => client.listed = Slot::Ready(Some(view)),
            Request::Order(nodes) => client.ordered = Slot::Ready(Some((nodes, view))),
            Request::Watch(node) => {
                let reading = if view.nodes.contains(node) {
                    Reading::Armed { owned: ensemble.owner(node) == client.session }
                } else {
                    Reading::Gone
                };
                client.answer_watch(node, reading);
                // That another contender is watched now changes no decision: taken at once.
                if reading != Reading::Gone && client.step.own() != Some(&node) {
                    self.handle_watched(number, node, true);
                }
            }
            Request::Resync(_) => {
                let owned =
                    |node: &Node| config.owner_unknown || ensemble.owner(*node) == client.session;
                let found = client.latest.filter(|&node| view.nodes.contains(node)).filter(owned);
                client.resynced = Slot::Ready(found);
            }
            Request::MakeParents(_) => client.parents = Slot::Ready(()),
        }
    }

    fn apply(&mut self, number: u8) {
        let Self { ensemble, clients, .. } = self;
        let client = Arc::make_mut(&mut clients[usize::from(number)]);
        let txn = ensemble.log[usize::from(client.at)];
        let before = client.view;
        client.at += 1;
        ensemble.apply(txn, &mut client.view);
        match txn {
            Txn::Create(node) => {
                if let Some(&Request::Create { sent: Sent::Committed(own), given_up }) =
                    client.requests.first()
                    && own == node
                {
                    client.requests.remove(0);
                    if !given_up {
                        client.created = Slot::Ready(Creation::Node(node));
                    }
                }
            }
            Txn::Delete(node) => client.fire(node, Event::Deleted),
            Txn::Change(node) => client.fire(node, Event::Changed),
            Txn::Close(session) => {
                for node in before.nodes.iter().filter(|&node| ensemble.owner(node) == session) {
                    client.fire(node, Event::Deleted);
                }
                if session == client.session {
                    client.cut(Link::Closed);
                }
            }
            Txn::MakeParent | Txn::DeleteParent => {}
        }
    }

    /// The client sets its watches again: the server answers with what it missed, in any order.
    fn reconnect(&mut self, number: u8, at: u8) {
        let Self { ensemble, clients, .. } = self;
        let client = Arc::make_mut(&mut clients[usize::from(number)]);
        let mut changed = Set::default();
        for &txn in &ensemble.log[usize::from(client.at)..usize::from(at)] {
            ensemble.apply(txn, &mut client.view);
            if let Txn::Change(node) = txn {
                changed.insert(node);
            }
        }
        client.set_again.iter().for_each(|&(node, _)| changed.insert(node));
        client.at = at;
        client.link = Link::Up;
        client.link_news = true;
        let view = client.view;
        let missed = |&(node, channel): &(Node, Channel)| {
            let event = if view.nodes.contains(node) { Event::Changed } else { Event::Deleted };
            let fires = event == Event::Deleted || changed.contains(node);
            (channel.pending() && fires).then_some((node, event))
        };
        client.set_again = client.channels.iter().filter_map(missed).collect();
    }

    /// What the session owns and nobody claims is handed to the janitor.
    fn sweep(&mut self, number: u8) {
        let client = &self.clients[usize::from(number)];
        let (claimed, jobs) = (client.attempt(), client.jobs);
        let unclaimed: Vec<Node> = self
            .ensemble
            .owned_by(client.session)
            .filter(|&node| Some(node) != claimed && !jobs.contains(node))
            .collect();
        self.note.sight = (!unclaimed.is_empty()).then_some(Sight::Swept);
        let client = self.client(number);
        client.sweep = false;
        for node in unclaimed {
            client.jobs.insert(node);
        }
    }
}
