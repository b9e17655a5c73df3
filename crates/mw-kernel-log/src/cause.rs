//! Causes of reports, decided from their numbers.

use crate::gfp::{GfpMask, ZoneKind};
use crate::holders::{self, LogAccount, LogMemoryPart};
use crate::report::{CgroupReport, KernelReport, LogVictim, ReportKind};
use crate::vmalloc::{self, VmallocStep};
use crate::waits::BlockedOn;
use crate::zones::{self, ZoneObstacle, ZoneVerdict};
use mw_proc::oom_lines::OomConstraint;
use schemars::JsonSchema;
use serde::Serialize;

/// Reason of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogCause {
    /// A cgroup was at its limit.
    CgroupLimit,
    /// The nodes that a cpuset allows.
    Cpuset,
    /// The nodes that a memory policy allows.
    MemoryPolicy,
    /// Nodes that have movable memory only, for a request that cannot be moved.
    MovableOnly,
    /// A page fault failed without a request for pages.
    PageFault,
    /// An operator asked for a kill.
    Sysrq,
    /// swapoff(8) reads swap back into memory that has no room for it.
    SwapOff,
    /// Merged pages become separate again (2 in /sys/kernel/mm/ksm/run), and memory has no room for them.
    KsmUnmerge,
    /// A task enlarges the ring buffers of ftrace (buffer_size_kb) beyond what memory has room for.
    TraceBuffers,
    /// kswapd may reclaim no page that is younger than the multi-gen LRU protects (min_ttl_ms), on a node without older ones.
    ProtectedAge,
    /// The zones that the request may use, while others have free memory.
    LowZone,
    /// The request asks for zones that have no pages on this machine.
    EmptyZone,
    /// Free memory, but no block of the order.
    Fragmentation,
    /// Blocks or pages of CMA only.
    Cma,
    /// Blocks that are reserved for atomic requests only.
    AtomicBlocks,
    HugePages,
    UnreclaimableSlab,
    SharedMemory,
    PageTables,
    KernelStacks,
    Balloon,
    /// What is swapped out to zram or zswap.
    CompressedSwap,
    GraphicsMemory,
    /// Files of the initramfs, before there is a program to kill.
    Initramfs,
    Unevictable,
    Uncounted,
    Programs,
    /// A request that may not wait met the reserve.
    AtomicReserve,
    /// The caller asked not to try hard, and has another way.
    OptionalRequest,
    /// The range of addresses of vmalloc.
    VmallocSpace,
    /// The range of addresses of modules and compiled BPF programs.
    ModuleSpace,
    /// A size that this machine can never serve.
    ImpossibleSize,
    /// A blocked task, and what it waits for.
    Blocked(BlockedOn),
    /// Memory was short, and the report does not say more.
    Unknown,
}

/// Which counter of a cgroup was at its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupLimitKind {
    Memory,
    MemoryAndSwap,
    KernelMemory,
    /// The counters are not in the log, or none was at its limit.
    Unknown,
}

/// A report with what follows from its numbers.
#[derive(Debug, Clone)]
pub(crate) struct JudgedReport<'a> {
    pub(crate) report: &'a KernelReport,
    pub(crate) cause: LogCause,
    pub(crate) zones: Vec<ZoneVerdict>,
    pub(crate) account: LogAccount,
}

impl JudgedReport<'_> {
    /// True if memory was free again when the report was printed: its numbers do not show what was short.
    pub(crate) fn is_over(&self) -> bool {
        self.cause == LogCause::Unknown && is_over(&self.zones, &self.account)
    }
}

fn is_over(zones: &[ZoneVerdict], account: &LogAccount) -> bool {
    zones::could_serve_easily(zones) && account.is_at_least(account.bytes(LogMemoryPart::Free), 5)
}

pub(crate) fn judge(report: &KernelReport) -> JudgedReport<'_> {
    let zones = zones::verdicts(report);
    let account = LogAccount::of(report);
    let cause = match report.kind {
        ReportKind::Kill => of_kill(report, &zones, &account),
        ReportKind::AllocationFailure => of_failure(report, &zones, &account),
        ReportKind::AllocationStall if is_of_khugepaged(report) => LogCause::OptionalRequest,
        ReportKind::AllocationStall => of_holders(report, &account),
        ReportKind::HungTask | ReportKind::Lockup => LogCause::Blocked(BlockedOn::of(report)),
    };
    JudgedReport { report, cause, zones, account }
}

