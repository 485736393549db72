//! The engine: one contender in one queue.
pub(crate) mod queue;
pub(crate) mod step;
#[cfg(test)]
mod model;
