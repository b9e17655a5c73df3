//! The names of the counters, in the kernel's order.

/// A counter may have several spellings; the first is its own.
macro_rules! counters {
    ($($counter:ident $name:literal $($spelling:literal)*;)*) => {
        /// A counter of `/proc/vmstat`; documented in the kernel's `mm/vmstat.c`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Counter {
            $(#[doc = concat!("`", $name, "`" $(, ", the sum with `", $spelling, "`")*, ".")]
            $counter,)*
        }

        impl Counter {
            /// Every counter, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$counter),*];

            /// The kernel's name of it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$counter => $name,)*
                }
            }
        }

        /// Every spelling and its counter: kernels print theirs in about this order.
        pub(super) const NAMES: &[(&str, Counter)] = &[
            $(($name, Counter::$counter), $(($spelling, Counter::$counter),)*)*
        ];
    };
}

counters! {
    NrFreePages "nr_free_pages";
    NrFreePagesBlocks "nr_free_pages_blocks";
    NrAllocBatch "nr_alloc_batch";
    NrInactive "nr_inactive";
    NrActive "nr_active";
    NrZoneInactiveAnon "nr_zone_inactive_anon";
    NrZoneActiveAnon "nr_zone_active_anon";
    NrZoneInactiveFile "nr_zone_inactive_file";
    NrZoneActiveFile "nr_zone_active_file";
    NrZoneUnevictable "nr_zone_unevictable";
    NrZoneWritePending "nr_zone_write_pending";
    NrMlock "nr_mlock";
    NrBounce "nr_bounce";
    NrZspages "nr_zspages";
    NrFreeCma "nr_free_cma";
    NrUnaccepted "nr_unaccepted";
    NumaHit "numa_hit";
    NumaMiss "numa_miss";
    NumaForeign "numa_foreign";
    NumaInterleave "numa_interleave";
    NumaLocal "numa_local";
    NumaOther "numa_other";
    NrInactiveAnon "nr_inactive_anon";
    NrActiveAnon "nr_active_anon";
    NrInactiveFile "nr_inactive_file";
    NrActiveFile "nr_active_file";
    NrUnevictable "nr_unevictable";
    NrSlabReclaimable "nr_slab_reclaimable";
    NrSlabUnreclaimable "nr_slab_unreclaimable";
    NrSlab "nr_slab";
    NrIsolatedAnon "nr_isolated_anon";
    NrIsolatedFile "nr_isolated_file";
    WorkingsetNodes "workingset_nodes";
    WorkingsetRefaultAnon "workingset_refault_anon";
    WorkingsetRefaultFile "workingset_refault_file" "workingset_refault";
    WorkingsetActivateAnon "workingset_activate_anon";
    WorkingsetActivateFile "workingset_activate_file" "workingset_activate";
    WorkingsetRestoreAnon "workingset_restore_anon";
    WorkingsetRestoreFile "workingset_restore_file" "workingset_restore";
    WorkingsetNodereclaim "workingset_nodereclaim";
    NrAnonPages "nr_anon_pages";
    NrMapped "nr_mapped";
    NrFilePages "nr_file_pages";
    NrDirty "nr_dirty";
    NrWriteback "nr_writeback";
    NrWritebackTemp "nr_writeback_temp";
    NrShmem "nr_shmem";
    NrShmemHugepages "nr_shmem_hugepages";
    NrShmemPmdmapped "nr_shmem_pmdmapped";
    NrFileHugepages "nr_file_hugepages";
    NrFilePmdmapped "nr_file_pmdmapped";
    NrAnonTransparentHugepages "nr_anon_transparent_hugepages";
    NrVmscanWrite "nr_vmscan_write";
    NrVmscanImmediateReclaim "nr_vmscan_immediate_reclaim";
    NrDirtied "nr_dirtied";
    NrWritten "nr_written";
    NrThrottledWritten "nr_throttled_written";
    NrKernelMiscReclaimable "nr_kernel_misc_reclaimable";
    NrFollPinAcquired "nr_foll_pin_acquired";
    NrFollPinReleased "nr_foll_pin_released";
    NrKernelStack "nr_kernel_stack";
    NrPageTablePages "nr_page_table_pages";
    NrSecPageTablePages "nr_sec_page_table_pages";
    NrIommuPages "nr_iommu_pages";
    NrSwapcached "nr_swapcached";
    PgpromoteSuccess "pgpromote_success";
    PgpromoteCandidate "pgpromote_candidate";
    PgpromoteCandidateNrl "pgpromote_candidate_nrl";
    PgdemoteKswapd "pgdemote_kswapd";
    PgdemoteDirect "pgdemote_direct";
    PgdemoteKhugepaged "pgdemote_khugepaged";
    PgdemoteProactive "pgdemote_proactive";
    NrHugetlb "nr_hugetlb";
    NrBalloonPages "nr_balloon_pages";
    NrKernelFilePages "nr_kernel_file_pages";
    NrPagesScanned "nr_pages_scanned";
    NrDirtyThreshold "nr_dirty_threshold";
    NrDirtyBackgroundThreshold "nr_dirty_background_threshold";
    NrMemmapPages "nr_memmap_pages";
    NrMemmapBootPages "nr_memmap_boot_pages";
    Pgpgin "pgpgin";
    Pgpgout "pgpgout";
    Pswpin "pswpin";
    Pswpout "pswpout";
    Pgalloc "pgalloc" "pgalloc_dma" "pgalloc_dma32" "pgalloc_normal" "pgalloc_high"
        "pgalloc_movable" "pgalloc_device";
    Allocstall "allocstall" "allocstall_dma" "allocstall_dma32" "allocstall_normal"
        "allocstall_high" "allocstall_movable" "allocstall_device";
    Pgskip "pgskip" "pgskip_dma" "pgskip_dma32" "pgskip_normal" "pgskip_high" "pgskip_movable"
        "pgskip_device";
    Pgfree "pgfree";
    Pgactivate "pgactivate";
    Pgdeactivate "pgdeactivate";
    Pglazyfree "pglazyfree";
    Pgfault "pgfault";
    Pgmajfault "pgmajfault";
    Pglazyfreed "pglazyfreed";
    Pgrefill "pgrefill" "pgrefill_dma" "pgrefill_dma32" "pgrefill_normal" "pgrefill_high"
        "pgrefill_movable" "pgrefill_device";
    Pgreuse "pgreuse";
    Pgsteal "pgsteal" "pgsteal_dma" "pgsteal_dma32" "pgsteal_normal" "pgsteal_high"
        "pgsteal_movable" "pgsteal_device";
    PgstealKswapd "pgsteal_kswapd" "pgsteal_kswapd_dma" "pgsteal_kswapd_dma32"
        "pgsteal_kswapd_normal" "pgsteal_kswapd_high" "pgsteal_kswapd_movable"
        "pgsteal_kswapd_device" "kswapd_steal";
    PgstealDirect "pgsteal_direct" "pgsteal_direct_dma" "pgsteal_direct_dma32"
        "pgsteal_direct_normal" "pgsteal_direct_high" "pgsteal_direct_movable"
        "pgsteal_direct_device";
    PgstealKhugepaged "pgsteal_khugepaged";
    PgstealProactive "pgsteal_proactive";
    PgscanKswapd "pgscan_kswapd" "pgscan_kswapd_dma" "pgscan_kswapd_dma32" "pgscan_kswapd_normal"
        "pgscan_kswapd_high" "pgscan_kswapd_movable" "pgscan_kswapd_device";
    PgscanDirect "pgscan_direct" "pgscan_direct_dma" "pgscan_direct_dma32" "pgscan_direct_normal"
        "pgscan_direct_high" "pgscan_direct_movable" "pgscan_direct_device";
    PgscanKhugepaged "pgscan_khugepaged";
    PgscanProactive "pgscan_proactive";
    PgscanDirectThrottle "pgscan_direct_throttle";
    PgscanAnon "pgscan_anon";
    PgscanFile "pgscan_file";
    PgstealAnon "pgsteal_anon";
    PgstealFile "pgsteal_file";
    ZoneReclaimSuccess "zone_reclaim_success";
    ZoneReclaimFailed "zone_reclaim_failed";
    Pginodesteal "pginodesteal";
    SlabsScanned "slabs_scanned";
    KswapdInodesteal "kswapd_inodesteal";
    KswapdLowWmarkHitQuickly "kswapd_low_wmark_hit_quickly";
    KswapdHighWmarkHitQuickly "kswapd_high_wmark_hit_quickly";
    KswapdSkipCongestionWait "kswapd_skip_congestion_wait";
    Pageoutrun "pageoutrun";
    Pgrotated "pgrotated";
    DropPagecache "drop_pagecache";
    DropSlab "drop_slab";
    OomKill "oom_kill";
    NumaPteUpdates "numa_pte_updates";
    NumaHugePteUpdates "numa_huge_pte_updates";
    NumaHintFaults "numa_hint_faults";
    NumaHintFaultsLocal "numa_hint_faults_local";
    NumaPagesMigrated "numa_pages_migrated";
    NumaTaskMigrated "numa_task_migrated";
    NumaTaskSwapped "numa_task_swapped";
    PgmigrateSuccess "pgmigrate_success";
    PgmigrateFail "pgmigrate_fail";
    ThpMigrationSuccess "thp_migration_success";
    ThpMigrationFail "thp_migration_fail";
    ThpMigrationSplit "thp_migration_split";
    CompactBlocksMoved "compact_blocks_moved";
    CompactPagesMoved "compact_pages_moved";
    CompactPagemigrateFailed "compact_pagemigrate_failed";
    CompactMigrateScanned "compact_migrate_scanned";
    CompactFreeScanned "compact_free_scanned";
    CompactIsolated "compact_isolated";
    CompactStall "compact_stall";
    CompactFail "compact_fail";
    CompactSuccess "compact_success";
    CompactDaemonWake "compact_daemon_wake";
    CompactDaemonMigrateScanned "compact_daemon_migrate_scanned";
    CompactDaemonFreeScanned "compact_daemon_free_scanned";
    HtlbBuddyAllocSuccess "htlb_buddy_alloc_success";
    HtlbBuddyAllocFail "htlb_buddy_alloc_fail";
    CmaAllocSuccess "cma_alloc_success";
    CmaAllocFail "cma_alloc_fail";
    CmaReleaseSuccess "cma_release_success";
    UnevictablePgsCulled "unevictable_pgs_culled";
    UnevictablePgsScanned "unevictable_pgs_scanned";
    UnevictablePgsRescued "unevictable_pgs_rescued";
    UnevictablePgsMlocked "unevictable_pgs_mlocked";
    UnevictablePgsMunlocked "unevictable_pgs_munlocked";
    UnevictablePgsCleared "unevictable_pgs_cleared";
    UnevictablePgsStranded "unevictable_pgs_stranded";
    UnevictablePgsMlockfreed "unevictable_pgs_mlockfreed";
    ThpFaultAlloc "thp_fault_alloc";
    ThpFaultFallback "thp_fault_fallback";
    ThpFaultFallbackCharge "thp_fault_fallback_charge";
    ThpCollapseAlloc "thp_collapse_alloc";
    ThpCollapseAllocFailed "thp_collapse_alloc_failed";
    ThpFileAlloc "thp_file_alloc";
    ThpFileFallback "thp_file_fallback";
    ThpFileFallbackCharge "thp_file_fallback_charge";
    ThpFileMapped "thp_file_mapped";
    ThpSplitPage "thp_split_page" "thp_split";
    ThpSplitPageFailed "thp_split_page_failed";
    ThpDeferredSplitPage "thp_deferred_split_page";
    ThpUnderusedSplitPage "thp_underused_split_page";
    ThpSplitPmd "thp_split_pmd";
    ThpScanExceedNonePte "thp_scan_exceed_none_pte";
    ThpScanExceedSwapPte "thp_scan_exceed_swap_pte";
    ThpScanExceedSharePte "thp_scan_exceed_share_pte";
    ThpSplitPud "thp_split_pud";
    ThpZeroPageAlloc "thp_zero_page_alloc";
    ThpZeroPageAllocFailed "thp_zero_page_alloc_failed";
    ThpSwpout "thp_swpout";
    ThpSwpoutFallback "thp_swpout_fallback";
    BalloonInflate "balloon_inflate";
    BalloonDeflate "balloon_deflate";
    BalloonMigrate "balloon_migrate";
    SwapRa "swap_ra";
    SwapRaHit "swap_ra_hit";
    SwpinZero "swpin_zero";
    SwpoutZero "swpout_zero";
    KsmSwpinCopy "ksm_swpin_copy";
    CowKsm "cow_ksm";
    Zswpin "zswpin";
    Zswpout "zswpout";
    Zswpwb "zswpwb";
    DirectMapLevel2Splits "direct_map_level2_splits";
    DirectMapLevel3Splits "direct_map_level3_splits";
    DirectMapLevel2Collapses "direct_map_level2_collapses";
    DirectMapLevel3Collapses "direct_map_level3_collapses";
    NrUnstable "nr_unstable";
}

