//! Step after step, until a node has its part or no step remains.

use crate::error::{RoomError, Stop};
use crate::facilities::{Facilities, drop_read};
use crate::measure::RoomSampler;
use crate::meter::{CostLimits, Meter};
use crate::migrate::migrate;
use crate::settings::{ProgressReport, RoomProgress};
use mw_model::{RoomStep, RoomStepKind, RoomStop, Share};
use mw_remedy::KernelError;
use mw_rules::room::{FailedSteps, NodeState, RequestPart, join, next};
use mw_sys::is_termination_requested;
use std::time::Duration;

/// Adds a number of bytes to the pool of the part's node.
pub(crate) type Grow<'a> = &'a mut dyn FnMut(u64) -> Result<(), KernelError>;

pub(crate) struct RoomWork<'a> {
    pub(crate) measure: RoomSampler,
    pub(crate) facilities: Facilities,
    pub(crate) meter: Meter,
    pub(crate) steps: Vec<RoomStep>,
    /// Provided size of the request at the end, before anything was released.
    pub(crate) provided_bytes: u64,
    progress: ProgressReport<'a>,
}

impl<'a> RoomWork<'a> {
    /// `usual` is the share of the time in which tasks stall for memory anyway.
    pub(crate) fn new(
        max_cost: CostLimits,
        measure: RoomSampler,
        facilities: Facilities,
        usual: f64,
        progress: ProgressReport<'a>,
    ) -> Self {
        progress(RoomProgress::Started);
        let page_bytes = measure.snapshot.origin.page_bytes;
        Self {
            measure,
            facilities,
            meter: Meter::start(max_cost, page_bytes, usual),
            steps: Vec::new(),
            provided_bytes: 0,
            progress,
        }
    }

    /// Takes steps until the node has its part.
    pub(crate) fn reach(&mut self, part: &RequestPart, grow: Grow<'_>) -> Result<(), Stop> {
        let reached = self.steps_for(part, grow);
        let available = self.state(part.node).map_or(0, |state| state.available);
        self.provided_bytes += available.min(part.bytes);
        reached
    }

    fn steps_for(&mut self, part: &RequestPart, grow: Grow<'_>) -> Result<(), Stop> {
        let mut tried = FailedSteps::default();
        self.measure.refresh();
        let mut state = self.state(part.node)?;
        loop {
            if is_termination_requested() {
                return Err(Stop::Short(RoomStop::Interrupted));
            }
            let Some(mut step) = next(&state, part.bytes, self.facilities.capabilities, &mut tried)
            else {
                let is_there = state.available >= part.bytes;
                return if is_there { Ok(()) } else { Err(Stop::Short(RoomStop::NoStepRemains)) };
            };
            self.limit(&mut step)?;
            let (after, took) = self.step(&step, grow)?;
            let gained = gauge(&after, step.kind).saturating_sub(gauge(&state, step.kind));
            tried.note(&step, gained);
            step.gained_bytes = Some(gained);
            step.took_ms = Some(took.as_secs_f64() * 1000.0);
            state = after;
            join(&mut self.steps, step);
        }
    }

    /// Reduces a step to what it may still cost.
    fn limit(&self, step: &mut RoomStep) -> Result<(), Stop> {
        if let Some(why) = self.meter.exceeded() {
            return Err(Stop::Short(why));
        }
        if matches!(step.kind, RoomStepKind::DropRead | RoomStepKind::Reclaim) {
            let left = self.meter.may_drop_bytes();
            if left == 0 {
                return Err(Stop::Short(RoomStop::DropLimit));
            }
            step.bytes = step.bytes.min(left);
        }
        Ok(())
    }

    /// Takes one step; the node after it, and how long it took.
    fn step(&mut self, step: &RoomStep, grow: Grow<'_>) -> Result<(NodeState, Duration), Stop> {
        (self.progress)(RoomProgress::Step(step));
        let begun = self.meter.begin(self.measure.sample());
        let mut dropped = 0;
        match step.kind {
            RoomStepKind::GrowPool | RoomStepKind::ForcePool => {
                grow(step.bytes).map_err(RoomError::Pool)?;
            }
            RoomStepKind::DropRead => dropped = drop_read(&mut self.measure.files, step.bytes),
            RoomStepKind::Migrate => {
                let target = self.state(step.node)?.target;
                if let Some(target) = target {
                    let ranges = self.measure.movable(step.node);
                    migrate(ranges, step.bytes, step.node, target.node);
                }
            }
            RoomStepKind::Reclaim | RoomStepKind::Swap | RoomStepKind::Compact => {
                self.facilities.perform(step)?;
            }
        }
        let took = self.meter.end(&begun, dropped);
        self.measure.refresh();
        self.meter.count(self.measure.sample());
        Ok((self.state(step.node)?, took))
    }

    pub(crate) fn state(&self, node: u32) -> Result<NodeState, RoomError> {
        let states = self.measure.states()?;
        let found = states.into_iter().find(|state| state.node == node);
        found.ok_or(RoomError::NodeGone(node))
    }

    /// Memory that cannot be reclaimed, by holder.
    pub(crate) fn unreclaimable(&self) -> Vec<Share> {
        let states = self.measure.states().unwrap_or_default();
        states.into_iter().flat_map(|state| state.unreclaimable).collect()
    }
}

/// The measure that a step of this kind is to raise.
fn gauge(state: &NodeState, kind: RoomStepKind) -> u64 {
    match kind {
        RoomStepKind::GrowPool | RoomStepKind::ForcePool => state.available,
        RoomStepKind::DropRead
        | RoomStepKind::Reclaim
        | RoomStepKind::Migrate
        | RoomStepKind::Swap => state.free,
        RoomStepKind::Compact => state.whole,
    }
}
