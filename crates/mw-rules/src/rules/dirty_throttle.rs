//! # dirty-throttle
//!
//! The kernel throttles writers, because too much memory is dirty already.
//!
//! ## What it finds
//! Dirty memory plus memory under writeback exceeds the point from which the kernel slows writers down:
//! halfway between the background limit and the limit.
//!
//! As the cause of a stall: tasks were throttled or blocked in `balance_dirty_pages`. Of a late answer alone: the canary's
//! page faults of private memory and wake-ups do not wait there, and the kernel does not count it as memory pressure.
//!
//! With cgroup v2 each cgroup has a dirty limit of its own: `vm.dirty_ratio` of its page cache and the room below
//! memory.max and memory.high (`mdtc_calc_avail`, mm/page-writeback.c). Where the machine has less dirty memory than it
//! lets writers run with, and no device has a strict limit, that limit is what throttled, and the finding names the cgroup.
//!
//! ## Why it hurts
//! Programs that write to files, even to their logs, sleep in `balance_dirty_pages`, and so do page faults that write to a
//! shared mapping of a file (`fault_dirty_shared_page`, mm/memory.c). A pause is what the task dirtied divided by the rate
//! that its device currently allows it: up to 200 ms, and repeated as long as that rate is zero. A task that dirtied little
//! since its last pause does not sleep.
//!
//! ## What it looks like
//! Tasks in state D with `balance_dirty_pages` in their stack; one device is 100% busy; I/O pressure in
//! /proc/pressure/io.
//!
//! ## How to fix it
//! Find the writer and limit it, or give the device a limit of its own, so that writers to other devices continue:
//! `strict_limit` and `max_ratio_fine` in /sys/class/bdi/MAJOR:MINOR, since Linux 6.2. `max_ratio` alone is no limit: the
//! kernel throttles nobody before the machine as a whole is halfway between the background limit and the limit
//! (`domain_dirty_freerun`).
//!
//! Where the cgroup's own limit throttled: raise its memory.max (or memory.high), or keep its writers out of the page cache
//! by direct I/O or RWF_DONTCACHE (Linux 6.14). Limits of devices and of the machine do not help there.
//!
//! ## Threshold
//! The kernel's own: (nr_dirty_background_threshold + nr_dirty_threshold) / 2, above which
//! `balance_dirty_pages` no longer lets writers run freely. It is a warning: this is how the kernel
//! slows a fast writer to the speed of its disk, and it stalls the writers but not memory allocation.
//!
//! ## References
//! Linux, mm/page-writeback.c, balance_dirty_pages() and dirty_freerun_ceiling();
//! Documentation/ABI/testing/sysfs-class-bdi.

use crate::cause_score::CauseScore;
use crate::group_settings::{GroupSetting, raised, set};
use crate::request::is_task_within;
use crate::share::{counter, free_run, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{
    Area, CgroupVersion, Disk, Finding, GroupUse, Missing, Quantity, Remedy, Severity, Snapshot,
    Step, Subject, Window, format_bytes,
};
use mw_proc::vmstat::{Counter, Vmstat};

/// The share of the dirty limit that remains for a slow device, in percent.
const SLOW_DEVICE_RATIO: u64 = 10;

/// Of the dirty memory up to which writers run freely, the share below which the machine is certain to throttle none:
/// counters of CPUs lag behind.
const CALM_PERCENT: f64 = 75.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let vmstat = snapshot.sample.vmstat.required()?;
    let limit = counter(vmstat, Counter::NrDirtyThreshold)?;
    let background = counter(vmstat, Counter::NrDirtyBackgroundThreshold)?;
    let unwritten =
        counter(vmstat, Counter::NrDirty)?.saturating_add(counter(vmstat, Counter::NrWriteback)?);
    let free_pages = free_run_pages(vmstat)?;
    if limit == 0 || unwritten <= free_pages {
        return Ok(Vec::new());
    }
    let bytes = |pages: u64| pages.saturating_mul(snapshot.origin.page_bytes);
    let headline = format!(
        "{} are dirty or under writeback; the kernel slows writers down from {}",
        format_bytes(bytes(unwritten)),
        format_bytes(bytes(free_pages))
    );
    let finding = Finding::new(Severity::Warning, Area::DirtyPages, headline)
        .with_evidence("nr_dirty + nr_writeback", Quantity::Bytes(bytes(unwritten)), "/proc/vmstat")
        .with_evidence(
            "nr_dirty_background_threshold",
            Quantity::Bytes(bytes(background)),
            "/proc/vmstat",
        )
        .with_evidence("nr_dirty_threshold", Quantity::Bytes(bytes(limit)), "/proc/vmstat")
        .with_impact("Programs that write to files, even to their logs, sleep in write(2).");
    Ok(vec![finding.with_remedy(remedy(snapshot))])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let score = CauseScore::new(stall).throttled_writers();
    if score.strength_percent() > 0.0
        && let Some(group) = throttling_group(stall)
    {
        return score.cause(of_group(group));
    }
    let hazard = hazard(stall.window);
    let headline = "the kernel throttled writers of dirty pages";
    let mut finding = Finding::new(Severity::Critical, Area::DirtyPages, headline)
        .with_impact("Programs that wrote to files, even to their logs, slept in write(2).")
        .with_remedy(remedy(&stall.window.now));
    match hazard {
        Ok(found) => finding.evidence = found.into_iter().flat_map(|f| f.evidence).collect(),
        Err(missing) if score.strength_percent() <= 0.0 => return Err(missing),
        Err(_) => {}
    }
    score.cause(finding)
}

