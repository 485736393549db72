//! The engine: one contender in one queue.
//!
//! [`queue`] orders what a listing shows, [`step`] is the protocol as a pure state machine, and
//! [`driver`] is the task that performs its actions on a session, with [`requests`] and [`watches`].
//! [`acquisition`] is the caller's end. The exhaustive model and the interleaving tests run the same
//! code.

pub(crate) mod acquisition;
mod driver;
pub(crate) mod queue;
mod requests;
mod step;
mod watches;

#[cfg(test)]
mod model;
