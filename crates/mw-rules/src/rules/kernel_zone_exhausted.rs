//! # kernel-zone-exhausted
//!
//! No zone can serve the kernel's own requests, although memory is free.
//!
//! ## What it finds
//! No zone that serves the kernel (all but HighMem and Movable) has a page above its min watermark, its reserve for lower
//! zones and the memory that is kept for contiguous allocation (CMA), which only movable pages use; or no such zone
//! that is above them has a free block of 128 KiB. Not where memory as a whole is used up (memory-exhausted).
//!
//! ## Why it hurts
//! The kernel's own memory is not movable: slab objects, kernel stacks of fork(2), page tables on 32-bit machines, buffers
//! that a network device receives into, rings of drivers. Below the min watermark such a request reclaims first; one
//! in an interrupt cannot, and fails once three quarters of that reserve are used: packets are lost. Blocks above 32
//! KiB (order 3) are not retried: a driver that needs one fails.
//!
//! ## What it looks like
//! "page allocation failure: order:0, mode:GFP_ATOMIC", or "order:5", in the kernel log while `free` shows gigabytes free;
//! on 32-bit machines OOM kills with `LowFree` small.
//!
//! ## How to fix it
//! The remedy depends on what keeps the memory: a smaller `cma=` on the boot line; a smaller `vm.min_free_kbytes` where
//! the watermark takes a large part of the zone; a larger `vm.watermark_scale_factor` where the zones are full of page
//! cache, so that kswapd starts earlier; one compaction where the memory is in small blocks.
//!
//! ## Threshold
//! The kernel's own arithmetic (mm/page_alloc.c, `__zone_watermark_ok()`). It is critical if requests in interrupts fail as
//! well: they may use the reserve down to 3/8 of the min watermark (half of it as ALLOC_HIGH, a quarter of the rest as
//! ALLOC_HARDER). 128 KiB is a ring of 4,096 descriptors of 32 bytes, as network devices have it. Above the reserve at least 1%
//! of memory has to be free, so that a shortage of blocks is told from one of memory; where compaction is known to make
//! huge pages of it, it is a note.
//!
//! ## References
//! Linux, mm/page_alloc.c, __zone_watermark_ok() and __alloc_pages_slowpath();
//! Documentation/admin-guide/sysctl/vm.rst, min_free_kbytes; include/linux/mmzone.h, PAGE_ALLOC_COSTLY_ORDER.

use crate::outlook;
use crate::rules::memory_exhausted;
use crate::share::percent;
use crate::watermark::{MIN_FREE, is_low, kernel_choice_kib};
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Sysctl, Window, derived,
    format_bytes, fragmentation, zones,
};
use mw_proc::zoneinfo::Zone;

/// Size of a block that a driver may ask for.
const BLOCK_BYTES: u64 = 128 << 10;

/// Share of memory, as a divisor, that is free where blocks are missing and not memory.
const ENOUGH_SHARE: u64 = 100;

/// Share of a zone, without CMA, from which on its min watermark is too high: as in min-free-too-high.
const HIGH_PERCENT: f64 = 10.0;

const SCALE_FACTOR: &str = "vm.watermark_scale_factor";
const WIDER_SCALE_FACTOR: u64 = 100;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let all = &snapshot.sample.zoneinfo.required()?.zones;
    let is_growing = zones::deferred_bytes(&snapshot.sample, snapshot.origin.page_bytes) > 0;
    let of_kernel: Vec<KernelZone<'_>> = all
        .iter()
        .filter(|zone| zone.is_populated() && is_low(zone))
        .map(|zone| KernelZone::new(zone, all))
        .collect();
    if is_growing || memory_exhausted::is_exhausted(snapshot) {
        return Ok(Vec::new());
    }
    let Some(largest) = of_kernel.iter().max_by_key(|of| of.zone.managed_or_present_pages()) else {
        return Ok(Vec::new());
    };
    if of_kernel.iter().all(|of| of.left_pages() == 0) {
        return Ok(vec![exhausted(snapshot, largest, &of_kernel)]);
    }
    Ok(without_blocks(window, &of_kernel).into_iter().collect())
}

/// A zone as a request of the kernel sees it.
struct KernelZone<'a> {
    zone: &'a Zone,
    /// Free pages that are not kept for contiguous allocation.
    free_pages: u64,
    /// Kept from requests that a higher zone of the kernel could serve.
    reserve_pages: u64,
}

impl<'a> KernelZone<'a> {
    /// Where there is a zone that the kernel's requests do not use, the reserve that counts for them is unknown: older
    /// kernels leave out zones. It counts as nothing then.
    fn new(zone: &'a Zone, all: &[Zone]) -> Self {
        let has_higher = all.iter().any(|zone| zone.is_populated() && !is_low(zone));
        Self {
            zone,
            free_pages: zone.free_pages.saturating_sub(zone.free_cma_pages.unwrap_or(0)),
            reserve_pages: if has_higher { 0 } else { zone.reserve_pages() },
        }
    }

