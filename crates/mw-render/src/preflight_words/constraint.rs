//! A constraint in words: its name, how to lift it, and the doubt that it raises.

use mw_model::caller::{GroupEffect, GroupLimit};
use mw_model::{
    Constraint, ConstraintEffect, ConstraintKind, HugePool, PageSize, PoolGrowth,
    RAISE_COMMIT_LIMIT, RAISE_SHMALL, RAISE_SHMMAX, Request, ResourceLimit, Share, format_bytes,
    format_count, huge_pool_dir,
};

pub(super) fn name(constraint: &Constraint) -> String {
    match &constraint.kind {
        ConstraintKind::Unread(missing) | ConstraintKind::UnreadFolioBlocks(missing) => {
            missing.what.clone()
        }
        ConstraintKind::UnreachableNode(node) => node.what(),
        ConstraintKind::Memory { node: None, .. } | ConstraintKind::LastMemory => "memory".into(),
        ConstraintKind::Memory { node: Some(node), .. } => format!("memory of node {node}"),
        ConstraintKind::Dirty => "dirty memory".into(),
        ConstraintKind::Swap => "swap".into(),
        ConstraintKind::BelowWatermarks => "memory below the watermarks".into(),
        ConstraintKind::ZoneReclaim { mode } => format!("vm.zone_reclaim_mode is {mode}"),
        ConstraintKind::HugePool { pool, node, .. } => {
            let place = node.map_or(String::new(), |node| format!(" on node {node}"));
            format!("hugetlb pool of {} pages{place}", format_bytes(pool.page_bytes))
        }
        ConstraintKind::NoHugePool { page_bytes, .. } => {
            format!("hugetlb pool of {} pages", format_bytes(*page_bytes))
        }
        ConstraintKind::SurplusPages => "surplus pages beyond the pool".into(),
        ConstraintKind::HugetlbGroup { path, file } => format!("{file} of cgroup {path}"),
        ConstraintKind::ThpDisabled => "transparent huge pages are disabled".into(),
        ConstraintKind::ThpBlocks { defrag } => {
            format!("free blocks for transparent huge pages (defrag is {})", setting(defrag))
        }
        ConstraintKind::FoliosNotAllowed { page_bytes: None, .. } => {
            "no size of folios is allowed for private memory".into()
        }
        ConstraintKind::FoliosNotAllowed { page_bytes: Some(bytes), .. } => {
            format!("folios of {} are not allowed for private memory", PageSize::Folio(*bytes))
        }
        ConstraintKind::FolioBlocks { page_bytes, defrag } => {
            let page = PageSize::Folio(*page_bytes);
            format!("free blocks for folios of {page} (defrag is {})", setting(defrag))
        }
        ConstraintKind::Overcommit => "vm.overcommit_memory is 0".into(),
        ConstraintKind::CommitLimit => "commit limit (vm.overcommit_memory is 2)".into(),
        ConstraintKind::MemoryGroup { path, limit } => {
            let limit = match limit.effect {
                GroupEffect::Kills => "memory limit",
                GroupEffect::KillsSwapIncluded => "memory and swap limit",
                GroupEffect::Slows => "memory.high",
            };
            format!("{limit} of {}", group_name(path.as_deref()))
        }
        ConstraintKind::Rlimit { resource: ResourceLimit::Memlock, .. }
            if constraint.effect != ConstraintEffect::Refuses =>
        {
            "RLIMIT_MEMLOCK (unless the process has CAP_IPC_LOCK)".into()
        }
        ConstraintKind::Rlimit { resource, .. } => resource.name().into(),
        ConstraintKind::AddressSpace => "address space of a process".into(),
        ConstraintKind::ShmMax => "kernel.shmmax".into(),
        ConstraintKind::ShmAll => "kernel.shmall".into(),
        ConstraintKind::OtherPoolPages { pool } => format!("pool {pool} has pages of another size"),
        ConstraintKind::MemwrightPool { pool, .. } => format!("pool {pool}"),
    }
}

