//! Limits: checked before memory is allocated, while it is, and when a call has failed.

use crate::cgroup::LimitedCgroups;
use crate::error::{Error, Limit, Shortage};
use crate::machine;
use crate::plan::{LockMethod, SegmentPlan};
use crate::segment_kind::{Placement, SegmentKind};
use mw_memory::{
    NumaPolicy, RAISE_COMMIT_LIMIT, RAISE_SHMALL, RAISE_SHMMAX, ResourceLimit, huge_pool_dir,
};
use mw_sys::Capability;
use rustix::process::{Resource, getrlimit};
use std::io;

/// The share for page tables and the index of a file: 1/200 of base pages (huge pages need 1/8000).
const OVERHEAD_SHARE: u64 = 200;

const MORE_NODES: &str = "bind to more nodes, or interleave";

/// Error numbers (errno(3)).
const ENOMEM: i32 = 12;
const EAGAIN: i32 = 11;
const EFAULT: i32 = 14;
const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EHWPOISON: i32 = 133;

/// Checks every limit that is known in advance.
pub(crate) fn check(plan: &SegmentPlan, groups: &LimitedCgroups) -> Result<(), Error> {
    memlock(plan)?;
    if plan.page.hugetlb_bytes().is_some() {
        return Ok(huge_pages(plan)?);
    }
    if plan.kind.is_sysv() {
        sysv(plan)?;
    }
    if plan.kind == SegmentKind::Posix {
        dev_shm(plan)?;
    }
    room(plan, groups, requested_bytes(plan), requested_bytes(plan))?;
    Ok(nodes(plan)?)
}

/// Adds what a segment needs besides its pages.
pub(crate) fn with_overhead(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / OVERHEAD_SHARE)
}

/// The distinct sets of nodes that parts of the segment are bound to, and the bytes of each.
fn bound_sets(plan: &SegmentPlan) -> Vec<(&[u32], u64)> {
    let mut sets: Vec<(&[u32], u64)> = Vec::new();
    match &plan.placement {
        Placement::Uniform(NumaPolicy::Bind(nodes)) => sets.push((nodes, requested_bytes(plan))),
        Placement::Uniform(_) => {}
        Placement::Ranges(ranges) => {
            for (range, nodes) in ranges {
                match sets.iter_mut().find(|(known, _)| known == nodes) {
                    Some((_, bytes)) => *bytes += range.len() as u64,
                    None => sets.push((nodes, range.len() as u64)),
                }
            }
        }
    }
    sets
}

fn requested_bytes(plan: &SegmentPlan) -> u64 {
    plan.layout.bytes() as u64
}

fn check_limit(
    limit: Limit,
    requested: u64,
    available: u64,
    remedy: impl Into<String>,
) -> Result<(), Shortage> {
    if requested <= available {
        return Ok(());
    }
    Err(Shortage {
        limit,
        requested_bytes: requested,
        available_bytes: available,
        remedy: remedy.into(),
    })
}

fn memlock(plan: &SegmentPlan) -> Result<(), Shortage> {
    if plan.lock == LockMethod::None || mw_sys::has_capability(Capability::IpcLock) {
        return Ok(());
    }
    let Some(available) = machine::lockable_bytes() else { return Ok(()) };
    check_limit(Limit::Memlock, requested_bytes(plan), available, raise_memlock(plan))
}

fn raise_memlock(plan: &SegmentPlan) -> String {
    raise(
        ResourceLimit::Memlock,
        Resource::Memlock,
        requested_bytes(plan) + machine::locked_bytes(),
    )
}

/// Command that raises a resource limit to `needed` bytes.
fn raise(limit: ResourceLimit, resource: Resource, needed: u64) -> String {
    limit.remedy(getrlimit(resource).maximum.is_none_or(|hard| hard >= needed))
}

fn huge_pages(plan: &SegmentPlan) -> Result<(), Shortage> {
    let available = machine::pool_bytes(plan.granule).unwrap_or(0);
    check_limit(
        Limit::HugePages(plan.granule),
        requested_bytes(plan),
        available,
        grow_pool(plan, available),
    )?;
    node_pools(plan)
}

fn grow_pool(plan: &SegmentPlan, available: u64) -> String {
    let pages =
        requested_bytes(plan).saturating_sub(available).div_ceil(plan.granule as u64).max(1);
    format!("add {pages} to {}/nr_hugepages", huge_pool_dir(plan.granule as u64, None))
}

