//! [`Hold`]: what a guard and the task behind it share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Moment;
use crate::error::Lost;
use crate::health::{HoldState, LossPolicy, LossReason, Validity};
use crate::node::ContenderName;
use crate::path::LockPath;
use crate::session::Session;
use crate::token::FencingToken;

/// One granted acquisition. It holds its session weakly: no guard keeps a session alive.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) path: LockPath,
    pub(crate) node: ContenderName,
    pub(crate) token: FencingToken,
    pub(crate) session_id: i64,
    session: Weak<Session>,
    policy: LossPolicy,
    validity: Arc<Validity>,
    /// The lapses of the validity up to the grant, or up to the last verification.
    lapses: AtomicU64,
    state: watch::Sender<HoldState>,
}

impl Hold {
    pub(crate) fn new(
        session: &Arc<Session>,
        path: LockPath,
        node: ContenderName,
        token: FencingToken,
        policy: LossPolicy,
    ) -> Self {
        // If it has passed since the step looked, the first look at the hold tells.
        let lapses = session.validity.at(Moment::now()).map_or(u64::MAX, |now| now.lapses);
        Self {
            path,
            node,
            token,
            session_id: session.id,
            session: Arc::downgrade(session),
            policy,
            validity: Arc::clone(&session.validity),
            lapses: AtomicU64::new(lapses),
            state: watch::Sender::new(HoldState::Held),
        }
    }

    /// Learns a state. What is lost stays lost.
    pub(crate) fn learn(&self, next: HoldState) {
        self.state.send_if_modified(|state| {
            let changed = state.then(next) != *state;
            *state = state.then(next);
            changed
        });
    }

    /// The own node has been seen on the current connection.
    pub(crate) fn verified(&self) {
        if let (LossPolicy::Session, Some(presumption)) =
            (self.policy, self.validity.at(Moment::now()))
        {
            self.lapses.store(presumption.lapses, Ordering::Release);
        }
        self.learn(HoldState::Held);
    }

    /// How much presumed validity is left, by the clock as it stands.
    pub(crate) fn remaining(&self) -> Duration {
        if self.known().loss().is_some() {
            return Duration::ZERO;
        }
        self.validity.remaining(self.lapses.load(Ordering::Acquire), Moment::now())
    }

    /// The state, by the clock as it stands: a validity that has passed is noticed here too, by
    /// whoever wakes first after a pause.
    pub(crate) fn state(&self) -> HoldState {
        let known = self.known();
        if known.loss().is_none() && self.remaining().is_zero() {
            self.learn(match self.policy {
                LossPolicy::Presumed => HoldState::Lost(LossReason::ValidityPassed),
                LossPolicy::Session => HoldState::Suspect,
            });
            return self.known();
        }
        known
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state().loss().is_none() && !self.remaining().is_zero()
    }

    /// `Err` once it is lost.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.state().loss().map_or(Ok(()), |reason| Err(self.lost_for(reason)))
    }

    pub(crate) fn lost_for(&self, reason: LossReason) -> Lost {
        Lost { path: self.path.to_string(), reason }
    }

    /// The session, if it lives.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.session.upgrade().filter(|session| session.over().is_none())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<HoldState> {
        self.state.subscribe()
    }

    pub(crate) fn policy(&self) -> LossPolicy {
        self.policy
    }

    fn known(&self) -> HoldState {
        *self.state.borrow()
    }
}