    fn left_above(&self, watermark_pages: u64) -> u64 {
        self.free_pages.saturating_sub(watermark_pages.saturating_add(self.reserve_pages))
    }

    /// Pages that a request that may wait gets without reclaim.
    fn left_pages(&self) -> u64 {
        self.left_above(self.zone.unboosted_min_pages())
    }

    /// Pages that a request in an interrupt gets.
    fn left_in_interrupt_pages(&self) -> u64 {
        self.left_above((self.zone.unboosted_min_pages() / 8).saturating_mul(3))
    }
}

fn exhausted(snapshot: &Snapshot, largest: &KernelZone<'_>, all: &[KernelZone<'_>]) -> Finding {
    let bytes = |pages: u64| pages.saturating_mul(snapshot.origin.page_bytes);
    let zone = largest.zone;
    let kept = bytes(zone.unboosted_min_pages().saturating_add(largest.reserve_pages));
    let cma = bytes(zone.free_cma_pages.unwrap_or(0));
    let free = bytes(largest.free_pages);
    let fails = all.iter().all(|of| of.left_in_interrupt_pages() == 0);
    let severity = if fails { Severity::Critical } else { Severity::Warning };
    let of_cma = match cma {
        0 => String::new(),
        cma => format!(" ({} more are CMA, for movable pages only)", format_bytes(cma)),
    };
    let headline = format!(
        "the kernel's own requests find no memory: node {} zone {} has {} free for them{of_cma}, below its \
         min watermark and reserve of {}{}",
        zone.node,
        zone.name,
        format_bytes(free),
        format_bytes(kept),
        cache_words(snapshot)
    );
    let impact = if fails {
        "Requests in interrupts fail, and packets are lost; all other requests of the kernel reclaim first."
    } else {
        "fork, network and drivers wait for reclaim, or the OOM killer ends a process, although memory is free."
    };
    let subject = Subject::Zone { node: zone.node, zone: zone.name.as_str().to_owned() };
    let mut finding = Finding::new(severity, subject, headline).with_impact(impact);
    for of in all {
        let name = format!("node {} zone {}", of.zone.node, of.zone.name);
        let kept = of.zone.unboosted_min_pages().saturating_add(of.reserve_pages);
        let text = format!(
            "{} free without CMA, {} kept",
            format_bytes(bytes(of.free_pages)),
            format_bytes(bytes(kept))
        );
        finding = finding.with_evidence(name, Quantity::Text(text), "/proc/zoneinfo");
    }
    finding.with_remedy(remedy(snapshot, largest))
}

/// The page cache that reclaim could free for them.
fn cache_words(snapshot: &Snapshot) -> String {
    let Some(meminfo) = snapshot.sample.meminfo.value() else { return String::new() };
    let meminfo = derived::sound(meminfo);
    let cache = derived::file_cache_bytes(&meminfo);
    let dirty = derived::unwritten_bytes(&meminfo);
    format!(
        "; {} are page cache, {} of it dirty",
        format_bytes(cache),
        format_bytes(dirty.min(cache))
    )
}

fn remedy(snapshot: &Snapshot, largest: &KernelZone<'_>) -> Remedy {
    let zone = largest.zone;
    let page_bytes = snapshot.origin.page_bytes;
    let min_free_kib = snapshot.sysctl.number(MIN_FREE).unwrap_or(0);
    let choice_kib = kernel_choice_kib(snapshot).unwrap_or(min_free_kib);
    // The zone's part of the setting stays the same.
    let min_after = u128::from(zone.unboosted_min_pages())
        .saturating_mul(u128::from(choice_kib))
        .checked_div(u128::from(min_free_kib))
        .and_then(|pages| u64::try_from(pages).ok());
    let after = min_after.map_or(0, |min| largest.left_above(min)).saturating_mul(page_bytes);
    let own = zone.managed_or_present_pages().saturating_sub(zone.cma_pages.unwrap_or(0));
    let is_high = percent(zone.unboosted_min_pages(), own) >= HIGH_PERCENT;
    if is_high && choice_kib < min_free_kib && after > 0 {
        return Remedy::named(
            format!(
                "set {MIN_FREE} to the kernel's own choice, {choice_kib}: {} are available to the kernel then",
                format_bytes(after)
            ),
            vec![Step::write(Sysctl::path(MIN_FREE), choice_kib)],
        );
    }
    let cma = zone.free_cma_pages.unwrap_or(0).saturating_mul(page_bytes);
    if cma >= zone.free_pages.saturating_mul(page_bytes) / 2 && cma > 0 {
        let half = cma / 2;
        return Remedy::named(
            format!(
                "reserve less for CMA: half of what is free in it gives the kernel {}",
                format_bytes(half)
            ),
            vec![Step::BootParameter { parameter: "cma=SIZE".to_owned() }],
        );
    }
    let distance = zone.low_pages.saturating_sub(zone.min_pages);
    let wider = zone.managed_or_present_pages() / WIDER_SCALE_FACTOR;
    match snapshot.sysctl.number(SCALE_FACTOR) {
        // The distance is a quarter of the min watermark at least (`__setup_per_zone_wmarks()`).
        Ok(factor) if factor < WIDER_SCALE_FACTOR && wider > distance => Remedy::named(
            format!(
                "set {SCALE_FACTOR} to {WIDER_SCALE_FACTOR}: kswapd starts {} before the min watermark",
                format_bytes(wider.saturating_mul(page_bytes))
            ),
            vec![Step::write(Sysctl::path(SCALE_FACTOR), WIDER_SCALE_FACTOR)],
        ),
        _ => {
            let raised = min_free_kib.max(choice_kib).saturating_mul(2);
            Remedy::named(
                format!(
                    "raise {MIN_FREE} to {raised}, so that kswapd starts earlier and interrupts have more"
                ),
                vec![Step::manual(format!("sysctl -w {MIN_FREE}={raised}"))],
            )
        }
    }
}