/// khugepaged makes huge pages of small ones in the background, at nice 19, and tries again later where it gets none
/// (mm/khugepaged.c, `khugepaged_do_scan()`).
pub(crate) fn is_of_khugepaged(report: &KernelReport) -> bool {
    /// Of a huge page: 8 on s390, 9 on most machines.
    const LEAST_ORDER: i32 = 8;
    report.requester.name.as_deref() == Some("khugepaged")
        && report.order.is_some_and(|order| order >= LEAST_ORDER)
}

fn of_kill(report: &KernelReport, zones: &[ZoneVerdict], account: &LogAccount) -> LogCause {
    if is_of_cgroup(report) {
        return LogCause::CgroupLimit;
    }
    if report.remarks.is_sysrq {
        return LogCause::Sysrq;
    }
    if is_of_swapoff(report) {
        return LogCause::SwapOff;
    }
    if report.has_trace("unmerge_and_remove_all_rmap_items") {
        return LogCause::KsmUnmerge;
    }
    if report.has_trace("__rb_allocate_pages") {
        return LogCause::TraceBuffers;
    }
    if is_of_kswapd(report) {
        return LogCause::ProtectedAge;
    }
    let is_movable = report.gfp.as_ref().is_none_or(GfpMask::is_movable);
    let only_movable = !report.memory.zones.is_empty()
        && report.memory.zones.iter().all(|zone| zone.kind() == Some(ZoneKind::Movable));
    if only_movable && !is_movable {
        return LogCause::MovableOnly;
    }
    match report.constraint {
        Some(OomConstraint::Cpuset) => return LogCause::Cpuset,
        Some(OomConstraint::MemoryPolicy) => return LogCause::MemoryPolicy,
        _ if is_filtered(report) || is_confined(report, zones) => return LogCause::Cpuset,
        _ => {}
    }
    let no_request = report.gfp.as_ref().is_some_and(|gfp| gfp.mask == 0);
    if no_request && (zones::could_serve(zones) || zones.is_empty()) {
        return LogCause::PageFault;
    }
    match of_zones(report, zones, account) {
        Some(cause) => cause,
        None if is_over(zones, account) => LogCause::Unknown,
        None => of_holders(report, account),
    }
}

/// The request may use some of the zones only, or a block of a size only.
fn of_zones(
    report: &KernelReport,
    zones: &[ZoneVerdict],
    account: &LogAccount,
) -> Option<LogCause> {
    let only_cma = |zone: &ZoneVerdict| {
        matches!(zone.obstacle, ZoneObstacle::OnlyCma | ZoneObstacle::ForeignBlock)
            && zone.free_cma_bytes > 0
    };
    let has_cma = zones::candidates(zones).any(only_cma);
    if has_cma && !zones::could_serve(zones) {
        return Some(LogCause::Cma);
    }
    if is_of_atomic_blocks(zones, account) {
        return Some(LogCause::AtomicBlocks);
    }
    if report.order.is_some_and(|order| order > 0) && zones::is_for_order(zones) {
        return Some(LogCause::Fragmentation);
    }
    let above = zones::free_above(report, zones);
    let is_much = account.is_at_least(above, 3) && above > 8 << 20;
    (is_much && !zones::could_serve(zones)).then_some(LogCause::LowZone)
}

/// A tenth of memory is free, and reserved for atomic requests: the reserve, 1% of a zone, has at least one block of pages,
/// which a kernel may have made as large as half of a small machine (mm/page_alloc.c, `reserve_highatomic_pageblock()`).
fn is_of_atomic_blocks(zones: &[ZoneVerdict], account: &LogAccount) -> bool {
    let of_atomic = zones::candidates(zones).filter(|z| z.obstacle == ZoneObstacle::OnlyAtomic);
    let free = of_atomic.fold(0_u64, |sum, zone| sum.saturating_add(zone.free_bytes));
    !zones::could_serve(zones) && account.is_at_least(free, 10)
}

/// The kernel's first task, before it becomes the init of user space: it unpacks the initramfs into the root file system,
/// whose pages are unevictable where it is a ramfs (init/initramfs.c).
fn is_of_boot(report: &KernelReport) -> bool {
    report.requester.pid == Some(1) && report.requester.name.as_deref() == Some("swapper/0")
}

/// The process that swaps off, while it does: the kernel kills it first, whatever its size (`oom_task_origin()`), also where
/// another task ran out of memory. It has next to no memory of its own.
fn is_of_swapoff(report: &KernelReport) -> bool {
    const MOST_BYTES: u64 = 16 << 20;
    const LEAST_LEFT_BYTES: u64 = 1 << 20;
    let is_it = |victim: &LogVictim| {
        victim.name == "swapoff" && victim.anon_bytes.is_some_and(|bytes| bytes < MOST_BYTES)
    };
    report.has_trace("try_to_unuse")
        || report.memory.swapping_off_bytes.is_some_and(|bytes| bytes >= LEAST_LEFT_BYTES)
        || report.victims.iter().any(is_it)
}

