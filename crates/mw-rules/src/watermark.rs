//! How much the kernel would keep free by itself.

use mw_model::{Missing, Snapshot, derived, zones};
use mw_proc::zoneinfo::Zone;

/// The setting.
pub(crate) const MIN_FREE: &str = "vm.min_free_kbytes";

const LEAST_KIB: u64 = 128;
const MOST_KIB: u64 = 262_144;

/// Free page blocks that khugepaged wants in each zone: two, and one for each pair of the three
/// migrate types that can fall back on one another.
const BLOCKS_PER_ZONE: u64 = 2 + 3 * 3;

/// The kernel's choice at boot in KiB, `calculate_min_free_kbytes()`.
///
/// # Errors
/// Neither zoneinfo nor meminfo says how much memory there is.
pub(crate) fn kernel_choice_kib(snapshot: &Snapshot) -> Result<u64, Missing> {
    let low_kib = low_memory_kib(snapshot)?;
    Ok(low_kib.saturating_mul(16).isqrt().clamp(LEAST_KIB, MOST_KIB))
}

/// The kernel's choice, raised as khugepaged raises it where transparent huge pages are on.
///
/// # Errors
/// As [`kernel_choice_kib`].
pub(crate) fn recommended_kib(snapshot: &Snapshot) -> Result<u64, Missing> {
    let choice = kernel_choice_kib(snapshot)?;
    let thp = snapshot.thp.value().and_then(|thp| thp.enabled.selected());
    if thp.is_none_or(|enabled| enabled == "never") {
        return Ok(choice);
    }
    let zone_count = snapshot.sample.zoneinfo.value().map_or(1, |zoneinfo| {
        let zones = zoneinfo.zones.iter().filter(|zone| is_low(zone));
        zones.filter(|zone| zone.managed_or_present_pages() > 0).count() as u64
    });
    let block_kib = derived::huge_page_bytes(snapshot) / 1024;
    let wanted = block_kib.saturating_mul(zone_count).saturating_mul(BLOCKS_PER_ZONE);
    // The setting stays when the zones have grown.
    let deferred = zones::deferred_bytes(&snapshot.sample, snapshot.origin.page_bytes) / 1024;
    let low_kib = low_memory_kib(snapshot)?.saturating_add(deferred);
    Ok(choice.max(wanted.min(low_kib / 20)))
}

/// Memory that is not high memory, above the high watermarks: `nr_free_buffer_pages()`. As for the
/// kernel, that is what the zones manage so far.
fn low_memory_kib(snapshot: &Snapshot) -> Result<u64, Missing> {
    let Some(zoneinfo) = snapshot.sample.zoneinfo.value() else {
        return Ok(derived::memory_bytes(&snapshot.sample)? / 1024);
    };
    let low = zoneinfo.zones.iter().filter(|zone| is_low(zone));
    let pages = derived::total(low.map(Zone::managed_or_present_pages));
    Ok(pages.saturating_mul(snapshot.origin.page_bytes / 1024))
}

/// True for a zone that serves GFP_USER: `set_recommended_min_free_kbytes()` counts no zone above it either.
pub(crate) fn is_low(zone: &Zone) -> bool {
    !["HighMem", "Movable", "Device"].contains(&zone.name.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use mw_collect::input;
    use mw_model::Reading;
    use mw_proc::zoneinfo::ZoneName;

    #[test]
    fn khugepaged_keeps_nothing_free_in_movable_memory() {
        let archive = mw_test::fixture("thp-compaction/firing");
        let mut snapshot = mw_collect::window(&input::open(&archive).unwrap()).now;
        let without = recommended_kib(&snapshot).unwrap();
        let Reading::Value(zoneinfo) = &mut snapshot.sample.zoneinfo else { panic!("zoneinfo") };
        let first = zoneinfo.zones.iter().find(|zone| zone.managed_or_present_pages() > 0).unwrap();
        let mut movable = *first;
        movable.name = ZoneName::new(b"Movable").unwrap();
        zoneinfo.zones.retain(|zone| zone.name != movable.name);
        zoneinfo.zones.push(movable);
        assert_eq!(recommended_kib(&snapshot).unwrap(), without);
    }
}
