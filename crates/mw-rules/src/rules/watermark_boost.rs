//! # watermark-boost
//!
//! kswapd dropped page cache to prevent fragmentation, although memory was free.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. kswapd reclaimed while a zone had more free memory than its watermarks
//! ask for, and the kernel had increased (boosted) the watermarks of that zone; the request waited for reclaim or read
//! files again.
//!
//! ## Why it hurts
//! When an allocation has to take a page block (2 MiB on x86-64) from pages of another kind, the kernel increases the zone's
//! watermarks and wakes kswapd, so that a whole block becomes free again (`boost_watermark`, mm/page_alloc.c;
//! `balance_pgdat`, mm/vmscan.c, Linux 5.10 to 7.3). By default the increase goes up to 150% of the high watermark
//! (`vm.watermark_boost_factor` 15000), which is many GiB on a large machine. kswapd drops clean page cache for it, and
//! neither writes nor swaps. Programs read their files again.
//!
//! ## What it looks like
//! `boost` in /proc/zoneinfo is larger than 0 while `pages free` is above `high` less `boost`; the tracepoint
//! `mm_page_alloc_extfrag` is frequent. 5.10 boosts as well and does not print it: there the rule finds nothing.
//!
//! ## How to fix it
//! `sysctl vm.watermark_boost_factor=0` turns it off, as before Linux 5.0; a smaller value limits it. Kinds of pages
//! then mix more, and huge pages become rarer with time, which [fragmented-node](fragmented-node.md) watches.
//!
//! ## Threshold
//! Reclaim and repeated reads take at least half of the request, and kswapd scans 1000 pages a second, while less than a
//! hundredth of that is swapped out: memory is short then. An allocation of
//! a high order wakes kswapd with free memory as well; that it did at the same time cannot be ruled out.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, `watermark_boost_factor`; mm/page_alloc.c, `boost_watermark()`.

use crate::cause_score::CauseScore;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Finding, Missing, Quantity, Remedy, Severity, Step, Subject, VmActivity};
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::Zone;

/// What a request spends its time on because of it.
pub(crate) const HURT: &[TimeClass] = &[TimeClass::Reclaim, TimeClass::Refault];

const SCANS_PER_S: f64 = 1000.0;
/// Of the pages that kswapd scans, those that are swapped out where memory is short: for a boost it swaps none.
const SWAPS_PERCENT: f64 = 1.0;
/// Score of a request that waited for it.
const WAITED: f64 = 70.0;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let zones = &stall.window.now.sample.zoneinfo.required()?.zones;
    let Some(zone) = zones.iter().find(|zone| is_boosted_in_vain(zone)) else { return Ok(None) };
    let scans_per_s = stall.activity(VmActivity::KswapdScans)?;
    let swaps =
        stall.rate(&[Counter::Pswpout]).unwrap_or(0.0) * 100.0 >= scans_per_s * SWAPS_PERCENT;
    if scans_per_s < SCANS_PER_S || swaps {
        return Ok(None);
    }
    let waited = stall.request.is_some_and(|request| request.percent(HURT) >= 10.0);
    let score = CauseScore::for_reclaim(stall);
    let score = if waited { score.event(WAITED) } else { score };
    let page_bytes = stall.window.now.origin.page_bytes;
    let bytes = |pages: u64| Quantity::Bytes(pages.saturating_mul(page_bytes));
    let headline = format!("kswapd reclaimed for a boost of node {}", zone.node);
    let subject = Subject::Zone { node: zone.node, zone: zone.name.to_string() };
    let boost = zone.boost_pages.unwrap_or(0);
    let finding = Finding::new(Severity::Warning, subject, headline)
        .with_evidence("boost of the watermarks", bytes(boost), "/proc/zoneinfo")
        .with_evidence("free above them", bytes(zone.free_above_high_pages()), "/proc/zoneinfo")
        .with_impact("Clean page cache is dropped, and read again.")
        .with_remedy(Remedy::named(
            "turn the boost off",
            vec![Step::manual("sysctl vm.watermark_boost_factor=0")],
        ));
    score.cause(finding)
}

/// True if kswapd reclaims for the increase alone.
fn is_boosted_in_vain(zone: &Zone) -> bool {
    zone.is_populated() && zone.boost_pages > Some(0) && zone.free_above_high_pages() > 0
}
