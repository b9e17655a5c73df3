//! What the machine says of itself: read when an operation begins, never while it runs, but for
//! available memory.

use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::choice::Choice;
use mw_proc::deferred::Deferred;
use mw_proc::dentry_state::DentryState;
use mw_proc::inode_state::InodeState;
use mw_proc::meminfo::Meminfo;
use mw_proc::pinned::{Objects, Pinned};
use mw_proc::zoneinfo::{Zone, Zoneinfo};
use mw_sys::read_file;
use std::path::Path;

const NODES: &str = "/sys/devices/system/node";
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The size of a transparent huge page in bytes; none on a kernel without them.
pub(crate) fn thp_bytes() -> Option<usize> {
    usize::try_from(number(format!("{THP}/hpage_pmd_size"))?).ok()
}

/// Whether private memory may ask for transparent huge pages, and shared memory.
pub(crate) fn thp_is_offered(shared: bool) -> Option<bool> {
    let file = if shared { "shmem_enabled" } else { "enabled" };
    let choice = Choice::parse(&read_file(format!("{THP}/{file}")).ok()?).ok()?;
    Some(!matches!(choice.selected()?, "never" | "deny"))
}

/// Bytes in free blocks of at least `block_bytes`; none where the kernel does not say.
pub(crate) fn free_in_blocks_of(block_bytes: usize) -> Option<u64> {
    let page = mw_sys::page_bytes();
    let order = (block_bytes / page).checked_ilog2()? as usize;
    let mut info = Buddyinfo::default();
    info.parse_into(&read_file("/proc/buddyinfo").ok()?).ok()?;
    let bytes = |(order, blocks): (usize, &u64)| blocks.saturating_mul((page as u64) << order);
    let blocks = info.zones.iter().flat_map(|zone| zone.values().iter().enumerate().skip(order));
    Some(blocks.map(bytes).sum::<u64>().saturating_add(unlisted_bytes().unwrap_or(0)))
}

/// Free memory that is in no list of buddyinfo and all of one piece: what the kernel has not
/// initialised, or not accepted yet.
fn unlisted_bytes() -> Option<u64> {
    let (info, page) = (zoneinfo()?, mw_sys::page_bytes() as u64);
    let unaccepted: u64 = info.zones.iter().filter_map(|zone| zone.unaccepted_pages).sum();
    Some(Deferred::of(&meminfo()?, &info, page).bytes().saturating_add(unaccepted * page))
}

fn zoneinfo() -> Option<Zoneinfo> {
    let mut info = Zoneinfo::default();
    info.parse_into(&read_file("/proc/zoneinfo").ok()?).ok()?;
    Some(info)
}

/// What the pool of huge pages of this size can still promise, in bytes; none without such pages.
pub(crate) fn pool_bytes(page_bytes: usize) -> Option<u64> {
    let dir = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes >> 10);
    let read = |file: &str| number(format!("{dir}/{file}"));
    let free = read("free_hugepages")?.saturating_sub(read("resv_hugepages").unwrap_or(0));
    let surplus = read("nr_overcommit_hugepages")
        .unwrap_or(0)
        .saturating_sub(read("surplus_hugepages").unwrap_or(0));
    Some(free.saturating_add(surplus).saturating_mul(page_bytes as u64))
}

/// `/proc/meminfo`.
pub(crate) fn meminfo() -> Option<Meminfo> {
    Meminfo::parse(&read_file("/proc/meminfo").ok()?).ok()
}

/// Available memory in bytes: MemAvailable without the kernel objects in use that it counts; none
/// where the kernel does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    let meminfo = meminfo()?;
    let available = meminfo.mem_available_bytes?;
    let pinned = pinned_bytes(&meminfo).unwrap_or(0);
    // Without the watermarks, so that it errs to the safe side.
    Some(available.saturating_sub(pinned))
}