/// The zones that are above their watermarks have much memory and no block of the size.
fn without_blocks(window: &Window, all: &[KernelZone<'_>]) -> Option<Finding> {
    let snapshot = &window.now;
    let page_bytes = snapshot.origin.page_bytes;
    let order = derived::order_of(BLOCK_BYTES, page_bytes);
    let buddies = &snapshot.sample.buddyinfo.value()?.zones;
    let total = derived::memory_bytes(&snapshot.sample).ok()?;
    let (mut free, mut largest_order) = (0_u64, 0);
    for of in all.iter().filter(|of| of.left_pages() > 0) {
        // The lists do not tell which blocks are of CMA.
        if of.zone.free_cma_pages.is_some_and(|pages| pages > 0) {
            return None;
        }
        let is_it = |buddy: &&_| is_same(buddy, of.zone);
        let buddy = buddies.iter().find(is_it)?;
        if fragmentation::free_pages_from_order(buddy, order) > 0
            || zones::unlisted_bytes(&snapshot.sample, page_bytes, buddy) > 0
        {
            return None;
        }
        let orders = 0..order;
        let highest = orders.rev().find(|at| fragmentation::free_pages_from_order(buddy, *at) > 0);
        largest_order = largest_order.max(highest.unwrap_or(0));
        free = free.saturating_add(of.left_pages().saturating_mul(page_bytes));
    }
    (free >= total / ENOUGH_SHARE).then(|| fragmented(window, free, largest_order))
}

fn is_same(buddy: &mw_proc::buddyinfo::BuddyZone, zone: &Zone) -> bool {
    buddy.node == zone.node && buddy.name == zone.name
}

fn fragmented(window: &Window, free: u64, largest_order: usize) -> Finding {
    let snapshot = &window.now;
    let page_bytes = snapshot.origin.page_bytes;
    let largest = page_bytes.checked_shl(u32::try_from(largest_order).unwrap_or(0));
    let order = derived::order_of(BLOCK_BYTES, page_bytes);
    let headline = format!(
        "free memory is fragmented: no contiguous block of {} (order {order}) is free for the kernel, although {} are (the \
         largest has {})",
        format_bytes(BLOCK_BYTES),
        format_bytes(free),
        format_bytes(largest.unwrap_or(0))
    );
    let compact =
        Step::Once { path: "/proc/sys/vm/compact_memory".to_owned(), value: "1".to_owned() };
    let remedy = Remedy::named(
        "compact memory once; a larger vm.min_free_kbytes keeps more blocks free afterwards",
        vec![compact],
    );
    let huge_bytes = derived::huge_page_bytes(snapshot);
    // Blocks of a huge page's size have all smaller ones.
    let is_served = outlook::is_served_in_huge_pages(snapshot, huge_bytes);
    let severity = if is_served { Severity::Note } else { Severity::Warning };
    let mut finding = Finding::new(severity, mw_model::Area::KernelMemory, headline)
        .with_evidence("free above the watermarks", Quantity::Bytes(free), "/proc/zoneinfo")
        .with_evidence(
            "largest free block",
            Quantity::Bytes(largest.unwrap_or(0)),
            "/proc/buddyinfo",
        )
        .with_impact("Drivers and network devices that need such a block fail, or wait while the kernel compacts.")
        .with_remedy(remedy);
    if let Some(meminfo) = snapshot.sample.meminfo.value() {
        // It grows into all free memory, and leaves what is left in small blocks.
        let cache = Quantity::Bytes(derived::file_cache_bytes(&derived::sound(meminfo)));
        finding = finding.with_evidence("page cache", cache, "/proc/meminfo");
    }
    if outlook::compaction_fails(window) {
        finding.headline.push_str("; compaction mostly fails");
    }
    finding
}
