//! Limits that refuse a request however much memory is free: overcommit, cgroups, resource limits,
//! shared memory.

use super::facts::RequestFacts;
use super::plan::with_page_tables;
use mw_model::caller::{self, GroupEffect, GroupLimit};
use mw_model::{
    CallerLimit, CgroupVersion, Cgroups, Constraint, ConstraintEffect, ConstraintKind, Missing,
    PageSize, ResourceLimit, Snapshot, derived, shm_left_bytes,
};
use mw_proc::limits::Rlimit;
use mw_proc::meminfo::Meminfo;
use mw_proc::version::KernelVersion;

/// From here on the heuristic refuses only what exceeds memory and swap together (commit
/// 8c7829b04c52).
const SIMPLE_HEURISTIC: KernelVersion = KernelVersion::new(5, 2, 0);

/// Memory that is counted for a small program besides the memory that it asks for: its pages, page tables and kernel
/// objects.
const PROGRAM_BYTES: u64 = 1 << 20;

/// With vm.overcommit_memory 2 the CPUs' counts of committed memory together are off by this share of memory at most.
const COMMIT_BATCH_SHARE: u64 = 256;

/// The limits that the request meets.
pub(super) fn constraints(facts: &RequestFacts<'_>) -> Vec<Constraint> {
    let mut found: Vec<Constraint> = address_space(facts).into_iter().collect();
    found.extend(commit(facts));
    found.extend(cgroups(facts));
    found.extend(resources(facts));
    found.extend(shared_memory(facts));
    found
}

/// On a 32-bit kernel, whose range of addresses for vmalloc is smaller than 4 GiB, a process has the 3 GiB below the
/// kernel's, or less (PAGE_OFFSET), and its program, libraries and stack are in them.
fn address_space(facts: &RequestFacts<'_>) -> Option<Constraint> {
    const BEYOND_32_BITS: u64 = 4 << 30;
    const PROCESS_BYTES: u64 = 3 << 30;
    let vmalloc = facts.snapshot.sample.meminfo.value()?.vmalloc_total_bytes?;
    let size = facts.request.size_bytes;
    let is_too_large = (1..BEYOND_32_BITS).contains(&vmalloc) && size >= PROCESS_BYTES;
    let kind = ConstraintKind::AddressSpace;
    is_too_large.then(|| Constraint::new(ConstraintEffect::Refuses, kind, size, PROCESS_BYTES))
}

/// A limit on the calling process that could not be read: it may refuse the request.
fn unread(snapshot: &Snapshot, missing: Missing) -> Constraint {
    let effect = match caller::undetermined(snapshot, missing.clone()) {
        Some(_) => ConstraintEffect::MayRefuse,
        None => ConstraintEffect::Informs,
    };
    Constraint::new(effect, ConstraintKind::Unread(missing), None, None)
}

/// Whether the kernel commits that much (`__vm_enough_memory`). Pages of a hugetlb pool are reserved
/// in the pool instead.
fn commit(facts: &RequestFacts<'_>) -> Vec<Constraint> {
    let RequestFacts { snapshot, request, .. } = facts;
    if matches!(request.page, PageSize::Hugetlb(_)) {
        return Vec::new();
    }
    let Some(meminfo) = snapshot.sample.meminfo.value() else { return Vec::new() };
    match snapshot.sysctl.number("vm.overcommit_memory") {
        Ok(0) => heuristic(facts, meminfo).into_iter().collect(),
        Ok(2) => strict(facts, meminfo),
        Ok(_) => Vec::new(),
        Err(missing) => vec![unread(snapshot, missing)],
    }
}

fn heuristic(facts: &RequestFacts<'_>, meminfo: &Meminfo) -> Option<Constraint> {
    let size = facts.request.size_bytes;
    let parts = [meminfo.mem_total_bytes, meminfo.swap_total_bytes];
    let total = derived::total(parts.into_iter().flatten());
    let simple = facts.snapshot.origin.kernel.is_none_or(|kernel| kernel >= SIMPLE_HEURISTIC);
    let available = if simple { total } else { old_heuristic_bytes(meminfo).min(total) };
    let constraint =
        || Constraint::new(ConstraintEffect::Refuses, ConstraintKind::Overcommit, size, available);
    (size > available).then(constraint)
}

