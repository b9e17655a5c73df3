//! # dirty-limit-too-high
//!
//! The dirty limit exceeds the memory to spare, or what the disk can write in a minute.
//!
//! ## What it finds
//! The limit at which the kernel throttles writers (`vm.dirty_ratio` or `vm.dirty_bytes`) is at least
//! half of the memory that can hold page cache; or writing that much to a device takes more than 60 s,
//! by the kernel's own estimate of the device's speed.
//!
//! As the cause of a stall: the limit is too high as above, more memory was dirty or under writeback
//! during the stall than the default limit of 20% allows, and tasks reclaimed, or a writer was throttled and a service
//! answered late. This rule ranks before `page-cache-flood`, because lowering the limit ends the stall whichever program
//! writes.
//!
//! ## Why it hurts
//! Locked and anonymous memory does not count towards the limit, so with a database in memory, all of
//! the rest can become dirty. Then every allocation waits for the disk. In our reproduction (1 GiB of
//! 1.7 GiB locked, a slow disk, `dirty_ratio` 90) the OOM killer killed the database; with the default
//! limit it did not. sync(2) waits for everything that is dirty. fsync(2) waits for its own file and, on ext4 with
//! data=ordered, for other files whose new blocks belong to the same transaction.
//!
//! ## What it looks like
//! `Dirty` in /proc/meminfo grows to gigabytes before the disk becomes busy; then everything stops.
//!
//! ## How to fix it
//! `memwright fix dirty-limit-too-high` sets `vm.dirty_ratio` to 20 and `vm.dirty_background_ratio` to
//! 10, the kernel's defaults, or to what the device writes in 30 s. Where the limits are set in bytes, or
//! 30 s are less than 2% of memory, it sets `vm.dirty_bytes` and `vm.dirty_background_bytes`. Where only one device is
//! too slow, and since Linux 6.2, it limits that device alone (`strict_limit` and `max_ratio_fine` in /sys/class/bdi), which
//! does not slow writers to others. `max_ratio` without `strict_limit` is no limit: up to halfway between the background
//! limit and the limit the kernel throttles nobody (`domain_dirty_freerun`, mm/page-writeback.c). If you must not change the limits, keep the writer out of the page cache or limit
//! its device (see page-cache-flood).
//!
//! ## Threshold
//! 50% is a warning: half of the page cache can no longer be dropped. 75% is critical: running programs
//! use the rest themselves. The default of 20% gives no finding. 60 s of writing is the common timeout
//! of clusters and databases. A device counts only after the kernel has measured it (256 MiB written,
//! and a speed other than the initial guess of 100 MiB/s).
//!
//! The memory that can hold page cache is free memory plus the page cache of files. Some patched kernels hand memory to
//! their zones long after boot (deferred initialization): it is in MemFree but not in nr_free_pages, and counts as free.
//! Mainline waits for it before init starts (`page_alloc_init_late`, mm/mm_init.c), and its MemFree is nr_free_pages.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, dirty_ratio; mm/page-writeback.c,
//! global_dirtyable_memory(), wb_update_write_bandwidth().

use crate::cause_score::CauseScore;
use crate::share::{free_run, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, Disk, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Sysctl,
    Window, format_bytes, zones,
};
use mw_proc::vmstat::Counter;

const WARNING_PERCENT: f64 = 50.0;
const CRITICAL_PERCENT: f64 = 75.0;
const MAX_DRAIN_S: f64 = 60.0;
const GOOD_DRAIN_S: u64 = 30;
const DEFAULT_RATIO: u64 = 20;

/// The smallest ratio whose half, for the background limit, is not 0.
const LEAST_RATIO: u64 = 2;

/// Smallest write of a device from which its speed is known.
const MIN_WRITTEN_BYTES: u64 = 256 << 20;

/// The kernel's guess for a device that it has not measured, INIT_BW.
const UNMEASURED_BYTES_PER_S: u64 = 100 << 20;

