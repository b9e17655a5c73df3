//! Limits that refuse a request however much memory is free: overcommit, cgroups, resource limits,
//! shared memory.

use super::notes::Notes;
use super::plan::with_page_tables;
use mw_model::caller::{self, GroupEffect, GroupLimit};
use mw_model::{CgroupVersion, Cgroups, PageSize, Request, Snapshot, derived, format_bytes};
use mw_proc::limits::Limit;
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

pub(super) fn check(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    commit(snapshot, request, notes);
    cgroups(snapshot, request, notes);
    resources(snapshot, request, notes);
    shared_memory(snapshot, request, notes);
}

/// Whether the kernel commits that much (`__vm_enough_memory`). Pages of a hugetlb pool are reserved
/// in the pool instead.
fn commit(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    if matches!(request.page, PageSize::Hugetlb(_)) {
        return;
    }
    let Some(meminfo) = snapshot.sample.meminfo.value() else { return };
    match snapshot.sysctl.number("vm.overcommit_memory") {
        Ok(0) => heuristic(snapshot, request, meminfo, notes),
        Ok(2) => strict(snapshot, request, notes),
        Ok(_) => {}
        Err(missing) => notes.unseen_limit(snapshot, &missing),
    }
}

fn heuristic(snapshot: &Snapshot, request: &Request, meminfo: &Meminfo, notes: &mut Notes) {
    let parts = [meminfo.mem_total_bytes, meminfo.swap_total_bytes];
    let total = derived::total(parts.into_iter().flatten());
    let simple = snapshot.origin.kernel.is_none_or(|kernel| kernel >= SIMPLE_HEURISTIC);
    let available = if simple { total } else { old_heuristic_bytes(meminfo).min(total) };
    if request.size_bytes > available {
        let lift = "map less at a time, set vm.overcommit_memory to 1, or add memory or swap";
        let what = "vm.overcommit_memory is 0";
        notes.obstacle(true, what, Some(request.size_bytes), Some(available), lift);
    }
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

fn strict(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    let available = match caller::commit(snapshot) {
        Ok(limit) => limit.map_or(u64::MAX, |limit| limit.available_bytes),
        Err(missing) => return notes.unseen_limit(snapshot, &missing),
    };
    // The kernel compares with a sum over all CPUs that may be off by this much (`mm_compute_batch()`).
    let total = snapshot.sample.meminfo.value().and_then(|meminfo| meminfo.mem_total_bytes);
    let inexact = total.unwrap_or(0) / COMMIT_BATCH_SHARE;
    let own = snapshot.origin.data_bytes.unwrap_or(0);
    let most = derived::total([available, own, PROGRAM_BYTES, inexact]);
    let blocks = request.size_bytes > most;
    if !blocks && derived::total([request.size_bytes, PROGRAM_BYTES, inexact]) > available {
        let left = format_bytes(available);
        notes.undecided(format!(
            "it takes all of the {left} below the commit limit: the program needs some besides"
        ));
    }
    if request.size_bytes > available {
        let over = format_bytes(request.size_bytes.saturating_sub(available));
        let lift = format!(
            "{over} over the limit: raise vm.overcommit_ratio or vm.overcommit_kbytes, add swap, or \
             set vm.overcommit_memory to 0"
        );
        let what = "commit limit (vm.overcommit_memory is 2)";
        notes.obstacle(blocks, what, Some(request.size_bytes), Some(available), lift);
    }
}

/// The limits of the process's own cgroup and its ancestors. Hugetlb pages are charged to no memory
/// limit.
fn cgroups(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    if matches!(request.page, PageSize::Hugetlb(_)) {
        return;
    }
    let cgroups = match snapshot.cgroups.required() {
        Ok(cgroups) => cgroups,
        Err(missing) => return notes.unseen_limit(snapshot, &missing),
    };
    cgroups.unseen.iter().for_each(|missing| notes.unseen_limit(snapshot, missing));
    cgroups.above_unseen.iter().for_each(|missing| notes.unseen(missing));
    let swap = swap_of_groups(snapshot, cgroups);
    for group in &cgroups.own {
        let anon = [group.stat.active_anon_bytes, group.stat.inactive_anon_bytes];
        // The group's other memory may be swapped out; the request itself, too, unless it is locked.
        let others = derived::total(anon.into_iter().flatten());
        let swap = if request.lock { others.min(swap) } else { swap };
        for limit in caller::group_limits(group, cgroups.version) {
            let name = format!("cgroup {}", group.path);
            group_limit(&name, limit, swap, snapshot.origin.own_bytes, request, notes);
        }
    }
    if let Some(limit) = caller::limit_above(cgroups) {
        let name = "an ancestor of this container's cgroup";
        group_limit(name, limit, swap, snapshot.origin.own_bytes, request, notes);
    }
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
    group: &str,
    limit: GroupLimit,
    swap: u64,
    own_bytes: Option<u64>,
    request: &Request,
    notes: &mut Notes,
) {
    let needed = with_page_tables(request.size_bytes);
    if needed.saturating_add(PROGRAM_BYTES) <= limit.available_bytes {
        return;
    }
    let reach = match limit.effect {
        GroupEffect::Kills => limit.max_available_bytes.saturating_add(swap),
        GroupEffect::KillsSwapIncluded => limit.max_available_bytes,
        GroupEffect::Slows => u64::MAX,
    };
    // What this process uses itself is free when it has ended.
    let own = own_bytes.unwrap_or(0).saturating_add(PROGRAM_BYTES);
    let blocks = needed > reach.saturating_add(own);
    let certain = reach.saturating_sub(PROGRAM_BYTES);
    if !blocks && needed > certain {
        let all = format_bytes(reach);
        notes.undecided(format!(
            "it takes all of the {all} that {group} has left: the program needs some besides"
        ));
    }
    let available = if blocks { limit.max_available_bytes } else { limit.available_bytes };
    let what = match limit.effect {
        GroupEffect::Kills => format!("memory limit of {group}"),
        GroupEffect::KillsSwapIncluded => format!("memory and swap limit of {group}"),
        GroupEffect::Slows => format!("memory.high of {group}"),
    };
    let lift = match limit.effect {
        GroupEffect::Slows => {
            "raise memory.high of the cgroup: above it the kernel slows every allocation down"
                .to_owned()
        }
        _ => format!(
            "the limit is {}, {} in use: raise {} of the cgroup, or stop other programs in it",
            format_bytes(limit.limit_bytes),
            format_bytes(limit.used_bytes),
            limit.file
        ),
    };
    notes.slowed |= !blocks;
    notes.obstacle(blocks, what, Some(needed), Some(available), lift);
}

fn resources(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    let limits = match snapshot.limits.required() {
        Ok(limits) => limits,
        Err(missing) => return notes.unseen_limit(snapshot, &missing),
    };
    let mut compare = |left, limit: Option<Limit>, resource: &Resource| {
        let Ok(Some(caller::CallerLimit { limit_bytes, available_bytes, .. })) = left else {
            return;
        };
        if request.size_bytes > available_bytes {
            let used = limit_bytes.saturating_sub(available_bytes);
            let needed = request.size_bytes.saturating_add(used);
            let lift = resource.raise(limit, needed);
            let (needed, available) = (Some(request.size_bytes), Some(available_bytes));
            let blocks = request.size_bytes > limit_bytes;
            if !blocks {
                let rest = format_bytes(limit_bytes.saturating_sub(request.size_bytes));
                let name = resource.name;
                notes.undecided(format!(
                    "{name} refuses it to a program that maps {rest} or more besides"
                ));
            }
            notes.obstacle(blocks, resource.name, needed, available, lift);
        }
    };
    compare(caller::address_space(snapshot), limits.address_space, &ADDRESS_SPACE);
    compare(caller::data(snapshot), limits.data_size, &DATA);
    let locked = limits.max_locked_memory.and_then(|limit| limit.soft);
    if let Some(available) =
        locked.filter(|available| request.lock && *available < request.size_bytes)
    {
        memlock(snapshot, request, limits.max_locked_memory, available, notes);
    }
}

/// A resource limit, and how to raise it.
struct Resource {
    name: &'static str,
    shell: &'static str,
    unit: &'static str,
}

const ADDRESS_SPACE: Resource =
    Resource { name: "RLIMIT_AS", shell: "ulimit -v", unit: "LimitAS=" };
const DATA: Resource = Resource { name: "RLIMIT_DATA", shell: "ulimit -d", unit: "LimitDATA=" };
const MEMLOCK: Resource =
    Resource { name: "RLIMIT_MEMLOCK", shell: "ulimit -l", unit: "LimitMEMLOCK=" };

impl Resource {
    /// Command that raises it to `needed`: a shell can go up to the hard limit, beyond that only root can.
    fn raise(&self, limit: Option<Limit>, needed: u64) -> String {
        let hard = limit.and_then(|limit| limit.hard);
        let unit = self.unit;
        if hard.is_none_or(|hard| hard >= needed) {
            format!("raise it with {}, or with {unit} of the service", self.shell)
        } else {
            format!(
                "raise the hard limit too, which needs root: {unit} of the service or \
                 /etc/security/limits.d"
            )
        }
    }
}

fn memlock(
    snapshot: &Snapshot,
    request: &Request,
    limit: Option<Limit>,
    available: u64,
    notes: &mut Notes,
) {
    let capable = caller::may_lock_all(snapshot);
    if capable == Some(true) {
        return;
    }
    let unless = if capable.is_none() { " (unless the process has CAP_IPC_LOCK)" } else { "" };
    let raise = MEMLOCK.raise(limit, request.size_bytes);
    let lift = format!("{raise}, or give the program CAP_IPC_LOCK");
    let blocks = capable == Some(false);
    let what = format!("{}{unless}", MEMLOCK.name);
    notes.obstacle(blocks, what, Some(request.size_bytes), Some(available), lift);
}

/// These limits refuse the request if it is a System V segment, which it does not say.
fn shared_memory(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    let sysctl = &snapshot.sysctl;
    if let Some(max) = sysctl.number("kernel.shmmax").ok().filter(|max| *max < request.size_bytes) {
        let lift = "raise kernel.shmmax; it limits only System V segments (shmget)";
        notes.obstacle(false, "kernel.shmmax", Some(request.size_bytes), Some(max), lift);
    }
    if let Ok(all) = sysctl.number("kernel.shmall") {
        let page = snapshot.origin.page_bytes;
        let segments = snapshot.shm.value().map_or(&[][..], Vec::as_slice);
        let used = derived::total(segments.iter().map(|segment| segment.size_bytes));
        let available = all.saturating_mul(page).saturating_sub(used);
        if available < request.size_bytes {
            let lift = "raise kernel.shmall (in pages); it limits only System V segments (shmget)";
            notes.obstacle(false, "kernel.shmall", Some(request.size_bytes), Some(available), lift);
        }
    }
}
