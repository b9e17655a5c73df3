//! Whether folios below a huge page are available, of one size or of the sizes that are free.

use super::node_memory::NodeMemory;
use super::notes::Notes;
use mw_memory::{MAX_WORKERS, folio_reserve_bytes};
use mw_model::folios::{self, FolioSwitches};
use mw_model::{FolioShare, FolioSupply, Missing, PageSize, Request, Snapshot, derived};

/// Free blocks by size, and what a segment of private memory or a memfd has of them.
///
/// # Errors
/// The switches, the free blocks or the watermarks were not seen.
fn supplies(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
) -> Result<Vec<FolioSupply>, Missing> {
    let is_eligible = |node: u32| nodes.iter().any(|known| known.node == node && known.eligible);
    let sizes: Vec<u64> = match request.page {
        PageSize::Folio(bytes) => vec![bytes],
        _ => {
            let huge = derived::huge_page_bytes(snapshot);
            let folios = PageSize::FOLIO_BYTES.into_iter().rev();
            std::iter::once(huge).chain(folios.filter(|bytes| *bytes < huge)).collect()
        }
    };
    let free = |page_bytes: &u64| {
        let free_bytes = folios::available_bytes(snapshot, *page_bytes, is_eligible)?;
        Ok(FolioSupply { page_bytes: *page_bytes, free_bytes, ..FolioSupply::default() })
    };
    let mut supplies = sizes.iter().map(free).collect::<Result<Vec<_>, Missing>>()?;
    let reserve = folio_reserve_bytes(workers(snapshot));
    let private = shares(&supplies, request, &FolioSwitches::new(snapshot, false)?, reserve);
    let shared = shares(&supplies, request, &FolioSwitches::new(snapshot, true)?, reserve);
    for (supply, (private, shared)) in supplies.iter_mut().zip(private.into_iter().zip(shared)) {
        (supply.private, supply.shared) = (private, shared);
    }
    Ok(supplies)
}

/// The threads that populate a segment.
fn workers(snapshot: &Snapshot) -> usize {
    let nodes = snapshot.nodes.value().map_or(&[][..], Vec::as_slice);
    match nodes.iter().map(|node| node.cpus.len()).sum() {
        0 => MAX_WORKERS,
        cpus => MAX_WORKERS.min(cpus),
    }
}

/// The largest size first, as far as it is free; blocks of a larger size serve a smaller one as well.
fn shares(
    supplies: &[FolioSupply],
    request: &Request,
    switches: &FolioSwitches<'_>,
    reserve: u64,
) -> Vec<FolioShare> {
    let mut taken = 0_u64;
    let share = |supply: &FolioSupply| {
        let why_none = switches.why_none(supply.page_bytes);
        if why_none.is_some() {
            return FolioShare { bytes: 0, why_none };
        }
        let free = supply.free_bytes.saturating_sub(reserve).saturating_sub(taken);
        let left = free.min(request.size_bytes.saturating_sub(taken));
        let bytes = left.saturating_sub(left.checked_rem(supply.page_bytes).unwrap_or(0));
        taken = taken.saturating_add(bytes);
        FolioShare { bytes, why_none }
    };
    supplies.iter().map(share).collect()
}

/// Share of a request for one size that consists of smaller pages; nothing for the best pages, whatever they are.
pub(super) fn not_folio_bytes(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
    notes: &mut Notes,
) -> u64 {
    match supplies(snapshot, request, nodes) {
        Ok(supplies) => notes.folios = supplies,
        Err(missing) => {
            notes.unseen(&missing);
            notes.undecided(format!("free blocks for folios are not known: {missing}"));
            return 0;
        }
    }
    match request.page {
        PageSize::Folio(page_bytes) => one_size(snapshot, request, page_bytes, notes),
        _ => {
            best(request, notes);
            0
        }
    }
}

fn one_size(snapshot: &Snapshot, request: &Request, page_bytes: u64, notes: &mut Notes) -> u64 {
    let Some(supply) = notes.folios.first().cloned() else { return 0 };
    let pages = PageSize::Folio(page_bytes);
    if let Some(why) = supply.private.why_none {
        let what = format!("folios of {pages} are not allowed for private memory");
        let lift = format!("{why}; until then the memory consists of smaller pages");
        notes.obstacle(false, what, Some(request.size_bytes), Some(0), lift);
        return request.size_bytes;
    }
    let part = request.size_bytes.checked_rem(page_bytes).unwrap_or(0);
    let whole = request.size_bytes.saturating_sub(part);
    let lacking = whole.saturating_sub(supply.private.bytes);
    if lacking > 0 {
        let thp = snapshot.thp.value();
        let defrag = thp.and_then(|thp| thp.defrag.selected()).unwrap_or("unknown");
        let what = format!("free blocks for folios of {pages} (defrag is {defrag})");
        let lift = "compact first: write 1 to /proc/sys/vm/compact_memory; or request page=best, which takes \
                    the sizes that are free";
        notes.obstacle(false, what, Some(whole), Some(supply.private.bytes), lift);
    }
    lacking
}

/// Where no size is allowed, the memory consists of base pages.
fn best(request: &Request, notes: &mut Notes) {
    let is_off = |supply: &FolioSupply| supply.private.why_none.is_some();
    if !notes.folios.iter().all(is_off) {
        return;
    }
    let of_64k = notes.folios.iter().find(|supply| supply.page_bytes == PageSize::FOLIO_BYTES[2]);
    if let Some(why) = of_64k.and_then(|supply| supply.private.why_none.clone()) {
        let what = "no size of folios is allowed for private memory";
        let lift = format!("{why}; until then the memory consists of base pages");
        notes.obstacle(false, what, Some(request.size_bytes), Some(0), lift);
    }
}
