//! Properties of the machine: read when an operation starts and, except for available memory and free
//! blocks, never while it runs.

use mw_memory::{
    Commit, CommitReserve, DeferredInit, HugePool, KernelObjects, MachineMemory, SwitchState,
    UnreclaimableSlab, enforced_data_bytes, folio_switch_file, huge_pool_dir, resource_left_bytes,
    thp_switch_file,
};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::choice::Choice;
use mw_proc::dentry_state::DentryState;
use mw_proc::inode_state::InodeState;
use mw_proc::meminfo::Meminfo;
use mw_proc::status::Status;
use mw_proc::sysvipc_shm;
use mw_proc::zoneinfo::Zoneinfo;
use mw_sys::{Capability, read_file};
use rustix::process::{Resource, getrlimit};
use std::path::Path;

const NODES: &str = "/sys/devices/system/node";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The size of a transparent huge page in bytes; none on a kernel without them.
pub(crate) fn thp_bytes() -> Option<usize> {
    usize::try_from(number(format!("{THP}/hpage_pmd_size"))?).ok()
}

/// True if transparent huge pages are enabled for shared or private memory; none on a kernel without them.
pub(crate) fn thp_is_enabled(shared: bool) -> Option<bool> {
    selected(thp_switch_file(shared)).as_deref().map(mw_memory::thp_is_enabled)
}

/// The switch of a folio size for shared or private memory that is advised to have it.
pub(crate) fn folio_switch(bytes: u64, shared: bool) -> SwitchState {
    let (own, all) = switches(bytes, shared);
    mw_memory::folio_switch(own.as_deref(), all.as_deref(), shared)
}

/// True if memory that is advised to have transparent huge pages gets them.
pub(crate) fn thp_is_allowed(shared: bool) -> bool {
    thp_bytes().is_some_and(|bytes| {
        let (own, all) = switches(bytes as u64, shared);
        mw_memory::thp_is_allowed(own.as_deref(), all.as_deref(), shared)
    })
}

/// Action of a page fault where no huge page is free: the value of `defrag`.
pub(crate) fn defrag() -> Option<String> {
    selected(format!("{THP}/defrag"))
}

/// The values of the switches of a size and of all sizes.
fn switches(bytes: u64, shared: bool) -> (Option<String>, Option<String>) {
    (selected(folio_switch_file(bytes, shared)), selected(thp_switch_file(shared)))
}

fn selected(path: String) -> Option<String> {
    Choice::parse(&read_file(path).ok()?).ok()?.selected().map(str::to_owned)
}

/// Bytes in free blocks of at least `block_bytes`; none if the kernel does not report it.
pub(crate) fn free_in_blocks_of(block_bytes: usize) -> Option<u64> {
    let page = mw_sys::page_bytes();
    let order = (block_bytes / page).checked_ilog2()? as usize;
    let info = buddyinfo()?;
    let bytes = |(order, blocks): (usize, &u64)| blocks.saturating_mul((page as u64) << order);
    let blocks = info.zones.iter().flat_map(|zone| zone.values().iter().enumerate().skip(order));
    Some(blocks.map(bytes).sum::<u64>().saturating_add(unlisted_bytes().unwrap_or(0)))
}

/// Free memory that is in no list of buddyinfo and unfragmented: deferred or unaccepted.
fn unlisted_bytes() -> Option<u64> {
    let (info, page) = (zoneinfo()?, mw_sys::page_bytes() as u64);
    let unaccepted: u64 = info.zones.iter().filter_map(|zone| zone.unaccepted_pages).sum();
    Some(DeferredInit::new(&meminfo()?, &info, page).bytes().saturating_add(unaccepted * page))
}

/// The free blocks of every zone now.
pub(crate) fn buddyinfo() -> Option<Buddyinfo> {
    let mut info = Buddyinfo::default();
    info.parse_into(&read_file("/proc/buddyinfo").ok()?).ok()?;
    Some(info)
}

pub(crate) fn zoneinfo() -> Option<Zoneinfo> {
    let mut info = Zoneinfo::default();
    info.parse_into(&read_file("/proc/zoneinfo").ok()?).ok()?;
    Some(info)
}

/// Hugetlb pages of this size that can still be reserved, in bytes; none without such a pool.
pub(crate) fn pool_bytes(page_bytes: usize) -> Option<u64> {
    let dir = huge_pool_dir(page_bytes as u64, None);
    let read = |file: &str| number(format!("{dir}/{file}"));
    let pool = HugePool {
        page_bytes: page_bytes as u64,
        total_pages: 0,
        free_pages: read("free_hugepages")?,
        reserved_pages: read("resv_hugepages").unwrap_or(0),
        surplus_pages: read("surplus_hugepages").unwrap_or(0),
        overcommit_pages: read("nr_overcommit_hugepages").unwrap_or(0),
    };
    let pages = pool.available_pages().saturating_add(pool.surplus_left_pages());
    Some(pages.saturating_mul(pool.page_bytes))
}

pub(crate) fn meminfo() -> Option<Meminfo> {
    Meminfo::parse(&read_file("/proc/meminfo").ok()?).ok()
}

