//! Each node's memory as an allocation sees it, from zoneinfo and meminfo.

use super::{Notes, holders};
use mw_model::{Missing, Obstacle, Request, Share, Snapshot, derived, zones};
use mw_proc::meminfo::Meminfo;
use mw_proc::pinned::Pinned;
use mw_proc::zoneinfo::Zone;

/// The share of memory that may be in the lists of single processors, which no file counts as
/// free and which an allocation that would fail gets after all.
const PER_CPU_SHARE: u64 = 128;

/// What one node has. All sizes in bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    pub(super) node: u32,
    /// Whether the request may take memory from here.
    pub(super) eligible: bool,
    pub(super) total: u64,
    /// Free above the high watermark and the reserves for lower zones.
    pub(super) free: u64,
    /// Free above the lowest watermark: the last that can be had.
    pub(super) free_to_the_last: u64,
    /// The part of `free` that nothing ever touched: the kernel initialises or accepts it when it
    /// is allocated.
    pub(super) untouched: u64,
    /// What the watermarks keep.
    pub(super) watermark: u64,
    /// Clean page cache and slab, with the caution of the kernel's own MemAvailable.
    pub(super) clean: u64,
    /// All page cache and slab that could be given back, without dirty pages and what is pinned.
    pub(super) clean_to_the_last: u64,
    /// Kernel objects that are counted as reclaimable and are in use, for certain.
    pub(super) pinned: u64,
    pub(super) dirty: u64,
    /// Anonymous and shared memory on the lists that swapping looks at.
    pub(super) swappable: u64,
    /// The same if there were swap without end.
    pub(super) anonymous: u64,
    pub(super) unreclaimable: Vec<Share>,
}

/// The rooms of all nodes, or one for the whole machine where nodes cannot be told apart.
pub(super) fn rooms(
    snapshot: &Snapshot,
    request: &Request,
    notes: &mut Notes,
) -> Result<Vec<Room>, Missing> {
    let machine = *snapshot.sample.meminfo.need()?;
    let per_node = node_meminfos(snapshot, &machine, notes);
    let zoneinfo: &[Zone] = match snapshot.sample.zoneinfo.need() {
        Ok(zoneinfo) => &zoneinfo.zones,
        Err(missing) => {
            notes.unseen(&missing);
            &[]
        }
    };
    let page = snapshot.origin.page_bytes.max(1);
    let pinned = derived::pinned_slab(snapshot);
    let of_node = |(node, meminfo): &(u32, Meminfo)| {
        let slab = Slab::of(meminfo, &machine, pinned);
        room(*node, meminfo, &slab, zoneinfo, page)
    };
    let mut rooms: Vec<Room> = per_node.iter().map(of_node).collect();
    let mut swap = machine.swap_free_bytes.unwrap_or(0);
    for (room, (_, meminfo)) in rooms.iter_mut().zip(&per_node) {
        let deferred = zones::node_deferred_bytes(snapshot, room.node);
        room.free = room.free.saturating_add(deferred);
        room.free_to_the_last = room.free_to_the_last.saturating_add(deferred);
        room.untouched = zones::node_untouched_bytes(snapshot, room.node).min(room.free);
        room.anonymous = anon_lists(meminfo);
        room.swappable = room.anonymous.min(swap);
        swap = swap.saturating_sub(room.swappable);
        room.eligible = is_eligible(snapshot, request, room.node);
        room.unreclaimable = holders::of(snapshot, room, meminfo, per_node.len() == 1);
    }
    Ok(rooms)
}

/// Why the node that is asked for gives nothing, whatever is free: it does not exist, or the process
/// may not allocate from it.
pub(super) fn unreachable_node(
    snapshot: &Snapshot,
    request: &Request,
    rooms: &[Room],
) -> Option<Obstacle> {
    let asked = request.node?;
    let allowed = snapshot.origin.memory_nodes.as_deref();
    let usable =
        |room: &&Room| room.total > 0 && allowed.is_none_or(|nodes| nodes.contains(&room.node));
    let usable: Vec<String> =
        rooms.iter().filter(usable).map(|room| room.node.to_string()).collect();
    let (what, why) = match rooms.iter().find(|room| room.node == asked) {
        None => (format!("there is no node {asked}"), "with memory"),
        Some(room) if room.total == 0 => (format!("node {asked} has no memory"), "with memory"),
        Some(room) if !room.eligible => {
            (format!("node {asked} is not in this process's cpuset"), "that it may use")
        }
        Some(_) => return None,
    };
    let lift = format!("ask for a node {why}: {}", usable.join(", "));
    Some(Obstacle { blocks: true, what, needed_bytes: None, had_bytes: None, lift })
}

