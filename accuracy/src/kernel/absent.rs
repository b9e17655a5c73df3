//! Names of the tables that stored kernels do not have, each with the reason.

use super::package::KernelName;
use mw_critical_path::Wait;

/// Stored kernels of which something is said.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KernelRange {
    All,
    /// Older than this series.
    Before([u16; 2]),
    /// Flavours with this word.
    Flavour(&'static str),
    /// Flavours for virtual machines, older than this series.
    CloudBefore([u16; 2]),
}

impl KernelRange {
    pub(crate) fn has(self, name: &KernelName) -> bool {
        match self {
            Self::All => true,
            Self::Before(series) => name.numbers() < series.to_vec(),
            Self::Flavour(word) => name.has_flavour(word),
            Self::CloudBefore(series) => {
                name.has_flavour("cloud") && Self::Before(series).has(name)
            }
        }
    }
}

const INLINED: &str = "static; the compiler of Debian's kernels inlines it";
const OLD: &str = "kernels before 5.10";
const OUT_OF_TREE: &str = "a module that is not in the kernel's sources: Lustre, ZFS";
const NO_HUGE_PAGES: &str = "PREEMPT_RT excludes transparent huge pages";
const NO_BALANCING: &str = "PREEMPT_RT excludes NUMA balancing";
const NOT_BUILT: &str = "Debian does not build it";

/// Functions that no stored kernel has.
pub(crate) const ABSENT_FUNCTIONS: &[(&str, &str)] = &[
    ("__alloc_pages_direct_reclaim", INLINED),
    ("__alloc_pages_may_oom", INLINED),
    ("__get_user_pages_locked", INLINED),
    ("__perform_reclaim", INLINED),
    ("__zone_reclaim", OLD),
    ("blkcg_iolatency_", NOT_BUILT),
    ("dmirror_devmem_fault", NOT_BUILT),
    ("compact_nodes", INLINED),
    ("do_freezer_trap", INLINED),
    ("do_numa_page", INLINED),
    ("do_poll", INLINED),
    ("inet_wait_for_connect", INLINED),
    ("kill_proc_info", INLINED),
    ("kswapd_try_to_sleep", INLINED),
    ("ldlm_", OUT_OF_TREE),
    ("madvise_populate", INLINED),
    ("mem_cgroup_reclaim", OLD),
    ("nouveau_dmem_migrate_to_ram", NOT_BUILT),
    ("nr_hugepages_store_common", INLINED),
    ("osc_enter_cache", OUT_OF_TREE),
    ("osc_extent_wait", OUT_OF_TREE),
    ("ptlrpc_", OUT_OF_TREE),
    ("rwsem_down_read_failed", OLD),
    ("rwsem_down_write_failed", OLD),
    ("set_max_huge_pages", INLINED),
    ("shrink_zone", OLD),
    ("thaw_task", OLD),
    ("txg_wait_", OUT_OF_TREE),
    ("wait_for_vfork_done", INLINED),
    ("wait_transaction_switching", INLINED),
    ("zap_pmd", INLINED),
    ("zap_pte", INLINED),
    ("zap_pud", INLINED),
    ("zil_commit", OUT_OF_TREE),
    ("zio_wait", OUT_OF_TREE),
    ("zone_reclaim", OLD),
];

/// Waits for which no function of the table is in a kernel.
pub(crate) const ABSENT_WAITS: &[(Wait, KernelRange, &str)] = &[(
    Wait::CpuQuota,
    KernelRange::Before([6, 18]),
    "throttled tasks stay runnable: the whole queue is taken off the CPU",
)];

/// Lines of files that the program reads where they are: the file, the line, where it is absent, and the reason.
pub(crate) const ABSENT_KEYS: &[(&str, &str, KernelRange, &str)] = &[
    ("meminfo", "MemUsed", KernelRange::All, "of nodes only"),
    ("meminfo", "FilePages", KernelRange::All, "of nodes only"),
    ("meminfo", "AnonHugePages", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("meminfo", "ShmemHugePages", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("meminfo", "FileHugePages", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("vmstat", "thp_collapse_alloc", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("vmstat", "thp_fault_alloc", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("vmstat", "thp_fault_fallback", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("vmstat", "thp_deferred_split_page", KernelRange::Flavour("rt"), NO_HUGE_PAGES),
    ("vmstat", "numa_hint_faults", KernelRange::Flavour("rt"), NO_BALANCING),
    ("vmstat", "numa_pages_migrated", KernelRange::Flavour("rt"), NO_BALANCING),
    ("meminfo", "Balloon", KernelRange::Before([6, 16]), "added in 6.16"),
    ("meminfo", "CmaTotal", KernelRange::Before([7, 0]), "Debian builds no CMA on amd64 there"),
    ("meminfo", "CmaFree", KernelRange::Before([7, 0]), "Debian builds no CMA on amd64 there"),
    (
        "meminfo",
        "HardwareCorrupted",
        KernelRange::CloudBefore([6, 12]),
        "built without MEMORY_FAILURE",
    ),
    ("meminfo", "SecPageTables", KernelRange::Before([6, 1]), "added in 6.1"),
    ("meminfo", "Zswap", KernelRange::CloudBefore([7, 0]), "built without ZSWAP"),
    ("meminfo", "Zswapped", KernelRange::CloudBefore([7, 0]), "built without ZSWAP"),
    ("vmstat", "zswpin", KernelRange::CloudBefore([7, 0]), "built without ZSWAP"),
    ("vmstat", "zswpout", KernelRange::CloudBefore([7, 0]), "built without ZSWAP"),
    ("vmstat", "zswpwb", KernelRange::CloudBefore([7, 0]), "built without ZSWAP"),
    ("meminfo", "GPUActive", KernelRange::Before([7, 3]), "added after 6.18"),
    ("meminfo", "GPUReclaim", KernelRange::Before([7, 3]), "added after 6.18"),
    ("zoneinfo", "boost", KernelRange::Before([6, 1]), "added in 5.14"),
    ("zoneinfo", "cma", KernelRange::Before([6, 1]), "added in 5.14"),
    ("zoneinfo", "nr_unaccepted", KernelRange::Before([6, 5]), "added in 6.5"),
    ("zoneinfo", "nr_unaccepted", KernelRange::Flavour("arm64"), "of confidential guests of amd64"),
    ("vmstat", "nr_memmap_pages", KernelRange::Before([6, 11]), "added in 6.11"),
    ("vmstat", "pgscan_khugepaged", KernelRange::Before([6, 3]), "added in 6.3"),
    ("vmstat", "pgsteal_khugepaged", KernelRange::Before([6, 3]), "added in 6.3"),
    ("vmstat", "pgscan_proactive", KernelRange::Before([6, 16]), "added in 6.16"),
    ("vmstat", "pgsteal_proactive", KernelRange::Before([6, 16]), "added in 6.16"),
    ("vmstat", "zone_reclaim_success", KernelRange::Before([6, 10]), "added in 6.10"),
    ("memory.stat", "pagetables", KernelRange::Before([5, 11]), "added in 5.11"),
];
