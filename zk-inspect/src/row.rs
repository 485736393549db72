//! One lock in one line: what tables and screens show of it. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lock_recipes::observe::{Facts, Kind, ObservedContender, ObservedLock};
use lock_recipes::{ContenderName, FencingToken, Role};

use crate::text::{self, Charset};

/// A point in time, by the monotonic clock and by the calendar (since 1970).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    pub(crate) unix: Duration,
}

impl Now {
    pub(crate) fn read() -> Self {
        let unix = jiff::Timestamp::now().as_duration().unsigned_abs();
        Self { at: Instant::now(), unix }
    }

    /// The time that has passed since a moment on the server's calendar; none if it is ahead of ours.
    pub(crate) fn since(&self, unix: Duration) -> Duration {
        self.unix.saturating_sub(unix)
    }
}

/// What state a lock is in, most remarkable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Held, and others wait.
    Busy,
    /// An election with a leader; the others stand by, which is what they are for.
    Lead,
    /// Held by readers only, and nobody waits.
    Read,
    /// Held, and nobody waits.
    Held,
    /// Nobody holds it.
    Free,
}

impl State {
    pub(crate) const ALL: [Self; 5] = [Self::Busy, Self::Lead, Self::Read, Self::Held, Self::Free];

    pub(crate) fn of(lock: &ObservedLock) -> Self {
        if lock.holders.is_empty() && lock.waiters.is_empty() {
            Self::Free
        } else if lock.kind == Kind::Election {
            Self::Lead
        } else if !lock.waiters.is_empty() {
            Self::Busy
        } else if lock.holders.iter().all(|holder| holder.role == Role::Read) {
            Self::Read
        } else {
            Self::Held
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Busy => "BUSY",
            Self::Lead => "LEAD",
            Self::Read => "READ",
            Self::Held => "HELD",
            Self::Free => "FREE",
        }
    }

    /// A sign that tells it without colour and without reading.
    pub(crate) const fn sign(self) -> char {
        match self {
            Self::Busy => '*',
            Self::Lead => '^',
            Self::Read => '&',
            Self::Held => '=',
            Self::Free => '.',
        }
    }
}

/// How long a lock has been held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The hand-over was seen.
    Exactly(Duration),
    /// It was held already when it was first seen: no longer than its holder's node exists.
    AtMost(Duration),
}

impl Held {
    pub(crate) fn of(holder: &ObservedContender, now: Now) -> Option<Self> {
        match holder.granted {
            Some(granted) => Some(Self::Exactly(now.at.saturating_duration_since(granted))),
            None => holder.facts.read().map(|facts| Self::AtMost(now.since(facts.queued_at))),
        }
    }

    pub(crate) fn text(self, charset: Charset) -> String {
        match self {
            Self::Exactly(time) => crate::age::age(time),
            Self::AtMost(time) => crate::age::at_most(time, charset),
        }
    }
}

/// The kind of a lock, with the number of those who share it.
pub(crate) fn kind(lock: &ObservedLock) -> String {
    match (lock.kind, lock.holders.len()) {
        (Kind::Semaphore, held @ 1..) => format!("sem {held}"),
        (Kind::Semaphore, _) => "sem".to_owned(),
        (Kind::RwLock, _) => "rw".to_owned(),
        (kind, _) => kind.as_str().to_owned(),
    }
}

/// Whose layout a lock has.
pub(crate) fn dialect(lock: &ObservedLock) -> &'static str {
    match lock.dialect {
        Some(dialect) => dialect.as_str(),
        None if lock.holders.is_empty() => "unknown",
        None => "mixed",
    }
}

/// A session as it stands everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session(pub(crate) i64);

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

pub(crate) fn session(id: i64) -> String {
    Session(id).to_string()
}

/// What a contender is called: by its data, or by its session.
pub(crate) fn name(contender: &ObservedContender, charset: Charset) -> String {
    match &contender.facts {
        Facts::Read(facts) if !facts.data.is_empty() => text::preview(&facts.data, charset, 200),
        Facts::Read(facts) if facts.session == 0 => "(no session)".to_owned(),
        Facts::Read(facts) => session(facts.session),
        Facts::Denied => "(no permission)".to_owned(),
        _ => "(reading)".to_owned(),
    }
}

