//! Bounded waits.

use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How often a condition is looked at.
pub const POLL: Duration = Duration::from_millis(5);

/// Polls `condition` every [`POLL`] until it yields a value, and returns that value.
///
/// Panics at the caller's line when `limit` has passed; a look that does not return counts as well.
#[track_caller]
pub fn eventually<T, F>(
    limit: Duration,
    what: impl Display,
    mut condition: impl FnMut() -> F,
) -> impl Future<Output = T>
where
    F: Future<Output = Option<T>>,
{
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + limit;
        loop {
            let look = timeout_at(deadline, condition()).await;
            let hung = if look.is_err() { ", the last look hung" } else { "" };
            match look {
                Ok(Some(value)) => return value,
                Ok(None) if Instant::now() < deadline => sleep(POLL).await,
                _ => panic!("not within {limit:?}{hung}: {what} ({caller})"),
            }
        }
    }
}

/// Looks at `condition` every [`POLL`] for the whole `span`; panics as soon as it is false.
///
/// For what must *not* happen: the span is real waiting time, so keep it short.
#[track_caller]
pub fn stays<F>(
    span: Duration,
    what: impl Display,
    mut condition: impl FnMut() -> F,
) -> impl Future<Output = ()>
where
    F: Future<Output = bool>,
{
    let caller = Location::caller();
    async move {
        let start = Instant::now();
        while start.elapsed() < span {
            assert!(condition().await, "ended after {:?}: {what} ({caller})", start.elapsed());
            sleep(POLL).await;
        }
    }
}

/// Awaits `future`; panics at the caller's line when it takes longer than `limit`.
#[track_caller]
pub fn within<T>(
    limit: Duration,
    what: impl Display,
    future: impl Future<Output = T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let done = timeout(limit, future).await;
        done.unwrap_or_else(|_| panic!("not within {limit:?}: {what} ({caller})"))
    }
}
