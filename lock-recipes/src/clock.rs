//! [`Moment`]: a clock that only goes forward and counts suspend, where the system has one.

use std::time::Duration;

/// A moment of `CLOCK_BOOTTIME` on Linux, of [`std::time::Instant`]'s clock elsewhere.
///
/// A suspended machine must find its holds presumed lost when it wakes, and `CLOCK_MONOTONIC` stands
/// still meanwhile. A hypervisor's pause or live migration is not counted by either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Self {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    #[cfg(test)]
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// How long until then; zero once it has passed.
    pub(crate) fn until(self, then: Self) -> Duration {
        Duration::from_nanos(then.0.saturating_sub(self.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
