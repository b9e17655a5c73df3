//! # page-cache-flood
//!
//! Buffered I/O fills the page cache faster than the kernel writes it back or drops it.
//!
//! ## What it finds
//! At least a tenth of memory is dirty or under writeback while free memory is down at the watermarks;
//! or the kernel scans at least 10,000 file pages a second to make room for new ones, while free memory is down at
//! the watermarks. Pages that are scanned at the limit of a cgroup do not count.
//!
//! As the cause of a stall: tasks reclaimed as in `reclaim-storm` while a condition above held, or while
//! a tenth of memory was dirty at some point, or files known by name brought at least a twentieth of
//! memory into the page cache, and more than programs allocated in the meantime. A request that waited for writeback, for a journal or for its own sync is
//! explained by a flood if another cgroup wrote most of what went to the service's disk, or (where the
//! kernel does not account writeback to cgroups) another program brought a file on that disk into the page
//! cache; and the disk worked off a backlog: it completed writes throughout, at least twice as many bytes a
//! second as before (or more was dirty than vm.dirty_background_ratio allows), and the kernel held more
//! unwritten pages than the disk writes in 2 s, of which throughout the stall more than it writes in 1 s were
//! not yet under writeback. A disk that hangs or became slow is no flood, and neither are programs that sync
//! what they write: their pages are under writeback at once, and of a writer that waits in fsync(2) in half of the
//! samples, more than the disk writes in 5 s has to pile up. Pages that are only read do not count then, and
//! neither do pages that are being swapped out.
//!
//! ## Why it hurts
//! All other programs allocate from what the flood leaves: they reclaim, wait for writeback and miss
//! their deadlines. In the field report a cluster missed its heartbeats while a tablespace was created
//! with buffered writes of 128 kB, and failed over.
//!
//! ## What it looks like
//! `Cached` grows to the size of memory, `Dirty` and `Writeback` are large, kswapd is busy, and
//! `pgscan_file` in /proc/vmstat increases by thousands a second, and `pgscan_kswapd` with it. `pgscan_file` alone says
//! little: on every kernel it counts the scans at limits of cgroups as well (mm/vmscan.c,
//! `shrink_inactive_list()`).
//!
//! ## How to fix it
//! Keep large and sequential writes out of the page cache: `memwright run --direct-io 64k -- COMMAND`,
//! or `memwright iotune set PATH discovered_direct_iosz=64k` for everything that programs with the
//! preload library write below a path; or use the program's own direct I/O (`oflag=direct`,
//! `innodb_flush_method=O_DIRECT`). In our reproduction of the field report the cluster then missed no
//! heartbeat and the kernel scanned no page, at 99% of the rate that the disk sustains.
//!
//! Where hardly a page becomes dirty (`nr_dirtied` in /proc/vmstat), files are read: the same options keep reads out with
//! `--direct-io-reads` and `discovered_direct_reads=on`.
//!
//! If none of these fits the program, limit it with a memory cgroup, or limit its device.
//! `memwright fix page-cache-flood` limits the dirty memory of the device with the longest backlog to
//! what it writes in 2 s, at least 8 MiB, independently of the global limit (`strict_limit` and
//! `max_ratio_fine` in /sys/class/bdi, kernel 6.2; needs the kernel's estimate of its speed, in
//! debugfs). Keep `vm.dirty_ratio` low (see dirty-limit-too-high). Larger writes through the cache do
//! not help: in our measurements 128 MiB took the same 101 MiB of page cache in calls of 16 kB and of
//! 1 MiB, and none with `O_DIRECT`, which was no slower.
//!
//! ## Threshold
//! 10,000 pages a second is the scan rate that the field report's author calls severe, of another kernel; on Linux
//! kswapd alone scans as much for a program that reads 41 MB/s, and that is a note at most. A tenth of memory
//! dirty, with free memory below twice the high watermarks, shows that the writer outpaces its device.
//!
//! Neither harms others by itself: the kernel gives them clean page cache. It is a note while a large
//! request needs no writeback and no swap, otherwise a warning, and critical if tasks wait as well (see
//! reclaim-storm). Dirty memory that the disk needs more than 5 s for is a warning in any case, because
//! a program that syncs waits for it.
//!
//! ## References
//! R. Elling, "Tales from the Trenches: The Case of the RAM Starved Cluster", Sun BluePrints, 2000;
//! Linux, Documentation/admin-guide/sysctl/vm.rst; Documentation/ABI/testing/sysfs-class-bdi.

