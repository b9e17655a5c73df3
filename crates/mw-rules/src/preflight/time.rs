//! How long one thread takes.
//!
//! Each part of the time is a likely value with a range, and the ranges add up: populating and locking
//! at the measured speed, what the host has to back first, reclaim, and the competition for CPUs. `CROWDING` covers
//! what `preflight_accuracy --ranges` measured beside builds (0.65 to 1.5, the fifth to the ninety-fifth percentile);
//! the other constants are coarser.

use super::backing::{self, UnbackedMemory};
use super::disk;
use super::span::ValueRange;
use mw_model::{
    Assessment, Calibration, Confidence, Constraint, ConstraintEffect, ConstraintKind,
    MemorySources, Missing, PageSize, Snapshot, TimeEstimate, derived,
};

/// The speed of all of a request relative to that of the sample, in CPU time.
const SPEED: ValueRange = ValueRange::new(0.75, 1.0, 1.35);
/// The same if the sample was small: the machine is so slow that 28 ms were enough for no more, as an emulated one,
/// whose first pass through code is slower than those that follow. 91 of 98 requests there lay within this.
const SMALL_SAMPLE: ValueRange = ValueRange::new(0.15, 0.7, 2.0);
const SMALL_SAMPLE_BYTES: u64 = 24 << 20;
/// The same if the sample was of pages of another size.
const BORROWED: ValueRange = ValueRange::new(0.4, 1.0, 2.0);
/// Locking that could not be measured, relative to populating base pages.
const LOCK: ValueRange = ValueRange::new(0.0, 0.25, 0.6);
/// Dropping clean page cache, next to kswapd, relative to populating base pages.
const RECLAIM: ValueRange = ValueRange::new(0.1, 0.8, 2.5);
/// The time for writeback and swap relative to that of one pass at the disk's speed: writeback may be
/// under way already, and scattered pages take longer.
const DISK: ValueRange = ValueRange::new(0.25, 1.0, 4.0);
/// The cost of a page when each allocation first scans the local node, relative to a plain one
/// (measured with vm.zone_reclaim_mode 4 to 7 and a node full of tmpfs).
const ZONE_RECLAIM: ValueRange = ValueRange::new(0.5, 4.0, 8.0);
/// The cost of a transparent huge page that needs compaction, relative to a plain one (measured with
/// defrag=always). Where compaction fails, base pages cost as much.
const COMPACTION: ValueRange = ValueRange::new(1.0, 14.0, 30.0);
/// The relative cost of a huge page that is allocated beyond the pool and populated.
const OVERCOMMIT: ValueRange = ValueRange::new(0.2, 0.5, 5.0);
/// The competition for CPUs during the request, relative to that during the measurement.
const CROWDING: ValueRange = ValueRange::new(0.6, 1.0, 1.6);
/// The same where none was measured: a thread of another program that wakes up.
const UNCROWDED: ValueRange = ValueRange::new(1.0, 1.0, 1.15);
/// A request of less CPU time than this may be through before another thread gets its turn.
const UNDISTURBED_NS: f64 = 15e6;
/// Longest time that a thread waits for its turn on a crowded CPU, in nanoseconds: some time slices.
const TURN_NS: f64 = 8e6;
/// With more than this, the time depends on what other threads do.
const CROWDED: f64 = 1.1;
/// Measured chunks that vary by more than this are not reliable.
const WIDE_SPREAD: f64 = 2.0;
/// A range that is wider than this says nothing.
const WIDEST: f64 = 32.0;