/// Who holds a lock.
pub(crate) fn holder(lock: &ObservedLock, charset: Charset) -> String {
    match &*lock.holders {
        [] => "-".to_owned(),
        [holder] => name(holder, charset),
        many => {
            let what = match lock.kind {
                Kind::Semaphore => "permits",
                Kind::RwLock => "readers",
                _ => "holders",
            };
            format!("{} {what}", many.len())
        }
    }
}

/// How long a lock is held by those who hold it longest.
pub(crate) fn held(lock: &ObservedLock, now: Now) -> Option<Held> {
    let held = lock.holders.iter().filter_map(|holder| Held::of(holder, now));
    held.max_by_key(|held| match held {
        Held::Exactly(time) | Held::AtMost(time) => *time,
    })
}

/// How long the one who waits longest has waited.
pub(crate) fn longest_wait(lock: &ObservedLock, now: Now) -> Option<Duration> {
    lock.waiters.iter().filter_map(|waiter| waited(waiter, now)).max()
}

pub(crate) fn waited(contender: &ObservedContender, now: Now) -> Option<Duration> {
    contender.facts.read().map(|facts| now.since(facts.queued_at))
}

/// The token that the lock is held with: of several holders the newest.
pub(crate) fn token(lock: &ObservedLock) -> Option<FencingToken> {
    lock.holders.iter().filter_map(contender_token).max()
}

pub(crate) fn contender_token(contender: &ObservedContender) -> Option<FencingToken> {
    contender.facts.read().and_then(|facts| facts.token)
}

/// The path of a contender's node.
pub(crate) fn node_path(lock: &ObservedLock, node: &str) -> String {
    use lock_recipes::Dialect::{Curator, HBase, Hadoop, Helix, Kafka, Kazoo};
    let role = ContenderName::parse(node).map(|name| name.role());
    let folder = match (lock.kind, lock.dialect, role) {
        // One node is the lock.
        (_, Some(Hadoop | HBase | Kafka | Helix), _) => return lock.path.clone(),
        (Kind::Semaphore, Some(Curator), Some(Role::Exclusive)) => format!("{}/locks", lock.path),
        (Kind::Semaphore, Some(Curator), _) if !lock.path.ends_with("/leases") => {
            format!("{}/leases", lock.path)
        }
        (Kind::Semaphore, Some(Kazoo), Some(_)) => format!("{}-__lock__", lock.path),
        _ => lock.path.clone(),
    };
    format!("{}/{node}", folder.trim_end_matches('/'))
}

/// A dash for what is not known, or not there.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// The token, or a dash.
pub(crate) fn token_text(token: Option<FencingToken>) -> String {
    or_dash(token.map(|token| token.to_string()))
}

/// The session of a contender, or a dash.
pub(crate) fn session_text(contender: &ObservedContender) -> String {
    or_dash(contender.facts.read().map(|facts| session(facts.session)))
}

/// How long a contender holds or waits, or a dash.
pub(crate) fn time_text(
    contender: &ObservedContender,
    holds: bool,
    now: Now,
    charset: Charset,
) -> String {
    or_dash(if holds {
        Held::of(contender, now).map(|held| held.text(charset))
    } else {
        waited(contender, now).map(crate::age::age)
    })
}

/// `12,345`
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The places of a lock's contenders, by their nodes.
pub(crate) struct Places<'a>(HashMap<&'a str, usize>);

impl<'a> Places<'a> {
    pub(crate) fn of(lock: &'a ObservedLock) -> Self {
        Self(
            lock.contenders()
                .zip(0..)
                .map(|(contender, place)| (&*contender.node, place))
                .collect(),
        )
    }

    /// Of those that a contender waits for: `#0`, `#0-3`, `#0,#2`.
    pub(crate) fn behind(&self, waiter: &ObservedContender) -> String {
        let places = waiter.behind.iter().filter_map(|node| self.0.get(&**node).copied());
        let mut places: Vec<usize> = places.collect();
        places.sort_unstable();
        match (places.first(), places.last()) {
            (None, _) | (_, None) => "-".to_owned(),
            (Some(first), Some(last)) if first == last => format!("#{first}"),
            (Some(first), Some(last)) if last - first + 1 == places.len() => {
                format!("#{first}-{last}")
            }
            _ => places.iter().map(|place| format!("#{place}")).collect::<Vec<_>>().join(","),
        }
    }
}
