//! Each node's memory as an allocation sees it, from zoneinfo and meminfo.

use super::{Notes, holders};
use mw_model::{Missing, Obstacle, Request, Share, Snapshot, derived};
use mw_proc::meminfo::Meminfo;
use mw_proc::zoneinfo::Zone;

/// Memory that the kernel counts as free and that no zone has: pages whose initialisation was
/// put off (`deferred_init`). Less than this is the counters being read at different times.
const PUT_OFF_LEAST_BYTES: u64 = 64 << 20;

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
    /// Free memory that the kernel has not set up yet, and nothing ever touched.
    pub(super) put_off: u64,
    /// What the watermarks keep.
    pub(super) watermark: u64,
    /// Clean page cache and slab, with the caution of the kernel's own MemAvailable.
    pub(super) clean: u64,
    /// All page cache and slab that could be given back, without dirty pages.
    pub(super) clean_to_the_last: u64,
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
    let zones: &[Zone] = match snapshot.sample.zoneinfo.need() {
        Ok(zoneinfo) => &zoneinfo.zones,
        Err(missing) => {
            notes.unseen(&missing);
            &[]
        }
    };
    let page = snapshot.origin.page_bytes.max(1);
    let mut rooms: Vec<Room> =
        per_node.iter().map(|(node, meminfo)| room(*node, meminfo, zones, page)).collect();
    add_put_off(&mut rooms, &machine, zones, page);
    let mut swap = machine.swap_free_bytes.unwrap_or(0);
    for (room, (_, meminfo)) in rooms.iter_mut().zip(&per_node) {
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
    let mut seen = Vec::new();
    for node in &snapshot.sample.nodes {
        match node.meminfo.need() {
            Ok(meminfo) => seen.push((node.node, *meminfo)),
            Err(missing) => notes.unseen(&missing),
        }
    }
    if let [(node, _)] = seen[..] {
        // A single node has the machine's memory; the machine's file says more.
        return vec![(node, *machine)];
    }
    if seen.is_empty() {
        if let Err(missing) = snapshot.nodes.need() {
            notes.unseen(&missing);
        }
        return vec![(0, *machine)];
    }
    seen
}

fn room(node: u32, meminfo: &Meminfo, zones: &[Zone], page: u64) -> Room {
    let own = || zones.iter().filter(|zone| zone.node == node && zone.is_populated());
    let sum = |f: &dyn Fn(&Zone) -> u64| derived::total(own().map(f)).saturating_mul(page);
    let known = own().next().is_some();
    let all_free = meminfo.mem_free_bytes.unwrap_or(0);
    let low = sum(&|zone| zone.low_pages);
    let file = file_lists(meminfo);
    let slab = meminfo.kreclaimable_bytes.or(meminfo.sreclaimable_bytes).unwrap_or(0);
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
        clean: cautious(file).saturating_sub(unwritten).saturating_add(cautious(slab)),
        clean_to_the_last: file.saturating_sub(unwritten).saturating_add(slab),
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

/// Adds free memory that is in no zone's lists yet to the nodes whose zones have pages that the
/// allocator does not manage yet.
fn add_put_off(rooms: &mut [Room], machine: &Meminfo, zones: &[Zone], page: u64) {
    let listed = derived::total(zones.iter().map(|zone| zone.free_pages)).saturating_mul(page);
    let free = machine.mem_free_bytes.unwrap_or(0);
    let put_off = free.saturating_sub(listed);
    if zones.is_empty() || put_off < PUT_OFF_LEAST_BYTES {
        return;
    }
    let unmanaged =
        |zone: &Zone| zone.present_pages.saturating_sub(zone.managed_or_present_pages());
    let all = derived::total(zones.iter().map(unmanaged));
    for room in rooms {
        let own = derived::total(zones.iter().filter(|z| z.node == room.node).map(unmanaged));
        let share = (put_off as f64 * (own as f64 / all.max(1) as f64)) as u64;
        room.put_off = share;
        room.free = room.free.saturating_add(share);
        room.free_to_the_last = room.free_to_the_last.saturating_add(share);
    }
}
