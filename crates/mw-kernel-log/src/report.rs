//! A report of the kernel as it was logged, before anything is made of it.

use crate::gfp::{GfpMask, ZoneKind};
use crate::task_table::TaskTable;
use crate::vmalloc::VmallocRequest;
use mw_proc::oom_lines::{OomConstraint, OomKillLine};
use std::collections::BTreeMap;

/// Functions of a call trace that are kept.
pub(crate) const MAX_TRACE: usize = 64;
/// Zones, free lists, caches and other rows of one kind that are kept.
pub(crate) const MAX_ROWS: usize = 1_024;
/// Processes that one report kills.
pub(crate) const MAX_VICTIMS: usize = 256;

/// Kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReportKind {
    /// The OOM killer ran, or tried to.
    Kill,
    AllocationFailure,
    /// A request that took more than 10 s (4.10 to 4.14).
    AllocationStall,
    /// A task that was blocked for longer than `kernel.hung_task_timeout_secs`.
    HungTask,
    /// A CPU that did not schedule.
    Lockup,
}

/// A report. What was not logged stays empty.
#[derive(Debug, Clone)]
pub(crate) struct KernelReport {
    pub(crate) kind: ReportKind,
    /// True if the first line was logged: a paste may begin within a report.
    pub(crate) has_head: bool,
    pub(crate) stamp: Option<String>,
    pub(crate) uptime_us: Option<u64>,
    pub(crate) requester: RequestTask,
    pub(crate) order: Option<i32>,
    pub(crate) gfp: Option<GfpMask>,
    pub(crate) waited_ms: Option<u64>,
    pub(crate) vmalloc: Option<VmallocRequest>,
    pub(crate) slab_cache: Option<String>,
    pub(crate) constraint: Option<OomConstraint>,
    pub(crate) mems_allowed: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) hardware: Option<String>,
    pub(crate) trace: Vec<String>,
    /// What the unwinder is not certain of.
    pub(crate) doubtful_trace: Vec<String>,
    pub(crate) modules: Vec<String>,
    pub(crate) memory: ReportMemory,
    pub(crate) tasks: TaskTable,
    pub(crate) cgroup: CgroupReport,
    pub(crate) victims: Vec<LogVictim>,
    /// Victims that are not in the list.
    pub(crate) more_victims: u64,
    pub(crate) remarks: Remarks,
}

/// The task that asked for memory, or that was blocked.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestTask {
    pub(crate) name: Option<String>,
    pub(crate) pid: Option<u32>,
    /// Seconds for which it was blocked.
    pub(crate) blocked_s: Option<u64>,
    /// The task that owns the lock it waits for (6.16 and later).
    pub(crate) lock_owner: Option<String>,
    pub(crate) cpu: Option<u32>,
}

/// Counters of Mem-Info. Pages where the kernel prints pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReportMemory {
    /// `active_anon`, `free`, …: of all nodes, whatever the constraint.
    pub(crate) pages: BTreeMap<&'static str, u64>,
    pub(crate) zones: Vec<ReportZone>,
    pub(crate) free_lists: Vec<FreeList>,
    pub(crate) pools: Vec<ReportPool>,
    /// Sums of the zones and nodes, in bytes.
    pub(crate) kernel_stack_bytes: u64,
    pub(crate) node_bytes: BTreeMap<&'static str, u64>,
    pub(crate) swap_free_bytes: Option<u64>,
    pub(crate) swap_total_bytes: Option<u64>,
    /// Free swap below zero: swapoff subtracts the whole area first, and then reads back what is in it.
    pub(crate) swapping_off_bytes: Option<u64>,
    pub(crate) ram_pages: Option<u64>,
    pub(crate) reserved_pages: Option<u64>,
    pub(crate) slabs: Vec<SlabRow>,
    /// `Memory allocations:` of 6.10 and later: bytes and the line of code.
    pub(crate) allocations: Vec<(u64, String)>,
    /// From before 3.8: the pages of kernel objects, together.
    pub(crate) balloon_bytes: Option<u64>,
    /// Pages of a graphics driver that could not be released.
    pub(crate) gpu_pinned_pages: Option<u64>,
}

/// Facts that are one line each.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Remarks {
    pub(crate) has_no_compaction: bool,
    pub(crate) has_no_victim: bool,
    /// How many times the log has this process chosen, without a kill in between.
    pub(crate) chosen: u32,
    /// The process that was chosen was killed.
    pub(crate) has_ended: bool,
    /// An allocation of pages failed earlier in the log.
    pub(crate) follows_failure: bool,
    pub(crate) is_panic: bool,
    pub(crate) is_sysrq: bool,
    pub(crate) of_group: bool,
    /// The report was dropped by the kernel's rate limit before it.
    pub(crate) suppressed: u64,
    /// Pages that a driver asked CMA for: any number, not a power of two.
    pub(crate) cma_pages: Option<u64>,
    /// CMA has room for them, but pages there could not be moved (EBUSY of mm/cma.c, `cma_alloc()`).
    pub(crate) cma_is_busy: bool,
    /// A request that the kernel repeats for ever (XFS).
    pub(crate) is_repeated: bool,
    pub(crate) is_hard_lockup: bool,
}

