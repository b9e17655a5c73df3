//! How far a pool of huge pages can be grown: now, by free blocks, and after reclaim and compaction, by blocks
//! whose pages can all be moved.

use super::facts::RequestFacts;
use super::node_memory::NodeMemory;
use mw_model::{PageBlocks, PoolGrowth, Snapshot, derived, fragmentation, zones};
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::Zone;

/// Possible growth of the pool on the eligible nodes, in addition to the pages that it has.
pub(super) fn of_nodes(facts: &RequestFacts<'_>, page_bytes: u64) -> PoolGrowth {
    let grown = facts.eligible().map(|node| of_node(facts.snapshot, page_bytes, node, 0));
    grown.reduce(add).unwrap_or_default()
}

fn add(one: PoolGrowth, other: PoolGrowth) -> PoolGrowth {
    let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    PoolGrowth {
        now_bytes: one.now_bytes.saturating_add(other.now_bytes),
        least_bytes: both(one.least_bytes, other.least_bytes),
        most_bytes: both(one.most_bytes, other.most_bytes),
    }
}

/// The same of one node; whole pages. The most includes `leaving` bytes of anonymous memory, which may be swapped out or
/// moved to other nodes.
pub(crate) fn of_node(
    snapshot: &Snapshot,
    page_bytes: u64,
    node: &NodeMemory,
    leaving: u64,
) -> PoolGrowth {
    let whole = |bytes: u64| bytes.saturating_sub(bytes.checked_rem(page_bytes).unwrap_or(0));
    let now = whole(free_blocks(snapshot, page_bytes, node.node));
    let Some((least, most)) = movable(snapshot, page_bytes, node, leaving) else {
        return PoolGrowth { now_bytes: now, least_bytes: None, most_bytes: None };
    };
    PoolGrowth {
        now_bytes: now,
        least_bytes: Some(whole(least).max(now)),
        most_bytes: Some(whole(most).max(now)),
    }
}

/// Free memory in blocks of the page's size above the high watermark, zone by zone. Blocks beyond the buddy
/// allocator's largest are in no list.
fn free_blocks(snapshot: &Snapshot, page_bytes: u64, node: u32) -> u64 {
    let base = snapshot.origin.page_bytes;
    let order = derived::order_of(page_bytes, base);
    let sample = &snapshot.sample;
    let (Some(zoneinfo), Some(buddyinfo)) = (sample.zoneinfo.value(), sample.buddyinfo.value())
    else {
        return 0;
    };
    let of_zone = |zone: &Zone| {
        let listed = buddyinfo.zones.iter().find(|b| b.node == zone.node && b.name == zone.name);
        let blocks = listed.map_or(0, |b| fragmentation::free_pages_from_order(b, order));
        blocks.min(zone.free_above_high_pages()).saturating_mul(base)
    };
    let zones = zoneinfo.zones.iter().filter(|zone| zone.node == node);
    derived::total(zones.map(of_zone)).saturating_add(zones::node_deferred_bytes(snapshot, node))
}

/// Memory that reclaim and compaction can turn into huge pages: as many blocks as can be emptied, and as much memory as
/// can be free.
fn movable(
    snapshot: &Snapshot,
    page_bytes: u64,
    node: &NodeMemory,
    leaving: u64,
) -> Option<(u64, u64)> {
    let sample = snapshot.page_blocks.value()?;
    let of_node =
        || sample.iter().filter(|zone| zone.node == node.node && zone.block_bytes == page_bytes);
    if of_node().all(|zone| zone.sampled == 0) {
        return None;
    }
    let least = derived::total(of_node().map(PageBlocks::least_bytes));
    let cpu_lists = cpu_list_pages(snapshot, node.node);
    let slab = reclaimable_slab_pages(snapshot, node.node);
    let most =
        |zone: &PageBlocks| zone.most_bytes().saturating_add(zone.released_bytes(cpu_lists, slab));
    let most = derived::total(of_node().map(most));
    // Free pages beside one that cannot be moved become no huge page. They keep the watermark.
    let stuck = |zone: &PageBlocks| zone.stuck_free_bytes(snapshot.origin.page_bytes);
    let stuck = derived::total(of_node().map(stuck));
    let free = node.free.saturating_add(node.watermark);
    let certain = free.saturating_add(node.clean).saturating_sub(node.doubtful);
    let certain = certain.saturating_sub(node.watermark.max(stuck));
    // The kernel would give what the watermarks keep as well, and then call the OOM killer for the next allocation.
    let lists = cpu_lists.saturating_mul(snapshot.origin.page_bytes);
    let possible =
        derived::total([node.free, lists, node.all_clean.max(node.clean), node.dirty, leaving]);
    let pinned = pinned_pages(snapshot).saturating_mul(page_bytes);
    Some((least.saturating_sub(pinned).min(certain), most.min(possible)))
}

/// Pages that are pinned somewhere, each of which may hold a block (5.4 and later).
fn pinned_pages(snapshot: &Snapshot) -> u64 {
    let counter = |counter| snapshot.sample.vmstat.value().and_then(|v| v.get(counter));
    let acquired = counter(Counter::NrFollPinAcquired).unwrap_or(0);
    acquired.saturating_sub(counter(Counter::NrFollPinReleased).unwrap_or(0))
}

/// Free pages on the lists of CPUs.
fn cpu_list_pages(snapshot: &Snapshot, node: u32) -> u64 {
    let zones = snapshot.sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice());
    let of_node = zones.iter().filter(|zone| zone.node == node);
    derived::total(of_node.filter_map(|zone| zone.pcp_pages))
}

/// Pages of kernel objects that are counted as reclaimable.
fn reclaimable_slab_pages(snapshot: &Snapshot, node: u32) -> u64 {
    let meminfos = zones::node_meminfos(snapshot);
    let own = meminfos.iter().find(|(id, _)| *id == node);
    let bytes = own.and_then(|(_, meminfo)| meminfo.sreclaimable_bytes).unwrap_or(0);
    bytes.checked_div(snapshot.origin.page_bytes).unwrap_or(0)
}
