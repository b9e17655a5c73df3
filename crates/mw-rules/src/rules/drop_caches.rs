//! # drop-caches
//!
//! A program dropped the page cache, and the service had to read its files again.
//!
//! ## What it finds
//! As the cause of a stall: somebody wrote to /proc/sys/vm/drop_caches shortly before or during it
//! (`drop_pagecache` in /proc/vmstat), the page cache became smaller, and the request waited for reads of
//! files. The writer is named by the kernel's log or by the profile.
//!
//! ## Why it hurts
//! The page cache holds what programs use, not garbage. Everything that was dropped is read again at the
//! speed of the disk, by all programs at once. Free memory was not short before: the kernel takes pages
//! of the cache as it needs them.
//!
//! ## What it looks like
//! "NAME (PID): drop_caches: 3" in the kernel log; reads of the disk and major faults right after it; a
//! cron job or a script of a benchmark or backup.
//!
//! ## Threshold
//! At least 4 MiB were dropped within 45 s before the end of the stall, the cache had not recovered when
//! the stall began, and before the drop half as much or less was read.
//!
//! ## How to fix it
//! Remove the job that writes to drop_caches. Where a program fills the cache with what nobody needs, give
//! it a cgroup limit of its own or let it read with `memwright run --uncached`.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, "drop_caches"; fs/drop_caches.c.

use crate::cause_score::CauseScore;
use crate::forced_work::{ForcedWork, most, named};
use crate::request::Spent;
use crate::stall::Stall;
use mw_model::{
    Area, Cause, Finding, Incident, Metric, Missing, Quantity, Remedy, Resource, Role,
    ServiceProcess, Severity, Step, Table, format_bytes,
};
use mw_proc::vmstat::Counter;

/// What a request waits for afterwards.
pub(crate) const READS: &[Spent] = &[Spent::FileRead, Spent::DroppingCaches];

const CONFIRMED: u8 = 92;

/// Less is read again within a moment.
const LEAST_BYTES: u64 = 4 << 20;

/// The counter is raised after the cache was dropped, which takes up to so long where it is large.
const DROPPING_MS: u64 = 3000;

/// So much of what was dropped may be back when the stall begins.
const BACK_PERCENT: u64 = 90;

/// Rows before the first drop over which reads are compared.
const LEAST_CALM_MS: u64 = 1000;

/// A write to drop_caches as the rows show it.
struct Drop {
    at_unix_ms: u64,
    pages_before: u64,
    pages_after: u64,
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
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
    if reads_as_before(&drops, incident) {
        return Ok(None);
    }
    let dropped = last.pages_before.saturating_sub(last.pages_after).saturating_mul(page_bytes);
    let who = writer(incident);
    let by = who.as_ref().map_or_else(|| "a program".to_owned(), |who| named(incident, who));
    let headline = format!("{by} dropped {} of page cache (drop_caches)", format_bytes(dropped));
    let times = drops.len() as u64;
    let finding = Finding::new(Severity::Critical, Area::PageCache, "")
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
    if let Some(request) = stall.request {
        let reader = request.largest(READS).map(|part| part.task.name.as_str());
        let reader = reader.map_or(String::new(), |name| format!("; {name} read it again"));
        let finding = Finding { headline: format!("{headline}{reader}"), ..finding };
        return Ok(Some(Cause::new(finding, CONFIRMED)));
    }
    by_pressure(stall, Finding { headline, ..finding })
}

/// Who wrote to drop_caches.
pub(crate) fn culprits(stall: &Stall<'_>, _: &Cause) -> Vec<Role> {
    let role = |process: ServiceProcess| Role {
        why: format!("dropped the page cache: {}", named(stall.incident, &process)),
        pid: process.pid,
        task: process.name,
    };
    writer(stall.incident).map(role).into_iter().collect()
}

/// Without a path: tasks waited for I/O after the drop.
fn by_pressure(stall: &Stall<'_>, finding: Finding) -> Result<Option<Cause>, Missing> {
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
fn writer(incident: &Incident) -> Option<ServiceProcess> {
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

/// Whether the cache was as large again when the stall began.
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
    level.saturating_sub(drop.pages_after) >= (dropped / 100).saturating_mul(BACK_PERCENT)
}

/// Whether about as much was read from disks before the first drop, where that was recorded.
fn reads_as_before(drops: &[Drop], incident: &Incident) -> bool {
    let table = &incident.table;
    let Some(rates) = table.rates_per_s(&Metric::Vmstat(Counter::Pgpgin)) else { return false };
    let Some(first) = drops.first() else { return false };
    let mean = |from: u64, until: u64| {
        let rows = table.at_unix_ms.iter().zip(&rates);
        let rates: Vec<f64> = rows
            .filter(|(at, _)| (from..until).contains(*at))
            .filter_map(|(_, rate)| *rate)
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    let calm_until = first.at_unix_ms.saturating_sub(DROPPING_MS);
    let Some(start) = table.at_unix_ms.first() else { return false };
    if calm_until < start.saturating_add(LEAST_CALM_MS) {
        return false;
    }
    let calm = mean(*start, calm_until);
    let during =
        mean(first.at_unix_ms, incident.ended_unix_ms.max(first.at_unix_ms.saturating_add(1)));
    calm.zip(during).is_some_and(|(calm, during)| calm * 2.0 > during)
}
