//! What the unreclaimable memory of a node consists of.

use crate::counted::{counted, in_no_counter_bytes};
use crate::{arc, shared_memory};
use mw_memory::MemoryPart;
use mw_model::{HugePool, Share, Snapshot, format_bytes};
use mw_proc::meminfo::Meminfo;

/// Smaller parts are not listed.
const LEAST_BYTES: u64 = 1 << 20;
/// Number of mounts and segments that are listed one by one.
const MOST_NAMED: usize = 8;

/// A node, and what is known of its memory.
pub(super) struct NodePart {
    pub(super) node: u32,
    /// True if the machine has no other node.
    pub(super) is_only: bool,
    /// Anonymous and shared memory that fits into free swap.
    pub(super) swappable_bytes: u64,
    /// Kernel objects in use.
    pub(super) pinned_bytes: u64,
    /// Page cache that cgroups keep.
    pub(super) protected_bytes: u64,
}

/// The unreclaimable memory of a node, the largest part first. The kernel does not count files of
/// tmpfs and ramfs by node, so they are listed one by one only if there is a single node.
pub(super) fn shares(snapshot: &Snapshot, meminfo: &Meminfo, part: &NodePart) -> Vec<Share> {
    let &NodePart { node, is_only, swappable_bytes, pinned_bytes, protected_bytes } = part;
    let mut shares = Vec::new();
    let mut add = |holder: String, bytes: u64| {
        if bytes >= LEAST_BYTES {
            shares.push(Share { holder, bytes });
        }
    };
    let shmem = meminfo.shmem_bytes.unwrap_or(0);
    let anon = meminfo.anon_pages_bytes.unwrap_or(0);
    // Both can be swapped out; what does not fit stays, anonymous memory counted first.
    let anon_kept = anon.saturating_sub(swappable_bytes);
    let shmem_kept = shmem.saturating_sub(swappable_bytes.saturating_sub(anon));
    let swap = snapshot.sample.meminfo.value();
    let of_swap = |total: Option<u64>| total.unwrap_or(0);
    let no_swap = match swap.map(|m| (of_swap(m.swap_total_bytes), of_swap(m.swap_free_bytes))) {
        None | Some((0, _)) => "no swap",
        Some((_, 0)) => "swap is full",
        Some(_) => "more than free swap has room for",
    };
    add(format!("anonymous memory of processes ({no_swap})"), anon_kept);
    for (holder, bytes) in shared(snapshot, shmem_kept, is_only) {
        add(holder, bytes);
    }
    let locked = meminfo.mlocked_bytes.unwrap_or(0);
    add("memory locked by mlock or SHM_LOCK".to_owned(), locked);
    let pinned = meminfo.unevictable_bytes.unwrap_or(0).saturating_sub(locked);
    add(format!("ramfs and other unevictable files{}", ramfs(snapshot)), pinned);
    for pool in pools(snapshot, node, is_only) {
        let holder = format!("hugetlb pool of {} pages", format_bytes(pool.page_bytes));
        add(holder, pool.total_pages.saturating_mul(pool.page_bytes));
    }
    add("kernel objects in use (files of ramfs and tmpfs, open files)".to_owned(), pinned_bytes);
    add("page cache that cgroups protect (memory.min)".to_owned(), protected_bytes);
    let arc = if is_only { arc::parts(snapshot).slab } else { 0 };
    add("ZFS ARC (slab), which shrinks slowly".to_owned(), arc);
    add("kernel slab".to_owned(), meminfo.sunreclaim_bytes.unwrap_or(0).saturating_sub(arc));
    add("kernel stacks".to_owned(), meminfo.kernel_stack_bytes.unwrap_or(0));
    add("page tables".to_owned(), meminfo.page_tables_bytes.unwrap_or(0));
    if is_only {
        for (holder, bytes) in uncounted(snapshot) {
            shares.push(Share { holder: holder.to_owned(), bytes });
        }
    }
    shares.retain(|share| share.bytes >= LEAST_BYTES);
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

/// Memory that meminfo counts for the machine only, or not at all.
fn uncounted(snapshot: &Snapshot) -> Vec<(&'static str, u64)> {
    let Ok(account) = counted(snapshot) else { return Vec::new() };
    let arc = arc::parts(snapshot);
    let in_no_counter = in_no_counter_bytes(snapshot).unwrap_or(0).saturating_sub(arc.unaccounted);
    vec![
        ("ZFS ARC, which shrinks slowly", arc.unaccounted),
        ("per-CPU memory", account.bytes(MemoryPart::Percpu)),
        ("in no counter of the kernel (drivers)", in_no_counter),
    ]
}

/// tmpfs by mount, System V segments and the rest of shared memory, `bytes` in total.
fn shared(snapshot: &Snapshot, bytes: u64, alone: bool) -> Vec<(String, u64)> {
    let mut named: Vec<(String, u64)> = shared_memory::mounts(snapshot);
    named.extend(shared_memory::segments(snapshot));
    named.retain(|(_, held)| *held >= LEAST_BYTES);
    named.sort_by_key(|(_, held)| std::cmp::Reverse(*held));
    named.truncate(MOST_NAMED);
    if !alone {
        let names: Vec<String> = named
            .iter()
            .map(|(name, held)| format!("{name}, {} in total", format_bytes(*held)))
            .collect();
        let among =
            if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        return vec![(format!("tmpfs and shared memory{among}"), bytes)];
    }
    let mut left = bytes;
    for (_, held) in &mut named {
        *held = (*held).min(left);
        left = left.saturating_sub(*held);
    }
    named.push(("other shared memory".to_owned(), left));
    named
}

/// The mounts of ramfs, of which the kernel counts no memory.
fn ramfs(snapshot: &Snapshot) -> String {
    let filesystems = snapshot.filesystems.value().map_or(&[][..], Vec::as_slice);
    let mounts: Vec<&str> = filesystems
        .iter()
        .filter(|f| f.fstype == "ramfs" && !f.target.starts_with("/run/credentials"))
        .map(|f| f.target.as_str())
        .take(MOST_NAMED)
        .collect();
    if mounts.is_empty() { String::new() } else { format!(" (ramfs on {})", mounts.join(", ")) }
}

fn pools(snapshot: &Snapshot, number: u32, alone: bool) -> Vec<HugePool> {
    let nodes = snapshot.nodes.value().map_or(&[][..], Vec::as_slice);
    match nodes.iter().find(|n| n.id == number) {
        Some(node) if !alone => node.hugepages.clone(),
        _ => snapshot.hugepages.value().cloned().unwrap_or_default(),
    }
}
