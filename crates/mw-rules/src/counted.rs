//! All memory in parts, as the kernel counts it.

use mw_memory::{Account, AccountCounters, MemoryPart};
use mw_model::{Missing, Snapshot, derived};

/// # Errors
/// meminfo was not seen or lacks MemTotal or MemFree.
pub(crate) fn counted(snapshot: &Snapshot) -> Result<Account, Missing> {
    let sample = &snapshot.sample;
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let pool_bytes = pools.iter().map(|pool| pool.total_pages.saturating_mul(pool.page_bytes));
    let counters = AccountCounters {
        meminfo: sample.meminfo.required()?,
        zones: sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice()),
        vmstat: sample.vmstat.value(),
        huge_pages_bytes: derived::total(pool_bytes),
        kernel: snapshot.origin.kernel,
        page_bytes: snapshot.origin.page_bytes,
    };
    Account::new(&counters).ok_or_else(|| {
        Missing::absent("/proc/meminfo", "it lacks MemTotal or MemFree, which every kernel has")
    })
}

/// Memory that no counter has; unknown where meminfo lacks what most memory is counted by.
pub(crate) fn in_no_counter_bytes(snapshot: &Snapshot) -> Option<u64> {
    let meminfo = snapshot.sample.meminfo.value()?;
    let lines = [meminfo.anon_pages_bytes, meminfo.cached_bytes, meminfo.slab_bytes];
    if lines.contains(&None) {
        return None;
    }
    Some(counted(snapshot).ok()?.bytes(MemoryPart::Unaccounted))
}