/// Available memory of the machine in bytes. Without the zones' watermarks, which makes it the lower
/// one; none if the kernel does not report it.
pub(crate) fn available_bytes() -> Option<u64> {
    let (meminfo, page_bytes) = (meminfo()?, mw_sys::page_bytes() as u64);
    let slab = unreclaimable_slab(&meminfo).unwrap_or_default();
    MachineMemory { meminfo: &meminfo, zones: &[], slab, page_bytes }.available_bytes()
}

/// What the kernel still promises to this process with strict overcommit; none without it.
pub(crate) fn commit_bytes() -> Option<u64> {
    const STRICT: u64 = 2;
    let setting = |name: &str| number(format!("/proc/sys/vm/{name}"));
    if setting("overcommit_memory") != Some(STRICT) {
        return None;
    }
    let reserve = CommitReserve {
        admin_kib: setting("admin_reserve_kbytes").unwrap_or(0),
        user_kib: setting("user_reserve_kbytes").unwrap_or(0),
        is_admin: mw_sys::has_capability(Capability::SysAdmin) && is_first_user_namespace(),
        mapped_bytes: status()?.vm_size_bytes.unwrap_or(0),
    };
    Commit::new(&meminfo()?, reserve.bytes()).map(|commit| commit.available_bytes)
}

/// The kernel asks the first user namespace for the privilege.
fn is_first_user_namespace() -> bool {
    let map = read_file("/proc/self/uid_map").unwrap_or_default();
    let map = String::from_utf8_lossy(&map);
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Memory that kernel.shmall leaves for another System V segment; none if the kernel does not report it.
pub(crate) fn shm_left_bytes() -> Option<u64> {
    let segments = read_file("/proc/sysvipc/shm").ok();
    let segments = segments.and_then(|text| sysvipc_shm::parse(&text).ok()).unwrap_or_default();
    let page_bytes = mw_sys::page_bytes() as u64;
    let pages = number("/proc/sys/kernel/shmall")?;
    Some(mw_memory::shm_left_bytes(pages, page_bytes, &segments))
}

/// What is left of `RLIMIT_AS`; none without that limit.
pub(crate) fn address_space_bytes() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    Some(resource_left_bytes(limit, status()?.vm_size_bytes.unwrap_or(0)))
}

/// What is left of `RLIMIT_DATA`; none without that limit.
pub(crate) fn data_bytes() -> Option<u64> {
    let limit = getrlimit(Resource::Data);
    let limit = enforced_data_bytes(limit.current, limit.maximum)?;
    Some(resource_left_bytes(limit, status()?.vm_data_bytes.unwrap_or(0)))
}

fn unreclaimable_slab(meminfo: &Meminfo) -> Option<UnreclaimableSlab> {
    let dentries = DentryState::parse(&read_file("/proc/sys/fs/dentry-state").ok()?).ok()?;
    let inodes = read_file("/proc/sys/fs/inode-state").ok();
    let inodes = inodes.and_then(|text| InodeState::parse(&text).ok());
    let page_bytes = mw_sys::page_bytes() as u64;
    let objects =
        KernelObjects { meminfo, dentries, inodes, slabs: None, tmpfs_inodes: 0, page_bytes };
    Some(UnreclaimableSlab::new(&objects))
}

/// Available memory of nodes in bytes; none if one of them does not exist.
pub(crate) fn nodes_bytes(nodes: &[u32]) -> Option<u64> {
    let page_bytes = mw_sys::page_bytes() as u64;
    mw_memory::nodes_available_bytes(nodes, &meminfo()?, &zoneinfo()?, page_bytes)
}

/// Free hugetlb pages of this size on a node, in bytes.
pub(crate) fn node_pool_bytes(node: u32, page_bytes: usize) -> Option<u64> {
    let free = number(format!("{}/free_hugepages", huge_pool_dir(page_bytes as u64, Some(node))))?;
    Some(free.saturating_mul(page_bytes as u64))
}

/// The CPUs of a node; empty for one that does not exist.
pub(crate) fn node_cpus(node: u32) -> Vec<u32> {
    let text = read_file(format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
    mw_proc::cpulist::parse(&text).unwrap_or_default()
}

/// The node of the current CPU, where the machine has several.
pub(crate) fn own_node() -> Option<u32> {
    let online = mw_proc::cpulist::parse(&read_file(format!("{NODES}/online")).ok()?).ok()?;
    if online.len() < 2 {
        return None;
    }
    let cpu = u32::try_from(rustix::thread::sched_getcpu()).ok()?;
    online.into_iter().find(|node| node_cpus(*node).contains(&cpu))
}

/// Memory that `RLIMIT_MEMLOCK` still lets this process lock; none without that limit.
pub(crate) fn lockable_bytes() -> Option<u64> {
    Some(resource_left_bytes(mw_sys::memlock_limit_bytes()?, locked_bytes()))
}

/// Locked memory of this process in bytes.
pub(crate) fn locked_bytes() -> u64 {
    status().and_then(|status| status.vm_lck_bytes).unwrap_or(0)
}

fn status() -> Option<Status> {
    Status::parse(&read_file("/proc/self/status").ok()?).ok()
}

/// Reads a file that contains one number.
pub(crate) fn number(path: impl AsRef<Path>) -> Option<u64> {
    let text = String::from_utf8(read_file(path).ok()?).ok()?;
    text.trim().parse().ok()
}