/// The estimate.
///
/// # Errors
/// The calibration did not measure what the request needs, or nothing useful can be said.
pub(super) fn estimate(
    snapshot: &Snapshot,
    assessment: &Assessment,
    calibration: &Calibration,
) -> Result<TimeEstimate, Missing> {
    let Assessment { request, sources, .. } = assessment;
    if assessment.constraints.iter().any(is_slowed_by_group) {
        let why =
            "cannot be predicted: the kernel slows what exceeds memory.high as long as it does";
        return Err(Missing::skipped("time", why));
    }
    if request.page == PageSize::Best {
        let why = "the speed of several sizes together is not measured";
        return Err(Missing::skipped("time", why));
    }
    if sources.not_folio > 0 {
        let why = "a part of the memory would not consist of such folios";
        return Err(Missing::skipped("time", why));
    }
    let missing = || Missing::skipped("time", "the machine was not measured with such pages");
    let speed = speed(assessment, calibration).ok_or_else(missing)?;
    let plain = speed.ns_per_byte.scaled(request.size_bytes as f64);
    let crowding = crowding(calibration, plain.likely);
    let is_crowded = crowding.high > CROWDED;
    let plain_s = plain.times(crowding).scaled(1e-9);
    let unbacked = backing::unbacked(snapshot, assessment, calibration, speed.populate_ns, plain_s);
    let base_ns = calibration.base_ns_per_byte.unwrap_or(speed.populate_ns);
    let reclaimed = RECLAIM.scaled(base_ns * sources.clean as f64);
    let slow = slow_ns(snapshot, sources, speed.populate_ns);
    let is_slow = slow.likely > 0.0;
    let processor = plain.plus(unbacked.bytes.times(unbacked.ns_per_byte)).plus(reclaimed);
    let mut time = processor.times(crowding).plus(slow);
    time.high += if is_crowded { TURN_NS } else { 0.0 };
    if time.width() > WIDEST {
        let why = unpredictable(&unbacked, is_slow);
        return Err(Missing::skipped("time", format!("cannot be predicted: {why}")));
    }
    Ok(TimeEstimate {
        likely_ms: time.likely / 1e6,
        low_ms: time.low / 1e6,
        high_ms: time.high / 1e6,
        confidence: confidence(time.width()),
        basis: basis(calibration, &unbacked, &speed, is_slow, &assessment.unread()),
    })
}

fn is_slowed_by_group(constraint: &Constraint) -> bool {
    constraint.effect == ConstraintEffect::Slows
        && matches!(constraint.kind, ConstraintKind::MemoryGroup { .. })
}

/// Elapsed time relative to CPU time during the request.
fn crowding(calibration: &Calibration, processor_ns: f64) -> ValueRange {
    let measured = calibration.crowding.max(1.0);
    let range = if measured > CROWDED { CROWDING } else { UNCROWDED };
    let span = range.scaled(measured);
    let undisturbed = processor_ns < UNDISTURBED_NS;
    ValueRange { low: if undisturbed { 1.0 } else { span.low.max(1.0) }, ..span }
}

fn unpredictable(unbacked: &UnbackedMemory, is_slow: bool) -> &'static str {
    if unbacked.bytes.high > 0.0 && !unbacked.is_measured {
        "how long the host of this virtual machine takes to back memory is not known"
    } else if is_slow {
        "it depends on reclaim, writeback or compaction"
    } else {
        "the measurements vary too much"
    }
}

fn confidence(width: f64) -> Confidence {
    if width <= 2.0 {
        Confidence::High
    } else if width <= 4.0 {
        Confidence::Medium
    } else {
        Confidence::Low
    }
}

/// Nanoseconds a byte of memory that the host has backed.
struct PopulateCost {
    /// Of populating and locking.
    ns_per_byte: ValueRange,
    /// Of populating, as it was measured.
    populate_ns: f64,
    /// True if it was measured with pages of another size than requested.
    borrowed: bool,
}

