//! Limits that refuse a request whatever memory is free: overcommit, cgroups, resource limits,
//! shared memory.

use super::Notes;
use mw_model::{Cgroup, PageKind, Request, Snapshot, Sysctl, derived, format_bytes};
use mw_proc::meminfo::Meminfo;
use mw_proc::version::KernelVersion;

/// capabilities(7): the bit of each in `CapEff`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_IPC_LOCK: u32 = 14;

/// From here on the heuristic refuses only what exceeds memory and swap together (commit
/// 8c7829b04c52).
const SIMPLE_HEURISTIC: KernelVersion = KernelVersion::new(5, 2, 0);

pub(super) fn look(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    commit(snapshot, request, notes);
    cgroups(snapshot, request, notes);
    resources(snapshot, request, notes);
    shared_memory(snapshot, request, notes);
}

fn capable(snapshot: &Snapshot, capability: u32) -> Option<bool> {
    snapshot.origin.effective_capabilities.map(|set| set >> capability & 1 == 1)
}

/// Whether the kernel promises that much (`__vm_enough_memory`). Pages of a pool are promised by
/// the pool instead.
fn commit(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    if matches!(request.page, PageKind::Hugetlb(_)) {
        return;
    }
    let Some(meminfo) = snapshot.sample.meminfo.seen() else { return };
    let sysctl = &snapshot.sysctl;
    match sysctl.number("vm.overcommit_memory") {
        Ok(0) => heuristic(snapshot, request, meminfo, notes),
        Ok(2) => strict(snapshot, request, meminfo, sysctl, notes),
        Ok(_) => {}
        Err(missing) => notes.unseen(&missing),
    }
}

fn heuristic(snapshot: &Snapshot, request: &Request, meminfo: &Meminfo, notes: &mut Notes) {
    let parts = [meminfo.mem_total_bytes, meminfo.swap_total_bytes];
    let total = derived::total(parts.into_iter().flatten());
    let simple = snapshot.origin.kernel.is_none_or(|kernel| kernel >= SIMPLE_HEURISTIC);
    let had = if simple { total } else { old_heuristic_bytes(meminfo).min(total) };
    if request.size_bytes > had {
        let lift = "the kernel refuses one mapping of that size: set vm.overcommit_memory to 1, \
                    or add memory or swap";
        let what = "vm.overcommit_memory is 0";
        notes.obstacle(true, what, Some(request.size_bytes), Some(had), lift);
    }
}

/// Free memory, page cache, swap and reclaimable slab, with the reserves left to doubt.
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

fn strict(
    snapshot: &Snapshot,
    request: &Request,
    meminfo: &Meminfo,
    sysctl: &Sysctl,
    notes: &mut Notes,
) {
    let (Some(limit), Some(committed)) = (meminfo.commit_limit_bytes, meminfo.committed_as_bytes)
    else {
        return;
    };
    let kib = |name| sysctl.number(name).unwrap_or(0).saturating_mul(1024);
    let admin = capable(snapshot, CAP_SYS_ADMIN) == Some(true);
    let reserve = if admin { 0 } else { kib("vm.admin_reserve_kbytes") };
    let had = limit.saturating_sub(committed).saturating_sub(reserve);
    if request.size_bytes > had {
        let over = format_bytes(request.size_bytes.saturating_sub(had));
        let lift = format!(
            "{over} too much: raise vm.overcommit_ratio or vm.overcommit_kbytes, add swap, or set \
             vm.overcommit_memory to 0"
        );
        let what = "commit limit (vm.overcommit_memory is 2)";
        notes.obstacle(true, what, Some(request.size_bytes), Some(had), lift);
    }
}

/// The limits of our own group and its ancestors. Pages of a pool are charged to no memory limit.
fn cgroups(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    if matches!(request.page, PageKind::Hugetlb(_)) {
        return;
    }
    let cgroups = match snapshot.cgroups.need() {
        Ok(cgroups) => cgroups,
        Err(missing) => return notes.unseen(&missing),
    };
    let swap_free = snapshot.sample.meminfo.seen().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    for group in &cgroups.own {
        if let Some(max) = group.max_bytes {
            hard_limit(group, max, swap_free, request, notes);
        }
        if let Some(high) = group.high_bytes {
            soft_limit(group, high, request, notes);
        }
    }
}

