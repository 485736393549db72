//! The order of the lines. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use lock_recipes::FencingToken;
use lock_recipes::observe::ObservedLock;

use crate::row::{self, Held, Now, State};
use crate::text::Charset;

/// A column of the table of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    State,
    Path,
    Kind,
    Holder,
    Held,
    Queue,
    Wait,
    Token,
}

impl Column {
    /// In the order in which `s` goes through them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Wait,
        Self::Queue,
        Self::Held,
        Self::State,
        Self::Path,
        Self::Kind,
        Self::Holder,
        Self::Token,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::State => "STATE",
            Self::Path => "PATH",
            Self::Kind => "KIND",
            Self::Holder => "HOLDER",
            Self::Held => "HELD",
            Self::Queue => "QUEUE",
            Self::Wait => "WAIT",
            Self::Token => "TOKEN",
        }
    }

    pub(crate) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&column| column == self).unwrap_or(0);
        Self::ALL.into_iter().cycle().nth(at + 1).unwrap_or(self)
    }

    /// Numbers begin with the largest: that is what one looks for.
    const fn is_number(self) -> bool {
        matches!(self, Self::Held | Self::Queue | Self::Wait | Self::Token)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: Column,
    pub(crate) reversed: bool,
}

impl Default for Sort {
    /// What waits longest comes first.
    fn default() -> Self {
        Self { column: Column::Wait, reversed: false }
    }
}

/// What a lock is sorted by: computed once, compared often.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    State(State),
    Text(String),
    Time(Option<Duration>),
    Number(i64),
}

impl Sort {
    /// Whether the column goes down from its largest.
    pub(crate) fn descends(self) -> bool {
        self.column.is_number() != self.reversed
    }

    fn key(self, lock: &ObservedLock, now: Now) -> Key {
        match self.column {
            Column::State => Key::State(State::of(lock)),
            Column::Path => Key::Text(lock.path.clone()),
            Column::Kind => Key::Text(row::kind(lock)),
            Column::Holder => Key::Text(row::holder(lock, Charset::Unicode)),
            Column::Held => Key::Time(row::held(lock, now).map(|held| match held {
                Held::Exactly(time) | Held::AtMost(time) => time,
            })),
            Column::Queue => Key::Number(i64::try_from(lock.waiters.len()).unwrap_or(i64::MAX)),
            // To stand by is no distress.
            Column::Wait if State::of(lock) == State::Lead => Key::Time(None),
            Column::Wait => Key::Time(row::longest_wait(lock, now)),
            Column::Token => Key::Number(row::token(lock).map_or(0, FencingToken::as_i64)),
        }
    }

    /// The paths of these locks in order; those that the column does not tell apart by state and
    /// path.
    pub(crate) fn order<'a>(
        self,
        locks: impl Iterator<Item = &'a ObservedLock>,
        now: Now,
    ) -> Vec<String> {
        let mut keyed: Vec<_> =
            locks.map(|lock| (self.key(lock, now), State::of(lock), lock)).collect();
        let descends = self.descends();
        keyed.sort_by(|(a, a_state, a_lock), (b, b_state, b_lock)| {
            let first = if descends { b.cmp(a) } else { a.cmp(b) };
            let then = || a_state.cmp(b_state).then_with(|| a_lock.path.cmp(&b_lock.path));
            if first == Ordering::Equal { then() } else { first }
        });
        keyed.into_iter().map(|(_, _, lock)| lock.path.clone()).collect()
    }
}
