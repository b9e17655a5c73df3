//! Holders of memory at the time of a report: parts of the machine that exclude each other, and tasks by name.

use crate::report::{KernelReport, ReportPool};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// Names, caches and lines of code that are listed.
const MAX_LISTED: usize = 5;

/// A kind of use of the machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogMemoryPart {
    /// Anonymous memory of programs.
    Programs,
    /// tmpfs, /dev/shm, System V segments, and buffers of some drivers.
    SharedMemory,
    PageCache,
    /// Kernel objects that no reclaim frees.
    UnreclaimableSlab,
    ReclaimableSlab,
    PageTables,
    KernelStacks,
    /// Pools of huge pages, used or not.
    HugePages,
    Balloon,
    /// Pages that zram and zswap hold compressed.
    CompressedSwap,
    /// Locked memory and other pages on no list that is reclaimed.
    Unevictable,
    Free,
    /// In no counter of the report.
    Uncounted,
}

/// Bytes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogShare {
    pub part: LogMemoryPart,
    pub bytes: u64,
}

/// Tasks of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskShare {
    pub name: String,
    pub count: u64,
    /// Shared pages count in each task.
    pub resident_bytes: u64,
    pub swapped_bytes: u64,
    /// Of them, those that the OOM killer may not choose (oom_score_adj -1000).
    pub exempt: u64,
}

/// Memory of the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogAccount {
    pub(crate) total_bytes: u64,
    /// The largest first, free memory among them.
    pub(crate) parts: Vec<LogShare>,
}

impl LogAccount {
    pub(crate) fn of(report: &KernelReport) -> Self {
        let total_bytes = total_bytes(report);
        let shmem = report.bytes("shmem");
        let lru = |kind: &str| report.bytes(kind);
        let anon = lru("active_anon").saturating_add(lru("inactive_anon"));
        let anon = anon.saturating_add(lru("active")).saturating_add(lru("inactive"));
        let file = lru("active_file").saturating_add(lru("inactive_file"));
        let tables = report.bytes("pagetables").saturating_add(report.bytes("sec_pagetables"));
        let stacks = report.memory.kernel_stack_bytes;
        let stacks = stacks.max(report.memory.node_bytes.get("kernel_stack").copied().unwrap_or(0));
        let pools = pools(report).iter().fold(0_u64, |sum, pool| {
            sum.saturating_add(pool.total.saturating_mul(pool.page_bytes))
        });
        // Shared memory is on the lists of anonymous memory, or unevictable where it is locked.
        let unevictable = report.bytes("unevictable");
        let shmem_on_lists = shmem.min(anon);
        let unevictable = unevictable.saturating_sub(shmem.saturating_sub(shmem_on_lists));
        use LogMemoryPart as Part;
        let mut parts = vec![
            (Part::Programs, anon.saturating_sub(shmem_on_lists)),
            (Part::SharedMemory, shmem),
            (Part::PageCache, file),
            (Part::UnreclaimableSlab, unreclaimable_slab(report)),
            (
                Part::ReclaimableSlab,
                report.bytes("slab_reclaimable").saturating_add(report.bytes("slab")),
            ),
            (Part::PageTables, tables),
            (Part::KernelStacks, stacks),
            (Part::HugePages, pools),
            (Part::CompressedSwap, zone_bytes(report, "zspages")),
            (Part::Unevictable, unevictable),
            (Part::Free, report.bytes("free").saturating_add(report.bytes("free_pcp"))),
        ];
        let sum = parts.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let is_counted = !report.memory.pages.is_empty();
        let left = if is_counted { total_bytes.saturating_sub(sum) } else { 0 };
        let balloon = report.memory.balloon_bytes.unwrap_or_default();
        let balloon_part = balloon.min(left.max(balloon));
        parts.push((Part::Balloon, balloon_part));
        parts.push((Part::Uncounted, left.saturating_sub(balloon)));
        parts.retain(|(_, bytes)| *bytes > 0);
        parts.sort_by_key(|(_, bytes)| Reverse(*bytes));
        let parts = parts.into_iter().map(|(part, bytes)| LogShare { part, bytes });
        Self { total_bytes, parts: parts.collect() }
    }

    pub(crate) fn bytes(&self, part: LogMemoryPart) -> u64 {
        self.parts.iter().find(|share| share.part == part).map_or(0, |share| share.bytes)
    }

    /// True from so many percent of all memory on.
    pub(crate) fn is_at_least(&self, bytes: u64, percent: u64) -> bool {
        let limit = self.total_bytes.saturating_mul(percent).checked_div(100).unwrap_or_default();
        self.total_bytes > 0 && bytes >= limit
    }

