//! Clocks.

use crate::namespaces::namespace_number;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of the initial time namespace (`PROC_TIME_INIT_INO`, include/linux/proc_ns.h).
const INITIAL_TIME_NAMESPACE: u32 = 0xEFFF_FFFA;

/// Nanoseconds of the kernel's own monotonic clock, which is that of its trace records and of its log.
///
/// In a time namespace `CLOCK_MONOTONIC` of a program has an offset (clock_gettime(2), time_namespaces(7)), which is
/// subtracted: the records of perf_event_open(2) are stamped without it (perf_event_set_clock() in
/// kernel/events/core.c).
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    let own = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    let offset = *OFFSET_NS.get_or_init(monotonic_offset_ns);
    own.checked_add_signed(offset.saturating_neg()).unwrap_or(0)
}

/// Milliseconds since 1970; 0 before that.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Offset that the time namespace of this process adds to the monotonic clock; 0 where there is none. It does not change
/// once a process is in it.
fn monotonic_offset_ns() -> i64 {
    let namespace = namespace_number("self", "time");
    // The offsets are those of the namespace of its children, which may be another one.
    if namespace.is_ok_and(|number| number != INITIAL_TIME_NAMESPACE) {
        let offsets = crate::kernel_file::read_to_string("/proc/self/timens_offsets");
        offsets.ok().and_then(|text| offset_ns(&text)).unwrap_or(0)
    } else {
        0
    }
}

/// `monotonic SECONDS NANOSECONDS`, a line of /proc/PID/timens_offsets.
fn offset_ns(text: &str) -> Option<i64> {
    let mut fields =
        text.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let seconds: i64 = fields.next()?.parse().ok()?;
    let nanos: i64 = fields.next()?.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Milliseconds since boot, with those in suspend.
pub fn boot_time_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_a_time_namespace_are_read() {
        let text = "monotonic        1000         5\nboottime            0         0\n";
        assert_eq!(offset_ns(text), Some(1_000_000_000_005));
        assert_eq!(offset_ns("monotonic -2 500000000\n"), Some(-1_500_000_000));
        assert_eq!((offset_ns("monotonic x 0\n"), offset_ns("")), (None, None));
        assert_eq!(offset_ns("monotonic 9223372036854775807 0\n"), None);
    }

    #[test]
    #[ignore = "run by another test"]
    fn prints_the_clock() {
        println!("monotonic {}", monotonic_ns());
    }

    /// A program in a time namespace counts as the kernel does.
    #[test]
    fn a_time_namespace_does_not_move_the_clock() {
        let before = monotonic_ns();
        let output = std::process::Command::new("unshare")
            .args(["--time", "--monotonic", "5000", "--fork"])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "clock::tests::prints_the_clock"])
            .output();
        let output = match output {
            Ok(output) if output.status.success() => output,
            other => return mw_test::skip(format!("no time namespace: {other:?}")),
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let inside = text.lines().find_map(|line| line.split("monotonic ").nth(1)).unwrap();
        let inside: u64 = inside.trim().parse().unwrap();
        assert!((before..monotonic_ns()).contains(&inside), "{before} {inside}");
    }
}