struct DirtyLimit {
    /// True if it is set in bytes; unknown where the settings were not read.
    in_bytes: Option<bool>,
    /// Bytes at which the kernel throttles writers.
    bytes: u64,
    /// Bytes up to which it throttles none, but for devices with a strict limit.
    free_run_bytes: u64,
    /// Bytes that can hold page cache.
    dirtyable: u64,
}

/// The device that takes longest to write as much as may become dirty.
struct Drain<'a> {
    disk: &'a Disk,
    /// Bytes that may become dirty on it.
    dirty_bytes: u64,
    bytes_per_s: u64,
    seconds: f64,
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let limit = limit(snapshot)?;
    let share = percent(limit.bytes, limit.dirtyable);
    let slow = slowest(snapshot, &limit).filter(|drain| drain.seconds > MAX_DRAIN_S);
    if share < WARNING_PERCENT && slow.is_none() {
        return Ok(Vec::new());
    }
    let severity = if share >= CRITICAL_PERCENT { Severity::Critical } else { Severity::Warning };
    let subject = match limit.in_bytes {
        Some(true) => Subject::Sysctl("vm.dirty_bytes".to_owned()),
        Some(false) => Subject::Sysctl("vm.dirty_ratio".to_owned()),
        None => Subject::Area(Area::DirtyPages),
    };
    let headline = match &slow {
        Some(drain) if share < WARNING_PERCENT => format!(
            "{} may become dirty, and {} takes {:.0} s to write that much",
            format_bytes(drain.dirty_bytes),
            drain.disk.name,
            drain.seconds
        ),
        _ => format!(
            "{} may become dirty: {share:.0}% of the {} that can hold page cache",
            format_bytes(limit.bytes),
            format_bytes(limit.dirtyable)
        ),
    };
    let mut finding = Finding::new(severity, subject, headline)
        .with_evidence(
            "dirty limit",
            Quantity::Bytes(limit.bytes),
            "/proc/vmstat nr_dirty_threshold",
        )
        .with_evidence(
            "memory that can hold page cache",
            Quantity::Bytes(limit.dirtyable),
            "/proc/vmstat",
        )
        .with_impact(
            "After a burst of writes, allocations wait until the disk has written it; at worst the \
             OOM killer kills a process.",
        )
        .with_remedy(remedy(&limit, share, slow.as_ref()));
    if let Some(drain) = slow {
        finding = finding.with_evidence(
            format!("write speed of {}", drain.disk.name),
            Quantity::BytesPerSecond(drain.bytes_per_s),
            format!("/sys/kernel/debug/bdi/{}/stats", drain.disk.device),
        );
    }
    Ok(vec![finding])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let snapshot = &stall.window.now;
    limit(snapshot)?;
    let score = CauseScore::for_reclaim(stall).throttled_writers();
    let too_much = |(_, share): &(u64, f64)| *share > DEFAULT_RATIO as f64;
    let unwritten = stall.most_unwritten().filter(too_much);
    let (Some(hazard), Some((unwritten, share))) = (hazard(stall.window)?.pop(), unwritten) else {
        return score.no_cause();
    };
    let headline = format!("the dirty limit allowed {} unwritten", format_bytes(unwritten));
    let score = score
        .with_evidence("dirty or under writeback", Quantity::Bytes(unwritten), "/proc/vmstat")
        .with_evidence(
            "share of the memory that can hold page cache",
            Quantity::Percent(share),
            "/proc/vmstat",
        );
    let finding = Finding { severity: Severity::Critical, headline, ..hazard };
    score.cause(finding)
}