/// Pages that may be dirty or under writeback before the kernel throttles any writer.
fn free_run_pages(vmstat: &Vmstat) -> Result<u64, Missing> {
    let limit = counter(vmstat, Counter::NrDirtyThreshold)?;
    Ok(free_run(limit, counter(vmstat, Counter::NrDirtyBackgroundThreshold)?))
}

/// The cgroup whose own dirty limit throttled its writers: that of the writer with a memory limit, while the machine let
/// all writers run.
fn throttling_group<'a>(stall: &StallWindow<'a>) -> Option<&'a GroupUse> {
    let snapshot = &stall.window.now;
    let is_v2 = snapshot.cgroups.value().is_some_and(|all| all.version == CgroupVersion::V2);
    let disks = snapshot.disks.value().map_or(&[][..], Vec::as_slice);
    let is_strict = disks.iter().any(|disk| disk.strict_limit == Some(true));
    let free_pages = free_run_pages(snapshot.sample.vmstat.value()?).ok()?;
    let (unwritten, _) = stall.most_unwritten()?;
    let free_run_bytes = free_pages.saturating_mul(snapshot.origin.page_bytes);
    if !is_v2 || is_strict || percent(unwritten, free_run_bytes) >= CALM_PERCENT {
        return None;
    }
    let part = stall.request.and_then(|request| request.largest(&[TimeClass::DirtyThrottling]));
    let is_writers = |group: &&GroupUse| match part {
        Some(part) if part.task.cgroup.is_some() => is_task_within(&part.task, &group.path),
        _ => group.of_service,
    };
    let limit =
        |group: &GroupUse| group.memory_max_bytes.into_iter().chain(group.memory_high_bytes).min();
    let limited = stall.incident.groups.iter().filter(is_writers);
    limited.filter(|group| limit(group).is_some()).min_by_key(|group| limit(group))
}

/// The finding on a cgroup that reached its own dirty limit.
fn of_group(group: &GroupUse) -> Finding {
    let subject = Subject::Cgroup(Some(group.path.clone()));
    let headline =
        format!("{} reached the dirty limit that its memory limit sets", subject.actor());
    let (setting, limit) = match (group.memory_max_bytes, group.memory_high_bytes) {
        (Some(max), Some(high)) if high < max => (GroupSetting::MemoryHigh, Some(high)),
        (None, Some(high)) => (GroupSetting::MemoryHigh, Some(high)),
        (max, _) => (GroupSetting::MemoryMax, max),
    };
    let mut finding = Finding::new(Severity::Critical, subject, headline)
        .with_impact("Its programs that write to files slept, whatever the machine had dirty.")
        .with_remedy(Remedy::named(
            "raise the memory limit of the cgroup, or keep its writers out of the page cache",
            vec![
                set(setting, limit.map(raised), Some(&group.path), None),
                Step::manual("memwright run --direct-io 64k -- COMMAND"),
            ],
        ));
    for (what, bytes, source) in [
        ("memory.max", group.memory_max_bytes, "memory.max"),
        ("memory.high", group.memory_high_bytes, "memory.high"),
        ("file_dirty + file_writeback", group.memory_dirty_bytes, "memory.stat"),
    ] {
        if let Some(bytes) = bytes {
            finding = finding.with_evidence(what, Quantity::Bytes(bytes), source);
        }
    }
    finding
}

fn remedy(snapshot: &Snapshot) -> Remedy {
    let disks = snapshot.disks.value().map_or(&[][..], Vec::as_slice);
    let busiest = disks
        .iter()
        .max_by_key(|disk| disk.bdi.as_ref().and_then(|bdi| bdi.reclaimable_bytes).unwrap_or(0));
    let dirty = busiest.and_then(|disk| disk.bdi.as_ref()?.reclaimable_bytes).unwrap_or(0);
    match busiest {
        Some(disk) if dirty > 0 && disk.max_ratio_fine.is_some() => Remedy::named(
            format!("limit {} to {SLOW_DEVICE_RATIO}% of the dirty limit", disk.name),
            disk.limit_steps(Disk::WHOLE / 100 * SLOW_DEVICE_RATIO).to_vec(),
        ),
        // Before Linux 6.2 no device has a limit of its own.
        _ => Remedy::named(
            "keep the writer out of the page cache, or limit it",
            vec![
                Step::manual("memwright run --direct-io 64k -- COMMAND"),
                Step::manual("systemd-run -p MemoryHigh=1G COMMAND"),
            ],
        ),
    }
}
