//! The area for buffers of drivers that must be in one piece (CMA).

use crate::share::percent;
use mw_model::{Area, Finding, Quantity, Remedy, Severity, Snapshot, Step, format_bytes};

/// The area counts as nearly used up from here on, where less is left than a buffer of a display takes.
const USED_PERCENT: f64 = 90.0;
const BUFFER_BYTES: u64 = 8 << 20;

/// Free memory elsewhere from which on programs leave the area to drivers.
const FREE_PERCENT: f64 = 10.0;

/// The finding that drivers have nearly all of the area. The kernel gives its pages to programs and files as well where it has
/// little else (mm/page_alloc.c, `__rmqueue()`), and moves those when a driver asks.
pub(crate) fn nearly_used_up(snapshot: &Snapshot) -> Option<Finding> {
    let meminfo = snapshot.sample.meminfo.value()?;
    let (total, free) = (meminfo.cma_total_bytes?, meminfo.cma_free_bytes?);
    let elsewhere = meminfo.mem_free_bytes?.checked_sub(free)?;
    let used = percent(total.saturating_sub(free), total);
    let has_room =
        percent(elsewhere, meminfo.mem_total_bytes?) >= FREE_PERCENT && elsewhere > total;
    if total == 0 || used < USED_PERCENT || free >= BUFFER_BYTES || !has_room {
        return None;
    }
    let headline = format!(
        "the contiguous area for drivers (CMA) has {} of {} free, while other memory is free",
        format_bytes(free),
        format_bytes(total)
    );
    let remedy = Remedy::named(
        "enlarge the area where displays, cameras or video fail with ENOMEM",
        vec![Step::BootParameter { parameter: "cma=SIZE".to_owned() }],
    );
    Some(
        Finding::new(Severity::Note, Area::KernelMemory, headline)
            .with_evidence("CmaFree", Quantity::Bytes(free), "/proc/meminfo")
            .with_evidence("CmaTotal", Quantity::Bytes(total), "/proc/meminfo")
            .with_impact("A driver whose buffer has to be in one piece may get none, although memory is free.")
            .with_remedy(remedy),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::meminfo::Meminfo;

    fn is_found(cma_mib: u64, cma_free_mib: u64, free_mib: u64) -> bool {
        let mut snapshot = Snapshot::default();
        snapshot.sample.meminfo = Reading::Value(Meminfo {
            mem_total_bytes: Some(2000 << 20),
            mem_free_bytes: Some(free_mib << 20),
            cma_total_bytes: Some(cma_mib << 20),
            cma_free_bytes: Some(cma_free_mib << 20),
            ..Meminfo::default()
        });
        nearly_used_up(&snapshot).is_some()
    }

    /// Promise (Findings): The area for drivers is a note where hardly anything of it is left while other memory is free: else
    /// programs may have it, whose pages can be moved.
    #[test]
    fn an_area_that_drivers_have_used_up_is_noted() {
        assert!(is_found(32, 2, 1100));
        assert!(!is_found(32, 12, 1100), "a buffer fits");
        assert!(!is_found(32, 2, 100), "programs may have it");
        assert!(!is_found(0, 0, 1100), "there is none");
    }
}