fn speed(assessment: &Assessment, calibration: &Calibration) -> Option<PopulateCost> {
    let (Assessment { request, sources, .. }, c) = (assessment, calibration);
    let (populate, lock, borrowed) = match request.page {
        PageSize::Base | PageSize::Best => (c.base_ns_per_byte?, c.base_lock_ns_per_byte, false),
        PageSize::Folio(_) => (c.folio_ns_per_byte?, c.base_lock_ns_per_byte, false),
        PageSize::Thp => match (c.thp_ns_per_byte, c.base_ns_per_byte) {
            (Some(thp), _) => (thp, Some(c.thp_lock_ns_per_byte.unwrap_or(0.0)), false),
            (None, base) => (base?, c.base_lock_ns_per_byte, sources.not_huge < request.size_bytes),
        },
        // mlock of hugetlb pages that are populated does nothing (mlock_fixup of the kernel).
        PageSize::Hugetlb(_) => match c.hugetlb_ns_per_byte {
            Some(ns) => (ns, Some(0.0), false),
            None => (c.thp_ns_per_byte?, Some(0.0), true),
        },
    };
    let few = c.measured_bytes < SMALL_SAMPLE_BYTES.min(request.size_bytes / 4);
    let range = match (few, borrowed) {
        (true, _) => SMALL_SAMPLE,
        (false, true) => BORROWED,
        (false, false) => SPEED,
    };
    let lock = match lock {
        _ if !request.lock => ValueRange::ZERO,
        Some(ns) => range.scaled(ns),
        None => LOCK.scaled(populate),
    };
    let ns_per_byte = range.scaled(populate).plus(lock);
    Some(PopulateCost { ns_per_byte, populate_ns: populate, borrowed })
}

/// Work that is not done at the speed of the CPU, or costs a multiple of it.
fn slow_ns(snapshot: &Snapshot, sources: &MemorySources, populate_ns: f64) -> ValueRange {
    let disk_ns = 1e9 / disk::bytes_per_s(snapshot);
    let written = derived::total([sources.dirty, sources.swapped, sources.scraped]) as f64;
    let not_huge = if compacts(snapshot) { sources.not_huge as f64 } else { 0.0 };
    DISK.scaled(written * disk_ns)
        .plus(ZONE_RECLAIM.scaled(sources.zone_reclaimed as f64 * populate_ns))
        .plus(COMPACTION.scaled(not_huge * populate_ns))
        .plus(OVERCOMMIT.scaled(sources.overcommitted as f64 * populate_ns))
}

/// True if a fault on memory that asks for huge pages compacts for one.
fn compacts(snapshot: &Snapshot) -> bool {
    let thp = snapshot.thp.value();
    let on = thp.and_then(|t| t.enabled.selected()).is_some_and(|e| e != "never");
    let defrag = thp.and_then(|t| t.defrag.selected());
    on && matches!(defrag, Some("always" | "madvise" | "defer+madvise"))
}

fn basis(
    calibration: &Calibration,
    unbacked: &UnbackedMemory,
    speed: &PopulateCost,
    slow: bool,
    unseen: &[Missing],
) -> String {
    let measured = mw_model::format_bytes(calibration.measured_bytes);
    let mut basis = format!("measured on {measured} in {:.0} ms", calibration.took_ms);
    let mut add = |text: &str| {
        basis.push_str("; ");
        basis.push_str(text);
    };
    if speed.borrowed {
        add("with pages of another size than requested");
    }
    let unbacked_bytes = unbacked.bytes.likely as u64;
    if unbacked_bytes > 0 {
        let bytes = mw_model::format_bytes(unbacked_bytes);
        let cost = if unbacked.is_measured { "" } else { ", at an assumed speed" };
        add(&format!("the host of this virtual machine has to back {bytes} first{cost}"));
    }
    if slow {
        add("the time for reclaim, writeback or compaction is an estimate");
    }
    if calibration.spread > WIDE_SPREAD {
        add(&format!("the measurements vary by a factor of {:.1}", calibration.spread));
    }
    if calibration.crowding > CROWDED {
        add("other threads compete for the CPUs");
    }
    if !unseen.is_empty() {
        add("some files could not be read");
    }
    basis
}
