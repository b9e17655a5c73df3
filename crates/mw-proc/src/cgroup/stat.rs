//! `memory.stat`, version 1 and 2.

use super::{limited, read_flat};
use crate::error::ParseError;

/// Composition of a cgroup's memory, in bytes, and the counters of its reclaim since the cgroup was created, in
/// pages.
///
/// Version 1 names are folded into those of version 2, and of version 1 the `total_*` lines are
/// taken, which count the cgroups below as version 2 always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStat {
    /// Anonymous memory (`rss` in version 1).
    pub anon_bytes: Option<u64>,
    /// Page cache, tmpfs and shared memory included (`cache` in version 1).
    pub file_bytes: Option<u64>,
    pub shmem_bytes: Option<u64>,
    /// Page cache mapped by processes (`mapped_file` in version 1).
    pub file_mapped_bytes: Option<u64>,
    /// Page cache to be written back (`dirty` in version 1).
    pub file_dirty_bytes: Option<u64>,
    /// Page cache being written back (`writeback` in version 1).
    pub file_writeback_bytes: Option<u64>,
    /// Anonymous, inactive.
    pub inactive_anon_bytes: Option<u64>,
    /// Anonymous, active.
    pub active_anon_bytes: Option<u64>,
    /// Of files, inactive.
    pub inactive_file_bytes: Option<u64>,
    /// Of files, active.
    pub active_file_bytes: Option<u64>,
    /// Not reclaimable.
    pub unevictable_bytes: Option<u64>,
    /// Kernel object caches (version 2).
    pub slab_bytes: Option<u64>,
    /// The part of the slab that can be reclaimed (version 2).
    pub slab_reclaimable_bytes: Option<u64>,
    /// The part of the slab that cannot (version 2).
    pub slab_unreclaimable_bytes: Option<u64>,
    /// Kernel stacks (version 2).
    pub kernel_stack_bytes: Option<u64>,
    /// Page tables (version 2).
    pub pagetables_bytes: Option<u64>,
    /// Network buffers (version 2).
    pub sock_bytes: Option<u64>,
    /// Variables of each CPU (version 2, 5.9 and later).
    pub percpu_bytes: Option<u64>,
    /// Mapped by vmalloc, of which BPF maps are most (version 2, 5.17 and later).
    pub vmalloc_bytes: Option<u64>,
    /// All kernel memory (version 2, 5.18 and later).
    pub kernel_bytes: Option<u64>,
    /// Swapped out (version 1; version 2 has `memory.swap.current` instead).
    pub swap_bytes: Option<u64>,
    /// The lowest limit of this cgroup and those above it (version 1); `None` when unlimited.
    pub hierarchical_limit_bytes: Option<u64>,
    /// Pages of files that were read again soon after reclaim (`workingset_refault` before 5.9).
    pub refault_file_pages: Option<u64>,
    /// Anonymous pages that were swapped in soon after reclaim (5.9 and later).
    pub refault_anon_pages: Option<u64>,
    /// Pages that reclaim scanned (version 2).
    pub scanned_pages: Option<u64>,
}