/// Number of counters.
pub(super) const COUNTERS: usize = Counter::ALL.len();

impl Counter {
    /// The counter that the kernel calls so; older and per-zone spellings are known too.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.get(lookup(name.as_bytes())?).map(|&(_, counter)| counter)
    }
}

/// Twice the names and more, so that a search ends soon.
const SLOTS: usize = 1024;
const FREE: u16 = u16::MAX;
const _: () = assert!(NAMES.len() * 2 < SLOTS);

/// The index of a name in [`NAMES`]: a hash table with linear probing, built at compile time.
static TABLE: [u16; SLOTS] = table();

#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time only, where a mistake fails the build"
)]
const fn table() -> [u16; SLOTS] {
    let mut table = [FREE; SLOTS];
    let mut index = 0;
    while index < NAMES.len() {
        let mut slot = hash(NAMES[index].0.as_bytes());
        while table[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = index as u16;
        index += 1;
    }
    table
}

/// FNV-1a.
const fn hash(name: &[u8]) -> usize {
    let mut hash = 0x811c_9dc5_u32;
    let mut rest = name;
    while let [byte, after @ ..] = rest {
        hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
        rest = after;
    }
    (hash ^ (hash >> 16)) as usize % SLOTS
}

/// The index of the name in [`NAMES`].
pub(super) fn lookup(name: &[u8]) -> Option<usize> {
    let first = hash(name);
    let (before, from) = TABLE.split_at_checked(first)?;
    for &index in from.iter().chain(before) {
        let index = usize::from(index);
        // A free slot's index is beyond the names and ends the search.
        if NAMES.get(index)?.0.as_bytes() == name {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_stands_for_one_counter() {
        for (index, (name, counter)) in NAMES.iter().enumerate() {
            assert_eq!(lookup(name.as_bytes()), Some(index), "{name}");
            assert_eq!(Counter::from_name(name), Some(*counter));
        }
        assert_eq!((lookup(b""), lookup(b"nr_free_page")), (None, None));
    }

    #[test]
    fn names_follow_the_variants() {
        for (index, &counter) in Counter::ALL.iter().enumerate() {
            let spelled = format!("{counter:?}").to_lowercase();
            assert_eq!(counter as usize, index);
            assert_eq!(counter.name().replace('_', ""), spelled);
        }
    }
}