use crate::cause_score::CauseScore;
use crate::disk_writers::{flood_bytes, is_flooded_by, other_cgroup, other_program};
use crate::outlook;
use crate::preflight::disk_bytes_per_s;
use crate::share::{field, high_watermark_bytes, percent};
use crate::stall_window::{StallWindow, swaps_out};
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{
    Area, Disk, Finding, Metric, Missing, Quantity, Remedy, Severity, Snapshot, Step, VmActivity,
    Window, derived, format_bytes,
};
use mw_proc::vmstat::Counter;

const DIRTY_PERCENT: f64 = 10.0;
const SCAN_PAGES_PER_S: f64 = 10_000.0;
const CACHE_PERCENT: f64 = 25.0;

/// Free memory in multiples of the high watermarks, at most, of a machine on which kswapd works in bursts.
const BETWEEN_BURSTS: u64 = 4;

/// From which share of memory on pages brought into the page cache during a stall are a flood.
const FLOOD_PERCENT: f64 = 5.0;

/// Shortest time for writing back the dirty pages that holds up others.
const BACKLOG_S: f64 = 5.0;

/// Pages of files that are scanned for each that becomes dirty, from which on reads alone fill the page cache.
const READS_PER_WRITE: f64 = 10.0;

/// The dirty memory that a device may have: what it writes in this time, at least so much.
const DEVICE_DIRTY_S: u64 = 2;
const DEVICE_DIRTY_BYTES: u64 = 8 << 20;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let meminfo = window.now.sample.meminfo.required()?;
    let total = field(meminfo.mem_total_bytes, "MemTotal")?;
    let free = field(meminfo.mem_free_bytes, "MemFree")?;
    let unwritten = if swaps_out(window) {
        meminfo.dirty_bytes.unwrap_or(0)
    } else {
        derived::unwritten_bytes(meminfo)
    };
    let high = high_watermark_bytes(&window.now)?;
    let cache = derived::file_cache_bytes(meminfo);
    let scan = window.activity(VmActivity::MachineFileScans).unwrap_or(0.0);
    let dirty_flood = free <= high.saturating_mul(2) && percent(unwritten, total) >= DIRTY_PERCENT;
    let scan_flood = free <= high.saturating_mul(BETWEEN_BURSTS)
        && scan >= SCAN_PAGES_PER_S
        && percent(cache, total) >= CACHE_PERCENT;
    if !dirty_flood && !scan_flood {
        return Ok(Vec::new());
    }
    // Whoever syncs waits for a backlog that the disk needs long for, however much clean memory there is.
    let is_backlog = dirty_flood && unwritten as f64 >= disk_bytes_per_s(&window.now) * BACKLOG_S;
    let least = if is_backlog { Severity::Warning } else { Severity::Note };
    let severity = outlook::reclaim_severity(window).max(least);
    let headline = if dirty_flood {
        format!(
            "{} are dirty or under writeback while {} are free: buffered writes fill memory",
            format_bytes(unwritten),
            format_bytes(free)
        )
    } else {
        format!("the kernel scans {scan:.0} file pages a second to make room for new ones")
    };
    let finding = Finding::new(severity, Area::PageCache, headline)
        .with_evidence("Dirty + Writeback", Quantity::Bytes(unwritten), "/proc/meminfo")
        .with_evidence("MemFree", Quantity::Bytes(free), "/proc/meminfo")
        .with_evidence("high watermarks", Quantity::Bytes(high), "/proc/zoneinfo")
        .with_evidence("file cache", Quantity::Bytes(cache), "/proc/meminfo")
        .with_evidence("file pages scanned", Quantity::PerSecond(scan), "/proc/vmstat")
        .with_impact(
            "Every other program reclaims or waits for writeback before it gets a page; \
             heartbeats are missed and requests time out.",
        );
    Ok(vec![finding.with_remedy(remedy(window))])
}

