//! The steps that are to be expected.

use super::ground::{Ground, Means, Part};
use super::next::{Tried, next};
use mw_model::{Answer, RoomStep, RoomStepKind, Share};

/// Steps of a plan before they are joined: far more than any memory needs.
const MOST_STEPS: usize = 100_000;

/// What would be done, and whether it reaches the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<RoomStep>,
    /// How much of the request there would certainly be.
    pub certain_bytes: u64,
    /// How much there may be at most.
    pub possible_bytes: u64,
    /// How much was requested, in whole pages.
    pub wanted_bytes: u64,
    pub unreclaimable: Vec<Share>,
}

impl Plan {
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
pub fn plan(grounds: &[Ground], parts: &[Part], means: Means) -> Plan {
    let mut plan = Plan::default();
    for part in parts {
        let Some(ground) = grounds.iter().find(|ground| ground.node == part.node) else { continue };
        plan.wanted_bytes = plan.wanted_bytes.saturating_add(part.bytes);
        let (least, most) = bounds(ground, means);
        plan.certain_bytes = plan.certain_bytes.saturating_add(least.min(part.bytes));
        plan.possible_bytes = plan.possible_bytes.saturating_add(most.min(part.bytes));
        plan.unreclaimable.extend(ground.unreclaimable.iter().cloned());
        steps(&mut plan.steps, ground.clone(), part.bytes, means);
    }
    plan
}

/// How much a node can have of the requested kind in the end.
fn bounds(ground: &Ground, means: Means) -> (u64, u64) {
    let (least, most) = ground.reach.unwrap_or((ground.whole, u64::MAX));
    let least = if means.reclaim && means.compact || !ground.is_huge && means.reclaim {
        least
    } else {
        ground.whole
    };
    let ready = if ground.is_pool { ground.available } else { 0 };
    (ready.saturating_add(least), ready.saturating_add(most))
}

fn steps(all: &mut Vec<RoomStep>, mut ground: Ground, goal: u64, means: Means) {
    let mut tried = Tried::default();
    let (mut mine, mut leading) = (Vec::new(), 0);
    for _ in 0..MOST_STEPS {
        let Some(step) = next(&ground, goal, means, &mut tried) else { break };
        let before = ground.available;
        let gained = expect(&mut ground, &step);
        tried.note(&step, gained);
        join(&mut mine, step);
        if ground.available > before {
            leading = mine.len();
        }
    }
    // What would be tried in vain at the end is not worth showing.
    all.extend(mine.into_iter().take(leading));
}

/// Changes the node as the step is expected to, and returns what it provides.
fn expect(ground: &mut Ground, step: &RoomStep) -> u64 {
    let bytes = match (step.kind, ground.reach) {
        (RoomStepKind::ForcePool, Some((_, most))) => step.bytes.min(most),
        _ => step.bytes,
    };
    match step.kind {
        RoomStepKind::GrowPool | RoomStepKind::ForcePool => {
            ground.available = ground.available.saturating_add(bytes);
            ground.whole = ground.whole.saturating_sub(bytes);
            ground.free = ground.free.saturating_sub(bytes);
            let less = |of: u64| of.saturating_sub(bytes);
            ground.reach = ground.reach.map(|(least, most)| (less(least), less(most)));
            bytes
        }
        RoomStepKind::DropRead | RoomStepKind::Reclaim => {
            ground.free = ground.free.saturating_add(bytes);
            ground.clean = ground.clean.saturating_sub(bytes);
            ground.left_behind = 0;
            if !ground.is_huge {
                (ground.whole, ground.available) = (ground.free, ground.free);
            }
            bytes
        }
        RoomStepKind::Swap => {
            ground.free = ground.free.saturating_add(bytes);
            ground.swappable = ground.swappable.saturating_sub(bytes);
            if !ground.is_huge {
                (ground.whole, ground.available) = (ground.free, ground.free);
            }
            bytes
        }
        RoomStepKind::Compact => {
            let reach = ground.reach.map_or(0, |(_, most)| most);
            let whole = reach.min(ground.free);
            let part = whole.checked_rem(ground.page_bytes).unwrap_or(0);
            let whole = whole.saturating_sub(part);
            let gained = whole.saturating_sub(ground.whole);
            ground.whole = whole.max(ground.whole);
            if !ground.is_pool {
                ground.available = ground.whole;
            }
            gained
        }
    }
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