/// Free memory, page cache, swap and reclaimable slab; the reserves are ignored.
fn old_heuristic_bytes(meminfo: &Meminfo) -> u64 {
    let parts = [
        meminfo.mem_free_bytes,
        meminfo.cached_bytes,
        meminfo.buffers_bytes,
        meminfo.swap_cached_bytes,
        meminfo.swap_free_bytes,
        meminfo.sreclaimable_bytes,
    ];
    derived::total(parts.into_iter().flatten()).saturating_sub(meminfo.shmem_bytes.unwrap_or(0))
}

fn strict(facts: &RequestFacts<'_>, meminfo: &Meminfo) -> Vec<Constraint> {
    let RequestFacts { snapshot, request, .. } = facts;
    let available = match caller::commit(snapshot) {
        Ok(limit) => limit.map_or(u64::MAX, |limit| limit.available_bytes),
        Err(missing) => return vec![unread(snapshot, missing)],
    };
    // The kernel compares with a sum over all CPUs that may be off by this much (`mm_compute_batch()`).
    let inexact = meminfo.mem_total_bytes.unwrap_or(0) / COMMIT_BATCH_SHARE;
    let own = snapshot.origin.data_bytes.unwrap_or(0);
    let size = request.size_bytes;
    let is_refused = size > derived::total([available, own, PROGRAM_BYTES, inexact]);
    let mut found = Vec::new();
    let mut add = |effect| {
        found.push(Constraint::new(effect, ConstraintKind::CommitLimit, size, available));
    };
    if !is_refused && derived::total([size, PROGRAM_BYTES, inexact]) > available {
        add(ConstraintEffect::MayRefuse);
    }
    if size > available {
        add(if is_refused { ConstraintEffect::Refuses } else { ConstraintEffect::Informs });
    }
    found
}

/// The limits of the process's own cgroup and its ancestors. Hugetlb pages are charged to no memory
/// limit.
fn cgroups(facts: &RequestFacts<'_>) -> Vec<Constraint> {
    let RequestFacts { snapshot, request, .. } = facts;
    if matches!(request.page, PageSize::Hugetlb(_)) {
        return Vec::new();
    }
    let cgroups = match snapshot.cgroups.required() {
        Ok(cgroups) => cgroups,
        Err(missing) => return vec![unread(snapshot, missing)],
    };
    let mut found: Vec<Constraint> =
        cgroups.unseen.iter().map(|missing| unread(snapshot, missing.clone())).collect();
    found.extend(cgroups.above_unseen.clone().map(Constraint::unread));
    let swap = swap_of_groups(snapshot, cgroups);
    for group in &cgroups.own {
        let anon = [group.stat.active_anon_bytes, group.stat.inactive_anon_bytes];
        // The group's other memory may be swapped out; the request itself, too, unless it is locked.
        let others = derived::total(anon.into_iter().flatten());
        let swap = if request.lock { others.min(swap) } else { swap };
        for limit in caller::group_limits(group, cgroups.version) {
            found.extend(group_limit(facts, Some(&group.path), limit, swap));
        }
    }
    if let Some(limit) = caller::limit_above(cgroups) {
        found.extend(group_limit(facts, None, limit, swap));
    }
    found
}

/// Free swap, as far as version 2 lets the process's own cgroups use it.
fn swap_of_groups(snapshot: &Snapshot, cgroups: &Cgroups) -> u64 {
    let free = snapshot.sample.meminfo.value().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    let own = cgroups.own.iter().filter(|_| cgroups.version == CgroupVersion::V2);
    let nodes = own.filter_map(|group| {
        Some(group.swap_max_bytes?.saturating_sub(group.swap_current_bytes.unwrap_or(0)))
    });
    nodes.chain([free]).min().unwrap_or(free)
}

fn group_limit(
    facts: &RequestFacts<'_>,
    path: Option<&str>,
    limit: GroupLimit,
    swap: u64,
) -> Vec<Constraint> {
    let needed = with_page_tables(facts.request.size_bytes);
    if needed.saturating_add(PROGRAM_BYTES) <= limit.ready_bytes {
        return Vec::new();
    }
    let reach = match limit.effect {
        GroupEffect::Kills => limit.max_available_bytes.saturating_add(swap),
        GroupEffect::KillsSwapIncluded => limit.max_available_bytes,
        GroupEffect::Slows => u64::MAX,
    };
    // What this process uses itself is free when it has ended.
    let own = facts.snapshot.origin.own_bytes.unwrap_or(0).saturating_add(PROGRAM_BYTES);
    let constraint = |effect, available: u64| {
        let kind = ConstraintKind::MemoryGroup { path: path.map(str::to_owned), limit };
        Constraint::new(effect, kind, needed, available)
    };
    if needed > reach.saturating_add(own) {
        return vec![constraint(ConstraintEffect::Refuses, limit.max_available_bytes)];
    }
    let is_close = needed > reach.saturating_sub(PROGRAM_BYTES);
    let doubt = is_close.then(|| constraint(ConstraintEffect::MayRefuse, reach));
    let slows = constraint(ConstraintEffect::Slows, limit.ready_bytes);
    doubt.into_iter().chain([slows]).collect()
}

