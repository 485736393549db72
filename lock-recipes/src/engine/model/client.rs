//! A client: its session, its one connection, and the driver's one-shot channels.

use super::super::queue::Seat;
use super::super::step::{Created, Event, Listed, Step, Watched};
use super::ensemble::{Node, Session, Set, View, token};

/// The channel of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Slot<T> {
    Idle,
    Waiting,
    Ready(T),
}

impl<T: Copy> Slot<T> {
    pub(super) fn ready(self) -> Option<T> {
        if let Self::Ready(answer) = self { Some(answer) } else { None }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    fn give_up(&mut self, answer: T) {
        if matches!(self, Self::Waiting) {
            *self = Self::Ready(answer);
        }
    }
}

/// The answer to a create, as small as [`Created`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Creation {
    Node(Node),
    NoParent,
    Unknown,
}

impl From<Creation> for Created<Node> {
    fn from(creation: Creation) -> Self {
        match creation {
            Creation::Node(node) => Self::Node(node, token(node)),
            Creation::NoParent => Self::NoParent,
            Creation::Unknown => Self::Unknown,
        }
    }
}

/// The answer to a list: `None` if there is none.
pub(super) type Children = Option<View>;

pub(super) fn listed(children: Children, stuck_numbers: bool) -> Listed<Node> {
    let seat = |node| Seat {
        node,
        sequence: if stuck_numbers { i64::from(i32::MAX) } else { i64::from(node) },
        plain: true,
        own_dialect: true,
    };
    match children {
        Some(view) if view.parent => Listed::Seats(view.nodes.iter().map(seat).collect()),
        Some(_) => Listed::NoParent,
        None => Listed::Unknown,
    }
}

/// A request of the session, in the order sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    /// `given_up`: nobody waits for the answer any more.
    Create {
        sent: Sent,
        given_up: bool,
    },
    /// The list behind a create.
    ListBehind,
    List,
    Order(Set),
    Watch(Node),
    /// A `sync`, and what the session owns: answered from a prefix no older than this.
    Resync(u8),
    MakeParents(Sent),
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sent {
    ToServer,
    /// Its own place in the log is the answer.
    Committed(Node),
    /// Answered from this prefix on, by "done" or by "no parent".
    Settled(u8),
}

