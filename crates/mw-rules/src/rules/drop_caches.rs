//! # drop-caches
//!
//! The page cache is dropped by hand, and programs have to read their files again.
//!
//! ## What it finds
//! As a hazard: writes to `vm.drop_caches`, which the kernel counts in `drop_pagecache` and `drop_slab` of /proc/vmstat:
//! those within the time that was observed (10 ms for `check` on the running machine, a second for a capture), or at
//! least 24 since boot and 6 a day on average. The counters do not say when. A daily job is not found, nor a job that
//! began long after boot until its writes are 6 a day on average: for an hourly job that is a quarter of the uptime.
//!
//! As the cause of a stall: somebody wrote to `vm.drop_caches` shortly before or during it, the page cache became
//! smaller, and the request waited for reads of files. The writer is named by the kernel's log or by the profile.
//!
//! ## Why it hurts
//! The page cache holds what programs use. Everything that was dropped is read again at the speed of the disk, by all
//! programs at once, and dropped dentries and inodes as well. The write itself walks all inodes of all file systems.
//! It frees nothing that the kernel would not free by itself: clean cache is available memory.
//!
//! ## What it looks like
//! Reads from disk and latency rise at regular times, while `free` shows much free memory and little cache. There is
//! a job such as `sync; echo 3 > /proc/sys/vm/drop_caches`, often as a workaround for an alarm on free memory.
//! The kernel log has a line for it with the name of the task, `sh (4711): drop_caches: 3`, unless somebody has
//! written 4.
//!
//! ## How to fix it
//! Find the job and remove it: the kernel log names the task, and `grep -rs drop_caches /etc/cron* /etc/systemd
//! /var/spool/cron` most jobs. An alarm on memory should go by MemAvailable instead of MemFree. Where a program fills
//! the cache with what nobody needs, give it a cgroup limit of its own or run it with `memwright run --direct-io 64k`. If
//! cached dentries take too much, see slab-bloat.
//!
//! ## Threshold
//! A write while it was observed is a warning. The number since boot is a note, because it does not say when: an
//! administrator who dropped them some times is below 24, and a benchmark that was run once falls below 6 a day some
//! days later. Writes to `vm.compact_memory` are another counter and do not count.
//!
//! A cause: at least 4 MiB were dropped within 45 s before the end of the stall, the cache had not recovered when the
//! stall began (90% of it was back, or half of it and tasks no longer waited for disks), and in the 5 s before the drop
//! tasks waited half as much or less for disks (I/O pressure; without it, half as much or less was read).
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches; fs/drop_caches.c.

use crate::cause_score::CauseScore;
use crate::forced_work::{ForcedWork, most, named};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{
    Area, Cause, Finding, Incident, Metric, Missing, PressureKind, PressureMetric, Quantity,
    Remedy, Resource, Role, ServiceProcess, Severity, Step, Table, Window, format_bytes,
    format_count, format_duration_ms,
};
use mw_proc::vmstat::{Counter, Vmstat};
use std::ops::Range;

const COUNTERS: [Counter; 2] = [Counter::DropPagecache, Counter::DropSlab];

const DAY_S: f64 = 86_400.0;

/// Fewer since boot are no job that recurs.
const MIN_DROPS: u64 = 24;

const MIN_PER_DAY: f64 = 6.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let now = window.now.sample.vmstat.required()?;
    let since_boot = writes(now)?;
    if let Some((count, span_ms)) = observed(window, now) {
        let headline = format!(
            "the kernel's caches were dropped {} within {}",
            format_count(count, "time"),
            format_duration_ms(span_ms)
        );
        return Ok(vec![hazard_finding(Severity::Warning, headline, now)]);
    }
    let uptime_s = window.now.origin.uptime_s.unwrap_or(f64::INFINITY);
    if since_boot < MIN_DROPS || (since_boot as f64) < MIN_PER_DAY * uptime_s / DAY_S {
        return Ok(Vec::new());
    }
    let headline = format!(
        "the kernel's caches were dropped {since_boot} times in the {} since boot",
        days_or_less(uptime_s)
    );
    Ok(vec![hazard_finding(Severity::Note, headline, now)])
}

fn days_or_less(seconds: f64) -> String {
    let days = (seconds / DAY_S).round();
    if days < 2.0 { format_duration_ms(seconds * 1000.0) } else { format!("{days} days") }
}

/// Drops between the oldest sample and the latest, and the time between them.
fn observed(window: &Window, now: &Vmstat) -> Option<(u64, f64)> {
    let before = writes(window.earlier.first()?.vmstat.value()?).ok()?;
    let count = writes(now).ok()?.checked_sub(before).filter(|count| *count > 0)?;
    Some((count, window.span_ms()?))
}

