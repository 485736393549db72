//! From the children of a node to the lock they make: kind, roles, order, and who waits behind
//! whom. Pure.

use std::collections::BTreeSet;

use super::lock::{Facts, Kind, ObservedContender, ObservedLock};
use crate::engine::queue::SEQUENCE_LIMIT;
use crate::node::{ContenderName, Dialect, Role};
use crate::token::FencingToken;

/// One contender among the children.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) name: ContenderName,
    pub(super) facts: Facts,
}

impl Seat {
    /// Whether it counts: a name that other things have as well must belong to an ephemeral node.
    pub(super) fn counts(&self) -> bool {
        self.name.is_honoured()
            || match &self.facts {
                Facts::Pending => false,
                Facts::Denied => true,
                Facts::Read(facts) => facts.session != 0,
            }
    }

    fn token(&self) -> Option<FencingToken> {
        self.facts.read().and_then(|facts| facts.token)
    }

    fn session(&self) -> Option<i64> {
        self.facts.read().map(|facts| facts.session)
    }

    fn contender(&self, role: Role, behind: Vec<String>) -> ObservedContender {
        let contender = ObservedContender::new(self.name.as_str(), role, self.facts.clone());
        ObservedContender { behind, ..contender }
    }
}

/// Puts seats in the order in which they hold: by number while all are healthy, otherwise by `czxid`,
/// which is the number's order wherever that can be trusted.
pub(super) fn order(seats: &mut [Seat]) {
    let healthy = seats.iter().all(|seat| (0..SEQUENCE_LIMIT).contains(&seat.name.sequence()));
    // A contender whose token is not known yet came last.
    let token = |seat: &Seat| seat.token().map_or(i64::MAX, FencingToken::as_i64);
    if healthy {
        seats.sort_by_key(|seat| (seat.name.sequence(), token(seat)));
    } else {
        seats.sort_by_key(|seat| (token(seat), seat.name.sequence()));
    }
}

/// A queue in one folder.
pub(super) fn queue(path: &str, mut seats: Vec<Seat>, ignored: Vec<String>) -> ObservedLock {
    order(&mut seats);
    let role = |wanted: Role| seats.iter().any(|seat| seat.name.role() == wanted);
    let kind = if role(Role::Read) || role(Role::Write) {
        Kind::RwLock
    } else if role(Role::Exclusive) {
        Kind::Mutex
    } else if role(Role::Permit) {
        Kind::Semaphore
    } else {
        Kind::Election
    };
    let (holders, waiters) = match kind {
        Kind::RwLock => readers_and_writers(&seats),
        // How many permits there are is known to the clients only.
        Kind::Semaphore => (all_hold(&seats), Vec::new()),
        Kind::Election if seats.iter().all(allows_several_leaders) => {
            (all_hold(&seats), Vec::new())
        }
        Kind::Mutex | Kind::Election => one_by_one(&seats),
    };
    let dialect = dialect_of(&seats);
    ObservedLock { dialect, holders, waiters, ignored, ..ObservedLock::new(path, kind) }
}

/// `ClickHouse` marks its candidates so since any number of them may lead.
fn allows_several_leaders(seat: &Seat) -> bool {
    seat.name.dialect() == Dialect::ClickHouse
        && seat.facts.read().is_some_and(|facts| facts.data.ends_with(b"(multiple leaders Ok)"))
}

fn all_hold(seats: &[Seat]) -> Vec<ObservedContender> {
    seats.iter().map(|seat| seat.contender(seat.name.role(), Vec::new())).collect()
}

fn one_by_one(seats: &[Seat]) -> (Vec<ObservedContender>, Vec<ObservedContender>) {
    let name = |seat: &Seat| seat.name.as_str().to_owned();
    let mut all = seats.iter().enumerate().map(|(index, seat)| {
        let ahead = index.checked_sub(1).and_then(|ahead| seats.get(ahead));
        seat.contender(seat.name.role(), ahead.map(name).into_iter().collect())
    });
    (all.next().into_iter().collect(), all.collect())
}

/// A reader waits for the nearest writer ahead, a writer for the readers just ahead of it, or for
/// the writer there.
fn readers_and_writers(seats: &[Seat]) -> (Vec<ObservedContender>, Vec<ObservedContender>) {
    let (mut holders, mut waiters) = (Vec::new(), Vec::new());
    // The nearest writer ahead, and the readers since.
    let (mut writer, mut readers) = (None::<&Seat>, Vec::<String>::new());
    for (index, seat) in seats.iter().enumerate() {
        let name = seat.name.as_str().to_owned();
        if seat.name.role() == Role::Read {
            // A writer that reads as well, by Curator's hand, has given both nodes one number.
            let own_writer = writer.is_some_and(|writer| {
                index == 1
                    && writer.name.sequence() == seat.name.sequence()
                    && writer.session() == seat.session()
            });
            if let Some(writer) = writer.filter(|_| own_writer) {
                // Whoever comes next waits for both.
                readers.push(writer.name.as_str().to_owned());
            }
            match writer.filter(|_| !own_writer) {
                None => holders.push(seat.contender(Role::Read, Vec::new())),
                Some(writer) => {
                    let behind = vec![writer.name.as_str().to_owned()];
                    waiters.push(seat.contender(Role::Read, behind));
                }
            }
            readers.push(name);
            continue;
        }
        // kazoo writes with the name of its plain lock.
        let behind = match (readers.is_empty(), writer) {
            (false, _) => std::mem::take(&mut readers),
            (true, Some(writer)) => vec![writer.name.as_str().to_owned()],
            (true, None) => Vec::new(),
        };
        let place = if behind.is_empty() { &mut holders } else { &mut waiters };
        place.push(seat.contender(Role::Write, behind));
        writer = Some(seat);
    }
    (holders, waiters)
}

