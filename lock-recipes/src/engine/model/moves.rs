//! Every move that can happen next.

use super::client::{Client, Link, Ready, Request, Sent};
use super::ensemble::{Node, Session, Txn};
use super::reduce::shows;
use super::world::World;

/// One step of the world. The first field is the client, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Start(u8),
    /// The driver takes a ready input. `doubt`: the validity is not presumed just then.
    Handle(u8, Ready, Doubt),
    /// The leader executes the session's oldest write.
    Commit(u8),
    /// The server answers the oldest request, and the answer arrives.
    Answer(u8),
    /// The server applies the next write of the log, and its events arrive.
    Apply(u8),
    /// The event of a watch that was set again arrives.
    SetAgain(u8, Node),
    GiveUp(u8, usize),
    Cut(u8),
    /// To a server that has applied this prefix.
    Reconnect(u8, u8),
    ReconnectAnew(u8, u8),
    Expire(Session),
    /// The client is told that its session has expired.
    TellExpired(u8),
    Delete(u8, Node),
    Sweep(u8),
    DeleteByHand(Node),
    ChangeByHand(Node),
    Leave(u8),
    PassValidity(u8),
    /// The validity has passed, and the hold is looked at again.
    Doubt(u8),
    Reap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    None,
    Spurious,
}

impl World {
    fn enumerate(&self) -> impl Iterator<Item = (u8, &Client)> {
        (0..).zip(self.clients.iter().map(|client| &**client))
    }

    pub(super) fn moves(&self, moves: &mut Vec<Move>) {
        let mut ready = Vec::new();
        for (number, client) in self.enumerate() {
            if client.attempting() {
                self.moves_of_driver(number, client, &mut ready, moves);
                self.moves_of_server(number, client, moves);
            } else if !client.started {
                // Contenders are alike: they start in the order of their numbers.
                let next = number == 0 || self.clients[usize::from(number) - 1].started;
                moves.extend(next.then_some(Move::Start(number)));
            }
            self.moves_of_session(number, client, moves);
        }
        self.moves_by_hand(moves);
    }

    fn moves_of_driver(
        &self,
        number: u8,
        client: &Client,
        ready: &mut Vec<Ready>,
        moves: &mut Vec<Move>,
    ) {
        ready.clear();
        client.ready(ready);
        for &input in &*ready {
            moves.push(Move::Handle(number, input, Doubt::None));
            let matters = !matches!(
                input,
                Ready::Link | Ready::Expired | Ready::ParentsMade | Ready::Resynced
            );
            if matters && self.left.doubts > 0 && !client.step.held() && self.alive(client) {
                moves.push(Move::Handle(number, input, Doubt::Spurious));
            }
        }
        if client.step.held() || self.left.cancels > 0 {
            moves.push(Move::Leave(number));
        }
        if client.step.held() && self.left.passes > 0 {
            moves.push(Move::PassValidity(number));
        }
        if client.step.held() && self.left.doubts > 0 {
            moves.push(Move::Doubt(number));
        }
        if self.left.timeouts > 0 {
            for (place, request) in client.requests.iter().enumerate() {
                let waited_for = match request {
                    Request::Create { given_up, .. } => !given_up,
                    Request::MakeParents(_) | Request::Resync(_) => false,
                    _ => true,
                };
                moves.extend(waited_for.then_some(Move::GiveUp(number, place)));
            }
        }
    }

    fn moves_of_server(&self, number: u8, client: &Client, moves: &mut Vec<Move>) {
        let end = self.ensemble.end();
        match client.link {
            Link::Up => {
                moves
                    .extend(client.set_again.iter().map(|&(node, _)| Move::SetAgain(number, node)));
                if client.set_again.is_empty() {
                    moves.extend(answerable(client).then_some(Move::Answer(number)));
                    moves.extend(self.applicable(client).then_some(Move::Apply(number)));
                }
                if self.left.cuts > 0 {
                    moves.push(Move::Cut(number));
                }
            }
            Link::Down => {
                // What does not show can be applied just as well after the reconnect.
                let log = &self.ensemble.log;
                let differs = |&at: &u8| {
                    at == client.at || shows(client, &self.ensemble, log[usize::from(at) - 1])
                };
                for at in (client.at..=end).filter(differs) {
                    if self.alive(client) {
                        moves.push(Move::Reconnect(number, at));
                    }
                    if self.left.new_sessions > 0 && !client.expired {
                        moves.push(Move::ReconnectAnew(number, at));
                    }
                }
            }
            Link::Closed => {}
        }
        if client.link == Link::Down && !self.alive(client) && !client.expired {
            moves.push(Move::TellExpired(number));
        }
    }

    /// The answers of one session come in the order of its requests: its create is not applied
    /// before the requests ahead of it are answered.
    fn applicable(&self, client: &Client) -> bool {
        match self.ensemble.log.get(usize::from(client.at)) {
            None => false,
            Some(&Txn::Create(node)) if client.awaits(node) => {
                matches!(client.requests.first(), Some(Request::Create { .. }))
            }
            Some(_) => true,
        }
    }

    /// What the session does while its contender waits, and after it has ended.
    fn moves_of_session(&self, number: u8, client: &Client, moves: &mut Vec<Move>) {
        if !self.alive(client) {
            return;
        }
        let unsent = |request: &Request| {
            matches!(
                request,
                Request::Create { sent: Sent::ToServer, .. } | Request::MakeParents(Sent::ToServer)
            )
        };
        if client.link == Link::Up && client.requests.iter().any(unsent) {
            moves.push(Move::Commit(number));
        }
        moves.extend(client.jobs.iter().map(|node| Move::Delete(number, node)));
        if client.sweep && !client.create_pending() {
            moves.push(Move::Sweep(number));
        }
        let matters = client.attempting()
            || client.create_pending()
            || self.ensemble.owned_by(client.session).next().is_some();
        if self.left.expiries > 0 && matters {
            moves.push(Move::Expire(client.session));
        }
        if self.left.cuts > 0 && client.step.ended() && client.create_pending() {
            moves.push(Move::Cut(number));
        }
    }

    fn moves_by_hand(&self, moves: &mut Vec<Move>) {
        // A session without a client ends by itself, sooner or later.
        let attended = |session| self.clients.iter().any(|client| client.session == session);
        let orphans = self.ensemble.sessions.iter().filter(|&session| !attended(session));
        moves.extend(orphans.map(Move::Expire));
        for node in self.ensemble.view.nodes.iter() {
            moves.extend((self.left.deletions > 0).then_some(Move::DeleteByHand(node)));
            // Only a watch can tell that the data changed.
            let watched =
                self.clients.iter().any(|client| client.channels.iter().any(|at| at.0 == node));
            moves.extend((self.left.changes > 0 && watched).then_some(Move::ChangeByHand(node)));
        }
        let reapable = self.ensemble.view.parent && self.ensemble.view.nodes.is_empty();
        moves.extend((self.left.reaps > 0 && reapable).then_some(Move::Reap));
    }
}

/// The oldest request is a read, or a write whose outcome this prefix contains.
fn answerable(client: &Client) -> bool {
    match client.requests.first() {
        None => false,
        Some(&(Request::Create { sent, .. } | Request::MakeParents(sent))) => {
            matches!(sent, Sent::Settled(at) if at <= client.at)
        }
        Some(&Request::Resync(at)) => at <= client.at,
        Some(_) => true,
    }
}