    /// The largest part that reclaim does not free.
    pub(crate) fn largest_held(&self) -> Option<LogShare> {
        self.held().next()
    }

    /// The same, without pools of huge pages.
    pub(crate) fn largest_held_but_pools(&self) -> Option<LogShare> {
        self.held().find(|share| share.part != LogMemoryPart::HugePages)
    }

    fn held(&self) -> impl Iterator<Item = LogShare> + '_ {
        use LogMemoryPart::{Free, PageCache, ReclaimableSlab};
        let is_held = |share: &&LogShare| !matches!(share.part, Free | PageCache | ReclaimableSlab);
        self.parts.iter().filter(is_held).copied()
    }
}

/// The kernel's sum, or that of the caches where the rest of the report is not in the log.
fn unreclaimable_slab(report: &KernelReport) -> u64 {
    if report.memory.pages.is_empty() {
        let caches = report.memory.slabs.iter().map(|row| row.total_bytes);
        caches.fold(0, u64::saturating_add)
    } else {
        report.bytes("slab_unreclaimable")
    }
}

/// The sum of a counter of all zones.
fn zone_bytes(report: &KernelReport, key: &str) -> u64 {
    let zones = report.memory.zones.iter();
    zones.filter_map(|zone| zone.of(key)).fold(0, u64::saturating_add)
}

/// What is in swap, at least: an area that is being swapped off counts neither as total nor as free (`total_swap_pages`), so
/// that only the rows of processes have its pages, without those of shared memory.
pub(crate) fn in_swap(report: &KernelReport) -> Option<u64> {
    let memory = &report.memory;
    let below_zero = memory.swapping_off_bytes.unwrap_or(0);
    let counted = memory.swap_total_bytes?.saturating_sub(memory.swap_free_bytes?);
    let counted = counted.saturating_add(below_zero);
    let of_tasks = tasks(report).into_iter().map(|task| task.swapped_bytes);
    let bytes = counted.max(of_tasks.fold(0, u64::saturating_add));
    (bytes > 0).then_some(bytes)
}

/// Memory that the allocator manages.
pub(crate) fn total_bytes(report: &KernelReport) -> u64 {
    let memory = &report.memory;
    let managed = Some(zone_bytes(report, "managed")).filter(|bytes| *bytes > 0);
    let managed = managed.unwrap_or_else(|| zone_bytes(report, "present"));
    match (memory.ram_pages, memory.reserved_pages) {
        (Some(ram), Some(reserved)) if reserved < ram => {
            let ram = ram.saturating_sub(reserved).saturating_mul(report.page_bytes());
            ram.max(managed)
        }
        (Some(ram), None) => ram.saturating_mul(report.page_bytes()).max(managed),
        _ => managed,
    }
}

/// Pools of huge pages; a report may have them once for each node.
pub(crate) fn pools(report: &KernelReport) -> Vec<ReportPool> {
    let mut pools: Vec<ReportPool> = Vec::new();
    for pool in report.memory.pools.iter().filter(|pool| pool.total > 0) {
        match pools.iter_mut().find(|known| known.page_bytes == pool.page_bytes) {
            Some(known) => {
                known.total = known.total.saturating_add(pool.total);
                known.free = known.free.saturating_add(pool.free);
            }
            None => pools.push(*pool),
        }
    }
    pools
}

/// Names with the most memory, the largest first.
pub(crate) fn tasks(report: &KernelReport) -> Vec<TaskShare> {
    let page_bytes = report.page_bytes();
    let share = |(name, sum): (&String, &crate::task_table::TaskSum)| TaskShare {
        name: name.clone(),
        count: sum.count,
        resident_bytes: sum.resident_pages.saturating_mul(page_bytes),
        swapped_bytes: sum.swapped_pages.saturating_mul(page_bytes),
        exempt: sum.exempt,
    };
    let mut shares: Vec<TaskShare> = report.tasks.by_name.iter().map(share).collect();
    shares.sort_by_key(|share| Reverse(share.resident_bytes.saturating_add(share.swapped_bytes)));
    shares.retain(|share| share.resident_bytes.saturating_add(share.swapped_bytes) > 0);
    shares.truncate(MAX_LISTED);
    shares
}

/// Largest caches of kernel objects.
pub(crate) fn slabs(report: &KernelReport) -> Vec<(&str, u64)> {
    let rows = report.memory.slabs.iter().map(|row| (row.name.as_str(), row.total_bytes));
    let mut rows: Vec<(&str, u64)> = rows.collect();
    rows.sort_by_key(|(_, bytes)| Reverse(*bytes));
    rows.truncate(3);
    rows
}
