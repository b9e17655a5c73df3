//! Quantities that follow from a snapshot and that more than one consumer needs.

use crate::{Missing, Sample, Snapshot};
use mw_memory::{KernelObjects, MachineMemory, PageSize, UnreclaimableSlab};
pub use mw_memory::{file_cache_bytes, kernel_reclaimable_bytes, sound, unwritten_bytes};
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::Counter;

/// The size of a base page on x86 and on most arm64, for captures and recordings that do not say.
pub const USUAL_PAGE_BYTES: u64 = 4 << 10;

/// The size of a huge page on x86 and on arm64 with 4 KiB pages, for kernels that do not say.
pub const USUAL_HUGE_PAGE_BYTES: u64 = 2 << 20;

/// A page of the default hugetlb pool, in bytes; what `vm.nr_hugepages` counts.
pub fn default_pool_page_bytes(snapshot: &Snapshot) -> u64 {
    let meminfo = snapshot.sample.meminfo.value();
    meminfo.and_then(|m| m.hugepagesize_bytes).unwrap_or(USUAL_HUGE_PAGE_BYTES)
}

/// A transparent huge page of the PMD's size, in bytes. Where the kernel does not say, it is the
/// smallest huge page of the pools.
pub fn huge_page_bytes(snapshot: &Snapshot) -> u64 {
    let thp = snapshot.thp.value().and_then(|thp| thp.pmd_bytes);
    let pools = snapshot.hugepages.value();
    let least = pools.and_then(|pools| pools.iter().map(|pool| pool.page_bytes).min());
    thp.or(least).unwrap_or(USUAL_HUGE_PAGE_BYTES)
}

/// The size of a page of this kind, in bytes; a transparent huge page is of the PMD's size.
pub fn page_bytes(snapshot: &Snapshot, page: PageSize) -> u64 {
    match page {
        PageSize::Base | PageSize::Best => snapshot.origin.page_bytes.max(1),
        PageSize::Thp => huge_page_bytes(snapshot),
        PageSize::Folio(bytes) | PageSize::Hugetlb(bytes) => bytes,
    }
}

/// The order of the buddy allocator whose blocks hold `bytes`.
pub fn order_of(bytes: u64, page_bytes: u64) -> usize {
    let pages = bytes.div_ceil(page_bytes.max(1)).max(1);
    pages.next_power_of_two().trailing_zeros() as usize
}

/// All memory of the machine in bytes.
///
/// # Errors
/// meminfo was not seen or has no MemTotal.
pub fn memory_bytes(sample: &Sample) -> Result<u64, Missing> {
    sample.meminfo.required()?.mem_total_bytes.ok_or_else(|| no_line("MemTotal"))
}

/// Memory available without writeback or swap ([`MachineMemory::ready_bytes`]). Preflight, the verdict
/// and what the calling process can allocate start from it.
///
/// # Errors
/// meminfo was not seen or lacks the lines.
pub fn ready_bytes(snapshot: &Snapshot) -> Result<u64, Missing> {
    machine(snapshot)?.ready_bytes().ok_or_else(|| no_line("MemFree"))
}

/// The machine's available memory by /proc/meminfo alone, where nothing else was kept of a moment.
#[must_use]
pub fn meminfo_available_bytes(meminfo: &Meminfo) -> Option<u64> {
    MachineMemory::of_meminfo(meminfo).available_bytes()
}

/// Available memory of the machine ([`MachineMemory::available_bytes`]).
///
/// # Errors
/// meminfo was not seen or lacks the lines.
pub fn available_bytes(snapshot: &Snapshot) -> Result<u64, Missing> {
    machine(snapshot)?.available_bytes().ok_or_else(|| no_line("MemFree"))
}

fn machine(snapshot: &Snapshot) -> Result<MachineMemory<'_>, Missing> {
    Ok(MachineMemory {
        meminfo: snapshot.sample.meminfo.required()?,
        zones: snapshot.sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice()),
        slab: unreclaimable_slab(snapshot),
        page_bytes: snapshot.origin.page_bytes,
    })
}

/// Kernel objects in use that SReclaimable counts: files of ramfs and tmpfs, sockets, open files. Zero
/// where the kernel's counts of dentries were not seen.
pub fn unreclaimable_slab(snapshot: &Snapshot) -> UnreclaimableSlab {
    let (Some(meminfo), Some(dentries)) =
        (snapshot.sample.meminfo.value(), snapshot.dentries.value())
    else {
        return UnreclaimableSlab::default();
    };
    let filesystems = snapshot.filesystems.value().map_or(&[][..], Vec::as_slice);
    let tmpfs = filesystems.iter().filter(|f| f.fstype == "tmpfs" || f.fstype == "devtmpfs");
    UnreclaimableSlab::new(&KernelObjects {
        meminfo,
        dentries: *dentries,
        inodes: snapshot.inodes.value().copied(),
        slabs: snapshot.slabs.value().map(Vec::as_slice),
        tmpfs_inodes: total(tmpfs.filter_map(|f| f.inodes_used)),
        page_bytes: snapshot.origin.page_bytes,
    })
}

/// Number of processes that the OOM killer has killed since boot, of the whole machine or of a cgroup (4.13 and later).
pub fn oom_kills(sample: &Sample) -> Option<u64> {
    sample.vmstat.value()?.get(Counter::OomKill)
}

/// Number of times that tasks have begun to reclaim or compact memory themselves since boot.
pub fn direct_entries(sample: &Sample) -> Option<u64> {
    let vmstat = sample.vmstat.value()?;
    let entries = [Counter::Allocstall, Counter::CompactStall].map(|counter| vmstat.get(counter));
    // A kernel without compaction counts none.
    entries.into_iter().flatten().reduce(u64::saturating_add)
}

/// For how long some task has waited for memory since boot, in microseconds.
pub fn memory_waited_us(sample: &Sample) -> Option<u64> {
    sample.pressure.memory.value().map(|pressure| pressure.some.total_us)
}

/// MemFree in bytes.
///
/// # Errors
/// The line is not there.
pub fn free_bytes(meminfo: &Meminfo) -> Result<u64, Missing> {
    meminfo.mem_free_bytes.ok_or_else(|| no_line("MemFree"))
}

/// A sum that stops at the largest number: what a damaged tree says must not overflow.
pub fn total(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

fn no_line(name: &str) -> Missing {
    Missing::absent(format!("/proc/meminfo {name}"), "the line is not there")
}