/// The watch of one node, as the driver holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    Asked,
    /// The reading's answer is there, perhaps with an event behind it.
    Answered(Reading, Option<Event>),
    /// The driver has taken the answer.
    Armed(Option<Event>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reading {
    Armed { owned: bool },
    Gone,
    Unknown,
}

impl Reading {
    pub(super) fn watched(self, node: Node) -> Watched {
        match self {
            Self::Armed { owned } => Watched::Armed { token: token(node), owned },
            Self::Gone => Watched::Gone,
            Self::Unknown => Watched::Unknown,
        }
    }
}

impl Channel {
    /// The server has the watch, and it has not fired.
    pub(super) fn pending(self) -> bool {
        matches!(self, Self::Armed(None) | Self::Answered(Reading::Armed { .. }, None))
    }

    fn fire(&mut self, fired: Event) {
        if let Self::Armed(event @ None) | Self::Answered(Reading::Armed { .. }, event @ None) =
            self
        {
            *event = Some(fired);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Link {
    Up,
    Down,
    /// The server closed it: the session is over.
    Closed,
}

/// Something that the driver can take next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ready {
    Link,
    Expired,
    Enqueued,
    ParentsMade,
    Listed,
    Ordered,
    Resynced,
    Watched(Node),
    Fired(Node),
}

#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) step: Step<Node>,
    pub(super) started: bool,
    pub(super) session: Session,
    pub(super) link: Link,
    /// The connection changed, and the contender has not been told.
    pub(super) link_news: bool,
    /// What the contender was told last.
    pub(super) told_up: bool,
    /// The end of the session is known.
    pub(super) expired: bool,
    /// The prefix that its server has applied and told: places in the log, and what they made.
    pub(super) at: u8,
    pub(super) view: View,
    pub(super) requests: Vec<Request>,
    /// Events of the watches that were set again after a reconnect, in no order.
    pub(super) set_again: Vec<(Node, Event)>,
    pub(super) channels: Vec<(Node, Channel)>,
    pub(super) created: Slot<Creation>,
    pub(super) list_behind: Slot<Children>,
    pub(super) parents: Slot<()>,
    pub(super) listed: Slot<Children>,
    pub(super) ordered: Slot<Option<(Set, View)>>,
    pub(super) resynced: Slot<Option<Node>>,
    /// The node of the latest create, once it is executed.
    pub(super) latest: Option<Node>,
    /// What the janitor deletes.
    pub(super) jobs: Set,
    /// A create was abandoned: the sweep looks for its node.
    pub(super) sweep: bool,
}

impl Client {
    pub(super) fn new(session: Session, step: Step<Node>, view: View) -> Self {
        Self {
            step,
            started: false,
            session,
            link: Link::Up,
            link_news: false,
            told_up: true,
            expired: false,
            at: 0,
            view,
            requests: Vec::new(),
            set_again: Vec::new(),
            channels: Vec::new(),
            created: Slot::Idle,
            list_behind: Slot::Idle,
            parents: Slot::Idle,
            listed: Slot::Idle,
            ordered: Slot::Idle,
            resynced: Slot::Idle,
            latest: None,
            jobs: Set::default(),
            sweep: false,
        }
    }

    pub(super) fn attempting(&self) -> bool {
        self.started && !self.step.ended()
    }

    /// The node that belongs to the attempt or the guard.
    pub(super) fn attempt(&self) -> Option<Node> {
        if self.attempting() { self.step.own().copied().or(self.latest) } else { None }
    }

    /// A create that may still be executed.
    pub(super) fn create_pending(&self) -> bool {
        let pending =
            |request: &Request| matches!(request, Request::Create { sent: Sent::ToServer, .. });
        self.requests.iter().any(pending)
    }

    /// The create of this node was sent over this connection, and is not answered.
    pub(super) fn awaits(&self, node: Node) -> bool {
        let create = |request: &Request| matches!(request, Request::Create { sent: Sent::Committed(own), .. } if *own == node);
        self.requests.iter().any(create)
    }

    pub(super) fn ready(&self, ready: &mut Vec<Ready>) {
        let slots = [
            (self.link_news, Ready::Link),
            (self.expired, Ready::Expired),
            (self.created.ready().is_some() && self.list_behind.ready().is_some(), Ready::Enqueued),
            (self.parents.ready().is_some(), Ready::ParentsMade),
            (self.listed.ready().is_some(), Ready::Listed),
            (self.ordered.ready().is_some(), Ready::Ordered),
            (self.resynced.ready().is_some(), Ready::Resynced),
        ];
        ready.extend(slots.into_iter().filter_map(|(there, slot)| there.then_some(slot)));
        ready.extend(self.channels.iter().filter_map(|&(node, channel)| match channel {
            Channel::Answered(..) => Some(Ready::Watched(node)),
            Channel::Armed(Some(_)) => Some(Ready::Fired(node)),
            Channel::Asked | Channel::Armed(None) => None,
        }));
    }

    /// Nothing is asked, nothing is waiting to be handled, and the connection is up: only a watch
    /// can move this client.
    pub(super) fn quiet(&self) -> bool {
        self.link == Link::Up
            && !self.link_news
            && !self.expired
            && self.requests.is_empty()
            && self.set_again.is_empty()
            && self.channels.iter().all(|(_, channel)| *channel == Channel::Armed(None))
            && self.created.is_idle()
            && self.list_behind.is_idle()
            && self.parents.is_idle()
            && self.listed.is_idle()
            && self.ordered.is_idle()
            && self.resynced.is_idle()
    }

    pub(super) fn channel(&mut self, node: Node) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|(other, _)| *other == node).map(|(_, channel)| channel)
    }

    pub(super) fn watch(&mut self, node: Node) {
        self.drop_channel(node);
        let channel = match self.send(Request::Watch(node), Reading::Unknown) {
            Slot::Ready(refused) => Channel::Answered(refused, None),
            _ => Channel::Asked,
        };
        let place = self.channels.partition_point(|&(other, _)| other < node);
        self.channels.insert(place, (node, channel));
    }

    pub(super) fn answer_watch(&mut self, node: Node, reading: Reading) {
        *self.channel(node).unwrap() = Channel::Answered(reading, None);
    }

    /// Nothing is handed to the client library while the connection is down.
    pub(super) fn send<T>(&mut self, request: Request, refused: T) -> Slot<T> {
        if self.link == Link::Up {
            self.requests.push(request);
            Slot::Waiting
        } else {
            Slot::Ready(refused)
        }
    }

    pub(super) fn drop_channel(&mut self, node: Node) {
        self.channels.retain(|&(other, _)| other != node);
        self.set_again.retain(|&(other, _)| other != node);
        self.requests.retain(|request| *request != Request::Watch(node));
    }

    /// The own node's watch has said nothing that waits to be handled.
    pub(super) fn own_pending(&self) -> bool {
        let own = self.step.own();
        !self
            .channels
            .iter()
            .any(|(node, channel)| Some(node) == own && matches!(channel, Channel::Armed(Some(_))))
    }

    pub(super) fn fire(&mut self, node: Node, event: Event) {
        if let Some(channel) = self.channel(node) {
            channel.fire(event);
        }
    }

    /// The driver waits no longer for an answer.
    pub(super) fn give_up(&mut self, place: usize) {
        match self.requests[place] {
            Request::Create { sent, .. } => {
                // It is on its way all the same.
                self.requests[place] = Request::Create { sent, given_up: true };
                self.created.give_up(Creation::Unknown);
                return;
            }
            Request::ListBehind => self.list_behind.give_up(None),
            Request::List => self.listed.give_up(None),
            Request::Order(_) => self.ordered.give_up(None),
            Request::Watch(node) => self.answer_watch(node, Reading::Unknown),
            // Asked again by the driver itself.
            Request::Resync(_) | Request::MakeParents(_) => return,
        }
        self.requests.remove(place);
    }

    /// The connection is gone, and with it every request that the leader has not seen.
    pub(super) fn cut(&mut self, link: Link) {
        self.link = link;
        self.link_news = true;
        self.requests.clear();
        self.created.give_up(Creation::Unknown);
        self.list_behind.give_up(None);
        self.listed.give_up(None);
        self.ordered.give_up(None);
        self.parents.give_up(());
        if matches!(self.resynced, Slot::Waiting) {
            self.resynced = Slot::Idle;
        }
        for (_, channel) in &mut self.channels {
            if *channel == Channel::Asked {
                *channel = Channel::Answered(Reading::Unknown, None);
            }
        }
    }

    /// Forgets whatever no longer moves anything once the contender has ended.
    pub(super) fn settle(&mut self) {
        let mut rest = Self::new(self.session, self.step.clone(), self.view);
        rest.started = true;
        rest.at = self.at;
        rest.jobs = self.jobs;
        rest.sweep = self.sweep;
        rest.latest = self.latest;
        if self.create_pending() {
            rest.requests.push(Request::Create { sent: Sent::ToServer, given_up: true });
        } else {
            rest.latest = None;
        }
        *self = rest;
    }
}