/// A line of a zone: bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReportZone {
    pub(crate) node: u32,
    pub(crate) name: String,
    pub(crate) bytes: BTreeMap<&'static str, u64>,
    /// `lowmem_reserve[]`, in pages.
    pub(crate) reserve_pages: Vec<u64>,
}

impl ReportZone {
    pub(crate) fn of(&self, key: &str) -> Option<u64> {
        self.bytes.get(key).copied()
    }

    pub(crate) fn kind(&self) -> Option<ZoneKind> {
        zone_kind(&self.name)
    }
}

pub(crate) fn zone_kind(name: &str) -> Option<ZoneKind> {
    Some(match name {
        "DMA" => ZoneKind::Dma,
        "DMA32" => ZoneKind::Dma32,
        "Normal" => ZoneKind::Normal,
        "HighMem" => ZoneKind::HighMem,
        "Movable" => ZoneKind::Movable,
        "Device" => ZoneKind::Device,
        _ => return None,
    })
}

/// Free blocks of a zone by size.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreeList {
    pub(crate) node: u32,
    pub(crate) zone: String,
    pub(crate) blocks: Vec<BlockCount>,
}

/// Blocks of one size; the letters are of the page types that they have (`U`, `M`, `E`, `H`, `C`, `I`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BlockCount {
    pub(crate) count: u64,
    pub(crate) kib: u64,
    pub(crate) types: String,
}

/// A pool of huge pages of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReportPool {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) page_bytes: u64,
}

/// A row of `Unreclaimable slab info`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlabRow {
    pub(crate) name: String,
    pub(crate) total_bytes: u64,
}

/// The cgroup whose limit was met.
#[derive(Debug, Clone, Default)]
pub(crate) struct CgroupReport {
    /// The cgroup at its limit.
    pub(crate) limit_of: Option<String>,
    /// The cgroup of the task.
    pub(crate) task_in: Option<String>,
    /// True if the kill line or the trace says that a cgroup's limit was met.
    pub(crate) is_named: bool,
    pub(crate) memory: Option<CgroupCounter>,
    /// Memory and swap together (v1).
    pub(crate) memory_and_swap: Option<CgroupCounter>,
    /// Swap (v2).
    pub(crate) swap: Option<CgroupCounter>,
    pub(crate) kernel: Option<CgroupCounter>,
    /// Statistics of the cgroup and of those below it, in bytes.
    pub(crate) stats: Vec<CgroupStats>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CgroupCounter {
    pub(crate) usage_bytes: u64,
    /// `None` without a limit.
    pub(crate) limit_bytes: Option<u64>,
}

impl CgroupCounter {
    /// True if a charge of some pages did not fit: the kernel charges up to 64 pages at once.
    pub(crate) fn is_full(&self) -> bool {
        const BATCH_BYTES: u64 = 512 << 10;
        self.limit_bytes.is_some_and(|limit| {
            let margin = BATCH_BYTES.min(limit.checked_div(20).unwrap_or_default());
            self.usage_bytes.saturating_add(margin) >= limit
        })
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct CgroupStats {
    pub(crate) path: String,
    pub(crate) bytes: BTreeMap<String, u64>,
}

impl CgroupStats {
    /// The first of several names, which versions 1 and 2 have for one thing.
    pub(crate) fn any(&self, names: &[&str]) -> u64 {
        names.iter().find_map(|name| self.bytes.get(*name)).copied().unwrap_or_default()
    }
}

/// A process that was killed.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogVictim {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) anon_bytes: Option<u64>,
    pub(crate) file_bytes: u64,
    pub(crate) shmem_bytes: u64,
    /// Resident memory that was left when the reaper had been at it.
    pub(crate) left_bytes: Option<u64>,
}

impl From<OomKillLine<'_>> for LogVictim {
    fn from(kill: OomKillLine<'_>) -> Self {
        Self {
            pid: kill.pid,
            name: kill.name.to_owned(),
            anon_bytes: kill.anon_bytes,
            file_bytes: kill.file_bytes.unwrap_or_default(),
            shmem_bytes: kill.shmem_bytes.unwrap_or_default(),
            left_bytes: None,
        }
    }
}

impl LogVictim {
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let others = self.file_bytes.saturating_add(self.shmem_bytes);
        self.anon_bytes.map(|anon| anon.saturating_add(others))
    }
}

impl KernelReport {
    /// True if this is the first line that kernels before 4.11 print of a failed vmalloc, and `next` the second, with the
    /// task and the flags (`warn_alloc_failed()`).
    pub(crate) fn continues_vmalloc(&self, next: &Self) -> bool {
        self.vmalloc.is_some()
            && self.gfp.is_none()
            && self.trace.is_empty()
            && next.vmalloc.is_none()
            && next.kind == ReportKind::AllocationFailure
            && next.order == Some(0)
    }

