//! How long one thread takes.

use super::notes::Notes;
use super::plan::Plan;
use mw_model::{
    Calibration, Confidence, Missing, PageSize, Request, Snapshot, TimeEstimate,
    UNBACKED_NS_PER_BYTE, derived, fragmentation,
};

/// Dropping clean page cache, next to kswapd, in nanoseconds a byte.
const RECLAIM_NS_PER_BYTE: f64 = 0.25;
/// The speed of a disk that the kernel has not measured: that of a hard disk.
const DISK_BYTES_PER_S: f64 = 100e6;
/// The cost of a page when each allocation first scans the local node, relative to a plain one
/// (measured with vm.zone_reclaim_mode 4 to 7 and a node full of tmpfs).
const ZONE_RECLAIM_FACTOR: f64 = 5.0;
/// The relative cost of a transparent huge page that needs compaction (measured with defrag=always).
const COMPACTION_FACTOR: f64 = 15.0;
/// The relative cost of a huge page that is allocated beyond the pool and populated.
const OVERCOMMIT_FACTOR: f64 = 1.5;
/// Measured chunks that vary by more than this are not reliable.
const WIDE_SPREAD: f64 = 2.0;

/// With more than this, the time depends on what other threads do.
const CROWDED: f64 = 1.1;

/// The estimate; none where the calibration did not measure what the request needs.
pub(super) fn estimate(
    snapshot: &Snapshot,
    request: &Request,
    plan: &Plan,
    calibration: &Calibration,
    notes: &Notes,
) -> Option<TimeEstimate> {
    let unseen = notes.unseen.as_slice();
    let speed = speed(request, plan, calibration)?;
    let size = request.size_bytes as f64;
    let unbacked = unbacked(snapshot, request, plan, calibration);
    let cold = calibration.backing.unbacked_ns_per_byte.unwrap_or(UNBACKED_NS_PER_BYTE);
    let more = (cold - speed.populate).max(0.0);
    let slow_ns = slow_ns(snapshot, plan, speed.populate);
    let slow = slow_ns > 0.0 || notes.slowed;
    let crowding = calibration.crowding.max(1.0);
    let plain = size * (speed.populate + speed.lock) * crowding;
    let more = more * crowding;
    let likely = plain + unbacked.likely_bytes as f64 * more + slow_ns;
    let confidence = confidence(calibration, &unbacked, &speed, slow, unseen);
    let (down, up): (f64, f64) = match confidence {
        Confidence::High => (1.25, 1.25),
        Confidence::Medium => (2.0, 2.0),
        Confidence::Low => (3.0, 10.0),
    };
    let low = (plain.min(likely) / down).max(likely / 10.0);
    // Where only the backing is unknown, its worst case is the worst case.
    let beyond = if unbacked.most_bytes > unbacked.likely_bytes { 1.25 } else { up.min(2.0) };
    let high = (plain + unbacked.most_bytes as f64 * more + slow_ns) * beyond;
    let high = high.max(likely * up.min(2.0));
    let high = if slow { high.max(likely * up) } else { high };
    Some(TimeEstimate {
        likely_ms: likely / 1e6,
        low_ms: low / 1e6,
        high_ms: high / 1e6,
        confidence,
        basis: basis(calibration, &unbacked, &speed, slow, unseen),
    })
}

/// Nanoseconds a byte of memory that the host has backed.
struct Speed {
    populate: f64,
    lock: f64,
    /// Whether it was measured with pages of another size than requested.
    borrowed: bool,
}

fn speed(request: &Request, plan: &Plan, calibration: &Calibration) -> Option<Speed> {
    let c = calibration;
    let lock = |ns: Option<f64>| if request.lock { ns } else { None };
    let (populate, lock, borrowed) = match request.page {
        PageSize::Base => (c.base_ns_per_byte?, lock(c.base_lock_ns_per_byte), false),
        PageSize::Thp => match (c.thp_ns_per_byte, c.base_ns_per_byte) {
            (Some(thp), _) => (thp, lock(c.thp_lock_ns_per_byte), false),
            (None, base) => {
                (base?, lock(c.base_lock_ns_per_byte), plan.not_huge_bytes < request.size_bytes)
            }
        },
        // mlock of hugetlb pages that are populated does nothing (mlock_fixup of the kernel).
        PageSize::Hugetlb(_) => match c.hugetlb_ns_per_byte {
            Some(ns) => (ns, None, false),
            None => (c.thp_ns_per_byte?, None, true),
        },
    };
    // A lock that could not be measured costs about a quarter of populating.
    let unmeasured = request.lock && lock.is_none() && request.page == PageSize::Base;
    let lock = lock.unwrap_or(if unmeasured { populate / 4.0 } else { 0.0 });
    Some(Speed { populate, lock, borrowed: borrowed || unmeasured })
}

/// How much of the request the host has to back first.
struct Unbacked {
    likely_bytes: u64,
    most_bytes: u64,
    /// Whether the request reaches far deeper into the free lists than the sample, and the host
    /// reclaims free memory.
    deep: bool,
}

