//! Evidence of all tasks while at least one stall lasts.

use crate::assemble::{self, EpisodeEvidence};
use crate::context::Context;
use crate::cpu_budget::{LeftOut, SkippableWork};
use crate::detector::MAX_EVIDENCE_MS;
use crate::open_incident::OpenIncident;
use mw_collect::service::writer_process;
use mw_model::Missing;
use mw_profile::{BlockedThreads, Profiler, Tasks};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest that one look at tasks may take.
const LOOK_LIMIT: Duration = Duration::from_millis(50);

/// Processes whose cgroups are read when the evidence begins.
const MAX_BUSIEST: usize = 32;

/// Pause after a sample, as a multiple of its duration: it is taken from services.
const COST_TO_REST: u32 = 10;

/// Looks at tasks that one after the stall may need more, where there are thousands: a second.
const MORE_LOOKS: usize = 20;

/// Looks at what is still blocked after a stall, and the time between two.
const CHRONIC_LOOKS: u32 = 3;
const CHRONIC_INTERVAL: Duration = Duration::from_millis(100);

/// Evidence under way.
pub(crate) struct Episode {
    began: Instant,
    began_unix_ms: u64,
    tasks: Tasks,
    blocked: BlockedThreads,
    next_look: Instant,
    /// Work that had been left out before it began.
    left_out: LeftOut,
}

impl Episode {
    pub(crate) fn begin(with: &mut Context) -> Self {
        with.monitors.set_stalled(true);
        if let Some(profiler) = &with.monitors.profiler {
            // The trigger thread began it already, but for a second episode of one stall.
            profiler.begin();
        }
        let (began, began_unix_ms) = (Instant::now(), mw_sys::unix_ms());
        let tasks = Tasks::look(&mut with.files, LOOK_LIMIT);
        // They may have ended when the path is found.
        with.tracing.cgroups(tasks.busiest(MAX_BUSIEST).into_iter().collect());
        Self {
            began,
            began_unix_ms,
            tasks,
            blocked: BlockedThreads::default(),
            next_look: Instant::now(),
            left_out: with.budget.left_out(),
        }
    }

    /// True if no more evidence is taken of this stall.
    pub(crate) fn is_long(&self) -> bool {
        self.began.elapsed().as_secs_f64() * 1000.0 >= MAX_EVIDENCE_MS
    }

    /// Looks at tasks once, unless it is too early.
    pub(crate) fn look(&mut self, with: &mut Context) {
        let began = Instant::now();
        if began < self.next_look || !with.budget.permits(SkippableWork::Look) {
            return;
        }
        if !with.stalls.is_good() {
            self.blocked.look(&mut with.files, LOOK_LIMIT);
        }
        self.tasks.go_on(&mut with.files, LOOK_LIMIT);
        self.next_look = Instant::now() + began.elapsed() * COST_TO_REST;
    }

    /// Ends the evidence and offers it to the incidents that it is of.
    pub(crate) fn end(self, with: &mut Context, incidents: &mut [OpenIncident]) {
        with.monitors.set_stalled(false);
        let mut after = Tasks::look(&mut with.files, LOOK_LIMIT);
        // A recorder that stops has no time for all.
        for _ in (0..MORE_LOOKS).take_while(|_| !with.stalls.is_stopped()) {
            after.go_on(&mut with.files, LOOK_LIMIT);
        }
        let profiler = with.monitors.profiler.as_ref();
        let mut evidence = EpisodeEvidence {
            profile: profiler.map(Profiler::end).unwrap_or_default(),
            flood: profiler.map(Profiler::flood).unwrap_or_default(),
            tasks: after.since(&self.tasks),
            blocked: self.blocked.tasks(),
            cgroups: BTreeMap::new(),
            writers: Vec::new(),
            unseen: self
                .blocked
                .missing()
                .into_iter()
                .chain(after.missing())
                .chain(with.files.missing())
                .chain(profiler.and_then(Profiler::flood_missing))
                .collect(),
        };
        let left_out = with.budget.left_out().since(self.left_out);
        if !left_out.is_nothing() {
            evidence.unseen.push(Missing::skipped("a part of the evidence", left_out.to_string()));
        }
        // A command is gone soon, a loop is not.
        let profile = evidence.profile.profile.as_ref();
        let forcing = profile.map(mw_rules::forcing_processes).unwrap_or_default();
        evidence.writers = forcing.iter().map(writer_process).collect();
        evidence.cgroups = with.tracing.cgroups(evidence.named());
        drop_chronic(with, &mut evidence);
        let evidence = std::sync::Arc::new(evidence);
        let until = mw_sys::unix_ms();
        for incident in incidents {
            incident.offer(&evidence, self.began_unix_ms, until);
        }
    }
}

/// Tasks that are blocked at the same place after the stall have nothing to do with it.
fn drop_chronic(with: &mut Context, evidence: &mut EpisodeEvidence) {
    if evidence.blocked.is_empty() || !with.stalls.is_good() {
        return;
    }
    let mut after = BlockedThreads::default();
    for look in 0..CHRONIC_LOOKS {
        if look > 0 {
            with.stalls.rest(CHRONIC_INTERVAL);
        }
        after.look(&mut with.files, LOOK_LIMIT);
    }
    // A stall that began meanwhile blocks the same tasks.
    if with.stalls.is_good() {
        assemble::drop_chronic(&mut evidence.blocked, &after.tasks());
    }
}
