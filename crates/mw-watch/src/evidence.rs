//! The evidence thread: while there is a stall it looks at tasks; afterwards it puts the incident
//! together, has it explained, and keeps it.

use crate::Event;
use crate::assemble::{self, Gathered};
use crate::monitors::Monitors;
use crate::ring::Ring;
use crate::trigger::{Begun, Stalls};
use mw_model::{BlockedTask, Host, Incident, Missing, Snapshot, TriggerKind};
use mw_profile::{Blocked, TaskFiles, Tasks};
use mw_record::Writer;
use mw_sys::HelperThread;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Between two looks at blocked tasks.
const BLOCKED_INTERVAL: Duration = Duration::from_millis(100);

/// The longest that one look at tasks may take.
const LOOK_LIMIT: Duration = Duration::from_millis(50);

/// Looks at tasks that one after the stall may need more, where there are thousands: a second.
const MORE_LOOKS: usize = 20;

/// Looks at what is still blocked after a stall.
const CHRONIC_LOOKS: u32 = 3;

/// How long is recorded after a stall before its incident is closed.
pub const AFTER: Duration = Duration::from_secs(5);

/// How long before a stall belongs to its incident.
pub const BEFORE: Duration = Duration::from_secs(45);

/// How long a look at the whole machine may take before its incident has to do without.
pub(crate) const SNAPSHOT_LIMIT: Duration = Duration::from_secs(5);

/// The canary's interval while there is a stall.
const CANARY_INTERVAL: Duration = Duration::from_millis(1);

const UNANSWERED: &str = "the kernel does not answer: a file system or a device may not respond; \
                          settings, mounts and cgroups are not seen";

/// What the evidence thread works with.
pub(crate) struct Evidence {
    pub(crate) monitors: Arc<Monitors>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) stalls: Arc<Stalls>,
    /// Looks at the whole machine: a mount or a device may not answer.
    pub(crate) snapshot: HelperThread<(), Snapshot>,
    pub(crate) files: TaskFiles,
    pub(crate) host: Host,
    /// What cannot be looked at on this machine.
    pub(crate) unseen: Vec<Missing>,
    pub(crate) canary_interval: Duration,
    pub(crate) events: Sender<Event>,
}

impl Evidence {
    /// Gathers until the recorder stops.
    pub(crate) fn run(mut self) {
        while let Some(begun) = self.stalls.wait() {
            if self.events.send(Event::Begun(begun.trigger.clone())).is_err() {
                return;
            }
            let incident = self.incident(&begun);
            let event = match self.writer.keep_incident(incident.clone()) {
                Ok(id) => Event::Incident(Box::new(Incident { id, ..incident })),
                Err(error) => Event::Delayed { incident: Box::new(incident), error },
            };
            if self.events.send(event).is_err() {
                return;
            }
        }
    }

    fn incident(&mut self, begun: &Begun) -> Incident {
        let (mut gathered, ended_unix_ms) = self.during();
        self.stalls.rest(AFTER);
        self.drop_chronic(&mut gathered.blocked);
        let failure = match begun.trigger.kind {
            TriggerKind::Probe => {
                self.monitors.probers.get(begun.probe).and_then(|prober| prober.last_failure())
            }
            _ => None,
        };
        let since = begun.started_unix_ms.saturating_sub(millis(BEFORE));
        let table = self.ring.table(since, ended_unix_ms + millis(AFTER));
        let mut incident =
            assemble::incident(&self.host, begun, ended_unix_ms, failure, table, gathered);
        incident.unseen.extend(self.unseen.iter().cloned());
        self.explain(&mut incident);
        incident
    }

    /// Looks at tasks while the stall lasts; what was seen, and when it ended.
    fn during(&mut self) -> (Gathered, u64) {
        if let Some(canary) = &self.monitors.canary {
            canary.set_interval(CANARY_INTERVAL);
        }
        let mut before = Tasks::look(&mut self.files, LOOK_LIMIT);
        let mut blocked = Blocked::default();
        let ended_unix_ms = loop {
            if !self.stalls.is_good() {
                blocked.look(&mut self.files, LOOK_LIMIT);
            }
            before.go_on(&mut self.files, LOOK_LIMIT);
            if let Some(ended) = self.stalls.ended(BLOCKED_INTERVAL) {
                break ended;
            }
        };
        if let Some(canary) = &self.monitors.canary {
            canary.set_interval(self.canary_interval);
        }
        let mut after = Tasks::look(&mut self.files, LOOK_LIMIT);
        (0..MORE_LOOKS).for_each(|_| after.go_on(&mut self.files, LOOK_LIMIT));
        let profiler = self.monitors.profiler.as_ref();
        let gathered = Gathered {
            evidence: profiler.map(mw_profile::Profiler::end).unwrap_or_default(),
            flood: profiler.map(mw_profile::Profiler::flood).unwrap_or_default(),
            tasks: after.since(&before),
            blocked: blocked.tasks(),
            unseen: blocked
                .missing()
                .into_iter()
                .chain(after.missing())
                .chain(self.files.missing())
                .chain(profiler.and_then(mw_profile::Profiler::flood_missing))
                .collect(),
        };
        (gathered, ended_unix_ms)
    }

    /// What is blocked at the same place when all is well again has nothing to do with the stall.
    fn drop_chronic(&mut self, blocked: &mut Vec<BlockedTask>) {
        if blocked.is_empty() || !self.stalls.is_good() {
            return;
        }
        let mut after = Blocked::default();
        for look in 0..CHRONIC_LOOKS {
            if look > 0 {
                self.stalls.rest(BLOCKED_INTERVAL);
            }
            after.look(&mut self.files, LOOK_LIMIT);
        }
        // A stall that began meanwhile blocks the same tasks.
        if self.stalls.is_good() {
            assemble::drop_chronic(blocked, &after.tasks());
        }
    }

    fn explain(&mut self, incident: &mut Incident) {
        let snapshot = self.snapshot.run(&[(std::process::id(), ())]).pop().flatten();
        let snapshot = snapshot.unwrap_or_else(|| {
            incident.unseen.push(Missing::failed("snapshot", UNANSWERED));
            Snapshot::default()
        });
        let (started, ended) = (incident.started_unix_ms, incident.ended_unix_ms);
        let window = assemble::window(&incident.table, snapshot, started, ended);
        let calm = assemble::calm(&incident.table, &window, started);
        let explanation = mw_rules::explain(incident, &window, calm.as_ref());
        incident.verdict = explanation.verdict;
        incident.causes = explanation.causes;
        incident.suffering = explanation.suffering;
        incident.causing = explanation.causing;
        let why = |skipped: mw_model::SkippedRule| skipped.missing;
        incident.unseen.extend(explanation.skipped.into_iter().map(why));
        incident.unseen.sort_by(|a, b| (&a.what, &a.why).cmp(&(&b.what, &b.why)));
        incident.unseen.dedup();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
