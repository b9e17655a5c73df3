//! Units of time.

use std::time::Duration;

pub(crate) const NANOS_PER_MICRO: u64 = 1_000;

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
