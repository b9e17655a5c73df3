//! How much memory is available: the one place where it is computed, for `check`, `check --for`,
//! segments, pools and the bench.
//!
//! | question | of the machine | of a cgroup |
//! |---|---|---|
//! | available: without swapping | [`MachineMemory::available_bytes`] | [`cgroup_available_bytes`] |
//! | ready: without writing either | [`MachineMemory::ready_bytes`] | [`cgroup_ready_bytes`] |
//!
//! The commit limit is [`Commit`], NUMA nodes are [`nodes_available_bytes`], and [`tightest`] picks the
//! limit that applies.

use crate::contradiction::sound;
use crate::deferred_init::DeferredInit;
use crate::reclaimable::{file_cache_bytes, kernel_reclaimable_bytes, unwritten_bytes};
use crate::unreclaimable_slab::{self, UnreclaimableSlab};
use mw_proc::cgroup::MemoryStat;
use mw_proc::meminfo::Meminfo;
use mw_proc::zoneinfo::{Zone, Zoneinfo};

/// The machine's memory, as its files report it.
#[derive(Debug, Clone, Copy)]
pub struct MachineMemory<'a> {
    pub meminfo: &'a Meminfo,
    /// Empty where it is unknown; the result is then lower by the low watermarks.
    pub zones: &'a [Zone],
    pub slab: UnreclaimableSlab,
    pub page_bytes: u64,
}

impl<'a> MachineMemory<'a> {
    /// What /proc/meminfo alone shows, for those who must read no more: kernel objects in use count as available.
    #[must_use]
    pub fn of_meminfo(meminfo: &'a Meminfo) -> Self {
        // Without zones nothing is counted in pages.
        Self { meminfo, zones: &[], slab: UnreclaimableSlab::default(), page_bytes: 0 }
    }
}

impl MachineMemory<'_> {
    /// MemAvailable (kernel 3.14) without the kernel objects in use that it counts; before that, free
    /// memory and half of the page cache. None without MemFree.
    #[must_use]
    pub fn available_bytes(&self) -> Option<u64> {
        let meminfo = sound(self.meminfo);
        let low = sum(self.zones.iter().map(|zone| zone.low_pages)).saturating_mul(self.page_bytes);
        let Some(available) = meminfo.mem_available_bytes else {
            let cache = file_cache_bytes(&meminfo);
            // The kernel withholds half of it or the low watermarks (`si_mem_available()`).
            let withheld = if self.zones.is_empty() { cache / 2 } else { low.min(cache / 2) };
            return Some(meminfo.mem_free_bytes?.saturating_add(cache.saturating_sub(withheld)));
        };
        let overcounted = unreclaimable_slab::overcounted_bytes(
            kernel_reclaimable_bytes(&meminfo),
            self.slab.max_bytes,
            low,
        );
        Some(available.saturating_sub(overcounted))
    }

    /// Memory that a large request gets without anything being written or swapped out: available memory less
    /// dirty pages and those under writeback. None without MemFree.
    #[must_use]
    pub fn ready_bytes(&self) -> Option<u64> {
        let (free, available) = (sound(self.meminfo).mem_free_bytes?, self.available_bytes()?);
        let clean = available.saturating_sub(unwritten_bytes(self.meminfo));
        Some(clean.max(free.min(available)))
    }
}

/// Memory that a memory cgroup has available: its limit less its use, except the page cache, which it can
/// drop after writing it back.
#[must_use]
pub fn cgroup_available_bytes(limit_bytes: u64, used_bytes: u64, stat: &MemoryStat) -> u64 {
    let left = limit_bytes.saturating_sub(used_bytes);
    left.saturating_add(group_cache_bytes(stat)).min(limit_bytes)
}

/// As [`cgroup_available_bytes`], with only the clean part of the page cache.
#[must_use]
pub fn cgroup_ready_bytes(limit_bytes: u64, used_bytes: u64, stat: &MemoryStat) -> u64 {
    let unwritten = sum([stat.file_dirty_bytes, stat.file_writeback_bytes].into_iter().flatten());
    let clean = group_cache_bytes(stat).saturating_sub(unwritten);
    limit_bytes.saturating_sub(used_bytes).saturating_add(clean).min(limit_bytes)
}

fn group_cache_bytes(stat: &MemoryStat) -> u64 {
    sum([stat.active_file_bytes, stat.inactive_file_bytes].into_iter().flatten())
}

/// The commit limit of strict overcommit (vm.overcommit_memory 2) and what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    pub limit_bytes: u64,
    pub available_bytes: u64,
}

impl Commit {
    /// `reserve_bytes` is what the kernel withholds for the administrator and for the user's other
    /// processes (`__vm_enough_memory`). None without CommitLimit or Committed_AS.
    #[must_use]
    pub fn new(meminfo: &Meminfo, reserve_bytes: u64) -> Option<Self> {
        let limit_bytes = meminfo.commit_limit_bytes?;
        let left = limit_bytes.saturating_sub(meminfo.committed_as_bytes?);
        Some(Self { limit_bytes, available_bytes: left.saturating_sub(reserve_bytes) })
    }
}

