//! What to do next on a node.

use super::node_state::{CHUNK_BYTES, Capabilities, NodeState};
use mw_model::{RoomStep, RoomStepKind};

/// The most that is added to the pool from free blocks, which only takes them off a list.
const GROW_BYTES: u64 = 1 << 30;
/// Compaction needs free pages to move others to: this share of what is missing, and at least so much.
const TARGETS_SHARE: u64 = 8;
const TARGETS_BYTES: u64 = 32 << 20;
/// Compactions in a row that provide nothing: the first skips pages that are locked or under I/O at that moment.
const MOST_COMPACTIONS: u32 = 2;
/// Number of times that the kernel's own effort may fail: compaction between two of them gives it another chance.
const MOST_FORCED: u32 = 3;
/// Number of times that reclaim may provide nothing before it counts as exhausted.
const MOST_FRUITLESS: u32 = 2;

/// Steps that failed on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailedSteps {
    /// Cache behind sequential readers was dropped.
    drop_read: bool,
    fruitless_reclaims: u32,
    fruitless_migrations: u32,
    fruitless_swaps: u32,
    fruitless_compactions: u32,
    /// Free blocks were not given for the pool, although they should have been.
    fruitless_growths: u32,
    /// Reclaimed beyond the sum, to give compaction more choice.
    extra_bytes: u64,
    fruitless_forced: u32,
}

impl FailedSteps {
    /// Takes note of a step that was done. `gained` is what became free, whole or part of the pool.
    pub fn note(&mut self, step: &RoomStep, gained: u64) {
        let fruitless = gained < step.bytes / 8;
        let count = |counter: &mut u32| {
            *counter = if fruitless { counter.saturating_add(1) } else { 0 };
        };
        match step.kind {
            RoomStepKind::GrowPool => count(&mut self.fruitless_growths),
            RoomStepKind::DropRead => self.drop_read = true,
            RoomStepKind::Reclaim => count(&mut self.fruitless_reclaims),
            RoomStepKind::Migrate => count(&mut self.fruitless_migrations),
            RoomStepKind::Swap => count(&mut self.fruitless_swaps),
            RoomStepKind::Compact => {
                // A little is worth another one.
                let counter = &mut self.fruitless_compactions;
                *counter = if gained == 0 { counter.saturating_add(1) } else { 0 };
                if gained > 0 {
                    self.fruitless_forced = 0;
                }
            }
            RoomStepKind::ForcePool => {
                count(&mut self.fruitless_forced);
                if self.fruitless_forced > 1 {
                    self.fruitless_compactions = MOST_COMPACTIONS.saturating_sub(1);
                }
            }
        }
        if gained > 0 && step.kind != RoomStepKind::GrowPool {
            self.fruitless_growths = 0;
        }
    }
}

/// The next step towards `goal` bytes of the requested kind on this node; `None` if they are there, or no
/// step remains.
pub fn next(
    state: &NodeState,
    goal: u64,
    capabilities: Capabilities,
    tried: &mut FailedSteps,
) -> Option<RoomStep> {
    let lacking = goal.checked_sub(state.available).filter(|lacking| *lacking > 0)?;
    let (kind, bytes) = choose(state, goal, lacking, capabilities, tried)?;
    Some(RoomStep { kind, node: state.node, bytes, gained_bytes: None, took_ms: None })
}