/// The kernel reserves huge pages on any node, and kills a process that touches one when the nodes of
/// its policy have none.
fn node_pools(plan: &SegmentPlan) -> Result<(), Shortage> {
    for (nodes, requested) in bound_sets(plan) {
        let free = nodes.iter().map(|node| machine::node_pool_bytes(*node, plan.granule));
        let (Some(available), Some(first)) = (free.sum::<Option<u64>>(), nodes.first()) else {
            continue;
        };
        let pages = requested.saturating_sub(available).div_ceil(plan.granule as u64);
        let pool = huge_pool_dir(plan.granule as u64, Some(*first));
        let remedy = format!("add {pages} to {pool}/nr_hugepages");
        check_limit(Limit::HugePages(plan.granule), requested, available, remedy)?;
    }
    Ok(())
}

fn sysv(plan: &SegmentPlan) -> Result<(), Shortage> {
    let max = machine::number("/proc/sys/kernel/shmmax").unwrap_or(u64::MAX);
    check_limit(Limit::ShmMax, requested_bytes(plan), max, RAISE_SHMMAX)?;
    let all = machine::shm_left_bytes().unwrap_or(u64::MAX);
    check_limit(Limit::ShmAll, requested_bytes(plan), all, RAISE_SHMALL)
}

fn dev_shm(plan: &SegmentPlan) -> Result<(), Shortage> {
    let Ok(fs) = rustix::fs::statvfs("/dev/shm") else { return Ok(()) };
    // A tmpfs without a limit reports 0 blocks.
    let available =
        if fs.f_blocks == 0 { u64::MAX } else { fs.f_bavail.saturating_mul(fs.f_frsize) };
    check_limit(
        Limit::DevShm,
        requested_bytes(plan),
        available,
        "mount -o remount,size=SIZE /dev/shm",
    )
}

/// Available memory of this process in bytes: that of the machine, or what the tightest limit on the process leaves of it.
/// None if the kernel does not report it.
pub(crate) fn available_bytes(groups: &LimitedCgroups) -> Option<u64> {
    let own = [machine::commit_bytes(), machine::address_space_bytes(), machine::data_bytes()];
    own.into_iter().flatten().chain(populatable_bytes(groups)).min()
}

/// Memory that pages can be populated from, in bytes, without the limits on mappings: of what is mapped they have been
/// charged already.
pub(crate) fn populatable_bytes(groups: &LimitedCgroups) -> Option<u64> {
    groups.unslowed().chain(machine::available_bytes()).min()
}

/// Checks that the machine and the cgroups have `bytes` more available for a segment of `requested` bytes:
/// the kernel would not refuse them but start the OOM killer.
pub(crate) fn room(
    plan: &SegmentPlan,
    groups: &LimitedCgroups,
    bytes: u64,
    requested: u64,
) -> Result<(), Shortage> {
    let needed = with_overhead(bytes);
    let done = requested.saturating_sub(bytes);
    if plan.page.hugetlb_bytes().is_some() {
        return Ok(());
    }
    if let Some(available) = machine::available_bytes()
        && available < needed
    {
        let remedy = "request less, or free memory (`memwright check` shows what uses it)";
        check_limit(Limit::Memory, requested.max(done + needed), done + available, remedy)?;
    }
    if let Some((group, found)) = groups.tightest()
        && found.available_bytes < needed
    {
        let remedy = format!("raise {}", group.file(&found).display());
        let limit = Limit::Cgroup(group.path.clone());
        check_limit(limit, requested.max(done + needed), done + found.available_bytes, remedy)?;
    }
    // Which ranges are populated already is not known here.
    if let Placement::Uniform(NumaPolicy::Bind(nodes)) = &plan.placement
        && let Some(available) = machine::nodes_bytes(nodes)
        && available < needed
    {
        check_limit(Limit::NodeMemory, requested.max(done + needed), done + available, MORE_NODES)?;
    }
    Ok(())
}

fn nodes(plan: &SegmentPlan) -> Result<(), Shortage> {
    for (nodes, requested) in bound_sets(plan) {
        let Some(available) = machine::nodes_bytes(nodes) else { continue };
        check_limit(Limit::NodeMemory, with_overhead(requested), available, MORE_NODES)?;
    }
    Ok(())
}

