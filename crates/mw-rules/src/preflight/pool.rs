//! Pages of a hugetlb pool.

use super::Notes;
use super::plan::Plan;
use super::room::Room;
use mw_model::{HugePool, Request, Snapshot, derived, format_bytes, zones};

/// The largest order of the buddy allocator on every kernel so far: larger pages are made only
/// when the pool is sized, never for a request.
const LARGEST_ORDER: usize = 10;

/// A request on pages of the pool: free ones that nobody was promised, then pages beyond the pool
/// where overcommit allows them and memory has blocks of the size.
pub(super) fn plan(
    snapshot: &Snapshot,
    request: &Request,
    page_bytes: u64,
    rooms: &[Room],
    notes: &mut Notes,
) -> Plan {
    let pool = match snapshot.hugepages.need() {
        Ok(pools) => find(pools, page_bytes),
        Err(missing) => {
            notes.unseen(&missing);
            from_meminfo(snapshot, page_bytes)
        }
    };
    let asked = request.size_bytes.div_ceil(page_bytes);
    let free = free_by_node(snapshot, page_bytes, rooms, pool);
    let Some(pool) = pool else {
        let page = format_bytes(page_bytes);
        let lift = format!("there is no such pool: {}", sizes(snapshot));
        let what = format!("hugetlb pool of {page} pages");
        notes.obstacle(true, what, Some(request.size_bytes), Some(0), lift);
        return Plan { taken: vec![0; rooms.len()], pool_free: Some(free), ..Plan::default() };
    };
    let reached = rooms.iter().zip(&free).filter(|(room, _)| room.eligible);
    let in_reach = derived::total(reached.map(|(_, free)| *free));
    let available = pool.available_pages().min(pages(in_reach, page_bytes));
    let beyond = could_be_made(snapshot, request, &pool);
    let made = asked.saturating_sub(available).min(beyond);
    let had = available.saturating_add(made).saturating_mul(page_bytes);
    if available.saturating_add(beyond) < asked {
        short(request, &pool, asked, had, notes);
    } else if made > 0 {
        let bytes = made.saturating_mul(page_bytes);
        let lift = "raise vm.nr_hugepages ahead: these pages are made one by one while you wait";
        notes.obstacle(false, "pages beyond the pool", Some(bytes), Some(bytes), lift);
    }
    let mut left = asked.min(available).saturating_mul(page_bytes);
    let taken = rooms.iter().zip(&free).map(|(room, free)| {
        let part = if room.eligible { (*free).min(left) } else { 0 };
        left = left.saturating_sub(part);
        part
    });
    Plan {
        taken: taken.collect(),
        overcommitted: made.saturating_mul(page_bytes),
        pool_free: Some(free),
        ..Plan::default()
    }
}

fn find(pools: &[HugePool], page_bytes: u64) -> Option<HugePool> {
    pools.iter().find(|pool| pool.page_bytes == page_bytes).copied()
}

/// The pool of the default size, from kernels or trees without /sys.
fn from_meminfo(snapshot: &Snapshot, page_bytes: u64) -> Option<HugePool> {
    let meminfo = snapshot.sample.meminfo.seen()?;
    meminfo.hugepagesize_bytes.filter(|size| *size == page_bytes)?;
    Some(HugePool {
        page_bytes,
        total_pages: meminfo.hugepages_total_pages?,
        free_pages: meminfo.hugepages_free_pages?,
        reserved_pages: meminfo.hugepages_rsvd_pages.unwrap_or(0),
        surplus_pages: meminfo.hugepages_surp_pages.unwrap_or(0),
        overcommit_pages: 0,
    })
}

/// Free bytes of the pool on each node. Where the nodes do not say, the first has them all.
fn free_by_node(
    snapshot: &Snapshot,
    page_bytes: u64,
    rooms: &[Room],
    pool: Option<HugePool>,
) -> Vec<u64> {
    let nodes = snapshot.nodes.seen().map_or(&[][..], Vec::as_slice);
    let of = |room: &Room| {
        let node = nodes.iter().find(|node| node.id == room.node)?;
        Some(find(&node.hugepages, page_bytes)?.free_pages.saturating_mul(page_bytes))
    };
    if rooms.iter().all(|room| of(room).is_none()) {
        let all = pool.map_or(0, |pool| pool.free_pages.saturating_mul(page_bytes));
        return (0..rooms.len()).map(|index| if index == 0 { all } else { 0 }).collect();
    }
    rooms.iter().map(|room| of(room).unwrap_or(0)).collect()
}

/// Pages beyond the pool that the kernel may make and has blocks for.
fn could_be_made(snapshot: &Snapshot, request: &Request, pool: &HugePool) -> u64 {
    let allowed = pool.overcommit_pages.saturating_sub(pool.surplus_pages);
    let order = derived::order_of(pool.page_bytes, snapshot.origin.page_bytes);
    if allowed == 0 || order > LARGEST_ORDER {
        return 0;
    }
    let asked = |node: u32| request.node.is_none_or(|asked| asked == node);
    let free = zones::free_in_blocks_bytes(snapshot, order, asked);
    free.map_or(allowed, |bytes| allowed.min(pages(bytes, pool.page_bytes)))
}

/// Whole pages in so many bytes.
fn pages(bytes: u64, page_bytes: u64) -> u64 {
    bytes.checked_div(page_bytes).unwrap_or(0)
}

fn sizes(snapshot: &Snapshot) -> String {
    let pools = snapshot.hugepages.seen().map_or(&[][..], Vec::as_slice);
    let sizes: Vec<String> = pools.iter().map(|pool| format_bytes(pool.page_bytes)).collect();
    match sizes.is_empty() {
        true => "this kernel shows no huge pages".to_owned(),
        false => format!("the kernel has {}", sizes.join(" and ")),
    }
}

fn short(request: &Request, pool: &HugePool, asked: u64, had: u64, notes: &mut Notes) {
    let page = format_bytes(pool.page_bytes);
    let place = request.node.map_or(String::new(), |node| format!(" on node {node}"));
    let missing = asked.saturating_sub(pages(had, pool.page_bytes));
    let total = pool.total_pages.saturating_add(missing);
    let kib = pool.page_bytes >> 10;
    let file = match request.node {
        Some(node) => {
            format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages")
        }
        None => format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"),
    };
    let lift = match request.node {
        Some(_) => format!("write {missing} more pages than now to {file}"),
        None => format!("write {total} to {file}, best at boot"),
    };
    let what = format!("hugetlb pool of {page} pages{place}");
    notes.obstacle(true, what, Some(asked.saturating_mul(pool.page_bytes)), Some(had), lift);
}