/// kswapd itself starts the OOM killer in one place, since 6.1: `lru_gen_age_node()` (mm/vmscan.c).
fn is_of_kswapd(report: &KernelReport) -> bool {
    let name = report.requester.name.as_deref().and_then(|name| name.strip_prefix("kswapd"));
    name.is_some_and(|node| !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_of_cgroup(report: &KernelReport) -> bool {
    report.constraint == Some(OomConstraint::Cgroup)
        || report.cgroup.is_named
        || report.has_trace("mem_cgroup_out_of_memory")
        || report.has_trace("mem_cgroup_oom_synchronize")
}

/// The kernel prints the allowed nodes only, but its counters are of all: they have much more free memory. Kernels from
/// 4.19 on name the constraint.
fn is_filtered(report: &KernelReport) -> bool {
    let memory = &report.memory;
    let of_zones = memory.zones.iter().filter_map(|zone| zone.of("free"));
    let of_zones = of_zones.fold(0_u64, u64::saturating_add);
    let is_whole = memory.ram_pages.is_some()
        && !memory.zones.is_empty()
        && memory.free_lists.len() >= memory.zones.len();
    let hidden = hidden_free_bytes(report);
    report.constraint.is_none()
        && report.mems_allowed.is_some()
        && is_whole
        && hidden > of_zones.saturating_mul(4)
        && hidden > 256 << 20
}

/// Before 2.6.39 the kernel prints all nodes, and the allowed ones in a line of their own: none of these could serve the
/// request, and others have much memory.
fn is_confined(report: &KernelReport, zones: &[ZoneVerdict]) -> bool {
    let (allowed, others): (Vec<&ZoneVerdict>, Vec<&ZoneVerdict>) =
        zones.iter().partition(|zone| report.is_allowed_node(zone.node));
    let could_serve = |zone: &&ZoneVerdict| zone.obstacle == ZoneObstacle::None;
    let above_min = |zone: &&ZoneVerdict| {
        could_serve(zone) && zone.free_bytes > zone.min_bytes.saturating_mul(4)
    };
    let is_user = report.gfp.as_ref().is_some_and(GfpMask::is_movable);
    report.constraint.is_none()
        && is_user
        && !allowed.is_empty()
        && !allowed.iter().any(could_serve)
        && others.iter().any(above_min)
        && hidden_free_bytes(report) > 256 << 20
}

/// Free memory of nodes that the report does not list, or that its task may not use.
pub(crate) fn hidden_free_bytes(report: &KernelReport) -> u64 {
    let allowed = report.memory.zones.iter().filter(|zone| report.is_allowed_node(zone.node));
    let of_zones = allowed.filter_map(|zone| zone.of("free")).fold(0_u64, u64::saturating_add);
    report.bytes("free").saturating_sub(of_zones)
}

/// What held memory: the largest part that reclaim does not free.
fn of_holders(report: &KernelReport, account: &LogAccount) -> LogCause {
    if account.total_bytes == 0 || report.memory.pages.is_empty() {
        /// The kernel prints its caches where they are more than all pages of user space (mm/oom_kill.c,
        /// `is_dump_unreclaim_slabs()`).
        const LEAST_SLAB_BYTES: u64 = 64 << 20;
        let slab = account.bytes(LogMemoryPart::UnreclaimableSlab);
        let has_caches = report.memory.pages.is_empty() && !report.memory.slabs.is_empty();
        return match report.tasks.tasks > 0 {
            _ if has_caches && slab >= LEAST_SLAB_BYTES => LogCause::UnreclaimableSlab,
            true => LogCause::Programs,
            false => LogCause::Unknown,
        };
    }
    let pinned = report.memory.gpu_pinned_pages.unwrap_or_default();
    if account.is_at_least(pinned.saturating_mul(report.page_bytes()), 15) {
        return LogCause::GraphicsMemory;
    }
    let pools = account.bytes(LogMemoryPart::HugePages);
    let unused = holders::pools(report)
        .iter()
        .fold(0_u64, |sum, pool| sum.saturating_add(pool.free.saturating_mul(pool.page_bytes)));
    if account.is_at_least(unused, 20) && unused.saturating_mul(2) >= pools {
        return LogCause::HugePages;
    }
    // A pool in use is somebody's plan: the rest is what programs had.
    let Some(largest) = account.largest_held_but_pools() else { return LogCause::Unknown };
    if !account.is_at_least(largest.bytes, 15) {
        return LogCause::Unknown;
    }
    match largest.part {
        LogMemoryPart::Programs => LogCause::Programs,
        LogMemoryPart::SharedMemory => LogCause::SharedMemory,
        LogMemoryPart::UnreclaimableSlab => LogCause::UnreclaimableSlab,
        LogMemoryPart::PageTables => LogCause::PageTables,
        LogMemoryPart::KernelStacks => LogCause::KernelStacks,
        LogMemoryPart::Balloon => LogCause::Balloon,
        LogMemoryPart::CompressedSwap if saves_little(report, largest.bytes) => {
            LogCause::CompressedSwap
        }
        LogMemoryPart::CompressedSwap => LogCause::Programs,
        LogMemoryPart::Unevictable if is_of_boot(report) => LogCause::Initramfs,
        LogMemoryPart::Unevictable => LogCause::Unevictable,
        LogMemoryPart::Uncounted => LogCause::Uncounted,
        LogMemoryPart::Free
        | LogMemoryPart::HugePages
        | LogMemoryPart::PageCache
        | LogMemoryPart::ReclaimableSlab => LogCause::Unknown,
    }
}

/// True if compressed pages take most of what they would take in memory; without swap they are of a file system on zram.
fn saves_little(report: &KernelReport, compressed: u64) -> bool {
    const LITTLE_PERCENT: u64 = 60;
    holders::in_swap(report).is_none_or(|swapped| {
        compressed.saturating_mul(100) >= swapped.saturating_mul(LITTLE_PERCENT)
    })
}

fn of_failure(report: &KernelReport, zones: &[ZoneVerdict], account: &LogAccount) -> LogCause {
    if report.remarks.cma_pages.is_some() {
        return LogCause::Cma;
    }
    if let Some(request) = &report.vmalloc {
        let is_of_modules = vmalloc::is_of_modules(&report.trace);
        match request.failed_at {
            _ if request.is_beyond(account.total_bytes) => return LogCause::ImpossibleSize,
            VmallocStep::Addresses if is_of_modules => return LogCause::ModuleSpace,
            VmallocStep::Addresses => return LogCause::VmallocSpace,
            VmallocStep::Size | VmallocStep::Pages => {}
        }
    }
    let Some(gfp) = &report.gfp else { return LogCause::Unknown };
    if is_of_charge(report) {
        return LogCause::CgroupLimit;
    }
    if zones::candidates(zones).next().is_none() && zones::are_empty(report) {
        return LogCause::EmptyZone;
    }
    if let Some(cause) = of_zones(report, zones, account) {
        return cause;
    }
    let order = report.order.unwrap_or(0);
    if gfp.is_optional() || is_of_khugepaged(report) {
        LogCause::OptionalRequest
    } else if order > 0 && zones.is_empty() {
        LogCause::Fragmentation
    } else if !gfp.may_wait() {
        LogCause::AtomicReserve
    } else {
        of_holders(report, account)
    }
}

/// A slab cache of a cgroup could not grow for an atomic request, and the log has no allocation of pages that failed, which the
/// kernel reports as well, unless there are many: the pages could not be charged (mm/slab.h, `memcg_charge_slab()`). From 5.4 on
/// such a request may exceed the limit (mm/memcontrol.c, `try_charge()`).
fn is_of_charge(report: &KernelReport) -> bool {
    report.cache_of_cgroup().is_some()
        && report.requester.name.is_none()
        && report.memory.zones.is_empty()
        && !report.remarks.follows_failure
        && report.gfp.as_ref().is_some_and(|gfp| !gfp.may_wait())
        && report.version().is_none_or(|version| version < (5, 4))
}

/// The counter that was at its limit.
pub(crate) fn limit_kind(cgroup: &CgroupReport) -> CgroupLimitKind {
    let is_full = |counter: Option<crate::report::CgroupCounter>| {
        counter.is_some_and(|counter| counter.is_full())
    };
    let usage = |counter: Option<crate::report::CgroupCounter>| {
        counter.map_or(0, |counter| counter.usage_bytes)
    };
    let swapped = usage(cgroup.memory_and_swap).saturating_sub(usage(cgroup.memory));
    if is_full(cgroup.memory_and_swap) && (!is_full(cgroup.memory) || swapped > 1 << 20) {
        CgroupLimitKind::MemoryAndSwap
    } else if is_full(cgroup.memory) {
        CgroupLimitKind::Memory
    } else if is_full(cgroup.kernel) {
        CgroupLimitKind::KernelMemory
    } else {
        CgroupLimitKind::Unknown
    }
}