/// The limit that made a call fail, as far as it can be determined.
pub(crate) fn explain(plan: &SegmentPlan, call: &'static str, error: io::Error) -> Error {
    let requested = requested_bytes(plan);
    let code = error.raw_os_error().unwrap_or(0);
    let hugetlb = plan.page.hugetlb_bytes().is_some();
    let limit = |limit, available: u64, remedy: String| {
        Error::from(Shortage {
            limit,
            requested_bytes: requested,
            available_bytes: available.min(requested.saturating_sub(1)),
            remedy,
        })
    };
    match (call, code) {
        ("mmap" | "shmget" | "shmat" | "populate", ENOMEM | EFAULT | ENOSPC) if hugetlb => {
            let available = machine::pool_bytes(plan.granule).unwrap_or(0);
            limit(Limit::HugePages(plan.granule), available, grow_pool(plan, available))
        }
        ("shmget", EINVAL) => limit(Limit::ShmMax, 0, RAISE_SHMMAX.to_owned()),
        ("shmget", ENOSPC) => limit(Limit::ShmAll, 0, format!("{RAISE_SHMALL}, or kernel.shmmni")),
        ("mmap" | "shmget" | "shmat", ENOMEM) => commit(requested),
        ("mlock2" | "shmctl(SHM_LOCK)", ENOMEM | EPERM | EAGAIN) => {
            let available = machine::lockable_bytes().unwrap_or(0);
            limit(Limit::Memlock, available, raise_memlock(plan))
        }
        ("populate", EFAULT | ENOSPC) if plan.kind == SegmentKind::Posix => {
            dev_shm(plan).err().map_or_else(
                || limit(Limit::DevShm, 0, "delete files in /dev/shm".to_owned()),
                Error::from,
            )
        }
        ("populate", ENOMEM | EFAULT | EAGAIN) => no_memory(plan, limit),
        _ => Error::System { call, source: error },
    }
}

fn no_memory(plan: &SegmentPlan, limit: impl FnOnce(Limit, u64, String) -> Error) -> Error {
    let remedy = "free memory (the kernel log may show what failed)".to_owned();
    let least = bound_sets(plan).into_iter().map(|(nodes, _)| machine::nodes_bytes(nodes)).min();
    match least {
        Some(available) => limit(Limit::NodeMemory, available.unwrap_or(0), remedy),
        None => {
            let available = machine::available_bytes();
            limit(Limit::Memory, available.unwrap_or(0), remedy)
        }
    }
}

/// The kernel refused a mapping: because of strict overcommit, or of a limit of the process.
fn commit(requested: u64) -> Error {
    let (limit, available, remedy) = match machine::commit_bytes() {
        Some(available) => (Limit::Commit, available, RAISE_COMMIT_LIMIT.to_owned()),
        None => {
            let raise = raise(ResourceLimit::AddressSpace, Resource::As, requested);
            (Limit::AddressSpace, 0, format!("{raise}, or request less"))
        }
    };
    Shortage {
        limit,
        requested_bytes: requested,
        available_bytes: available.min(requested.saturating_sub(1)),
        remedy,
    }
    .into()
}

/// True if the hardware reported an error in the page.
pub(crate) fn is_poison(error: &io::Error) -> bool {
    error.raw_os_error() == Some(EHWPOISON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use mw_memory::PageSize;

    const MIB: usize = 1 << 20;

    #[test]
    fn parts_bound_to_the_same_nodes_are_counted_together() {
        let bound_of = |placement: Placement| {
            let plan = SegmentPlan::new(
                &Options::new(8 * MIB).page_size(PageSize::Base).placement(placement),
            );
            let plan = plan.unwrap();
            let sets = bound_sets(&plan);
            sets.iter().map(|(nodes, bytes)| (nodes.to_vec(), *bytes >> 20)).collect::<Vec<_>>()
        };
        let range = |from: usize, to: usize, node| (from * MIB..to * MIB, vec![node]);
        let ranges = Placement::Ranges(vec![range(0, 2, 0), range(2, 5, 1), range(6, 7, 0)]);
        assert_eq!(bound_of(ranges), [(vec![0], 3), (vec![1], 3)]);
        assert_eq!(bound_of(NumaPolicy::Bind(vec![0, 1]).into()), [(vec![0, 1], 8)]);
        assert_eq!(bound_of(NumaPolicy::Interleave(vec![0, 1]).into()), []);
    }
}