/// The one client all seats belong to.
fn dialect_of(seats: &[Seat]) -> Option<Dialect> {
    let mut dialects = seats.iter().map(|seat| seat.name.dialect());
    let first = dialects.next()?;
    dialects.all(|dialect| dialect == first).then_some(first)
}

/// Curator's semaphore: who has a lease holds, except that whoever is first at the entry may have
/// its lease already and still wait for another one to be returned.
pub(super) fn curator_semaphore(
    path: &str,
    mut entry: Vec<Seat>,
    mut leases: Vec<Seat>,
    ignored: Vec<String>,
) -> ObservedLock {
    order(&mut entry);
    order(&mut leases);
    let asks = entry.first().and_then(|first| {
        let (session, token) = (first.session()?, first.token()?);
        let last = leases.pop_if(|last| {
            last.session() == Some(session) && last.token().is_some_and(|lease| lease > token)
        })?;
        Some((first.name.clone(), last))
    });
    let holders = all_hold(&leases);
    let everybody: Vec<_> = holders.iter().map(|holder| holder.node.clone()).collect();
    let mut waiters = Vec::new();
    let mut ahead = everybody;
    if let Some((_, lease)) = &asks {
        waiters.push(lease.contender(Role::Permit, ahead));
        ahead = vec![lease.name.as_str().to_owned()];
    }
    let at_entry = asks.map(|(name, _)| name);
    for seat in entry.iter().filter(|seat| at_entry.as_ref() != Some(&seat.name)) {
        waiters.push(seat.contender(Role::Permit, ahead));
        ahead = vec![seat.name.as_str().to_owned()];
    }
    let dialect = Some(Dialect::Curator);
    ObservedLock { dialect, holders, waiters, ignored, ..ObservedLock::new(path, Kind::Semaphore) }
}

/// kazoo's semaphore: leases without a number, and a lock beside it at which the others wait.
pub(super) fn kazoo_semaphore(
    path: &str,
    leases: Vec<(String, Facts)>,
    mut entry: Vec<Seat>,
    ignored: Vec<String>,
) -> ObservedLock {
    order(&mut entry);
    let mut holders: Vec<_> = leases
        .into_iter()
        .map(|(node, facts)| ObservedContender::new(node, Role::Permit, facts))
        .collect();
    holders.sort_by_key(|holder| {
        holder.facts.read().and_then(|facts| facts.token).map_or(i64::MAX, FencingToken::as_i64)
    });
    let mut ahead: Vec<_> = holders.iter().map(|holder| holder.node.clone()).collect();
    let waiters = entry.iter().map(|seat| {
        let behind = std::mem::replace(&mut ahead, vec![seat.name.as_str().to_owned()]);
        seat.contender(Role::Permit, behind)
    });
    let waiters = waiters.collect();
    let dialect = Some(Dialect::Kazoo);
    ObservedLock { dialect, holders, waiters, ignored, ..ObservedLock::new(path, Kind::Semaphore) }
}

/// A lock that is one ephemeral node: nobody queues, whoever creates it leads.
pub(super) fn lone_leader(path: &str, node: &str, dialect: Dialect, facts: Facts) -> ObservedLock {
    let holders = vec![ObservedContender::new(node, Role::Candidate, facts)];
    ObservedLock { dialect: Some(dialect), holders, ..ObservedLock::new(path, Kind::Election) }
}

/// A lock that nobody holds, known from before.
pub(super) fn free(
    path: &str,
    kind: Kind,
    dialect: Option<Dialect>,
    ignored: Vec<String>,
) -> ObservedLock {
    ObservedLock { dialect, ignored, ..ObservedLock::new(path, kind) }
}

/// The product that leads with one node of this name, in a folder of that name.
pub(super) fn lone_leader_dialect(folder: &str, name: &str) -> Option<Dialect> {
    let folder = folder.rsplit('/').next().unwrap_or_default();
    match name {
        "ActiveStandbyElectorLock" => Some(Dialect::Hadoop),
        "master" if folder.starts_with("hbase") => Some(Dialect::HBase),
        "controller" => Some(Dialect::Kafka),
        "LEADER" if folder == "CONTROLLER" => Some(Dialect::Helix),
        _ => None,
    }
}

/// The names among `children` that belong to no contender.
pub(super) fn ignored<'a>(
    children: impl ExactSizeIterator<Item = &'a str>,
    seats: &[Seat],
) -> Vec<String> {
    if children.len() == seats.len() {
        return Vec::new();
    }
    let seats: BTreeSet<_> = seats.iter().map(|seat| seat.name.as_str()).collect();
    children.filter(|child| !seats.contains(child)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