/// True if files are read, and hardly any page is written: far fewer pages become dirty than the kernel scans
/// (`folio_account_dirtied()`, mm/page-writeback.c).
fn is_of_reads(window: &Window) -> bool {
    let dirtied = window.rate(Counter::NrDirtied);
    let scanned = window.activity(VmActivity::MachineFileScans);
    let unwritten = window.now.sample.meminfo.value().map_or(0, derived::unwritten_bytes);
    dirtied.is_ok_and(|dirtied| scanned.is_ok_and(|scanned| dirtied * READS_PER_WRITE < scanned))
        && unwritten < DEVICE_DIRTY_BYTES
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if waits_for_writes(stall) {
        let unwritten = stall.most_unwritten().map_or(0, |(bytes, _)| bytes);
        if unwritten < DEVICE_DIRTY_BYTES {
            return Ok(None);
        }
        return Ok(by_cgroup(stall, unwritten).or_else(|| by_program(stall, unwritten)));
    }
    by_reclaim(stall)
}

/// Tasks reclaimed memory, which buffered I/O had filled.
fn by_reclaim(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let snapshot = &stall.window.now;
    let memory = derived::memory_bytes(&snapshot.sample)?;
    let flood = &stall.incident.flood;
    let pages = derived::total(flood.iter().map(|share| share.pages));
    let brought = pages.saturating_mul(snapshot.origin.page_bytes);
    let attributed = percent(brought, memory) >= FLOOD_PERCENT;
    // Who allocates more than files bring takes the memory.
    let allocated = anonymous_growth_bytes(stall);
    let is_allocation = percent(allocated, memory) >= FLOOD_PERCENT && allocated > brought;
    let score = CauseScore::for_reclaim(stall);
    let mut found = hazard(stall.window).unwrap_or_default();
    let unwritten = stall.most_unwritten().map_or(0, |(bytes, _)| bytes);
    let dirty = percent(unwritten, memory) >= DIRTY_PERCENT;
    if !dirty && (is_allocation || (!attributed && found.is_empty())) {
        return score.no_cause();
    }
    let largest = flood.iter().max_by_key(|share| share.pages);
    let (score, headline) = match largest.filter(|_| attributed) {
        Some(share) => {
            let bytes = flood_bytes(stall, share);
            let what = format!("{} with {}", share.task, share.path);
            let score = score.with_evidence(what, Quantity::Bytes(bytes), "kernel tracepoints");
            (score, flood_headline(&share.task, bytes))
        }
        None => (score, "buffered I/O flooded the page cache".to_owned()),
    };
    let mut finding = Finding::new(Severity::Critical, Area::PageCache, headline)
        .with_impact(
            "Every other program reclaimed or waited for writeback before it got a page; \
             heartbeats were missed and requests timed out.",
        )
        .with_remedy(remedy(stall.window));
    finding.evidence = found.pop().map_or_else(Vec::new, |hazard| hazard.evidence);
    score.cause(finding)
}

/// Anonymous memory that was allocated after the first recorded row, swapped out or not, at its peak, in bytes: a
/// program that is killed gives it back.
fn anonymous_growth_bytes(stall: &StallWindow<'_>) -> u64 {
    use Counter::{NrActiveAnon, NrInactiveAnon, Pswpin, Pswpout};
    let table = &stall.incident.table;
    let column = |(counter, sign): (Counter, i64)| -> Option<Vec<Option<i64>>> {
        let values = table.values(&Metric::Vmstat(counter))?;
        Some(values.map(|value| i64::try_from(value?).ok()?.checked_mul(sign)).collect())
    };
    let counters = [(NrActiveAnon, 1), (NrInactiveAnon, 1), (Pswpout, 1), (Pswpin, -1)];
    let columns: Vec<Vec<Option<i64>>> = counters.into_iter().filter_map(column).collect();
    let pages_at = |row: usize| -> Option<i64> {
        columns.iter().map(|values| *values.get(row)?).sum::<Option<i64>>()
    };
    let rows = table.at_unix_ms.iter().enumerate();
    let until_end = rows.filter(|(_, at)| **at <= stall.incident.ended_unix_ms);
    let mut pages = until_end.filter_map(|(row, _)| pages_at(row));
    let Some(first) = pages.next() else { return 0 };
    let grown = pages.fold(first, i64::max).saturating_sub(first);
    u64::try_from(grown).unwrap_or(0).saturating_mul(stall.window.now.origin.page_bytes)
}

/// True if the request waited for the disk to write rather than for memory: pages that are only read do not hold that
/// up.
fn waits_for_writes(stall: &StallWindow<'_>) -> bool {
    const WRITES: &[TimeClass] = &[
        TimeClass::DirtyThrottling,
        TimeClass::Writeback,
        TimeClass::FileWrite,
        TimeClass::Journal,
        TimeClass::Disk,
    ];
    stall.request.is_some_and(|request| {
        request.percent(WRITES) > request.percent(&[TimeClass::Reclaim, TimeClass::Refault])
    })
}

