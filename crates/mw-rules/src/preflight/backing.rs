//! How much of a request the host of a virtual machine has to back first, and what that costs.

use super::span::ValueRange;
use mw_model::{
    Assessment, Backing, Calibration, FreeLayer, PageSize, Snapshot, UNBACKED_NS_PER_BYTE, derived,
    fragmentation,
};

/// Share of a layer of backed memory that the request may find: others take and free memory between the
/// question and the request.
const BACKED: ValueRange = ValueRange::new(1.1, 1.0, 0.85);
/// The same of small blocks. Allocations of programs leave those of other kinds for last, which is
/// more than half of them where a machine has run for hours; what is left of a reclaimed block that
/// was split is not backed.
const SMALL_BACKED: ValueRange = ValueRange::new(0.9, 0.5, 0.25);
/// Rate at which the host reclaims the backed memory that a request meets, in bytes a second.
/// A choice: a kernel may report 64 MiB a second of each free list (mm/page_reporting.c), and more was seen
/// here, but not all of it is what the request would have met.
const FADING_BYTES_PER_S: ValueRange = ValueRange::new(0.0, 16.0 * MIB, 64.0 * MIB);
const MIB: f64 = 1_048_576.0;
/// The cost of unbacked memory if it was measured now, relative to what was measured.
const MEASURED: ValueRange = ValueRange::new(0.7, 1.0, 1.5);
/// The same if it was not: from hosts with huge pages to hosts that are virtual machines themselves.
const ASSUMED: ValueRange = ValueRange::new(0.2, 0.8, 1.6);
/// Backed memory that was sampled without a mark of what lies deeper stands for so many times its
/// size, and beyond that for nothing.
const MAX_EXTRAPOLATION: u64 = 64;

/// Memory that the host has to back.
pub(super) struct UnbackedMemory {
    pub(super) bytes: ValueRange,
    /// The cost of a byte beyond that of a backed one, in nanoseconds of CPU time.
    pub(super) ns_per_byte: ValueRange,
    /// True if the cost was measured.
    pub(super) is_measured: bool,
}

pub(super) fn unbacked(
    snapshot: &Snapshot,
    assessment: &Assessment,
    calibration: &Calibration,
    populate_ns: f64,
    plain_s: ValueRange,
) -> UnbackedMemory {
    let backing = &calibration.backing;
    let cost = backing.unbacked_ns_per_byte;
    let cost_span = match cost {
        Some(cost) => MEASURED.scaled(cost),
        None => ASSUMED.scaled(UNBACKED_NS_PER_BYTE),
    };
    let bytes = if !backing.virtual_machine {
        ValueRange::ZERO
    } else if tells(backing) && !matches!(assessment.request.page, PageSize::Hugetlb(_)) {
        by_layers(assessment, &backing.layers, plain_s)
    } else {
        by_sample(snapshot, assessment, calibration)
    };
    let more = |ns: f64| (ns - populate_ns).max(0.0);
    UnbackedMemory {
        bytes,
        ns_per_byte: ValueRange::new(
            more(cost_span.low),
            more(cost_span.likely),
            more(cost_span.high),
        ),
        is_measured: cost.is_some(),
    }
}

/// True if the kernel marks what the host has reclaimed.
pub(super) fn tells(backing: &Backing) -> bool {
    let marked = backing.layers.iter().any(|layer| layer.reclaimed);
    (backing.gives_back || marked) && !backing.layers.is_empty()
}

/// Walks the layers of each node as far as the request reaches.
fn by_layers(assessment: &Assessment, layers: &[FreeLayer], plain_s: ValueRange) -> ValueRange {
    let Assessment { request, sources, nodes, .. } = assessment;
    let walk = |of: fn(&ValueRange) -> f64, sign: f64| {
        let mut unbacked = 0.0;
        // The first is taken at once, the last after all of the time.
        let mut fading = of(&FADING_BYTES_PER_S) * of(&plain_s) / 2.0;
        let mut left = request.size_bytes as f64;
        for node in nodes {
            let mut here = (node.taken_bytes as f64).min(left);
            left -= here;
            let is_reached = |layer: &&FreeLayer| {
                layer.node == node.node && (!layer.small || !is_huge(request.page))
            };
            for layer in layers.iter().filter(is_reached) {
                let backed = of(if layer.small { &SMALL_BACKED } else { &BACKED });
                let bytes = layer.bytes as f64;
                let found = if layer.reclaimed {
                    0.0
                } else {
                    (bytes * backed + sign * layer.uncertain_bytes as f64).max(0.0).min(here)
                };
                let faded = if layer.small { 0.0 } else { fading.min(found) };
                fading -= faded;
                let found = found - faded;
                here -= found;
                // What is missing of large blocks has been reclaimed by then; of small ones, it is
                // left for last.
                let missing = if layer.small { 0.0 } else { (bytes - found).max(0.0).min(here) };
                here -= missing;
                unbacked += missing;
            }
        }
        // The rest comes from page cache, which is backed.
        unbacked
    };
    let never = ValueRange::exact(sources.untouched.min(request.size_bytes) as f64);
    let span = ValueRange::new(
        walk(|factor| factor.low, 1.0),
        walk(|factor| factor.likely, 0.0),
        walk(|factor| factor.high, -1.0),
    );
    span.plus(never)
}

/// Base pages come from small free blocks first. Most of those were in use before, so the host has
/// backed them. For large blocks the sample is extrapolated.
fn by_sample(
    snapshot: &Snapshot,
    assessment: &Assessment,
    calibration: &Calibration,
) -> ValueRange {
    let Assessment { request, sources, .. } = assessment;
    let backing = &calibration.backing;
    let small = if is_huge(request.page) { 0 } else { small_blocks_bytes(snapshot) };
    let size = request.size_bytes;
    let large = size.saturating_sub(small).saturating_sub(sources.untouched);
    let share = backing.unbacked_share.unwrap_or(0.0);
    let behind = large.saturating_sub(backing.backed_first_bytes);
    let never = sources.untouched.min(size);
    let likely = never.saturating_add((behind as f64 * share) as u64);
    let far = MAX_EXTRAPOLATION.saturating_mul(calibration.measured_bytes);
    let most = if share > 0.0 { size } else { size.saturating_sub(far).max(likely) };
    let low = if share > 0.0 { likely / 2 } else { never };
    ValueRange::new(low as f64, likely as f64, most as f64)
}

/// True if only blocks of a huge page serve them.
fn is_huge(page: PageSize) -> bool {
    matches!(page, PageSize::Thp | PageSize::Hugetlb(_))
}

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
