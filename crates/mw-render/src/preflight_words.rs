//! Words of an assessed request: the summary, the obstacles and their remedies, as every format has them.

mod summary;

use mw_model::caller::{GroupEffect, GroupLimit};
use mw_model::{
    Answer, Assessment, Ceiling, Constraint, ConstraintEffect, ConstraintKind, HugePool, Obstacle,
    PageSize, PoolGrowth, PoolRoom, Preflight, RAISE_COMMIT_LIMIT, RAISE_SHMALL, RAISE_SHMMAX,
    Request, ResourceLimit, Share, format_bytes, format_count, huge_pool_dir,
};

/// The assessment in words.
pub fn describe(assessment: &Assessment) -> Preflight {
    Preflight {
        request: assessment.request.clone(),
        answer: assessment.answer(),
        summary: summary::line(assessment),
        nodes: assessment.nodes.clone(),
        time: assessment.time.clone(),
        obstacles: obstacles(assessment),
        pool_growth: assessment.pool_growth(),
        folios: assessment.sources.folios.clone(),
        unseen: assessment.unread(),
    }
}

/// The answer of a pool of memwright in words.
pub fn describe_pool(request: &Request, pool: &PoolRoom, answer: Answer) -> Preflight {
    Preflight {
        request: request.clone(),
        answer,
        summary: summary::pool_line(request, pool, answer),
        nodes: Vec::new(),
        time: None,
        obstacles: Vec::new(),
        pool_growth: None,
        folios: Vec::new(),
        unseen: Vec::new(),
    }
}

fn obstacles(assessment: &Assessment) -> Vec<Obstacle> {
    let words = |constraint| obstacle(&assessment.request, constraint);
    let mut obstacles: Vec<Obstacle> = shown(assessment).into_iter().map(words).collect();
    if let Some(ceiling) = &assessment.ceiling {
        let lift = less_than_ceiling(ceiling);
        obstacles.iter_mut().for_each(|obstacle| obstacle.lift.clone_from(&lift));
    }
    obstacles
}

/// The constraints that are obstacles: first what refuses the request, then by the size that is lacking. No setting
/// makes a request succeed that exceeds the machine, and none is proposed.
fn shown(assessment: &Assessment) -> Vec<&Constraint> {
    let is_refusing = |constraint: &Constraint| constraint.effect == ConstraintEffect::Refuses;
    let is_shown = |constraint: &&Constraint| match constraint.effect {
        ConstraintEffect::Refuses => true,
        ConstraintEffect::MayRefuse => false,
        ConstraintEffect::Slows | ConstraintEffect::Informs => {
            assessment.ceiling.is_none() && !matches!(constraint.kind, ConstraintKind::Unread(_))
        }
    };
    let mut shown: Vec<&Constraint> = assessment.constraints.iter().filter(is_shown).collect();
    shown.sort_by_key(|c| (!is_refusing(c), std::cmp::Reverse(c.lacking_bytes())));
    shown
}

/// A constraint in words.
pub fn obstacle(request: &Request, constraint: &Constraint) -> Obstacle {
    Obstacle {
        blocks: constraint.effect == ConstraintEffect::Refuses,
        what: name(constraint),
        needed_bytes: constraint.needed_bytes,
        available_bytes: constraint.available_bytes,
        lift: remedy(request, constraint),
    }
}

fn name(constraint: &Constraint) -> String {
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
fn doubt(constraint: &Constraint) -> String {
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

fn remedy(request: &Request, constraint: &Constraint) -> String {
    match &constraint.kind {
        ConstraintKind::Unread(missing) | ConstraintKind::UnreadFolioBlocks(missing) => {
            missing.to_string()
        }
        ConstraintKind::UnreachableNode(node) => node.remedy(),
        ConstraintKind::Memory { swap_helps, largest, .. } => free_memory(*swap_helps, largest),
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

fn less_than_ceiling(ceiling: &Ceiling) -> String {
    let whole = match &ceiling.nodes {
        None => "this machine has".to_owned(),
        Some(nodes) => {
            let (word, verb) = if nodes.len() == 1 { ("node", "has") } else { ("nodes", "have") };
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            format!("{word} {} {verb}", nodes.join(","))
        }
    };
    let swap = match ceiling.swap_bytes {
        0 => String::new(),
        swap => format!(" and {} of swap", format_bytes(swap)),
    };
    let memory = format_bytes(ceiling.memory_bytes);
    format!("request less, or add memory: {whole} {memory} in total{swap}")
}