    pub(crate) fn new(kind: ReportKind) -> Self {
        Self {
            kind,
            has_head: false,
            stamp: None,
            uptime_us: None,
            requester: RequestTask::default(),
            order: None,
            gfp: None,
            waited_ms: None,
            vmalloc: None,
            slab_cache: None,
            constraint: None,
            mems_allowed: None,
            kernel: None,
            hardware: None,
            trace: Vec::new(),
            doubtful_trace: Vec::new(),
            modules: Vec::new(),
            memory: ReportMemory::default(),
            tasks: TaskTable::default(),
            cgroup: CgroupReport::default(),
            victims: Vec::new(),
            more_victims: 0,
            remarks: Remarks::default(),
        }
    }

    /// `(4, 19)` of `4.19.0-14-amd64`.
    pub(crate) fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.as_deref()?.split(['.', '-', '+']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// True if the task's cpuset allows a node, or the report does not tell which it allows.
    pub(crate) fn is_allowed_node(&self, node: u32) -> bool {
        let Some(nodes) = &self.mems_allowed else { return true };
        let is_within = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&node),
                _ => true,
            }
        };
        nodes.split(',').any(is_within)
    }

    /// The function with which a built-in driver or a module starts (init/main.c, `do_one_initcall()`).
    pub(crate) fn initcall(&self) -> Option<&str> {
        let at = self.trace.iter().position(|function| function == "do_one_initcall")?;
        self.trace.get(at.checked_sub(1)?).map(String::as_str)
    }

    /// The function of the call trace above the last that allocates for others, and whether the unwinder is certain of it.
    pub(crate) fn asking_function(&self) -> Option<(&str, bool)> {
        /// Functions that allocate for others (mm/, kernel/dma/, net/core/skbuff.c), by the beginnings of their names.
        const ALLOCATORS: &[&str] = &[
            "alloc_frozen_pages",
            "alloc_page",
            "alloc_skb",
            "alloc_slab_page",
            "allocate_slab",
            "cache_alloc",
            "cache_grow",
            "dma_alloc",
            "dma_direct_alloc",
            "dma_pool_alloc",
            "fallback_alloc",
            "filemap_alloc_folio",
            "folio_alloc",
            "get_free_page",
            "kcalloc",
            "kmalloc",
            "kmem_",
            "krealloc",
            "kvmalloc",
            "kzalloc",
            "mempool_alloc",
            "module_alloc",
            "napi_alloc_skb",
            "netdev_alloc_skb",
            "new_slab",
            "out_of_memory",
            "page_frag_alloc",
            "pagecache_get_page",
            "pcpu_alloc",
            "slab_alloc",
            "vmalloc",
            "vzalloc",
            "warn_alloc",
        ];
        const MAX_DEPTH: usize = 24;
        let is_of_allocator = |function: &String| {
            let name = function.trim_start_matches('_');
            ALLOCATORS.iter().any(|beginning| name.starts_with(beginning))
        };
        let is_last = |function: &str| {
            function.starts_with("ret_from_fork") || function.starts_with("entry_")
        };
        let is_certain = !self.trace.is_empty();
        let trace = if is_certain { &self.trace } else { &self.doubtful_trace };
        let last = trace.iter().take(MAX_DEPTH).rposition(is_of_allocator)?;
        let function = trace.get(last.checked_add(1)?)?;
        (!is_last(function)).then_some((function.as_str(), is_certain))
    }

    /// The slab cache and the cgroup that it is of: until 5.9 each cgroup had caches of its own, `TCP(960:app.slice)`
    /// (mm/slab_common.c, `memcg_create_kmem_cache()`).
    pub(crate) fn cache_of_cgroup(&self) -> Option<(&str, &str)> {
        let (cache, rest) = self.slab_cache.as_deref()?.split_once('(')?;
        let (number, cgroup) = rest.strip_suffix(')')?.split_once(':')?;
        number.parse::<u32>().ok().map(|_| (cache, cgroup))
    }

    pub(crate) fn has_trace(&self, function: &str) -> bool {
        self.trace.iter().any(|found| found.starts_with(function))
    }

    /// Size of a page: the smallest block of the free lists, or what a page is in the sums.
    pub(crate) fn page_bytes(&self) -> u64 {
        const USUAL: u64 = 4096;
        let listed = self.memory.free_lists.iter().find_map(|list| list.blocks.first());
        if let Some(block) = listed.filter(|block| block.kib.is_power_of_two()) {
            return block.kib.saturating_mul(1024).clamp(USUAL, 1 << 20);
        }
        let free = self.memory.pages.get("free").copied().unwrap_or_default();
        let of_zones = self.memory.zones.iter().filter_map(|zone| zone.of("free"));
        let bytes = of_zones.fold(0_u64, u64::saturating_add);
        match bytes.checked_div(free) {
            Some(size) if size >= USUAL => size.next_power_of_two().clamp(USUAL, 64 << 10),
            _ => USUAL,
        }
    }

    /// A counter of Mem-Info in bytes.
    pub(crate) fn bytes(&self, key: &str) -> u64 {
        let pages = self.memory.pages.get(key).copied().unwrap_or_default();
        pages.saturating_mul(self.page_bytes())
    }
}