/// Memory that nodes have available, roughly: free memory above the high watermark and the lowmem reserve,
/// page cache, and deferred memory. None where one of the nodes does not exist. A process that is
/// bound to nodes and requests more of them is killed, not refused.
#[must_use]
pub fn nodes_available_bytes(
    nodes: &[u32],
    meminfo: &Meminfo,
    zoneinfo: &Zoneinfo,
    page_bytes: u64,
) -> Option<u64> {
    let deferred = DeferredInit::new(meminfo, zoneinfo, page_bytes);
    let of_zone = |zone: &Zone| {
        let files = [zone.active_file_pages, zone.inactive_file_pages].into_iter().flatten();
        zone.free_above_high_pages().saturating_add(sum(files))
    };
    let of_node = |node: &u32| {
        let mut zones = zoneinfo.zones.iter().filter(|zone| zone.node == *node).peekable();
        zones.peek()?;
        let pages = sum(zones.map(of_zone));
        Some(pages.saturating_mul(page_bytes).saturating_add(deferred.node_bytes(*node)))
    };
    let parts: Option<Vec<u64>> = nodes.iter().map(of_node).collect();
    parts.map(sum)
}

/// Memory available below all limits, and the limit that makes it less than the machine has.
pub fn tightest<L>(
    machine_bytes: u64,
    limits: impl IntoIterator<Item = (L, u64)>,
) -> (u64, Option<L>) {
    match limits.into_iter().min_by_key(|(_, bytes)| *bytes) {
        Some((limit, bytes)) if bytes < machine_bytes => (bytes, Some(limit)),
        _ => (machine_bytes, None),
    }
}

/// Saturating: the numbers of a damaged file must not overflow.
fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn machine(meminfo: &Meminfo, slab_mib: u64) -> MachineMemory<'_> {
        let slab = UnreclaimableSlab { min_bytes: 0, max_bytes: slab_mib * MIB };
        MachineMemory { meminfo, zones: &[], slab, page_bytes: 4096 }
    }

    #[test]
    fn objects_in_use_and_dirty_pages_are_left_out() {
        let meminfo = Meminfo {
            mem_free_bytes: Some(100 * MIB),
            mem_available_bytes: Some(1000 * MIB),
            sreclaimable_bytes: Some(600 * MIB),
            dirty_bytes: Some(150 * MIB),
            writeback_bytes: Some(50 * MIB),
            ..Meminfo::default()
        };
        assert_eq!(machine(&meminfo, 0).available_bytes(), Some(1000 * MIB));
        assert_eq!(machine(&meminfo, 400).available_bytes(), Some(600 * MIB));
        assert_eq!(machine(&meminfo, 400).ready_bytes(), Some(400 * MIB));
        let dirty = Meminfo { dirty_bytes: Some(1000 * MIB), ..meminfo };
        assert_eq!(machine(&dirty, 0).ready_bytes(), Some(100 * MIB), "free memory is ready");
    }

    #[test]
    fn kernels_without_memavailable_count_half_of_the_page_cache() {
        let meminfo = Meminfo {
            mem_free_bytes: Some(100 * MIB),
            active_file_bytes: Some(30 * MIB),
            inactive_file_bytes: Some(10 * MIB),
            ..Meminfo::default()
        };
        assert_eq!(machine(&meminfo, 400).available_bytes(), Some(120 * MIB));
        assert_eq!(machine(&Meminfo::default(), 0).available_bytes(), None);
    }

    #[test]
    fn a_cgroup_can_drop_its_page_cache() {
        let stat = MemoryStat {
            active_file_bytes: Some(30),
            inactive_file_bytes: Some(10),
            file_dirty_bytes: Some(15),
            ..MemoryStat::default()
        };
        assert_eq!(cgroup_available_bytes(100, 90, &stat), 50);
        assert_eq!(cgroup_ready_bytes(100, 90, &stat), 35);
        assert_eq!(cgroup_available_bytes(30, 90, &stat), 30, "at most the limit");
    }

    #[test]
    fn the_commit_limit_less_promises_and_reserves() {
        let meminfo = Meminfo {
            commit_limit_bytes: Some(100),
            committed_as_bytes: Some(70),
            ..Meminfo::default()
        };
        let commit = Commit { limit_bytes: 100, available_bytes: 20 };
        assert_eq!(Commit::new(&meminfo, 10), Some(commit));
        assert_eq!(Commit::new(&meminfo, 50).unwrap().available_bytes, 0);
        assert_eq!(Commit::new(&Meminfo::default(), 0), None);
    }

    #[test]
    fn a_node_keeps_its_watermarks_and_can_drop_its_page_cache() {
        let zone = |node, free_pages| {
            let (high_pages, protection_len) = (100, 2);
            let mut zone = Zone { node, free_pages, high_pages, protection_len, ..Zone::default() };
            zone.protection_pages[1] = 50;
            zone
        };
        let files = Zone { active_file_pages: Some(3), inactive_file_pages: Some(4), ..zone(0, 0) };
        let info =
            Zoneinfo { zones: vec![zone(0, 1000), files, zone(1, 400)], ..Zoneinfo::default() };
        let pages = |nodes: &[u32]| nodes_available_bytes(nodes, &Meminfo::default(), &info, 1);
        assert_eq!(pages(&[0]), Some(857));
        assert_eq!(pages(&[0, 1]), Some(1107));
        assert_eq!(pages(&[0, 7]), None);
    }

    #[test]
    fn the_lowest_limit_applies_where_the_machine_has_more() {
        assert_eq!(tightest(10, [("a", 7), ("b", 5)]), (5, Some("b")));
        assert_eq!(tightest(5, [("a", 7), ("b", 5)]), (5, None));
        assert_eq!(tightest::<()>(5, []), (5, None));
    }
}