fn setting(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("unknown")
}

fn group_name(path: Option<&str>) -> String {
    let above = || "an ancestor of this container's cgroup".to_owned();
    path.map_or_else(above, |path| format!("cgroup {path}"))
}

/// The doubt because of which the answer is unknown, as a clause.
pub(super) fn doubt(constraint: &Constraint) -> String {
    let available = || format_bytes(constraint.available_bytes.unwrap_or(0));
    let needed = constraint.needed_bytes.unwrap_or(0);
    match &constraint.kind {
        ConstraintKind::UnreadFolioBlocks(missing) => {
            format!("free blocks for folios are not known: {missing}")
        }
        ConstraintKind::Dirty => format!(
            "{} have to be written back first, and the kernel may call the OOM killer before the disk is done; run sync",
            format_bytes(needed)
        ),
        ConstraintKind::LastMemory => format!(
            "it takes all that the kernel can give but {}, of which some may not be given",
            available()
        ),
        ConstraintKind::CommitLimit => format!(
            "it takes all of the {} below the commit limit: the program needs some besides",
            available()
        ),
        ConstraintKind::MemoryGroup { path, .. } => format!(
            "it takes all of the {} that {} has left: the program needs some besides",
            available(),
            group_name(path.as_deref())
        ),
        ConstraintKind::Rlimit { resource, .. } => format!(
            "{} refuses it to a program that maps {} or more besides",
            resource.name(),
            format_bytes(constraint.available_bytes.unwrap_or(0).saturating_sub(needed))
        ),
        _ => "a limit that could not be determined may refuse it".to_owned(),
    }
}

pub(super) fn remedy(request: &Request, constraint: &Constraint) -> String {
    match &constraint.kind {
        ConstraintKind::Unread(missing) | ConstraintKind::UnreadFolioBlocks(missing) => {
            missing.to_string()
        }
        ConstraintKind::UnreachableNode(node) => node.remedy(),
        ConstraintKind::Memory { min_free_kib: Some(kib), .. } => format!(
            "sysctl vm.min_free_kbytes={kib}: it keeps more memory free than is missing"
        ),
        ConstraintKind::Memory { swap_helps, largest, .. } => free_memory(*swap_helps, largest),
        ConstraintKind::AddressSpace => {
            "a process of a 32-bit kernel has at most 3 GiB of addresses, however much memory is free: use a 64-bit \
             kernel and program, or several processes"
                .into()
        }
        ConstraintKind::Dirty => "wait for writeback, or run sync; lower vm.dirty_bytes".into(),
        ConstraintKind::Swap => {
            "stop idle programs, or request less: this much has to be swapped out first".into()
        }
        ConstraintKind::BelowWatermarks | ConstraintKind::LastMemory => {
            "request less: this much is below the watermarks or in cache that is in use".into()
        }
        ConstraintKind::ZoneReclaim { .. } => {
            "set it to 0: once its own node is full, a thread scans that node for page cache at every \
             allocation before it uses another node"
                .into()
        }
        ConstraintKind::HugePool { pool, growth, .. } => {
            grow_pool(request, pool, growth, constraint.lacking_bytes())
        }
        ConstraintKind::NoHugePool { sizes, .. } => {
            format!("no such pool exists: {}", pool_sizes(sizes))
        }
        ConstraintKind::SurplusPages => {
            "raise vm.nr_hugepages in advance: these pages are allocated one by one while the program waits"
                .into()
        }
        ConstraintKind::HugetlbGroup { file, .. } => {
            format!("raise {file} of the cgroup to hold {request} as well")
        }
        ConstraintKind::ThpDisabled => {
            "write madvise to /sys/kernel/mm/transparent_hugepage/enabled; until then the memory \
             consists of base pages"
                .into()
        }
        ConstraintKind::ThpBlocks { defrag } => compact_for_thp(defrag.as_deref()).into(),
        ConstraintKind::FoliosNotAllowed { page_bytes, why } => {
            let pages = if page_bytes.is_some() { "smaller pages" } else { "base pages" };
            format!("{why}; until then the memory consists of {pages}")
        }
        ConstraintKind::FolioBlocks { .. } => {
            "compact first: write 1 to /proc/sys/vm/compact_memory; or request page=best, which takes \
             the sizes that are free"
                .into()
        }
        ConstraintKind::Overcommit => {
            "map less at a time, set vm.overcommit_memory to 1, or add memory or swap".into()
        }
        ConstraintKind::CommitLimit => {
            format!("{} over the limit: {RAISE_COMMIT_LIMIT}", format_bytes(constraint.lacking_bytes()))
        }
        ConstraintKind::MemoryGroup { limit, .. } => raise_group_limit(limit),
        ConstraintKind::Rlimit { resource, is_within_hard_limit } => {
            resource.remedy(*is_within_hard_limit)
        }
        ConstraintKind::ShmMax => RAISE_SHMMAX.into(),
        ConstraintKind::ShmAll => RAISE_SHMALL.into(),
        ConstraintKind::OtherPoolPages { .. } => {
            format!("create a pool with such pages: memwright pool create NAME --huge {}", request.page)
        }
        ConstraintKind::MemwrightPool { pool, size_bytes } => {
            match request.size_bytes.saturating_sub(*size_bytes) {
                0 => "end the programs that lease memory from it, or create another pool".into(),
                lacks => format!("memwright pool grow {pool} {}M", lacks.div_ceil(1 << 20)),
            }
        }
    }
}

