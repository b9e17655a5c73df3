//! Whether folios below a huge page are available, of one size or of the sizes that are free.

use super::facts::RequestFacts;
use mw_memory::{MAX_WORKERS, folio_reserve_bytes};
use mw_model::folios::{self, FolioSwitches};
use mw_model::{
    Constraint, ConstraintEffect, ConstraintKind, FolioShare, FolioSupply, Missing, PageSize,
    Request, Snapshot, derived,
};

/// Free blocks by size, and what a segment of private memory or a memfd has of them.
///
/// # Errors
/// The switches, the free blocks or the watermarks were not seen.
pub(super) fn supplies(facts: &RequestFacts<'_>) -> Result<Vec<FolioSupply>, Missing> {
    let RequestFacts { snapshot, request, .. } = facts;
    let is_eligible = |node: u32| facts.eligible().any(|eligible| eligible.node == node);
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

/// The constraint that leaves a part of a request in smaller pages than these supplies are of.
pub(super) fn constraint(facts: &RequestFacts<'_>, supplies: &[FolioSupply]) -> Option<Constraint> {
    match facts.request.page {
        PageSize::Folio(page_bytes) => one_size(facts, page_bytes, supplies.first()?),
        _ => no_size(facts.request, supplies),
    }
}

fn one_size(facts: &RequestFacts<'_>, page_bytes: u64, supply: &FolioSupply) -> Option<Constraint> {
    let size = facts.request.size_bytes;
    if let Some(why) = supply.private.why_none.clone() {
        let kind = ConstraintKind::FoliosNotAllowed { page_bytes: Some(page_bytes), why };
        return Some(Constraint::new(ConstraintEffect::Slows, kind, size, 0));
    }
    let whole = size.saturating_sub(size.checked_rem(page_bytes).unwrap_or(0));
    let thp = facts.snapshot.thp.value();
    let defrag = thp.and_then(|thp| thp.defrag.selected()).map(str::to_owned);
    let kind = ConstraintKind::FolioBlocks { page_bytes, defrag };
    let available = supply.private.bytes;
    (whole > available).then(|| Constraint::new(ConstraintEffect::Slows, kind, whole, available))
}

/// Where no size is allowed, the memory consists of base pages.
fn no_size(request: &Request, supplies: &[FolioSupply]) -> Option<Constraint> {
    if supplies.iter().any(|supply| supply.private.why_none.is_none()) {
        return None;
    }
    let of_64k = supplies.iter().find(|supply| supply.page_bytes == PageSize::FOLIO_BYTES[2]);
    let why = of_64k?.private.why_none.clone()?;
    let kind = ConstraintKind::FoliosNotAllowed { page_bytes: None, why };
    Some(Constraint::new(ConstraintEffect::Informs, kind, request.size_bytes, 0))
}
