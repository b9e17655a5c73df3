//! Addresses that the kernel has for vmalloc and mappings of devices, which run out on 32-bit machines.

use crate::share::{LIMIT_PERCENT, percent};
use mw_model::{Area, Finding, Quantity, Remedy, Severity, Snapshot, Step, format_bytes};
use mw_proc::version::KernelVersion;

/// The kernels that report nothing: `VmallocUsed` is 0 in Linux 4.4 to 5.2. Before, it has all areas (mm/vmalloc.c,
/// `get_vmalloc_info()`); later, the pages of vmalloc without mappings of devices (`vmalloc_nr_pages()`), so that more is in use.
const REPORTED_AGAIN: KernelVersion = KernelVersion::new(5, 3, 0);
const LAST_REPORTED: KernelVersion = KernelVersion::new(4, 4, 0);

/// The finding that the range is nearly full.
pub(crate) fn at_its_end(snapshot: &Snapshot) -> Option<Finding> {
    let kernel = snapshot.origin.kernel?;
    if (LAST_REPORTED..REPORTED_AGAIN).contains(&kernel) {
        return None;
    }
    let meminfo = snapshot.sample.meminfo.value()?;
    let (total, used) = (meminfo.vmalloc_total_bytes?, meminfo.vmalloc_used_bytes?);
    let share = percent(used, total);
    if share < LIMIT_PERCENT || used > total {
        return None;
    }
    let headline = format!(
        "the kernel's addresses for vmalloc are used up: {} of {} ({share:.0}%)",
        format_bytes(used),
        format_bytes(total)
    );
    let remedy = Remedy::named(
        "find what maps so much (/proc/vmallocinfo), enlarge the range at boot, or use a 64-bit kernel",
        vec![
            Step::manual("sort -k2 -rn /proc/vmallocinfo | head"),
            Step::BootParameter { parameter: "vmalloc=SIZE".to_owned() },
        ],
    );
    Some(
        Finding::new(Severity::Warning, Area::KernelMemory, headline)
            .with_evidence("VmallocUsed", Quantity::Bytes(used), "/proc/meminfo")
            .with_evidence("VmallocTotal", Quantity::Bytes(total), "/proc/meminfo")
            .with_impact("Modules, file systems and drivers fail to load or to map their memory (ENOMEM) although memory is free.")
            .with_remedy(remedy),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::meminfo::Meminfo;

    fn is_found(kernel: &[u8], used_mib: u64) -> bool {
        let mut snapshot = Snapshot::default();
        snapshot.origin.kernel = KernelVersion::parse(kernel).ok();
        snapshot.sample.meminfo = Reading::Value(Meminfo {
            vmalloc_total_bytes: Some(240 << 20),
            vmalloc_used_bytes: Some(used_mib << 20),
            ..Meminfo::default()
        });
        at_its_end(&snapshot).is_some()
    }

    /// Promise (Findings): The addresses of vmalloc are judged only by kernels that count them.
    #[test]
    fn a_full_range_is_found_where_the_kernel_counts_it() {
        assert!(is_found(b"3.10.0", 230));
        assert!(is_found(b"6.1.0", 230));
        assert!(!is_found(b"6.1.0", 200));
        assert!(!is_found(b"4.19.0", 230), "it reports 0");
        assert!(!is_found(b"6.1.0", 241), "the counter of another machine");
    }
}