fn pinned_bytes(meminfo: &Meminfo) -> Option<u64> {
    let dentries = DentryState::parse(&read_file("/proc/sys/fs/dentry-state").ok()?).ok()?;
    let inodes = read_file("/proc/sys/fs/inode-state").ok();
    let inodes = inodes.and_then(|text| InodeState::parse(&text).ok());
    let page_bytes = mw_sys::page_bytes() as u64;
    let objects = Objects { meminfo, dentries, inodes, slabs: None, tmpfs_inodes: 0, page_bytes };
    Some(Pinned::of(&objects).most_bytes)
}

/// What nodes have free or could free without swapping, roughly; none where one of them is none.
/// Who is bound to a node and asks it for more is not refused but killed.
pub(crate) fn nodes_bytes(nodes: &[u32]) -> Option<u64> {
    let (info, page) = (zoneinfo()?, mw_sys::page_bytes() as u64);
    let deferred = Deferred::of(&meminfo()?, &info, page);
    let deferred: u64 = nodes.iter().map(|node| deferred.node_bytes(*node)).sum();
    Some(nodes_pages(&info, nodes)? * page + deferred)
}

/// Free pages above what the kernel keeps for itself, and those of files: MemAvailable of nodes.
fn nodes_pages(info: &Zoneinfo, nodes: &[u32]) -> Option<u64> {
    let of_zone = |zone: &Zone| {
        let kept = zone.high_pages + zone.protection().iter().max().unwrap_or(&0);
        let files = zone.active_file_pages.unwrap_or(0) + zone.inactive_file_pages.unwrap_or(0);
        zone.free_pages.saturating_sub(kept) + files
    };
    let of_node = |node: &u32| {
        let zones: Vec<&Zone> = info.zones.iter().filter(|zone| zone.node == *node).collect();
        (!zones.is_empty()).then(|| zones.into_iter().map(of_zone).sum::<u64>())
    };
    nodes.iter().map(of_node).sum()
}

/// What a node's pool of huge pages of this size has free, in bytes.
pub(crate) fn node_pool_bytes(node: u32, page_bytes: usize) -> Option<u64> {
    let free = number(format!("{}/free_hugepages", node_pool(node, page_bytes)))?;
    Some(free.saturating_mul(page_bytes as u64))
}

/// Where a node's pool of huge pages of this size is.
pub(crate) fn node_pool(node: u32, page_bytes: usize) -> String {
    format!("{NODES}/node{node}/hugepages/hugepages-{}kB", page_bytes >> 10)
}

/// The processors of a node; none of one that does not exist.
pub(crate) fn node_cpus(node: u32) -> Vec<u32> {
    let text = read_file(format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
    mw_proc::cpulist::parse(&text).unwrap_or_default()
}

/// The node of a processor, where the machine has several.
pub(crate) fn own_node() -> Option<u32> {
    let online = mw_proc::cpulist::parse(&read_file(format!("{NODES}/online")).ok()?).ok()?;
    if online.len() < 2 {
        return None;
    }
    let cpu = u32::try_from(rustix::thread::sched_getcpu()).ok()?;
    online.into_iter().find(|node| node_cpus(*node).contains(&cpu))
}

/// Locked memory of this process, in bytes.
pub(crate) fn locked_bytes() -> u64 {
    let status = read_file("/proc/self/status").ok();
    let status = status.and_then(|text| mw_proc::status::Status::parse(&text).ok());
    status.and_then(|status| status.vm_lck_bytes).unwrap_or(0)
}

/// The number in a file.
pub(crate) fn number(path: impl AsRef<Path>) -> Option<u64> {
    let text = String::from_utf8(read_file(path).ok()?).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_watermarks_and_gives_files() {
        let zone = |node, free_pages| {
            let (high_pages, protection_len) = (100, 2);
            let mut zone = Zone { node, free_pages, high_pages, protection_len, ..Zone::default() };
            zone.protection_pages[1] = 50;
            zone
        };
        let files = Zone { active_file_pages: Some(3), inactive_file_pages: Some(4), ..zone(0, 0) };
        let info = Zoneinfo { zones: vec![zone(0, 1000), files, zone(1, 400)] };
        assert_eq!(nodes_pages(&info, &[0]), Some(857));
        assert_eq!(nodes_pages(&info, &[0, 1]), Some(1107));
        assert_eq!(nodes_pages(&info, &[0, 7]), None);
    }
}