/// What reclaim inside the group gives back; without its statistics nothing is known of it.
fn reclaimable(group: &Cgroup) -> u64 {
    let stat = &group.stat;
    let parts = [stat.active_file_bytes, stat.inactive_file_bytes, stat.slab_reclaimable_bytes];
    derived::total(parts.into_iter().flatten())
}

fn hard_limit(group: &Cgroup, max: u64, swap_free: u64, request: &Request, notes: &mut Notes) {
    let current = group.current_bytes.unwrap_or(0);
    let room = max.saturating_sub(current);
    let had = room.saturating_add(reclaimable(group)).min(max);
    // The group's other memory may be swapped out, and the request's own unless it is locked.
    let anon = [group.stat.active_anon_bytes, group.stat.inactive_anon_bytes];
    let others = derived::total(anon.into_iter().flatten());
    let swap = if request.lock { others.min(swap_free) } else { swap_free };
    let blocks = request.size_bytes > had.saturating_add(swap);
    if request.size_bytes > had {
        let lift = format!(
            "the limit is {}, {} of it in use: raise memory.max (version 1: \
             memory.limit_in_bytes) of the group, or stop what else runs in it",
            format_bytes(max),
            format_bytes(current)
        );
        let what = format!("memory limit of cgroup {}", group.path);
        notes.obstacle(blocks, what, Some(request.size_bytes), Some(had), lift);
    }
}

/// Above memory.high nothing fails, and every allocation is put to sleep.
fn soft_limit(group: &Cgroup, high: u64, request: &Request, notes: &mut Notes) {
    let room = high.saturating_sub(group.current_bytes.unwrap_or(0));
    let had = room.saturating_add(reclaimable(group)).min(high);
    if request.size_bytes > had {
        let what = format!("memory.high of cgroup {}", group.path);
        let lift = "raise memory.high of the group: above it every allocation is slowed down";
        notes.obstacle(false, what, Some(request.size_bytes), Some(had), lift);
    }
}

fn resources(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    let limits = match snapshot.limits.need() {
        Ok(limits) => limits,
        Err(missing) => return notes.unseen(&missing),
    };
    let space = limits.address_space.and_then(|limit| limit.soft);
    if let Some(had) = space.filter(|had| *had < request.size_bytes) {
        let lift = "raise it with ulimit -v, or LimitAS= of the service";
        notes.obstacle(true, "RLIMIT_AS", Some(request.size_bytes), Some(had), lift);
    }
    let locked = limits.max_locked_memory.and_then(|limit| limit.soft);
    if let Some(had) = locked.filter(|had| request.lock && *had < request.size_bytes) {
        memlock(snapshot, request, had, notes);
    }
}

fn memlock(snapshot: &Snapshot, request: &Request, had: u64, notes: &mut Notes) {
    let capable = capable(snapshot, CAP_IPC_LOCK);
    if capable == Some(true) {
        return;
    }
    let unless = if capable.is_none() { " (unless the process has CAP_IPC_LOCK)" } else { "" };
    let lift = "raise it with ulimit -l, LimitMEMLOCK= of the service or \
                /etc/security/limits.d, or give the program CAP_IPC_LOCK";
    let blocks = capable == Some(false);
    let what = format!("RLIMIT_MEMLOCK{unless}");
    notes.obstacle(blocks, what, Some(request.size_bytes), Some(had), lift);
}

/// The request does not say that it is a SysV segment; if it is, these limits refuse it.
fn shared_memory(snapshot: &Snapshot, request: &Request, notes: &mut Notes) {
    let sysctl = &snapshot.sysctl;
    if let Some(max) = sysctl.number("kernel.shmmax").ok().filter(|max| *max < request.size_bytes) {
        let lift = "raise kernel.shmmax; only a SysV segment (shmget) is refused";
        notes.obstacle(false, "kernel.shmmax", Some(request.size_bytes), Some(max), lift);
    }
    if let Ok(all) = sysctl.number("kernel.shmall") {
        let page = snapshot.origin.page_bytes;
        let segments = snapshot.shm.seen().map_or(&[][..], Vec::as_slice);
        let used = derived::total(segments.iter().map(|segment| segment.size_bytes));
        let had = all.saturating_mul(page).saturating_sub(used);
        if had < request.size_bytes {
            let lift = "raise kernel.shmall (in pages); only a SysV segment (shmget) is refused";
            notes.obstacle(false, "kernel.shmall", Some(request.size_bytes), Some(had), lift);
        }
    }
}
