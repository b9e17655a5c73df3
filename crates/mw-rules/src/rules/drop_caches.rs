//! # drop-caches
//!
//! Something makes the kernel drop its caches again and again.
//!
//! ## What it finds
//! Writes to `vm.drop_caches`, which the kernel counts in `drop_pagecache` and `drop_slab` of /proc/vmstat: those
//! within the time that was observed (10 ms for `check` on the running machine, a second for a capture), or at least
//! 24 since boot and 6 a day on average.
//!
//! The counters do not say when. A daily job is not found, nor a job that began long after boot until its writes are 6
//! a day on average: for an hourly job that is a quarter of the uptime.
//!
//! ## Why it hurts
//! Dropped page cache has to be read again from disk, by the services that are in use at the time, and dropped
//! dentries and inodes as well. The write itself walks all inodes of all file systems. It frees nothing that the
//! kernel would not free by itself: clean cache is available memory.
//!
//! ## What it looks like
//! Reads from disk and latency rise at regular times, while `free` shows much free memory and little cache. There is
//! a job such as `sync; echo 3 > /proc/sys/vm/drop_caches`, often as a workaround for an alarm on free memory.
//! The kernel log has a line for it with the name of the task, `sh (4711): drop_caches: 3`, unless somebody has
//! written 4.
//!
//! ## Threshold
//! A write while it was observed is a warning. The number since boot is a note, because it does not say when: an
//! administrator who dropped them some times is below 24, and a benchmark that was run once falls below 6 a day some
//! days later. Writes to `vm.compact_memory` are another counter and do not count.
//!
//! ## How to fix it
//! Find the job and remove it: the kernel log names the task, and `grep -rs drop_caches /etc/cron* /etc/systemd
//! /var/spool/cron` most jobs. An alarm on memory should go by MemAvailable instead of MemFree. If cached dentries take
//! too much, see slab-bloat.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches; fs/drop_caches.c.

use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Step, Window, format_duration_ms,
};
use mw_proc::vmstat::{Counter, Vmstat};

const COUNTERS: [Counter; 2] = [Counter::DropPagecache, Counter::DropSlab];

const DAY_S: f64 = 86_400.0;

/// Fewer since boot are no job that recurs.
const MIN_DROPS: u64 = 24;

const MIN_PER_DAY: f64 = 6.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let now = window.now.sample.vmstat.required()?;
    let since_boot = drops(now)?;
    if let Some((count, span_ms)) = observed(window, now) {
        let times = if count == 1 { "time" } else { "times" };
        let headline = format!(
            "the kernel's caches were dropped {count} {times} within {}",
            format_duration_ms(span_ms)
        );
        return Ok(vec![finding(Severity::Warning, headline, now)]);
    }
    let uptime_s = window.now.origin.uptime_s.unwrap_or(f64::INFINITY);
    if since_boot < MIN_DROPS || (since_boot as f64) < MIN_PER_DAY * uptime_s / DAY_S {
        return Ok(Vec::new());
    }
    let headline = format!(
        "the kernel's caches were dropped {since_boot} times in the {} since boot",
        days_or_less(uptime_s)
    );
    Ok(vec![finding(Severity::Note, headline, now)])
}

fn days_or_less(seconds: f64) -> String {
    let days = (seconds / DAY_S).round();
    if days < 2.0 { format_duration_ms(seconds * 1000.0) } else { format!("{days} days") }
}

/// Drops between the oldest sample and the latest, and the time between them.
fn observed(window: &Window, now: &Vmstat) -> Option<(u64, f64)> {
    let before = drops(window.earlier.first()?.vmstat.value()?).ok()?;
    let count = drops(now).ok()?.checked_sub(before).filter(|count| *count > 0)?;
    Some((count, window.span_ms()?))
}

/// Writes to the setting: one that drops both counts in both.
fn drops(vmstat: &Vmstat) -> Result<u64, Missing> {
    let counts = COUNTERS.into_iter().filter_map(|counter| vmstat.get(counter));
    counts.max().ok_or_else(|| {
        Missing::absent("/proc/vmstat drop_pagecache", "this kernel does not count it")
    })
}

fn finding(severity: Severity, headline: String, now: &Vmstat) -> Finding {
    let mut finding = Finding::new(severity, Area::PageCache, headline)
        .with_impact("What was dropped has to be read from disk again while services wait for it.")
        .with_remedy(Remedy::named(
            "find the job that writes to vm.drop_caches, and remove it",
            vec![
                Step::manual("dmesg | grep drop_caches:"),
                Step::manual("grep -rs drop_caches /etc/cron* /etc/systemd /var/spool/cron"),
            ],
        ));
    for counter in COUNTERS {
        if let Some(count) = now.get(counter) {
            let what = format!("{} since boot", counter.name());
            finding = finding.with_evidence(what, Quantity::Count(count), "/proc/vmstat");
        }
    }
    finding
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Reading, Sample, Snapshot};

    fn sample(at_ms: f64, pagecache: u64, slab: u64) -> Sample {
        let mut vmstat = Vmstat::default();
        vmstat.set(Counter::DropPagecache, Some(pagecache));
        vmstat.set(Counter::DropSlab, Some(slab));
        Sample { at_ms, vmstat: Reading::Value(vmstat), ..Sample::default() }
    }

    fn found(before: (u64, u64), now: (u64, u64), hours: f64) -> Option<(Severity, String)> {
        let mut snapshot = Snapshot { sample: sample(1000.0, now.0, now.1), ..Snapshot::default() };
        snapshot.origin.uptime_s = Some(hours * 3600.0);
        let window = Window { earlier: vec![sample(0.0, before.0, before.1)], now: snapshot };
        hazard(&window).unwrap().pop().map(|finding| (finding.severity, finding.headline))
    }

    #[test]
    fn a_drop_that_was_observed_is_a_warning() {
        let text = "the kernel's caches were dropped 1 time within 1.0 s".to_owned();
        assert_eq!(found((0, 0), (1, 1), 1.0), Some((Severity::Warning, text.clone())));
        assert_eq!(found((0, 5), (0, 6), 1.0), Some((Severity::Warning, text)));
        assert_eq!(found((9, 9), (3, 3), 1.0), None, "of another boot");
    }

    #[test]
    fn many_since_boot_are_a_note() {
        assert_eq!(found((23, 23), (23, 23), 1.0), None, "an administrator");
        assert_eq!(found((24, 24), (24, 24), 97.0), None, "less than 6 a day");
        let (severity, headline) = found((8, 144), (8, 144), 24.0).unwrap();
        assert_eq!(severity, Severity::Note);
        assert!(headline.contains("144 times in the 24 h 0 min since boot"), "{headline}");
    }

    #[test]
    fn a_long_uptime_is_in_days() {
        assert_eq!(days_or_less(7200.0), "2 h 0 min");
        assert_eq!(days_or_less(12.4 * DAY_S), "12 days");
    }

    #[test]
    fn without_the_uptime_the_number_says_nothing() {
        let mut snapshot = Snapshot { sample: sample(0.0, 500, 500), ..Snapshot::default() };
        snapshot.origin.uptime_s = None;
        assert_eq!(hazard(&Window::new(snapshot)), Ok(Vec::new()));
    }
}
