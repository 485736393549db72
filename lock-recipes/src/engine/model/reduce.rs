//! What keeps the number of states small, each sound by the reason given with it.

use std::sync::Arc;

use super::client::{Client, Link, Request, Sent};
use super::ensemble::{CLIENTS, Ensemble, Node, Session, Set, Txn};
use super::world::World;

impl World {
    /// Contenders are alike: they are numbered in the order of their first nodes. (The moves of a
    /// path name them by the number that they have at that moment.)
    pub(super) fn number_next(&mut self, number: u8) {
        let next = self.numbered;
        self.numbered += 1;
        if next == number {
            return;
        }
        self.clients.swap(usize::from(next), usize::from(number));
        let renamed = |session: Session| match session % CLIENTS {
            client if client == next => session - next + number,
            client if client == number => session - number + next,
            _ => session,
        };
        self.ensemble.rename_sessions(renamed);
        for client in &mut self.clients {
            let session = renamed(client.session);
            if session != client.session {
                Arc::make_mut(client).session = session;
            }
        }
    }

    /// Brings states that no contender can tell apart to one form.
    pub(super) fn normalise(&mut self) {
        let Self { ensemble, clients, .. } = self;
        // A session that nobody uses and that owns nothing might as well be over.
        let mut sessions = ensemble.sessions;
        sessions.retain(|session| {
            clients.iter().any(|client| client.session == session)
                || ensemble.owned_by(session).next().is_some()
        });
        ensemble.sessions = sessions;
        for client in clients.iter_mut() {
            let ended = client.step.ended();
            if ended {
                let alive = ensemble.sessions.contains(client.session);
                let client = Arc::make_mut(client);
                client.settle();
                client.jobs.retain(|node| ensemble.live(node));
                if !alive {
                    client.requests.clear();
                    client.sweep = false;
                    client.jobs = Set::default();
                }
                let first = client.session % CLIENTS;
                let owns = |session| ensemble.owned_by(session).next().is_some();
                let idle = client.requests.is_empty() && !client.sweep;
                if idle && !owns(client.session) && !owns(first) {
                    ensemble.sessions.remove(client.session);
                    client.session = first;
                }
            }
            // Once the server has closed the connection, only the driver's choice of the next input
            // says when the end of the session is noticed.
            if client.link == Link::Closed && !client.expired {
                Arc::make_mut(client).expired = true;
            }
            while let Some(&txn) = ensemble.log.get(usize::from(client.at)) {
                if !ended && (!unread(client) || shows(client, ensemble, txn)) {
                    break;
                }
                let client = Arc::make_mut(client);
                client.at += 1;
                ensemble.apply(txn, &mut client.view);
            }
        }
        let applied = clients.iter().map(|client| client.at).min().unwrap_or_default();
        let ended = |session| clients[usize::from(session % CLIENTS)].step.ended();
        ensemble.truncate(applied, ended);
        if applied > 0 {
            for client in clients.iter_mut() {
                rebase(Arc::make_mut(client), applied);
            }
        }
    }
}

/// Nothing reads from the prefix that the client's server has now: the oldest request demands a
/// later one, or there is none, and only a watch can lead to the next.
fn unread(client: &Client) -> bool {
    match client.requests.first() {
        Some(&(Request::Create { sent, .. } | Request::MakeParents(sent))) => {
            !matches!(sent, Sent::Settled(at) if at <= client.at)
        }
        Some(&Request::Resync(at)) => client.at < at,
        Some(_) => false,
        None => client.quiet(),
    }
}

/// Whether the client's requests, its watches, or its own session feel this write.
pub(super) fn shows(client: &Client, ensemble: &Ensemble, txn: Txn) -> bool {
    let watched = |node: Node| client.channels.iter().any(|&(other, _)| other == node);
    match txn {
        Txn::Create(node) => client.awaits(node),
        Txn::MakeParent | Txn::DeleteParent => false,
        Txn::Delete(node) | Txn::Change(node) => watched(node),
        Txn::Close(session) => {
            session == client.session
                || client.channels.iter().any(|&(node, _)| ensemble.owner(node) == session)
        }
    }
}

fn rebase(client: &mut Client, applied: u8) {
    client.at -= applied;
    for request in &mut client.requests {
        if let Request::Create { sent: Sent::Settled(at), .. }
        | Request::MakeParents(Sent::Settled(at))
        | Request::Resync(at) = request
        {
            *at = at.saturating_sub(applied);
        }
    }
}