fn resources(facts: &RequestFacts<'_>) -> Vec<Constraint> {
    let snapshot = facts.snapshot;
    let limits = match snapshot.limits.required() {
        Ok(limits) => limits,
        Err(missing) => return vec![unread(snapshot, missing)],
    };
    let (space, data) = (caller::address_space(snapshot), caller::data(snapshot));
    let mut found = mapped(facts, ResourceLimit::AddressSpace, space, limits.address_space);
    found.extend(mapped(facts, ResourceLimit::Data, data, limits.data_size));
    found.extend(limits.max_locked_memory.and_then(|limit| memlock(facts, limit)));
    found
}

/// A limit on what a process maps, which others of its mappings count towards.
fn mapped(
    facts: &RequestFacts<'_>,
    resource: ResourceLimit,
    left: Result<Option<CallerLimit>, Missing>,
    limit: Option<Rlimit>,
) -> Vec<Constraint> {
    let size = facts.request.size_bytes;
    let Ok(Some(CallerLimit { limit_bytes, available_bytes, .. })) = left else {
        return Vec::new();
    };
    if size <= available_bytes {
        return Vec::new();
    }
    let used = limit_bytes.saturating_sub(available_bytes);
    let is_within_hard_limit = is_within_hard_limit(limit, size.saturating_add(used));
    let constraint = |effect, available: u64| {
        Constraint::new(
            effect,
            ConstraintKind::Rlimit { resource, is_within_hard_limit },
            size,
            available,
        )
    };
    if size > limit_bytes {
        return vec![constraint(ConstraintEffect::Refuses, available_bytes)];
    }
    let doubt = constraint(ConstraintEffect::MayRefuse, limit_bytes);
    vec![doubt, constraint(ConstraintEffect::Informs, available_bytes)]
}

/// True if the hard limit allows `needed` bytes.
fn is_within_hard_limit(limit: Option<Rlimit>, needed: u64) -> bool {
    limit.and_then(|limit| limit.hard).is_none_or(|hard| hard >= needed)
}

fn memlock(facts: &RequestFacts<'_>, limit: Rlimit) -> Option<Constraint> {
    let size = facts.request.size_bytes;
    let available = limit.soft.filter(|soft| facts.request.lock && *soft < size)?;
    let effect = match caller::may_lock_all(facts.snapshot) {
        Some(true) => return None,
        Some(false) => ConstraintEffect::Refuses,
        None => ConstraintEffect::Informs,
    };
    let (resource, is_within_hard_limit) =
        (ResourceLimit::Memlock, is_within_hard_limit(Some(limit), size));
    Some(Constraint::new(
        effect,
        ConstraintKind::Rlimit { resource, is_within_hard_limit },
        size,
        available,
    ))
}

/// These limits refuse the request if it is a System V segment, which it does not say.
fn shared_memory(facts: &RequestFacts<'_>) -> Vec<Constraint> {
    let RequestFacts { snapshot, request, .. } = facts;
    let max = snapshot.sysctl.number("kernel.shmmax").ok();
    let all = snapshot.sysctl.number("kernel.shmall").ok().map(|pages| {
        let segments = snapshot.shm.value().map_or(&[][..], Vec::as_slice);
        shm_left_bytes(pages, snapshot.origin.page_bytes, segments)
    });
    let limits = [(ConstraintKind::ShmMax, max), (ConstraintKind::ShmAll, all)];
    let exceeded = limits.into_iter().filter_map(|(kind, available)| {
        let available = available.filter(|available| *available < request.size_bytes)?;
        let effect = ConstraintEffect::Informs;
        Some(Constraint::new(effect, kind, request.size_bytes, available))
    });
    exceeded.collect()
}