fn free_memory(swap_helps: bool, largest: &Option<Share>) -> String {
    let held = largest.as_ref().map_or_else(String::new, |share| {
        format!("; the largest part is {} ({})", share.holder, format_bytes(share.bytes))
    });
    let swap = if swap_helps { ", or add swap" } else { "" };
    format!("free some of the unreclaimable memory{swap}{held}")
}

fn grow_pool(request: &Request, pool: &HugePool, growth: &PoolGrowth, lacking: u64) -> String {
    let missing = lacking.checked_div(pool.page_bytes).unwrap_or(0);
    let file = format!("{}/nr_hugepages", huge_pool_dir(pool.page_bytes, request.node));
    let by_hand = match request.node {
        Some(_) => format!("raise {file} by {}", format_count(missing, "page")),
        None => {
            let total = pool.total_pages.saturating_add(missing);
            format!("write {total} to {file}, preferably at boot")
        }
    };
    if lacking <= growth.most_bytes.unwrap_or(growth.now_bytes) {
        format!("run memwright make-room {}, or {by_hand}", request.argument())
    } else {
        by_hand
    }
}

fn pool_sizes(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().copied().map(format_bytes).collect();
    match sizes.is_empty() {
        true => "this kernel has no huge pages".to_owned(),
        false => format!("the kernel has {}", sizes.join(" and ")),
    }
}

fn compact_for_thp(defrag: Option<&str>) -> &'static str {
    match defrag {
        Some("always" | "madvise" | "defer+madvise") => {
            "compact first: write 1 to /proc/sys/vm/compact_memory; or write defer to \
             /sys/kernel/mm/transparent_hugepage/defrag, to get base pages for the rest"
        }
        _ => {
            "compact first: write 1 to /proc/sys/vm/compact_memory; until then the rest consists of \
             base pages"
        }
    }
}

fn raise_group_limit(limit: &GroupLimit) -> String {
    if limit.effect == GroupEffect::Slows {
        let text =
            "raise memory.high of the cgroup: above it the kernel slows every allocation down";
        return text.to_owned();
    }
    format!(
        "the limit is {}, {} in use: raise {} of the cgroup, or stop other programs in it",
        format_bytes(limit.limit_bytes),
        format_bytes(limit.used_bytes),
        limit.file
    )
}