/// Another cgroup wrote most of what the disk has to write, by the kernel's own accounting.
fn by_cgroup(stall: &StallWindow<'_>, unwritten: u64) -> Option<Suspect> {
    const SURE: u8 = 90;
    let writer = other_cgroup(stall)?;
    let name = mw_model::cgroup_name(writer.path);
    let headline = format!("{name} wrote {} to {}", format_bytes(writer.bytes), writer.device);
    writer.floods(stall, unwritten).then(|| backlog(stall, headline, unwritten, SURE))
}

/// Another program brought the pages into the page cache that the disk has to write, and the kernel does not account
/// writeback to cgroups.
fn by_program(stall: &StallWindow<'_>, unwritten: u64) -> Option<Suspect> {
    const SURE: u8 = 75;
    let share = other_program(stall)?;
    let headline = flood_headline(&share.task, flood_bytes(stall, share));
    is_flooded_by(stall, share, unwritten).then(|| backlog(stall, headline, unwritten, SURE))
}

fn flood_headline(task: &str, bytes: u64) -> String {
    format!("{task} flooded the page cache with {}", format_bytes(bytes))
}

/// The request waits behind a backlog of buffered writes.
fn backlog(stall: &StallWindow<'_>, headline: String, unwritten: u64, sure: u8) -> Suspect {
    let finding = Finding::new(Severity::Critical, Area::PageCache, headline)
        .with_evidence("Dirty + Writeback", Quantity::Bytes(unwritten), "/proc/meminfo")
        .with_impact("Each write and sync to this disk waits until the backlog is written.")
        .with_remedy(remedy_of_writes(&stall.window.now));
    Suspect::new(finding, sure)
}

fn remedy(window: &Window) -> Remedy {
    if !is_of_reads(window) {
        return remedy_of_writes(&window.now);
    }
    let manual = [
        "memwright run --direct-io 64k --direct-io-reads -- COMMAND",
        "memwright iotune set PATH discovered_direct_iosz=64k,discovered_direct_reads=on",
        "systemd-run -p MemoryHigh=1G COMMAND",
    ];
    Remedy::named(
        "keep the reader out of the page cache, or limit it",
        manual.into_iter().map(Step::manual).collect(),
    )
}

fn remedy_of_writes(snapshot: &Snapshot) -> Remedy {
    let manual = [
        "memwright run --direct-io 64k -- COMMAND",
        "memwright iotune set PATH discovered_direct_iosz=64k",
        "systemd-run -p MemoryHigh=1G COMMAND",
    ];
    let manual = manual.into_iter().map(Step::manual);
    let Some((disk, parts)) = flooded(snapshot) else {
        return Remedy::named(
            "keep the writer out of the page cache, or limit it",
            manual.collect(),
        );
    };
    Remedy::named(
        format!(
            "keep the writer out of the page cache, or limit the dirty memory of {}",
            disk.name
        ),
        disk.limit_steps(parts).into_iter().chain(manual).collect(),
    )
}

/// The device with the longest backlog, and the share of the dirty limit that suits its speed, in parts
/// per million.
fn flooded(snapshot: &Snapshot) -> Option<(&Disk, u64)> {
    let waiting = |disk: &&Disk| {
        let bdi = disk.bdi.unwrap_or_default();
        bdi.writeback_bytes.unwrap_or(0).saturating_add(bdi.reclaimable_bytes.unwrap_or(0))
    };
    let disk = snapshot.disks.value()?.iter().max_by_key(waiting)?;
    let vmstat = snapshot.sample.vmstat.value()?;
    let limit = vmstat.get(Counter::NrDirtyThreshold)?.saturating_mul(snapshot.origin.page_bytes);
    let speed = disk.bdi?.write_bandwidth_bytes_per_s?;
    let bytes = speed.saturating_mul(DEVICE_DIRTY_S).max(DEVICE_DIRTY_BYTES);
    let parts = bytes.saturating_mul(Disk::WHOLE).checked_div(limit)?;
    // A share that is no strict limit caps nothing.
    let present = disk.max_ratio_fine?;
    let is_limited = parts >= present && disk.strict_limit != Some(false);
    (waiting(&disk) > 0 && !is_limited).then_some((disk, parts.min(present).max(1)))
}
