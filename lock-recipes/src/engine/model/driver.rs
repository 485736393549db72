//! The driver: it takes one ready input, looks up the evidence, and performs the actions.

use super::super::step::{Action, Event, Evidence, Granted, Input};
use super::client::{
    Channel, Children, Creation, Link, Reading, Ready, Request, Sent, Slot, listed,
};
use super::ensemble::{Node, Set};
use super::moves::Doubt;
use super::world::{Config, Sight, World};
use crate::health::LossReason;

/// What a decision rests on: the nodes that the deciding answer showed.
type Shown = Option<Set>;

impl World {
    pub(super) fn start(&mut self, number: u8) {
        self.client(number).started = true;
        self.step(number, Input::Start, true, None);
    }

    pub(super) fn leave(&mut self, number: u8) {
        self.step(number, Input::Leave, true, None);
    }

    pub(super) fn pass_validity(&mut self, number: u8) {
        self.step(number, Input::Lose(LossReason::ValidityPassed), false, None);
    }

    pub(super) fn doubt(&mut self, number: u8) {
        self.step(number, Input::Doubt, false, None);
    }

    pub(super) fn handle(&mut self, config: &Config, number: u8, input: Ready, doubt: Doubt) {
        let believed = self.alive(&self.clients[usize::from(number)]) || !config.validity_holds;
        let valid = believed && doubt == Doubt::None;
        let stuck = config.stuck_numbers;
        let shown = |children: Children| children.map(|view| view.nodes);
        let client = self.client(number);
        match input {
            Ready::Link => self.handle_link(number, valid),
            Ready::Expired => {
                client.expired = false;
                self.step(number, Input::Lose(LossReason::SessionExpired), valid, None);
            }
            Ready::Enqueued => {
                let created = take(&mut client.created);
                let children = take(&mut client.list_behind);
                let input = Input::Enqueued(created.into(), listed(children, stuck));
                self.step(number, input, valid, shown(children));
            }
            Ready::ParentsMade => {
                take(&mut client.parents);
                self.step(number, Input::ParentsMade, valid, None);
            }
            Ready::Listed => {
                let children = take(&mut client.listed);
                let input = Input::Listed(listed(children, stuck));
                self.step(number, input, valid, shown(children));
            }
            Ready::Ordered => {
                let answer = take(&mut client.ordered);
                let czxids = answer.map(|(nodes, view)| {
                    let czxid = |node| view.nodes.contains(node).then(|| i64::from(node) + 1);
                    nodes.iter().map(|node| (node, czxid(node))).collect()
                });
                let shown = answer.map(|(_, view)| view.nodes);
                self.step(number, Input::Ordered(czxids), valid, shown);
            }
            Ready::Resynced => {
                let found = take(&mut client.resynced);
                self.step(number, Input::Resynced(found), valid, None);
            }
            Ready::Watched(node) => self.handle_watched(number, node, valid),
            Ready::Fired(node) => {
                let Some(&mut Channel::Armed(Some(event))) = client.channel(node) else {
                    unreachable!("{client:?}")
                };
                client.drop_channel(node);
                self.step(number, Input::Fired(node, event), valid, None);
            }
        }
    }

    /// The driver sees the state of the connection, not each of its changes.
    fn handle_link(&mut self, number: u8, valid: bool) {
        let client = self.client(number);
        client.link_news = false;
        // What was asked before the change says nothing any more.
        client.resynced = Slot::Idle;
        client.requests.retain(|request| !matches!(request, Request::Resync(_)));
        let up = client.link == Link::Up;
        let was_up = std::mem::replace(&mut client.told_up, up);
        if was_up || !up {
            self.step(number, Input::LinkDown, valid, None);
        }
        if up {
            self.step(number, Input::LinkUp, valid, None);
        }
    }

