//! The rules, one file each; the file's head is the rule's page.

pub(crate) mod cgroup_limit;
pub(crate) mod dirty_limit_too_high;
pub(crate) mod dirty_throttle;
pub(crate) mod fragmented_node;
pub(crate) mod hugepage_hoard;
pub(crate) mod hugepage_shortage;
pub(crate) mod khugepaged_churn;
pub(crate) mod memlock_limit;
pub(crate) mod min_free_too_high;
pub(crate) mod min_free_too_low;
pub(crate) mod not_memory;
pub(crate) mod numa_node_exhausted;
pub(crate) mod oom_kill;
pub(crate) mod overcommit_refusal;
pub(crate) mod page_cache_flood;
pub(crate) mod reclaim_storm;
pub(crate) mod shm_limit;
pub(crate) mod slab_bloat;
pub(crate) mod swap_thrash;
pub(crate) mod thp_compaction;
pub(crate) mod tmpfs_full;
pub(crate) mod unreclaimable_ramfs;
pub(crate) mod zone_reclaim;