/// Base pages come from small free blocks first. Most of those were in use before, so the host has
/// backed them, and they are too small for it to reclaim. For large blocks the sample is extrapolated.
fn unbacked(
    snapshot: &Snapshot,
    request: &Request,
    plan: &Plan,
    calibration: &Calibration,
) -> Unbacked {
    let backing = &calibration.backing;
    if !backing.virtual_machine {
        return Unbacked { likely_bytes: 0, most_bytes: 0, deep: false };
    }
    let small = match request.page {
        PageSize::Base => small_blocks_bytes(snapshot),
        PageSize::Thp | PageSize::Hugetlb(_) => 0,
    };
    let size = request.size_bytes;
    let large = size.saturating_sub(small).saturating_sub(plan.untouched);
    let share = backing.unbacked_share.unwrap_or(0.0);
    let behind = large.saturating_sub(backing.backed_first_bytes);
    let likely = plan.untouched.min(size).saturating_add((behind as f64 * share) as u64);
    let extrapolated =
        if backing.gives_back { MAX_EXTRAPOLATION_IF_RECLAIMED } else { MAX_EXTRAPOLATION };
    let deep = size > extrapolated.saturating_mul(calibration.measured_bytes);
    // A block that the host reclaimed stays unbacked when it is split for a smaller request.
    let backed = if backing.gives_back { 0 } else { small };
    let most = if share > 0.0 || deep { size.saturating_sub(backed).max(likely) } else { likely };
    Unbacked {
        likely_bytes: likely,
        most_bytes: most,
        deep: deep && share == 0.0 && backing.gives_back,
    }
}

/// A sample of backed memory is extrapolated to so many times its size.
const MAX_EXTRAPOLATION: u64 = 64;
/// The same where the host reclaims free memory: the free lists begin with what was freed last, and
/// the host has reclaimed what lies deeper.
const MAX_EXTRAPOLATION_IF_RECLAIMED: u64 = 2;

fn small_blocks_bytes(snapshot: &Snapshot) -> u64 {
    let Some(buddyinfo) = snapshot.sample.buddyinfo.value() else { return 0 };
    let page = snapshot.origin.page_bytes;
    let order = derived::order_of(derived::huge_page_bytes(snapshot), page);
    let small = |zone| {
        let huge = fragmentation::free_pages_from_order(zone, order);
        fragmentation::free_pages(zone).saturating_sub(huge)
    };
    derived::total(buddyinfo.zones.iter().map(small)).saturating_mul(page)
}

fn slow_ns(snapshot: &Snapshot, plan: &Plan, populate: f64) -> f64 {
    let disk_ns = 1e9 / disk_bytes_per_s(snapshot);
    let written = derived::total([plan.dirty, plan.swapped, plan.scraped]) as f64 * disk_ns;
    let scanned = plan.zone_reclaimed as f64 * populate * (ZONE_RECLAIM_FACTOR - 1.0);
    let compacted = if compacts(snapshot) {
        plan.not_huge_bytes as f64 * populate * (COMPACTION_FACTOR - 1.0)
    } else {
        0.0
    };
    let made = plan.overcommitted as f64 * populate * (OVERCOMMIT_FACTOR - 1.0);
    plan.clean as f64 * RECLAIM_NS_PER_BYTE + written + scanned + compacted + made
}

/// Whether a fault on memory that asks for huge pages compacts for one.
fn compacts(snapshot: &Snapshot) -> bool {
    let thp = snapshot.thp.value();
    let on = thp.and_then(|t| t.enabled.selected()).is_some_and(|e| e != "never");
    let defrag = thp.and_then(|t| t.defrag.selected());
    on && matches!(defrag, Some("always" | "madvise" | "defer+madvise"))
}

/// The speed of the fastest disk that the kernel has an estimate for.
pub(super) fn disk_bytes_per_s(snapshot: &Snapshot) -> f64 {
    let disks = snapshot.disks.value().map_or(&[][..], Vec::as_slice);
    let known = disks.iter().filter_map(|disk| disk.bdi.as_ref()?.write_bandwidth_bytes_per_s);
    known.max().filter(|speed| *speed > 0).map_or(DISK_BYTES_PER_S, |speed| speed as f64)
}

fn confidence(
    calibration: &Calibration,
    unbacked: &Unbacked,
    speed: &Speed,
    slow: bool,
    unseen: &[Missing],
) -> Confidence {
    let sampled = calibration.backing.unbacked_ns_per_byte.is_some();
    let guessed = unbacked.likely_bytes > 0 && !sampled;
    let is_noisy = calibration.crowding > CROWDED || calibration.spread > WIDE_SPREAD;
    if slow || guessed || speed.borrowed || unbacked.deep {
        Confidence::Low
    } else if unbacked.most_bytes > 0 || is_noisy || !unseen.is_empty() {
        Confidence::Medium
    } else {
        Confidence::High
    }
}

fn basis(
    calibration: &Calibration,
    unbacked: &Unbacked,
    speed: &Speed,
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
    if unbacked.likely_bytes > 0 {
        let bytes = mw_model::format_bytes(unbacked.likely_bytes);
        add(&format!("the host of this virtual machine has to back {bytes} first"));
    } else if unbacked.deep {
        add(
            "the host of this virtual machine reclaims free memory, and touching it again is far slower",
        );
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