/// Writes to the setting: one that drops both counts in both.
fn writes(vmstat: &Vmstat) -> Result<u64, Missing> {
    let counts = COUNTERS.into_iter().filter_map(|counter| vmstat.get(counter));
    counts.max().ok_or_else(|| {
        Missing::absent("/proc/vmstat drop_pagecache", "this kernel does not count it")
    })
}

fn hazard_finding(severity: Severity, headline: String, now: &Vmstat) -> Finding {
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

/// What a request waits for afterwards.
pub(crate) const READS: &[TimeClass] = &[TimeClass::FileRead, TimeClass::DroppingCaches];

const CONFIRMED: u8 = 92;

/// Less is read again within a moment.
const LEAST_BYTES: u64 = 4 << 20;

/// The counter is raised after the cache was dropped, which takes up to so long where it is large.
const DROPPING_MS: u64 = 3000;

/// So much of what was dropped may be back when the stall begins.
const BACK_PERCENT: u64 = 90;

/// And so much where tasks no longer waited for disks: what is used was read.
const BACK_IN_CALM_PERCENT: u64 = 50;

/// Rows before the stall over which they did not wait.
const CALM_BEFORE_MS: u64 = 1000;

/// Rows before the first drop over which waits are compared, at least and at most: what a program read when it
/// started says nothing of what it reads later.
const LEAST_CALM_MS: u64 = 1000;
const MOST_CALM_MS: u64 = 5000;

/// A write to drop_caches as the rows show it.
struct Drop {
    at_unix_ms: u64,
    pages_before: u64,
    pages_after: u64,
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let incident = stall.incident;
    let page_bytes = stall.window.now.origin.page_bytes;
    let drops = drops(&incident.table);
    let counts = |drop: &&Drop| {
        let bytes = drop.pages_before.saturating_sub(drop.pages_after).saturating_mul(page_bytes);
        bytes >= LEAST_BYTES
            && drop.at_unix_ms <= incident.ended_unix_ms
            && !is_back(drop, incident)
    };
    let Some(last) = drops.iter().rev().find(counts) else { return Ok(None) };
    if waits_no_more(&drops, incident) {
        return Ok(None);
    }
    let dropped = last.pages_before.saturating_sub(last.pages_after).saturating_mul(page_bytes);
    let who = writer(incident);
    let by = who.as_ref().map_or_else(|| "a program".to_owned(), crate::oom_words::process);
    let headline = format!("{by} dropped {} of page cache", format_bytes(dropped));
    let times = drops.len() as u64;
    let finding = Finding::new(Severity::Critical, Area::PageCache, headline)
        .with_evidence(
            "page cache before",
            Quantity::Bytes(last.pages_before.saturating_mul(page_bytes)),
            "nr_file_pages",
        )
        .with_evidence(
            "page cache after",
            Quantity::Bytes(last.pages_after.saturating_mul(page_bytes)),
            "nr_file_pages",
        )
        .with_evidence("drop_pagecache within 45 s", Quantity::Count(times), "/proc/vmstat")
        .with_impact("Programs read their files again at the speed of the disk.")
        .with_remedy(Remedy::named(
            "remove the job that writes to drop_caches: the kernel frees cache as it needs memory",
            vec![Step::manual("grep -r drop_caches /etc/cron* /etc/systemd /usr/local")],
        ));
    let finding = match &who {
        Some(who) => {
            let by = Quantity::Text(named(incident, who));
            finding.with_evidence("wrote to drop_caches", by, "kernel log, profile")
        }
        None => finding,
    };
    let Some(request) = stall.request else { return by_pressure(stall, finding) };
    let finding = match request.largest(READS) {
        Some(part) => {
            let reader = Quantity::Text(part.task.label());
            finding.with_evidence("read it again", reader, "critical path")
        }
        None => finding,
    };
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}

/// Tasks that wrote to drop_caches.
pub(crate) fn culprits(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let role = |process: ServiceProcess| Role {
        why: format!("dropped the page cache: {}", named(stall.incident, &process)),
        pid: process.pid,
        task: process.name,
    };
    writer(stall.incident).map(role).into_iter().collect()
}

/// Without a path: tasks waited for I/O after the drop.
fn by_pressure(stall: &StallWindow<'_>, finding: Finding) -> Result<Option<Suspect>, Missing> {
    const LEAST_PERCENT: f64 = 33.0;
    const OF_A_DROP: f64 = 60.0;
    let waited = stall.pressure_percent(Resource::Io);
    let Some(waited) = waited.filter(|percent| *percent >= LEAST_PERCENT) else { return Ok(None) };
    CauseScore::new(stall)
        .event(OF_A_DROP)
        .with_evidence("I/O pressure, some", Quantity::Percent(waited), "/proc/pressure/io")
        .cause(finding)
}

/// The last writer that the kernel's log names, or the one that the profile shows.
pub(crate) fn writer(incident: &Incident) -> Option<ServiceProcess> {
    let logged = incident.cache_drops.iter().rev().find(|drop| drop.value & 1 != 0);
    let logged = logged.map(|drop| drop.writer.process.clone());
    logged.or_else(|| most(incident, ForcedWork::DropCaches).map(|forced| forced.process))
}

/// The drops in the rows of an incident.
fn drops(table: &Table) -> Vec<Drop> {
    let column = |counter| -> Vec<Option<u64>> {
        table.values(&Metric::Vmstat(counter)).map(Iterator::collect).unwrap_or_default()
    };
    let (counts, pages) = (column(Counter::DropPagecache), column(Counter::NrFilePages));
    let times = &table.at_unix_ms;
    let drop = |at: usize| {
        let (before, now) = ((*counts.get(at.checked_sub(1)?)?)?, (*counts.get(at)?)?);
        let unix_ms = *times.get(at)?;
        let near = times
            .iter()
            .zip(&pages)
            .filter(|(time, _)| (unix_ms.saturating_sub(DROPPING_MS)..=unix_ms).contains(*time));
        let levels: Vec<u64> = near.filter_map(|(_, pages)| *pages).collect();
        // The lowest after the highest.
        let (top, pages_before) = levels.iter().enumerate().max_by_key(|(_, pages)| **pages)?;
        let pages_after = levels.get(top..)?.iter().min()?;
        (now > before).then_some(Drop {
            at_unix_ms: unix_ms,
            pages_before: *pages_before,
            pages_after: *pages_after,
        })
    };
    (0..times.len()).filter_map(drop).collect()
}

/// True if the cache was as large again when the stall began.
fn is_back(drop: &Drop, incident: &Incident) -> bool {
    let table = &incident.table;
    if drop.at_unix_ms >= incident.started_unix_ms {
        return false;
    }
    let Some(pages) = table.values(&Metric::Vmstat(Counter::NrFilePages)) else { return false };
    let rows = table.at_unix_ms.iter().zip(pages);
    let until = rows.filter(|(at, _)| **at <= incident.started_unix_ms);
    let Some(level) = until.filter_map(|(_, pages)| pages).last() else { return false };
    let dropped = drop.pages_before.saturating_sub(drop.pages_after);
    let back = level.saturating_sub(drop.pages_after).saturating_mul(100);
    let is_back = |percent| back >= dropped.saturating_mul(percent);
    is_back(BACK_PERCENT) || (is_back(BACK_IN_CALM_PERCENT) && is_calm_before(incident))
}

/// True if tasks waited less for disks just before the stall than in it.
fn is_calm_before(incident: &Incident) -> bool {
    let (start, end) = (incident.started_unix_ms, incident.ended_unix_ms);
    let rate = |span| mean_rate(&incident.table, &IO_WAITS, span);
    let before = rate(start.saturating_sub(CALM_BEFORE_MS)..start);
    before.zip(rate(start..end)).is_some_and(|(before, during)| before * 2.0 < during)
}

const IO_WAITS: Metric =
    Metric::Pressure(Resource::Io, PressureKind::Some, PressureMetric::TotalUs);

/// True if nothing was read from disks after the first drop, or tasks waited for disks before it as they did after it,
/// where that was recorded.
fn waits_no_more(drops: &[Drop], incident: &Incident) -> bool {
    let Some(first) = drops.first() else { return false };
    let after = first.at_unix_ms..incident.ended_unix_ms.max(first.at_unix_ms.saturating_add(1));
    let pages_in = Metric::Vmstat(Counter::Pgpgin);
    if mean_rate(&incident.table, &pages_in, after.clone()) == Some(0.0) {
        return true;
    }
    let calm_until = first.at_unix_ms.saturating_sub(DROPPING_MS);
    let Some(start) = incident.table.at_unix_ms.first() else { return false };
    if calm_until < start.saturating_add(LEAST_CALM_MS) {
        return false;
    }
    let calm = calm_until.saturating_sub(MOST_CALM_MS)..calm_until;
    // What a copy on a fast disk has read is not what others waited for.
    [IO_WAITS, pages_in].iter().find_map(|metric| {
        let rate = |span| mean_rate(&incident.table, metric, span);
        rate(calm.clone()).zip(rate(after.clone())).map(|(calm, after)| calm * 2.0 > after)
    }) == Some(true)
}

/// Mean rate per second of a counter in the rows of a time.
fn mean_rate(table: &Table, metric: &Metric, span: Range<u64>) -> Option<f64> {
    let rates = table.rates_per_s(metric)?;
    let rows = table.at_unix_ms.iter().zip(&rates).filter(|(at, _)| span.contains(*at));
    let rates: Vec<f64> = rows.filter_map(|(_, rate)| *rate).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
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
        let window = Window::since([sample(0.0, before.0, before.1)], snapshot);
        hazard(&window).unwrap().pop().map(|finding| (finding.severity, finding.headline))
    }

    #[test]
    fn a_drop_that_was_observed_is_a_warning() {
        let text = "the kernel's caches were dropped 1 time within 1.0 s".to_owned();
        assert_eq!(found((0, 0), (1, 1), 1.0), Some((Severity::Warning, text.clone())));
        assert_eq!(found((0, 5), (0, 6), 1.0), Some((Severity::Warning, text)));
        assert_eq!(found((9, 9), (3, 3), 1.0), None, "of another boot");
    }

    /// Promise (Findings): Dropped caches are a warning while they are dropped, a note where it recurs, and nothing
    /// after an administrator's few.
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

    /// Rows of a second, with what was read in each, in KiB; the drop is in the row 12.
    fn incident_that_read(per_row: impl Fn(u64) -> u64) -> (Incident, Vec<Drop>) {
        let mut table = mw_model::Table::new(["vmstat.pgpgin"]);
        let mut read = 0;
        for row in 0..20 {
            read += per_row(row);
            table.push(row * 1000, &[read]);
        }
        let drop = Drop { at_unix_ms: 12_000, pages_before: 90_000, pages_after: 10_000 };
        (Incident { table, ended_unix_ms: 20_000, ..Incident::default() }, vec![drop])
    }

    /// The cache is dropped in row 2, and three quarters of it are back in row 10; the stall begins in row 12.
    #[test]
    fn what_is_used_is_back_where_nobody_waits_any_more() {
        let is_back = |waits_before: u64| {
            let mut table =
                mw_model::Table::new(["vmstat.nr_file_pages", "pressure.io.some.total_us"]);
            let mut waited = 0;
            for row in 0..20 {
                waited += if row < 12 { waits_before } else { 900_000 };
                table.push(row * 1000, &[10_000 + 7_500 * row.saturating_sub(2).min(8), waited]);
            }
            let drop = Drop { at_unix_ms: 2000, pages_before: 90_000, pages_after: 10_000 };
            let (started_unix_ms, ended_unix_ms) = (12_000, 20_000);
            is_back(
                &drop,
                &Incident { table, started_unix_ms, ended_unix_ms, ..Incident::default() },
            )
        };
        assert!(is_back(10_000));
        assert!(!is_back(900_000), "it is still being read");
    }

    #[test]
    fn what_a_copy_has_read_is_not_what_others_wait_for() {
        // A copy reads before the drop; tasks wait for disks after it, or all the time.
        let is_as_before = |wait_us: fn(u64) -> u64| {
            let mut table = mw_model::Table::new(["vmstat.pgpgin", "pressure.io.some.total_us"]);
            let (mut read, mut waited) = (0, 0);
            for row in 0..20 {
                read += if row < 12 { 100_000 } else { 300 };
                waited += wait_us(row);
                table.push(row * 1000, &[read, waited]);
            }
            let drop = Drop { at_unix_ms: 12_000, pages_before: 90_000, pages_after: 10_000 };
            let incident = Incident { table, ended_unix_ms: 20_000, ..Incident::default() };
            waits_no_more(&[drop], &incident)
        };
        assert!(!is_as_before(|row| if row < 12 { 90_000 } else { 950_000 }));
        assert!(is_as_before(|_| 950_000));
    }

    #[test]
    fn reads_before_the_drop_are_those_of_the_last_seconds() {
        let is_as_before = |per_row: fn(u64) -> u64| {
            let (incident, drops) = incident_that_read(per_row);
            waits_no_more(&drops, &incident)
        };
        assert!(is_as_before(|_| 400), "all the time");
        assert!(!is_as_before(|row| if row < 12 { 0 } else { 400 }));
        let read_at_its_start = |row| match row {
            0..4 => 4000,
            4..12 => 0,
            _ => 400,
        };
        assert!(!is_as_before(read_at_its_start));
    }
}