impl MemoryStat {
    /// Reads the file; it allocates nothing.
    ///
    /// # Errors
    /// When a line has no number or is cut, or no line is known.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut stat = Self::default();
        read_flat(text, "anon or rss", |key, value| stat.set(key, value))?;
        Ok(stat)
    }

    fn set(&mut self, key: &[u8], value: u64) -> bool {
        if key == b"hierarchical_memory_limit" {
            self.hierarchical_limit_bytes = limited(value);
            return true;
        }
        let (key, total) = match key.strip_prefix(b"total_") {
            Some(key) => (key, true),
            None => (key, false),
        };
        let Some(slot) = self.slot(key) else { return false };
        if total || slot.is_none() {
            *slot = Some(value);
        }
        true
    }

    fn slot(&mut self, key: &[u8]) -> Option<&mut Option<u64>> {
        Some(match key {
            b"anon" | b"rss" => &mut self.anon_bytes,
            b"file" | b"cache" => &mut self.file_bytes,
            b"shmem" => &mut self.shmem_bytes,
            b"file_mapped" | b"mapped_file" => &mut self.file_mapped_bytes,
            b"file_dirty" | b"dirty" => &mut self.file_dirty_bytes,
            b"file_writeback" | b"writeback" => &mut self.file_writeback_bytes,
            b"inactive_anon" => &mut self.inactive_anon_bytes,
            b"active_anon" => &mut self.active_anon_bytes,
            b"inactive_file" => &mut self.inactive_file_bytes,
            b"active_file" => &mut self.active_file_bytes,
            b"unevictable" => &mut self.unevictable_bytes,
            b"slab" => &mut self.slab_bytes,
            b"slab_reclaimable" => &mut self.slab_reclaimable_bytes,
            b"slab_unreclaimable" => &mut self.slab_unreclaimable_bytes,
            b"kernel_stack" => &mut self.kernel_stack_bytes,
            b"pagetables" => &mut self.pagetables_bytes,
            b"sock" => &mut self.sock_bytes,
            b"percpu" => &mut self.percpu_bytes,
            b"vmalloc" => &mut self.vmalloc_bytes,
            b"kernel" => &mut self.kernel_bytes,
            b"swap" => &mut self.swap_bytes,
            b"workingset_refault_file" | b"workingset_refault" => &mut self.refault_file_pages,
            b"workingset_refault_anon" => &mut self.refault_anon_pages,
            b"pgscan" => &mut self.scanned_pages,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;

    const V1: &[u8] = include_bytes!("../../tests/data/memory_stat_v1");
    const V2: &[u8] = include_bytes!("../../tests/data/memory_stat_v2");

    #[test]
    fn version_1() {
        let stat = MemoryStat::parse(V1).unwrap();
        assert_eq!(stat.anon_bytes, Some(8_949_760));
        assert_eq!(stat.file_bytes, Some(380_907_520));
        assert_eq!(stat.file_mapped_bytes, Some(11_067_392));
        assert_eq!(stat.file_dirty_bytes, Some(42_336_256));
        assert_eq!(stat.unevictable_bytes, Some(12_603_392));
        assert_eq!(stat.swap_bytes, Some(0));
        assert_eq!((stat.slab_bytes, stat.hierarchical_limit_bytes), (None, None));
    }

    #[test]
    fn version_2() {
        let stat = MemoryStat::parse(V2).unwrap();
        assert_eq!(stat.anon_bytes, Some(241_664));
        assert_eq!(stat.file_bytes, Some(1_081_344));
        assert_eq!(stat.slab_reclaimable_bytes, Some(1_101_272));
        assert_eq!(stat.pagetables_bytes, Some(61_440));
        assert_eq!(stat.swap_bytes, None);
    }

    #[test]
    fn refaults_and_scans() {
        let text = b"anon 1\nworkingset_refault_anon 2\nworkingset_refault_file 3\npgscan 4\n\
            pgscan_kswapd 5\n";
        let stat = MemoryStat::parse(text).unwrap();
        assert_eq!((stat.refault_anon_pages, stat.refault_file_pages), (Some(2), Some(3)));
        assert_eq!(stat.scanned_pages, Some(4));
        let v1 = b"rss 1\nworkingset_refault_file 2\ntotal_workingset_refault_file 7\n";
        assert_eq!(MemoryStat::parse(v1).unwrap().refault_file_pages, Some(7));
    }

    #[test]
    fn totals_win_in_any_order() {
        let stat =
            MemoryStat::parse(b"total_rss 7\nrss 1\nhierarchical_memory_limit 4096\n").unwrap();
        assert_eq!(stat.anon_bytes, Some(7));
        assert_eq!(stat.hierarchical_limit_bytes, Some(4096));
    }

    #[test]
    fn wrong() {
        let problem = |text: &[u8]| MemoryStat::parse(text).unwrap_err().problem;
        assert_eq!(problem(b""), Problem::Expected("anon or rss"));
        assert_eq!(problem(b"other 1\n"), Problem::Expected("anon or rss"));
        assert_eq!(problem(b"anon x\n"), Problem::NotANumber);
        assert_eq!(problem(b"anon\n"), Problem::Empty);
        assert_eq!(problem(b"anon 12"), Problem::Truncated);
    }
}
