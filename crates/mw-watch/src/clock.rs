//! A clock that never goes back, for differences of time.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Since a moment that stays the same while the machine runs.
pub(crate) fn monotonic() -> Duration {
    since(ClockId::Monotonic)
}

/// The first moment after `now` that is a whole multiple of `interval`.
pub(crate) fn next_multiple(now: Duration, interval: Duration) -> Duration {
    let (now, interval) = (now.as_nanos(), interval.as_nanos().max(1));
    let next = (now / interval + 1).saturating_mul(interval);
    Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds with their fraction.
pub(crate) fn float_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Milliseconds of [`monotonic`].
pub(crate) fn monotonic_ms() -> f64 {
    float_ms(monotonic())
}

/// CPU time of this process.
pub(crate) fn process_time() -> Duration {
    since(ClockId::ProcessCPUTime)
}

/// CPU time that this thread has used since [`mw_sys::thread_time`] was `before`.
pub(crate) fn thread_time_since(before: Duration) -> Duration {
    mw_sys::thread_time().saturating_sub(before)
}

fn since(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