fn choose(
    state: &NodeState,
    goal: u64,
    lacking: u64,
    capabilities: Capabilities,
    tried: &mut FailedSteps,
) -> Option<(RoomStepKind, u64)> {
    let page = state.page_bytes;
    if state.is_pool && state.whole >= page && tried.fruitless_growths == 0 {
        let most = state.whole.min(GROW_BYTES.max(page));
        return Some((RoomStepKind::GrowPool, lacking.min(most)));
    }
    if state.is_gigantic && state.is_pool && may_force_gigantic(state, capabilities) {
        return force(state, lacking.min(page), tried);
    }
    // The sum first; the pool's own pages are no longer free.
    let sum = if state.is_pool { lacking } else { goal };
    let targets = if state.is_huge { (lacking / TARGETS_SHARE).max(TARGETS_BYTES) } else { 0 };
    let short = sum.saturating_add(targets).saturating_sub(state.free);
    if let Some(freeing) = free_more(state, short, capabilities, tried) {
        return Some(freeing);
    }
    if !state.is_huge || state.is_gigantic {
        return None;
    }
    // The kernel's own effort goes from block to block, and ends with the last page that is needed; compaction on
    // request goes through the whole node. But it may swap.
    let may_force = state.is_pool && (capabilities.consent.swap || !capabilities.has_swap);
    let forced = if may_force { force(state, lacking, tried) } else { None };
    if forced.is_some() && tried.fruitless_forced == 0 {
        return forced;
    }
    // With more free memory there are more targets, and blocks are freed by chance.
    let may_free_extra = tried.extra_bytes < lacking.saturating_mul(2);
    let extra = free_more(state, lacking, capabilities, tried).filter(|_| may_free_extra);
    // The kernel's own effort has just failed: a little more memory costs less than a compaction.
    let is_extra_first = may_force && extra.is_some() && tried.extra_bytes < lacking;
    let may_compact = capabilities.compact && state.free >= page && !is_extra_first;
    if may_compact && tried.fruitless_compactions < MOST_COMPACTIONS {
        return Some((RoomStepKind::Compact, lacking));
    }
    if let Some(freeing) = extra {
        tried.extra_bytes = tried.extra_bytes.saturating_add(freeing.1);
        tried.fruitless_compactions = 0;
        tried.fruitless_forced = 0;
        return Some(freeing);
    }
    forced
}

/// True if the kernel's own effort for a gigantic page may be tried. It drops the cache that is in the way and moves the
/// rest, so that reclaim before it only costs; but for targets it may swap, unless enough is free.
fn may_force_gigantic(state: &NodeState, capabilities: Capabilities) -> bool {
    let may_swap = capabilities.consent.swap || !capabilities.has_swap;
    may_swap || state.free >= state.page_bytes
}

/// The kernel's own effort for pages of the pool. It would go below the watermarks as well, and the OOM killer
/// would follow.
fn force(state: &NodeState, lacking: u64, tried: &FailedSteps) -> Option<(RoomStepKind, u64)> {
    let page = state.page_bytes;
    let above = state.free.saturating_add(state.clean).saturating_add(state.swappable);
    let bytes = lacking.min(CHUNK_BYTES.max(page)).min(above);
    let is_possible = tried.fruitless_forced < MOST_FORCED && bytes >= page;
    is_possible.then_some((RoomStepKind::ForcePool, bytes))
}

/// The cheapest way to so much more free memory.
fn free_more(
    state: &NodeState,
    short: u64,
    capabilities: Capabilities,
    tried: &FailedSteps,
) -> Option<(RoomStepKind, u64)> {
    if short == 0 {
        return None;
    }
    if state.left_behind > 0 && !tried.drop_read {
        return Some((RoomStepKind::DropRead, state.left_behind.min(short)));
    }
    let chunk = short.min(CHUNK_BYTES);
    if capabilities.reclaim && state.clean > 0 && tried.fruitless_reclaims < MOST_FRUITLESS {
        return Some((RoomStepKind::Reclaim, chunk.min(state.clean)));
    }
    let room = state.target.map_or(0, |target| target.bytes);
    let movable = chunk.min(state.movable).min(room);
    if capabilities.consent.migrate && movable > 0 && tried.fruitless_migrations < MOST_FRUITLESS {
        return Some((RoomStepKind::Migrate, movable));
    }
    let swaps = capabilities.consent.swap
        && capabilities.has_swap
        && capabilities.reclaim
        && state.swappable > 0;
    if swaps && tried.fruitless_swaps < MOST_FRUITLESS {
        return Some((RoomStepKind::Swap, chunk.min(state.swappable)));
    }
    None
}
