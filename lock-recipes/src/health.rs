//! What may be believed of a hold: its states, why it is lost, and for how long it is presumed
//! valid. Pure.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Moment;

/// Why a hold, or a place in a queue, is no longer ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// ZooKeeper ended the session, and with it the node.
    SessionExpired,
    /// The session was closed: by [`Coordinator::close`](crate::Coordinator::close), because its
    /// runtime ended, or because the client gave up.
    SessionClosed,
    /// The node was deleted by somebody else.
    NodeDeleted,
    /// The node belongs to another session: a reconnect was silently given a new one.
    NodeReplaced,
    /// No probe was acknowledged in time, so another client may hold the lock by now.
    /// Only under [`LossPolicy::Presumed`].
    ValidityPassed,
    /// ZooKeeper refused the session's credentials.
    AuthFailed,
    /// It was released.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionExpired => "the ZooKeeper session expired",
            Self::SessionClosed => "the ZooKeeper session was closed",
            Self::NodeDeleted => "its znode was deleted by another client",
            Self::NodeReplaced => "its znode belongs to another session",
            Self::ValidityPassed => "its presumed validity passed without an answer from ZooKeeper",
            Self::AuthFailed => "ZooKeeper refused the credentials",
            Self::Released => "it was released",
        })
    }
}

/// When a hold counts as lost although ZooKeeper has not said so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LossPolicy {
    /// Once the presumed validity has passed, for good: for locks that guard correctness, where
    /// work must stop before another client can start. An outage of a third of the session timeout
    /// is survived.
    #[default]
    Presumed,
    /// When ZooKeeper says so. Past the presumed validity the hold is
    /// [`Suspect`](HoldState::Suspect), and held again once its node has been seen. For locks that
    /// only save work and should ride out a leader election.
    Session,
}

/// What is known of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldState {
    /// Connected, and nothing speaks against it.
    Held,
    /// The connection is lost, or the presumed validity has passed under [`LossPolicy::Session`].
    Suspect,
    /// No longer ours. Final.
    Lost(LossReason),
}

impl HoldState {
    /// The state after `next` is learned: what is lost stays lost.
    pub(crate) fn then(self, next: Self) -> Self {
        match self {
            Self::Lost(_) => self,
            Self::Held | Self::Suspect => next,
        }
    }

    pub(crate) fn loss(self) -> Option<LossReason> {
        match self {
            Self::Lost(reason) => Some(reason),
            Self::Held | Self::Suspect => None,
        }
    }
}

/// Until when a session is presumed to live: half its timeout after the *sending* of the last
/// probe that the leader acknowledged.
#[derive(Debug)]
pub(crate) struct Validity {
    presumption: Mutex<Presumption>,
    timeout: Duration,
}

/// What was presumed at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presumption {
    pub(crate) until: Moment,
    /// How often the validity had passed before it was proven again: a hold compares this with the
    /// number at its grant, so that a gap is seen even by those who slept through it.
    pub(crate) lapses: u64,
}

impl Validity {
    /// Proven by a session that was established by a request sent at `sent`.
    pub(crate) fn new(timeout: Duration, sent: Moment) -> Self {
        let presumption = Presumption { until: sent + timeout / 2, lapses: 0 };
        Self { presumption: Mutex::new(presumption), timeout }
    }

    /// A probe or write that was sent at `sent` has been acknowledged.
    pub(crate) fn prove(&self, sent: Moment, now: Moment) {
        let mut presumption = self.lock();
        if presumption.until <= now {
            presumption.lapses += 1;
        }
        presumption.until = presumption.until.max(sent + self.timeout / 2);
    }

    /// The presumption, if it reaches beyond `now`.
    pub(crate) fn at(&self, now: Moment) -> Option<Presumption> {
        Some(*self.lock()).filter(|presumption| now < presumption.until)
    }

    /// How much is left of the validity that began with `lapses`; zero once it has passed.
    pub(crate) fn remaining(&self, lapses: u64, now: Moment) -> Duration {
        match self.at(now) {
            Some(presumption) if presumption.lapses == lapses => now.until(presumption.until),
            _ => Duration::ZERO,
        }
    }

    /// How often to probe, so that one lost probe does not end the validity.
    pub(crate) fn probe_interval(&self) -> Duration {
        self.timeout / 6
    }

    fn lock(&self) -> MutexGuard<'_, Presumption> {
        self.presumption.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(6);

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn validity_counts_from_the_sending_of_the_last_acknowledged_probe() {
        let validity = Validity::new(T, at(10));
        assert!(validity.at(at(12)).is_some());
        assert!(validity.at(at(13)).is_none());
        validity.prove(at(11), at(12));
        assert_eq!(validity.remaining(0, at(12)), Duration::from_secs(2));
        // An answer that was overtaken takes nothing back.
        validity.prove(at(9), at(12));
        assert_eq!(validity.at(at(12)), Some(Presumption { until: at(14), lapses: 0 }));
        assert_eq!(validity.remaining(0, at(20)), Duration::ZERO);
    }

    #[test]
    fn a_gap_in_the_validity_is_remembered() {
        let validity = Validity::new(T, at(10));
        validity.prove(at(14), at(14));
        assert_eq!(validity.remaining(0, at(15)), Duration::ZERO);
        assert_eq!(validity.remaining(1, at(15)), Duration::from_secs(2));
    }

    #[test]
    fn lost_is_final() {
        let lost = HoldState::Lost(LossReason::NodeDeleted);
        assert_eq!(lost.then(HoldState::Held), lost);
        assert_eq!(lost.then(HoldState::Lost(LossReason::Released)), lost);
        assert_eq!(HoldState::Suspect.then(HoldState::Held), HoldState::Held);
    }
}
