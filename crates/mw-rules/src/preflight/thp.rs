//! Whether transparent huge pages are available.

use super::facts::RequestFacts;
use mw_model::{Constraint, ConstraintEffect, ConstraintKind, Missing, derived, zones};

/// The constraint that leaves a part of the request without transparent huge pages: all of it if they are disabled,
/// otherwise what no free block of their size can serve.
///
/// # Errors
/// The switches or the free blocks were not read.
pub(super) fn constraint(facts: &RequestFacts<'_>) -> Result<Option<Constraint>, Missing> {
    let RequestFacts { snapshot, request, .. } = facts;
    let slows = |kind, available: u64| {
        Constraint::new(ConstraintEffect::Slows, kind, request.size_bytes, available)
    };
    let thp = snapshot.thp.required()?;
    if !matches!(thp.enabled.selected(), Some("always" | "madvise")) {
        return Ok(Some(slows(ConstraintKind::ThpDisabled, 0)));
    }
    let order = derived::order_of(derived::huge_page_bytes(snapshot), snapshot.origin.page_bytes);
    let is_eligible = |node: u32| request.node.is_none_or(|requested| requested == node);
    let available = zones::free_in_blocks_bytes(snapshot, order, is_eligible)?;
    if request.size_bytes <= available {
        return Ok(None);
    }
    let defrag = thp.defrag.selected().map(str::to_owned);
    Ok(Some(slows(ConstraintKind::ThpBlocks { defrag }, available)))
}
