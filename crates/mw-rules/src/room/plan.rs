//! The steps that are to be expected.

use super::next::{FailedSteps, next};
use super::node_state::{Capabilities, NodeState, RequestPart};
use mw_model::{Answer, RoomStep, RoomStepKind, Share};

/// Steps of a plan before they are joined: far more than any memory needs.
const MOST_STEPS: usize = 10_000;

/// Steps of a plan, and its result for the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoomPlan {
    pub steps: Vec<RoomStep>,
    /// Part of the request that is certain.
    pub certain_bytes: u64,
    /// Part of the request that is possible at most.
    pub possible_bytes: u64,
    /// Requested size, in whole pages.
    pub wanted_bytes: u64,
    pub unreclaimable: Vec<Share>,
}

impl RoomPlan {
    /// Yes where it is certain, no where it is impossible, and otherwise unknown.
    pub fn answer(&self) -> Answer {
        if self.certain_bytes >= self.wanted_bytes {
            Answer::Yes
        } else if self.possible_bytes < self.wanted_bytes {
            Answer::No
        } else {
            Answer::Unknown
        }
    }
}

/// The steps for these parts of the request, each with what it is expected to provide.
pub fn plan(states: &[NodeState], parts: &[RequestPart], capabilities: Capabilities) -> RoomPlan {
    let mut plan = RoomPlan::default();
    for part in parts {
        let Some(state) = states.iter().find(|state| state.node == part.node) else {
            continue;
        };
        plan.wanted_bytes = plan.wanted_bytes.saturating_add(part.bytes);
        let (least, most) = bounds(state, capabilities);
        plan.certain_bytes = plan.certain_bytes.saturating_add(least.min(part.bytes));
        plan.possible_bytes = plan.possible_bytes.saturating_add(most.min(part.bytes));
        plan.unreclaimable.extend(state.unreclaimable.iter().cloned());
        steps(&mut plan.steps, state.clone(), part.bytes, capabilities);
    }
    plan
}

/// Memory that a node can have of the requested kind in the end.
fn bounds(state: &NodeState, capabilities: Capabilities) -> (u64, u64) {
    let (least, most) = state.reach.unwrap_or((state.whole, u64::MAX));
    // What is not whole takes reclaim, and for huge pages compaction as well.
    let can_be_reached = capabilities.reclaim && (capabilities.compact || !state.is_huge);
    let least = if can_be_reached { least } else { state.whole };
    let ready = if state.is_pool { state.available } else { 0 };
    (ready.saturating_add(least), ready.saturating_add(most))
}

fn steps(all: &mut Vec<RoomStep>, mut state: NodeState, goal: u64, capabilities: Capabilities) {
    let mut tried = FailedSteps::default();
    let (mut mine, mut leading) = (Vec::new(), 0);
    for _ in 0..MOST_STEPS {
        let Some(step) = next(&state, goal, capabilities, &mut tried) else { break };
        let before = state.available;
        let gained = expect(&mut state, &step);
        tried.note(&step, gained);
        join(&mut mine, step);
        if state.available > before {
            leading = mine.len();
        }
    }
    // Attempts at the end that would fail are not shown.
    all.extend(mine.into_iter().take(leading));
}

/// Changes the node as the step is expected to, and returns what it provides.
fn expect(state: &mut NodeState, step: &RoomStep) -> u64 {
    let bytes = match (step.kind, state.reach) {
        (RoomStepKind::ForcePool, Some((_, most))) => step.bytes.min(most),
        _ => step.bytes,
    };
    match step.kind {
        RoomStepKind::GrowPool | RoomStepKind::ForcePool => {
            state.available = state.available.saturating_add(bytes);
            state.whole = state.whole.saturating_sub(bytes);
            state.free = state.free.saturating_sub(bytes);
            let less = |of: u64| of.saturating_sub(bytes);
            state.reach = state.reach.map(|(least, most)| (less(least), less(most)));
            bytes
        }
        RoomStepKind::DropRead | RoomStepKind::Reclaim => {
            state.clean = state.clean.saturating_sub(bytes);
            state.left_behind = 0;
            become_free(state, bytes)
        }
        RoomStepKind::Migrate => {
            state.movable = state.movable.saturating_sub(bytes);
            if let Some(target) = &mut state.target {
                target.bytes = target.bytes.saturating_sub(bytes);
            }
            become_free(state, bytes)
        }
        RoomStepKind::Swap => {
            state.swappable = state.swappable.saturating_sub(bytes);
            become_free(state, bytes)
        }
        RoomStepKind::Compact => {
            let reach = state.reach.map_or(0, |(_, most)| most);
            let whole = reach.min(state.free);
            let part = whole.checked_rem(state.page_bytes).unwrap_or(0);
            let whole = whole.saturating_sub(part);
            let gained = whole.saturating_sub(state.whole);
            state.whole = whole.max(state.whole);
            if !state.is_pool {
                state.available = state.whole;
            }
            gained
        }
    }
}

fn become_free(state: &mut NodeState, bytes: u64) -> u64 {
    state.free = state.free.saturating_add(bytes);
    if !state.is_huge {
        (state.whole, state.available) = (state.free, state.free);
    }
    bytes
}

/// Adds a step; to the one before, if that is of the same kind.
pub fn join(all: &mut Vec<RoomStep>, step: RoomStep) {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    match all.last_mut() {
        Some(last) if (last.kind, last.node) == (step.kind, step.node) => {
            last.bytes = last.bytes.saturating_add(step.bytes);
            last.gained_bytes = sum(last.gained_bytes, step.gained_bytes);
            last.took_ms = last.took_ms.zip(step.took_ms).map(|(a, b)| a + b);
        }
        _ => all.push(step),
    }
}
