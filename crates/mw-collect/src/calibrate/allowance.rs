//! How much memory a calibration may take.

use mw_model::folios::{self, FolioSwitches};
use mw_model::{HugePool, Missing, PageSize, Request, Snapshot, caller, derived, fragmentation};
use mw_proc::zoneinfo::Zone;

const MIB: usize = 1 << 20;

/// Two of the largest folios, as `Region::populate_folios` needs.
pub(super) const FOLIO_CHUNK: usize = 2 * MIB;

/// The most that is ever taken: more would not fit the time.
pub(super) const MOST_BYTES: usize = 32 * MIB;
/// With less than this nothing useful is measured.
const LEAST_BYTES: usize = 2 * MIB;
/// The share of what is available to this process that may be taken.
const AVAILABLE_SHARE: u64 = 64;
/// The share of what is free above the lowest watermark that may be taken.
const FREE_SHARE: u64 = 8;
/// The share of the request that may be taken: what was taken once is backed by the host, and the
/// same question gets another answer.
const REQUEST_SHARE: u64 = 8;
/// Whatever the share is, so much is measured.
const ENOUGH_BYTES: u64 = 8 * MIB as u64;
/// The share of a pool of huge pages that may be taken.
const POOL_SHARE: u64 = 4;

/// Memory that may be taken, of each kind. Nothing of huge pages where taking them would make the kernel
/// look for some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) base_bytes: usize,
    pub(super) thp_bytes: usize,
    pub(super) hugetlb_bytes: usize,
    /// For folios of the requested size.
    pub(super) folio_bytes: usize,
    /// True if larger ones are allowed, too.
    pub(super) are_folios_capped: bool,
    pub(super) lock_bytes: usize,
    pub(super) huge_page_bytes: usize,
}

impl Allowance {
    /// Memory that `request` may be measured with.
    pub(super) fn new(request: &Request, snapshot: &Snapshot) -> Result<Self, Missing> {
        let hugetlb_bytes = hugetlb_bytes(request, snapshot);
        let base_bytes = base_bytes(request, snapshot).min(MOST_BYTES) / MIB * MIB;
        if base_bytes < LEAST_BYTES && hugetlb_bytes == 0 {
            return Err(Missing::skipped(
                "calibration",
                "not measured: too little memory would be left",
            ));
        }
        let huge_page_bytes = usize::try_from(derived::huge_page_bytes(snapshot)).unwrap_or(0);
        let free_huge = free_huge_bytes(request, snapshot, huge_page_bytes as u64);
        let wanted = base_bytes.min(free_huge).checked_div(huge_page_bytes).unwrap_or(0);
        let (free_folios, are_folios_capped) = free_folio_bytes(request, snapshot);
        let unlimited = mw_sys::has_capability(mw_sys::Capability::IpcLock);
        let limit = mw_sys::memlock_limit_bytes().filter(|_| !unlimited);
        Ok(Self {
            base_bytes,
            thp_bytes: wanted * huge_page_bytes,
            hugetlb_bytes,
            folio_bytes: base_bytes.min(free_folios) / FOLIO_CHUNK * FOLIO_CHUNK,
            are_folios_capped,
            lock_bytes: limit.map_or(usize::MAX, clamp),
            huge_page_bytes,
        })
    }
}

fn clamp(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn base_bytes(request: &Request, snapshot: &Snapshot) -> usize {
    let machine = derived::ready_bytes(snapshot).unwrap_or(0);
    let available = caller::available(snapshot, machine).bytes / AVAILABLE_SHARE;
    let free = free_above_min(request, snapshot) / FREE_SHARE;
    let share = (request.size_bytes / REQUEST_SHARE).max(ENOUGH_BYTES);
    clamp(available.min(free).min(share))
}

fn is_requested(request: &Request, node: u32) -> bool {
    request.node.is_none_or(|requested| requested == node)
}

/// Free memory above the watermark at which an allocation stalls.
fn free_above_min(request: &Request, snapshot: &Snapshot) -> u64 {
    let Some(zoneinfo) = snapshot.sample.zoneinfo.value() else {
        // Old kernels and bare containers: free memory in the round, cautiously.
        let meminfo = snapshot.sample.meminfo.value();
        return meminfo.and_then(|m| m.mem_free_bytes).unwrap_or(0) / 4;
    };
    let spare = |zone: &Zone| {
        let reserve = zone.protection().iter().max().copied().unwrap_or(0);
        zone.free_pages.saturating_sub(zone.min_pages.saturating_add(reserve))
    };
    let zones = zoneinfo.zones.iter().filter(|zone| is_requested(request, zone.node));
    zones.map(spare).sum::<u64>().saturating_mul(snapshot.origin.page_bytes)
}

/// A part of the free blocks of a huge page's size, where programs may have them for the asking.
fn free_huge_bytes(request: &Request, snapshot: &Snapshot, huge_page_bytes: u64) -> usize {
    let enabled = snapshot.thp.value().and_then(|thp| thp.enabled.selected());
    let (Some("always" | "madvise"), Some(buddyinfo)) =
        (enabled, snapshot.sample.buddyinfo.value())
    else {
        return 0;
    };
    let page_bytes = snapshot.origin.page_bytes;
    let order = derived::order_of(huge_page_bytes, page_bytes);
    let zones = buddyinfo.zones.iter().filter(|zone| is_requested(request, zone.node));
    let pages: u64 = zones.map(|zone| fragmentation::free_pages_from_order(zone, order)).sum();
    clamp(pages.saturating_mul(page_bytes) / FREE_SHARE)
}

/// A part of the free blocks for folios of the requested size, where private memory may have them; and whether
/// larger ones are allowed as well.
fn free_folio_bytes(request: &Request, snapshot: &Snapshot) -> (usize, bool) {
    let PageSize::Folio(page_bytes) = request.page else { return (0, false) };
    let Ok(switches) = FolioSwitches::new(snapshot, false) else { return (0, false) };
    if switches.why_none(page_bytes).is_some() {
        return (0, false);
    }
    let is_capped = switches.allowed().first().is_some_and(|largest| *largest > page_bytes);
    let free = folios::available_bytes(snapshot, page_bytes, |node| is_requested(request, node));
    (clamp(free.unwrap_or(0) / FREE_SHARE), is_capped)
}

fn hugetlb_bytes(request: &Request, snapshot: &Snapshot) -> usize {
    let PageSize::Hugetlb(page_bytes) = request.page else { return 0 };
    let find = |pools| HugePool::find(pools, page_bytes);
    let all = snapshot.hugepages.value().and_then(|pools| find(pools));
    let mut pages = all.map_or(0, |pool| pool.available_pages());
    if let Some(requested) = request.node {
        let nodes = snapshot.nodes.value();
        let node = nodes.and_then(|nodes| nodes.iter().find(|node| node.id == requested));
        let pool = node.and_then(|node| find(&node.hugepages));
        pages = pages.min(pool.map_or(0, |pool| pool.free_pages));
    }
    let most = MOST_BYTES as u64 / page_bytes.max(1);
    clamp((pages / POOL_SHARE).min(most).saturating_mul(page_bytes))
}