fn limit(snapshot: &Snapshot) -> Result<DirtyLimit, Missing> {
    let sysctl = &snapshot.sysctl;
    let dirtyable = zones::dirtyable_bytes(snapshot)?;
    let set_bytes = sysctl.number("vm.dirty_bytes").ok();
    let threshold = snapshot.sample.vmstat.value().and_then(|v| v.get(Counter::NrDirtyThreshold));
    let bytes = match (threshold, set_bytes) {
        (Some(pages), _) => pages.saturating_mul(snapshot.origin.page_bytes),
        (None, Some(bytes)) if bytes > 0 => bytes,
        (None, _) => (dirtyable / 100).saturating_mul(sysctl.number("vm.dirty_ratio")?),
    };
    let vmstat = snapshot.sample.vmstat.value();
    let background = vmstat.and_then(|v| v.get(Counter::NrDirtyBackgroundThreshold));
    let background =
        background.map_or(bytes / 2, |pages| pages.saturating_mul(snapshot.origin.page_bytes));
    let free_run_bytes = free_run(bytes, background);
    let in_bytes = set_bytes.map(|bytes| bytes > 0);
    Ok(DirtyLimit { in_bytes, bytes, free_run_bytes, dirtyable })
}

fn slowest<'a>(snapshot: &'a Snapshot, limit: &DirtyLimit) -> Option<Drain<'a>> {
    let disks = snapshot.disks.value()?;
    let drain = |disk| drain(disk, limit);
    disks.iter().filter_map(drain).max_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

fn drain<'a>(disk: &'a Disk, limit: &DirtyLimit) -> Option<Drain<'a>> {
    let stats = disk.bdi.as_ref()?;
    let bytes_per_s = stats.write_bandwidth_bytes_per_s?;
    let measured = stats.written_bytes? >= MIN_WRITTEN_BYTES
        && bytes_per_s != UNMEASURED_BYTES_PER_S
        && bytes_per_s > 0;
    let share = disk.dirty_share_bytes(limit.bytes);
    let is_strict = disk.strict_limit == Some(true);
    let dirty_bytes = if is_strict { share } else { share.max(limit.free_run_bytes) };
    let seconds = dirty_bytes as f64 / bytes_per_s as f64;
    measured.then_some(Drain { disk, dirty_bytes, bytes_per_s, seconds })
}

/// A limit of the slow device alone, on a kernel that has one.
fn device_remedy(limit: &DirtyLimit, drain: &Drain<'_>) -> Option<Remedy> {
    let present = drain.disk.max_ratio_fine?;
    let target = drain.bytes_per_s.saturating_mul(GOOD_DRAIN_S);
    let parts = target.saturating_mul(Disk::WHOLE).checked_div(limit.bytes)?;
    let parts = parts.clamp(1, present.max(1));
    Some(Remedy::automatic(
        format!("limit {} to what it writes in {GOOD_DRAIN_S} s", drain.disk.name),
        drain.disk.limit_steps(parts).to_vec(),
    ))
}

fn remedy(limit: &DirtyLimit, share: f64, slow: Option<&Drain<'_>>) -> Remedy {
    let of_device = slow.filter(|_| share < WARNING_PERCENT);
    if let Some(remedy) = of_device.and_then(|drain| device_remedy(limit, drain)) {
        return remedy;
    }
    let by_speed = slow.map_or(u64::MAX, |d| d.bytes_per_s.saturating_mul(GOOD_DRAIN_S));
    let by_share = (limit.dirtyable / 100).saturating_mul(DEFAULT_RATIO);
    let target = by_share.min(by_speed).min(limit.bytes);
    let Some(in_bytes) = limit.in_bytes else {
        let step = Step::manual("sysctl vm.dirty_ratio vm.dirty_bytes");
        return Remedy::named("lower the one of the two settings that is not 0", vec![step]);
    };
    let ratio = percent(target, limit.dirtyable) as u64;
    let (setting, background, value) = if in_bytes || ratio < LEAST_RATIO {
        ("vm.dirty_bytes", "vm.dirty_background_bytes", target.max(1 << 20))
    } else {
        ("vm.dirty_ratio", "vm.dirty_background_ratio", ratio.min(DEFAULT_RATIO))
    };
    let half = value / 2;
    Remedy::automatic(
        format!("set {setting} to {value} and {background} to {half}"),
        vec![
            Step::write(Sysctl::path(background), half),
            Step::write(Sysctl::path(setting), value),
        ],
    )
}
