//! The limits of a memory cgroup, and what each leaves.

use crate::available::{cgroup_available_bytes, cgroup_ready_bytes};
use mw_proc::cgroup::MemoryStat;

/// A limit that one cgroup sets. All sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimit {
    /// The file that sets it.
    pub file: &'static str,
    pub limit_bytes: u64,
    /// Memory that counts towards it.
    pub used_bytes: u64,
    /// Memory left below it, with the clean page cache that the group can drop.
    pub ready_bytes: u64,
    /// The same with the page cache that has to be written back first.
    pub available_bytes: u64,
    /// The same with all slab that the group could reclaim; in version 1 with all kernel memory, of which no file
    /// tells what is reclaimable.
    pub max_available_bytes: u64,
    pub effect: GroupEffect,
}

/// Effect of a cgroup's limit on a process that would exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEffect {
    /// It is killed, unless memory of the group can be swapped out.
    Kills,
    /// It is killed: swap counts towards the limit as well.
    KillsSwapIncluded,
    /// It is put to sleep at every allocation.
    Slows,
}

/// Values of the files of a memory cgroup; an absent limit is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupCounters {
    pub is_v1: bool,
    pub max_bytes: Option<u64>,
    pub high_bytes: Option<u64>,
    /// In version 1 of memory and swap together.
    pub swap_max_bytes: Option<u64>,
    pub used_bytes: u64,
    pub swap_used_bytes: u64,
    pub kernel_bytes: Option<u64>,
    pub stat: MemoryStat,
}

impl GroupCounters {
    #[must_use]
    pub fn limits(&self) -> Vec<GroupLimit> {
        let max_file = if self.is_v1 { "memory.limit_in_bytes" } else { "memory.max" };
        // In version 2 the limit of swap concerns swap alone.
        let with_swap = self.swap_max_bytes.filter(|_| self.is_v1);
        let (used, swap_used) = (self.used_bytes, self.swap_used_bytes);
        let limits = [
            (max_file, self.max_bytes, used, GroupEffect::Kills),
            ("memory.high", self.high_bytes, used, GroupEffect::Slows),
            ("memory.memsw.limit_in_bytes", with_swap, swap_used, GroupEffect::KillsSwapIncluded),
        ];
        let limit = |(file, limit, used, effect): (_, Option<u64>, _, _)| {
            Some(self.limit(file, limit?, used, effect))
        };
        limits.into_iter().filter_map(limit).collect()
    }

    fn limit(
        &self,
        file: &'static str,
        limit_bytes: u64,
        used_bytes: u64,
        effect: GroupEffect,
    ) -> GroupLimit {
        // Version 1 does not tell which part of the kernel memory is reclaimable: at most all of it.
        let slab = self.stat.slab_reclaimable_bytes.or(self.kernel_bytes).unwrap_or(0);
        let available_bytes = cgroup_available_bytes(limit_bytes, used_bytes, &self.stat);
        GroupLimit {
            file,
            limit_bytes,
            used_bytes,
            ready_bytes: cgroup_ready_bytes(limit_bytes, used_bytes, &self.stat),
            available_bytes,
            max_available_bytes: available_bytes.saturating_add(slab).min(limit_bytes),
            effect,
        }
    }
}
