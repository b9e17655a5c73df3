//! Preflight: the answer to `check --for SIZE[,lock][,huge=…][,node=N]`.
//!
//! It goes by the arithmetic of the kernel, and errs to both sides on purpose: *yes* counts what
//! the kernel surely gives without waiting (free above the high watermark, clean cache less a
//! caution), *no* says that not even the last page that could be had is enough, or that a limit
//! forbids it. What lies between is *slowly*. Where a limit on the process that asks could not be
//! determined, both of these are *unknown*.
//!
//! - `ceiling`: more than the machine has in all, so that nothing below could help.
//! - `room`: each node's free, reclaimable and held memory.
//! - `holders`: who holds what no reclaim gives back.
//! - `pool`: pages of a hugetlb pool; `thp`: blocks for transparent huge pages.
//! - `limits`: overcommit, cgroups, resource limits, shared memory.
//! - `warm`: memory of a pool that `memwright pool` keeps.
//! - `plan`: which node gives how much of what.
//! - `time`: how long it takes; `say`: the answer in one line.

mod ceiling;
mod holders;
mod limits;
mod plan;
mod pool;
mod room;
mod say;
#[cfg(test)]
mod tests;
mod thp;
mod time;
mod warm;

use mw_model::caller;
use mw_model::{
    Answer, Calibration, Missing, Obstacle, PageKind, Preflight, Request, Snapshot, Window,
};
use plan::Plan;
use room::Room;
pub use warm::from_pool;

/// Answers a request from what was seen; a calibration adds how long it takes.
///
/// # Errors
/// Nothing is known of the machine's memory: meminfo was not seen.
pub fn answer(
    window: &Window,
    request: &Request,
    calibration: Option<&Calibration>,
) -> Result<Preflight, Missing> {
    let snapshot = &window.now;
    let mut notes = Notes::default();
    let rooms = room::rooms(snapshot, request, &mut notes)?;
    if let Some(obstacle) = room::unreachable_node(snapshot, request, &rooms) {
        return Ok(refused(request, obstacle, notes));
    }
    let plan = match request.page {
        PageKind::Hugetlb(page_bytes) => {
            pool::plan(snapshot, request, page_bytes, &rooms, &mut notes)
        }
        PageKind::Base | PageKind::Thp => ordinary(snapshot, request, &rooms, &mut notes),
    };
    limits::look(snapshot, request, &mut notes);
    if let Some(ceiling) = ceiling::exceeded(snapshot, request, &rooms) {
        notes.beyond(&ceiling);
    }
    let machine = notes.answer(&plan);
    let answer = notes.within_limits(machine);
    let time = match (answer, calibration) {
        (Answer::No, _) | (_, None) => None,
        (_, Some(calibration)) => time::estimate(snapshot, request, &plan, calibration, &notes),
    };
    notes.sort();
    let nodes = plan.nodes(&rooms, request);
    let mut summary = say::summary(request, machine, &nodes, time.as_ref(), &notes.obstacles);
    if answer == Answer::Unknown {
        summary = say::unknown(&summary);
    }
    Ok(Preflight {
        request: request.clone(),
        answer,
        summary,
        nodes,
        time,
        obstacles: notes.obstacles,
        unseen: notes.unseen,
    })
}

/// The answer where one thing rules the request out, and no other needs to be looked at.
fn refused(request: &Request, obstacle: Obstacle, notes: Notes) -> Preflight {
    let obstacles = vec![obstacle];
    Preflight {
        request: request.clone(),
        answer: Answer::No,
        summary: say::summary(request, Answer::No, &[], None, &obstacles),
        nodes: Vec::new(),
        time: None,
        obstacles,
        unseen: notes.unseen,
    }
}

/// Memory from the free lists and from reclaim.
fn ordinary(snapshot: &Snapshot, request: &Request, rooms: &[Room], notes: &mut Notes) -> Plan {
    let mut plan = plan::ordinary(snapshot, request, rooms, notes);
    if request.page == PageKind::Thp {
        plan.not_huge_bytes = thp::look(snapshot, request, notes);
    }
    plan
}

/// What is said beside the answer.
#[derive(Debug, Default)]
struct Notes {
    obstacles: Vec<Obstacle>,
    unseen: Vec<Missing>,
    /// Whether there may be a limit on the process that asks beside those that were seen.
    has_unseen_limit: bool,
    /// Whether a limit makes the process wait that does not refuse it.
    slowed: bool,
}

impl Notes {
    fn obstacle(
        &mut self,
        blocks: bool,
        what: impl Into<String>,
        needed_bytes: Option<u64>,
        had_bytes: Option<u64>,
        lift: impl Into<String>,
    ) {
        let (what, lift) = (what.into(), lift.into());
        self.obstacles.push(Obstacle { blocks, what, needed_bytes, had_bytes, lift });
    }

    /// The machine has less in all than is asked for: no setting makes the request succeed, and none
    /// is advised.
    fn beyond(&mut self, lift: &str) {
        self.obstacles.retain(|obstacle| obstacle.blocks);
        for obstacle in &mut self.obstacles {
            lift.clone_into(&mut obstacle.lift);
        }
    }

    fn unseen(&mut self, missing: &Missing) {
        if !self.unseen.contains(missing) {
            self.unseen.push(missing.clone());
        }
    }

    /// A limit on the process that asks was not seen: unless there is none, it may refuse the request.
    fn unseen_limit(&mut self, snapshot: &Snapshot, missing: &Missing) {
        self.unseen(missing);
        self.has_unseen_limit |= caller::undetermined(snapshot, missing.clone()).is_some();
    }

    /// What the machine could give and a limit that was not seen may refuse is unknown.
    fn within_limits(&self, machine: Answer) -> Answer {
        if machine != Answer::No && self.has_unseen_limit { Answer::Unknown } else { machine }
    }

    fn answer(&self, plan: &Plan) -> Answer {
        match () {
            () if self.obstacles.iter().any(|obstacle| obstacle.blocks) => Answer::No,
            () if plan.is_slow() || self.slowed => Answer::Slowly,
            () => Answer::Yes,
        }
    }

    /// What blocks first, and among equals what lacks most.
    fn sort(&mut self) {
        let lacks = |o: &Obstacle| {
            o.needed_bytes.unwrap_or(0).saturating_sub(o.had_bytes.unwrap_or(u64::MAX))
        };
        self.obstacles.sort_by_key(|o| (!o.blocks, std::cmp::Reverse(lacks(o))));
    }
}
