//! Units of time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const NANOS_PER_MICRO: u64 = 1_000;

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970; 0 before that.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