    pub(super) fn handle_watched(&mut self, number: u8, node: Node, valid: bool) {
        let client = self.client(number);
        let channel = client.channel(node);
        let Some(&mut Channel::Answered(reading, fired)) = channel else {
            unreachable!("{client:?}")
        };
        if let Reading::Armed { .. } = reading {
            *client.channel(node).unwrap() = Channel::Armed(fired);
        } else {
            client.drop_channel(node);
        }
        self.step(number, Input::Watched(node, reading.watched(node)), valid, None);
    }

    /// `shown`: the nodes that the answer being handled showed.
    fn step(&mut self, number: u8, input: Input<Node>, valid: bool, shown: Shown) {
        let client = self.client(number);
        let evidence = Evidence {
            own_pending: client.own_pending(),
            link_unchanged: !client.link_news,
            valid,
        };
        for action in client.step.step(input, evidence) {
            self.perform(number, action, shown);
        }
    }

    fn perform(&mut self, number: u8, action: Action<Node>, shown: Shown) {
        let end = self.ensemble.end();
        let client = self.client(number);
        match action {
            Action::Enqueue => {
                debug_assert!(!client.create_pending(), "the fate of the create before is known");
                client.latest = None;
                client.created = client.send(
                    Request::Create { sent: Sent::ToServer, given_up: false },
                    Creation::Unknown,
                );
                client.list_behind = client.send(Request::ListBehind, None);
            }
            Action::MakeParents => {
                client.parents = client.send(Request::MakeParents(Sent::ToServer), ());
            }
            Action::List => client.listed = client.send(Request::List, None),
            Action::Order(nodes) => {
                let mut set = Set::default();
                for node in nodes {
                    set.insert(node);
                }
                client.ordered = client.send(Request::Order(set), None);
            }
            Action::Watch(node) => client.watch(node),
            Action::Unwatch(node) => client.drop_channel(node),
            Action::Resync => {
                client.requests.retain(|request| !matches!(request, Request::Resync(_)));
                client.resynced = if client.link == Link::Up {
                    client.requests.push(Request::Resync(end));
                    Slot::Waiting
                } else {
                    debug_assert!(client.link_news, "the change that follows asks again");
                    Slot::Idle
                };
            }
            // A created node is queued before it is watched, an adopted one after.
            Action::Queued(node, _) if client.channel(node).is_some() => {
                self.note.sight = Some(Sight::Adopted);
            }
            Action::Queued(..) | Action::Behind(_) | Action::End => {}
            Action::Grant(how) => self.grant(number, how, shown),
            Action::Verified => self.note.sight = Some(Sight::Verified),
            Action::Lost(reason) => self.note.sight = Some(Sight::Lost(reason)),
            Action::Delete(node) => client.jobs.insert(node),
            Action::Abandon => client.sweep = true,
            Action::Exhausted(_) => unreachable!("all contenders are of one dialect"),
        }
    }

    fn grant(&mut self, number: u8, how: Granted, shown: Shown) {
        let client = &self.clients[usize::from(number)];
        let own = *client.step.own().unwrap();
        // A list is a statement about its own prefix; what was watched since may contradict it.
        let nodes = match how {
            Granted::ByEvent => client.view.nodes,
            Granted::ByList => shown.unwrap_or_default(),
        };
        let told_gone = client
            .channels
            .iter()
            .any(|&(node, channel)| node == own && channel == Channel::Armed(Some(Event::Deleted)));
        let owned = self.ensemble.owner(own) == client.session;
        let by_hand = self.ensemble.by_hand.contains(own);
        self.note.sight = Some(Sight::Granted(how));
        self.note.groundless = nodes.lowest() != Some(own) || told_gone || !owned;
        self.note.out_of_order = self.highest.is_some_and(|highest| own <= highest) && !by_hand;
        self.highest = self.highest.max(Some(own));
    }
}

fn take<T: Copy>(slot: &mut Slot<T>) -> T {
    let answer = slot.ready();
    *slot = Slot::Idle;
    answer.unwrap()
}
