//! Names of kernel functions by what they do, of kernels 2.6.32 to 6.18.

/// An allocation that reclaims by itself, and what makes it wait.
pub(crate) const DIRECT_RECLAIM: &[&str] = &[
    "try_to_free_pages",
    "__alloc_pages_direct_reclaim",
    "__perform_reclaim",
    "throttle_direct_reclaim",
];

/// Reclaim by anybody, kswapd included.
pub(crate) const RECLAIM: &[&str] = &[
    "try_to_free_pages",
    "do_try_to_free_pages",
    "__alloc_pages_direct_reclaim",
    "balance_pgdat",
    "kswapd",
    "shrink_zone",
    "shrink_node",
    "shrink_lruvec",
    "try_to_shrink_lruvec",
    "evict_folios",
    "shrink_inactive_list",
    "shrink_folio_list",
    "shrink_page_list",
];

/// Reclaim within a node, for zone_reclaim_mode.
pub(crate) const NODE_RECLAIM: &[&str] =
    &["node_reclaim", "__node_reclaim", "zone_reclaim", "__zone_reclaim"];

/// Reclaim within a memory cgroup's limit.
pub(crate) const CGROUP_RECLAIM: &[&str] = &[
    "try_to_free_mem_cgroup_pages",
    "mem_cgroup_handle_over_high",
    "__mem_cgroup_handle_over_high",
    "mem_cgroup_reclaim",
    "reclaim_high",
    "mem_cgroup_oom_synchronize",
];

/// Compaction by the task that allocates.
pub(crate) const DIRECT_COMPACTION: &[&str] =
    &["try_to_compact_pages", "__alloc_pages_direct_compact"];

/// Compaction by anybody, kcompactd included.
pub(crate) const COMPACTION: &[&str] = &[
    "try_to_compact_pages",
    "__alloc_pages_direct_compact",
    "compact_zone",
    "compact_zone_order",
    "compaction_alloc",
    "isolate_migratepages",
    "isolate_migratepages_block",
    "isolate_freepages",
    "isolate_freepages_block",
];

/// Making pages for a pool of huge pages.
pub(crate) const HUGE_POOL: &[&str] = &[
    "set_max_huge_pages",
    "__nr_hugepages_store_common",
    "alloc_pool_huge_folio",
    "alloc_pool_huge_page",
    "alloc_fresh_hugetlb_folio",
    "alloc_fresh_huge_page",
];

/// Writers that are held to the speed of their device.
pub(crate) const DIRTY_THROTTLE: &[&str] = &[
    "balance_dirty_pages",
    "balance_dirty_pages_ratelimited",
    "balance_dirty_pages_ratelimited_flags",
];

/// Pages on their way from and to swap.
pub(crate) const SWAP: &[&str] = &[
    "do_swap_page",
    "swapin_readahead",
    "swap_cluster_readahead",
    "swap_vma_readahead",
    "read_swap_cache_async",
    "swap_readpage",
    "swap_read_folio",
    "swap_writepage",
    "swap_writeout",
];

/// Giving back the kernel's own objects.
pub(crate) const SLAB_RECLAIM: &[&str] = &[
    "shrink_slab",
    "shrink_slab_memcg",
    "do_shrink_slab",
    "super_cache_scan",
    "prune_dcache_sb",
    "prune_icache_sb",
    "shrink_dentry_list",
];

/// Collecting huge pages in the background.
pub(crate) const COLLAPSE: &[&str] = &[
    "khugepaged",
    "khugepaged_scan_mm_slot",
    "hpage_collapse_scan_pmd",
    "khugepaged_scan_pmd",
    "collapse_huge_page",
];

/// Waiting for the lock of an address space.
pub(crate) const MMAP_LOCK: &[&str] = &[
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "rwsem_down_read_failed",
    "rwsem_down_write_failed",
    "lock_mm_and_find_vma",
];

/// Looking for pages on other nodes than their task's, and moving them.
pub(crate) const NUMA_BALANCING: &[&str] = &[
    "do_numa_page",
    "do_huge_pmd_numa_page",
    "numa_migrate_prep",
    "numa_migrate_check",
    "migrate_misplaced_page",
    "migrate_misplaced_folio",
    "task_numa_work",
    "change_prot_numa",
];

/// What reads the mappings of another process, and holds its mmap_lock meanwhile.
pub(crate) const MMAP_LOCK_READERS: &[&str] = &[
    "show_map",
    "show_smap",
    "show_smaps_rollup",
    "show_numa_map",
    "pagemap_read",
    "pagemap_scan",
    "clear_refs_write",
    "__access_remote_vm",
    "process_vm_rw",
];

/// How the names of functions begin that wait for a block device or a journal on it.
pub(crate) const BLOCK_PREFIXES: &[&str] = &[
    "blk_",
    "bio_",
    "submit_bio",
    "rq_qos_",
    "wbt_",
    "jbd2_",
    "ext4_",
    "xfs_",
    "xlog_",
    "btrfs_",
    "f2fs_",
    "nvme_",
    "scsi_",
    "dm_",
    "io_schedule",
    "folio_wait_",
    "wait_on_page_",
    "wait_on_buffer",
    "__wait_on_buffer",
    "sync_dirty_buffer",
];