fn is_eligible(snapshot: &Snapshot, request: &Request, node: u32) -> bool {
    let allowed = snapshot.origin.memory_nodes.as_ref();
    request.node.is_none_or(|asked| asked == node)
        && allowed.is_none_or(|nodes| nodes.contains(&node))
}

/// meminfo of every node; of the machine, as node 0, where no node says.
fn node_meminfos(snapshot: &Snapshot, machine: &Meminfo, notes: &mut Notes) -> Vec<(u32, Meminfo)> {
    for missing in snapshot.sample.nodes.iter().filter_map(|node| node.meminfo.missing()) {
        notes.unseen(missing);
    }
    if snapshot.sample.nodes.iter().all(|node| node.meminfo.seen().is_none())
        && let Err(missing) = snapshot.nodes.need()
    {
        notes.unseen(&missing);
    }
    let nodes = zones::node_meminfos(snapshot);
    match nodes[..] {
        // A single node has the machine's memory; the machine's file says more.
        [(node, _)] => vec![(node, *machine)],
        _ => nodes,
    }
}

/// A node's kernel objects that are counted as reclaimable, in bytes.
struct Slab {
    /// Those that reclaim surely frees.
    sure: u64,
    /// Those that are not pinned for certain.
    to_the_last: u64,
    /// Those that are.
    pinned: u64,
}

impl Slab {
    /// The kernel says what is pinned of the machine alone: a node has its part in proportion to
    /// its objects.
    fn of(node: &Meminfo, machine: &Meminfo, pinned: Pinned) -> Self {
        let [own, all] = [node, machine].map(derived::kernel_reclaimable_bytes);
        let share = own as f64 / all.max(1) as f64;
        let [least, most] =
            [pinned.least_bytes, pinned.most_bytes].map(|bytes| (bytes as f64 * share) as u64);
        Self {
            sure: own.saturating_sub(most),
            to_the_last: own.saturating_sub(least),
            pinned: least.min(own),
        }
    }
}

fn room(node: u32, meminfo: &Meminfo, slab: &Slab, zones: &[Zone], page: u64) -> Room {
    let own = || zones.iter().filter(|zone| zone.node == node && zone.is_populated());
    let sum = |f: &dyn Fn(&Zone) -> u64| derived::total(own().map(f)).saturating_mul(page);
    let known = own().next().is_some();
    let all_free = meminfo.mem_free_bytes.unwrap_or(0);
    let low = sum(&|zone| zone.low_pages);
    let file = file_lists(meminfo);
    let unwritten = derived::unwritten_bytes(meminfo);
    let cautious = |bytes: u64| bytes.saturating_sub((bytes / 2).min(low.max(bytes / 64)));
    let total = meminfo.mem_total_bytes.unwrap_or(0);
    let last = if known { sum(&free_above_min) } else { all_free };
    Room {
        node,
        total,
        free: if known { sum(&free_above_high) } else { all_free.saturating_sub(all_free / 16) },
        free_to_the_last: last.saturating_add(total / PER_CPU_SHARE),
        watermark: sum(&|zone| zone.high_pages.saturating_add(reserve(zone))).min(all_free),
        clean: cautious(file).saturating_sub(unwritten).saturating_add(cautious(slab.sure)),
        clean_to_the_last: file.saturating_sub(unwritten).saturating_add(slab.to_the_last),
        pinned: slab.pinned,
        dirty: unwritten.min(file),
        ..Room::default()
    }
}

/// What a zone withholds from allocations that a higher zone could serve (`calculate_totalreserve`
/// of the kernel).
fn reserve(zone: &Zone) -> u64 {
    zone.protection().iter().max().copied().unwrap_or(0)
}

fn free_above_high(zone: &Zone) -> u64 {
    zone.free_pages.saturating_sub(zone.high_pages.saturating_add(reserve(zone)))
}

fn free_above_min(zone: &Zone) -> u64 {
    zone.free_pages.saturating_sub(zone.min_pages.saturating_add(reserve(zone)))
}

/// Pages of files on the lists that reclaim looks at; before 2.6.28 there is one pair of lists.
fn file_lists(meminfo: &Meminfo) -> u64 {
    match (meminfo.active_file_bytes, meminfo.inactive_file_bytes) {
        (None, None) => {
            let cached = meminfo.cached_bytes.or(meminfo.file_pages_bytes).unwrap_or(0);
            cached.saturating_sub(meminfo.shmem_bytes.unwrap_or(0))
        }
        _ => derived::file_cache_bytes(meminfo),
    }
}

fn anon_lists(meminfo: &Meminfo) -> u64 {
    match (meminfo.active_anon_bytes, meminfo.inactive_anon_bytes) {
        (None, None) => meminfo.anon_pages_bytes.unwrap_or(0),
        (active, inactive) => derived::total([active, inactive].into_iter().flatten()),
    }
}
