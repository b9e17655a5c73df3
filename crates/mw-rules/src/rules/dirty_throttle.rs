//! # dirty-throttle
//!
//! The kernel throttles writers, because too much memory is dirty already.
//!
//! ## What it finds
//! Dirty memory plus memory under writeback exceeds the point from which the kernel slows writers down:
//! halfway between the background limit and the limit.
//!
//! As the cause of a stall: tasks were throttled or blocked in `balance_dirty_pages`. Of a late answer
//! alone: page faults and wake-ups do not wait there, and the kernel does not count it as memory pressure.
//!
//! ## Why it hurts
//! Every program that writes to a file, even to its log, sleeps in `balance_dirty_pages` for up to
//! 200 ms a call, whichever device it writes to and however fast that device is.
//!
//! ## What it looks like
//! Tasks in state D with `balance_dirty_pages` in their stack; one device is 100% busy; I/O pressure in
//! /proc/pressure/io.
//!
//! ## How to fix it
//! Find the writer and limit it, or give the device only a part of the limit
//! (`/sys/class/bdi/MAJOR:MINOR/max_ratio`), so that writers to other devices continue.
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
use crate::share::counter;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window, format_bytes,
};
use mw_proc::vmstat::Counter;

/// The share of the dirty limit that remains for a slow device, in percent.
const SLOW_DEVICE_RATIO: u64 = 10;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let vmstat = snapshot.sample.vmstat.required()?;
    let limit = counter(vmstat, Counter::NrDirtyThreshold)?;
    let background = counter(vmstat, Counter::NrDirtyBackgroundThreshold)?;
    let unwritten =
        counter(vmstat, Counter::NrDirty)?.saturating_add(counter(vmstat, Counter::NrWriteback)?);
    let free_run = (limit / 2).saturating_add(background / 2);
    if limit == 0 || unwritten <= free_run {
        return Ok(Vec::new());
    }
    let bytes = |pages: u64| pages.saturating_mul(snapshot.origin.page_bytes);
    let headline = format!(
        "{} are dirty or under writeback; the kernel slows writers down from {}",
        format_bytes(bytes(unwritten)),
        format_bytes(bytes(free_run))
    );
    let finding = Finding::new(Severity::Warning, Area::DirtyPages, headline)
        .with_evidence("nr_dirty + nr_writeback", Quantity::Bytes(bytes(unwritten)), "/proc/vmstat")
        .with_evidence(
            "nr_dirty_background_threshold",
            Quantity::Bytes(bytes(background)),
            "/proc/vmstat",
        )
        .with_evidence("nr_dirty_threshold", Quantity::Bytes(bytes(limit)), "/proc/vmstat")
        .with_impact("Every program that writes to a file, even to its log, sleeps in write(2).");
    Ok(vec![finding.with_remedy(remedy(snapshot))])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let score = CauseScore::new(stall).throttled_writers();
    let hazard = hazard(stall.window);
    let headline = "the kernel throttled writers of dirty pages";
    let mut finding = Finding::new(Severity::Critical, Area::DirtyPages, headline)
        .with_impact("Every program that wrote to a file, even to its log, slept in write(2).")
        .with_remedy(remedy(&stall.window.now));
    match hazard {
        Ok(found) => finding.evidence = found.into_iter().flat_map(|f| f.evidence).collect(),
        Err(missing) if score.strength_percent() <= 0.0 => return Err(missing),
        Err(_) => {}
    }
    score.cause(finding)
}

fn remedy(snapshot: &Snapshot) -> Remedy {
    let disks = snapshot.disks.value().map_or(&[][..], Vec::as_slice);
    let busiest = disks
        .iter()
        .max_by_key(|disk| disk.bdi.as_ref().and_then(|bdi| bdi.reclaimable_bytes).unwrap_or(0));
    let dirty = busiest.and_then(|disk| disk.bdi.as_ref()?.reclaimable_bytes).unwrap_or(0);
    match busiest {
        Some(disk) if dirty > 0 && disk.max_ratio.is_some() => Remedy::named(
            format!("limit {} to {SLOW_DEVICE_RATIO}% of the dirty limit", disk.name),
            vec![Step::write(
                format!("/sys/class/bdi/{}/max_ratio", disk.device),
                SLOW_DEVICE_RATIO,
            )],
        ),
        _ => Remedy::named(
            "limit the slow device to a part of the dirty limit",
            vec![Step::manual(format!(
                "echo {SLOW_DEVICE_RATIO} > /sys/class/bdi/MAJOR:MINOR/max_ratio"
            ))],
        ),
    }
}
