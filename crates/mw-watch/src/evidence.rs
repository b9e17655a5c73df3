//! The evidence thread: while there is a stall it looks at tasks and explains what is known so far; afterwards it
//! assembles the incident, has it explained, and stores it.

use crate::assemble;
use crate::clock::{millis, thread_time_since};
use crate::context::{AFTER, BEFORE, Context};
use crate::episode::Episode;
use crate::event::WatchEvent;
use crate::open_incident::OpenIncident;
use crate::priority::yield_on_few_cpus;
use crate::progress::Beat;
use crate::requests::RequestProgress;
use crate::stall::Stall;
use crate::stall_queue::NextChange;
use crate::tracing::FunctionNaming;
use mw_model::{Host, Incident, IncidentState, Missing, Origin, Snapshot};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Between two looks at blocked tasks.
const ROUND: Duration = Duration::from_millis(100);

/// Pause before the next provisional explanation, as a multiple of the CPU time of the last ones, and its limit.
const COST_TO_REST: u32 = 20;
const MAX_REST: Duration = Duration::from_secs(60);

/// Time limit of a sample of the whole machine before its incident has to do without.
pub(crate) const SNAPSHOT_LIMIT: Duration = Duration::from_secs(5);

const UNANSWERED: &str = "the kernel does not answer: a file system or a device may not respond; \
                          settings, mounts and cgroups are not seen";

/// The evidence thread.
pub(crate) struct EvidenceThread {
    context: Context,
    events: Sender<WatchEvent>,
    /// Before that only a stall whose first explanation is overdue is explained provisionally.
    rests_until: Instant,
}

impl EvidenceThread {
    pub(crate) fn new(context: Context, events: Sender<WatchEvent>) -> Self {
        Self { context, events, rests_until: Instant::now() }
    }

    /// Takes evidence until the recorder stops, or nothing receives events.
    pub(crate) fn run(mut self, beat: &Beat) {
        yield_on_few_cpus(self.context.host.cpus);
        let mut incidents: Vec<OpenIncident> = Vec::new();
        let mut episode: Option<Episode> = None;
        loop {
            let is_idle = incidents.is_empty() && episode.is_none();
            beat.rest();
            let next = self.context.stalls.next((!is_idle).then_some(ROUND));
            beat.step();
            match next {
                NextChange::Stopped => return self.interrupt(incidents, episode),
                NextChange::Nothing => {}
                NextChange::LeftOut => {
                    self.context.budget.note_left_out_stall();
                    self.context.tracing.release();
                    continue;
                }
                NextChange::Stall(stall) if stall.has_ended() => {
                    self.end_stall(*stall, &mut incidents);
                }
                NextChange::Stall(stall) => match self.open(*stall, &mut episode) {
                    Ok(incident) => incidents.push(incident),
                    Err(NoReceiver) => return,
                },
            }
            for incident in incidents.iter_mut().filter(|incident| !incident.has_ended()) {
                incident.note_failure(&mut self.context);
                incident.read_connections(&mut self.context);
            }
            beat.step();
            self.look(&mut episode, &mut incidents);
            if self.close(&mut incidents, &mut episode).is_err()
                || self.update(&mut incidents).is_err()
            {
                return;
            }
        }
    }

    /// A stall begins.
    fn open(
        &mut self,
        stall: Stall,
        episode: &mut Option<Episode>,
    ) -> Result<OpenIncident, NoReceiver> {
        if stall.monitor.needs_evidence() {
            episode.get_or_insert_with(|| Episode::begin(&mut self.context));
        }
        self.send(WatchEvent::Begun(stall.trigger.clone()))?;
        let mut incident = OpenIncident::new(stall, &self.context.host);
        incident.ask_service(&mut self.context);
        if incident.is_requested() {
            let id = incident.number(&self.context.writer);
            self.context.requests.report(RequestProgress::Begun(id));
        }
        Ok(incident)
    }

    fn end_stall(&mut self, stall: Stall, incidents: &mut [OpenIncident]) {
        let monitor = stall.monitor;
        if let Some(incident) = incidents.iter_mut().find(|incident| incident.is_of(monitor)) {
            let cpu_before = mw_sys::thread_time();
            incident.end(&self.context, stall);
            self.explained(thread_time_since(cpu_before));
        }
        if monitor.needs_evidence() {
            self.context.tracing.release();
        }
    }

    /// Looks at tasks while a stall lasts; takes the evidence once none does, or after
    /// [`crate::detector::MAX_EVIDENCE_MS`].
    fn look(&mut self, episode: &mut Option<Episode>, incidents: &mut [OpenIncident]) {
        let Some(current) = episode else { return };
        let is_over = !incidents.iter().any(OpenIncident::is_gathering) || current.is_long();
        if !is_over {
            return current.look(&mut self.context);
        }
        if let Some(current) = episode.take() {
            self.end_episode(current, incidents);
        }
    }

    fn end_episode(&mut self, episode: Episode, incidents: &mut [OpenIncident]) {
        let cpu_before = mw_sys::thread_time();
        episode.end(&mut self.context, incidents);
        self.explained(thread_time_since(cpu_before));
    }

    /// Stores a provisional explanation of one of the stalls that last. An explanation takes a second on a busy machine:
    /// what was reported and what is complete comes before the next one.
    fn update(&mut self, incidents: &mut [OpenIncident]) -> Result<(), NoReceiver> {
        let rests = Instant::now() < self.rests_until || !self.context.budget.has_room();
        let is_due =
            |open: &&mut OpenIncident| open.is_update_due() && (!rests || open.is_overdue());
        let due = incidents.iter_mut().filter(is_due);
        let Some(open) = due.min_by_key(|open| open.next_update()) else { return Ok(()) };
        let incident = self.incident(open, IncidentState::Open, mw_sys::unix_ms());
        open.updated();
        let Some(mut incident) = incident else { return Ok(()) };
        let is_first = !open.has_number();
        incident.id = open.number(&self.context.writer);
        self.context.writer.update_incident(incident.clone());
        let incident = Box::new(incident);
        self.send(match is_first {
            true => WatchEvent::Provisional(incident),
            false => WatchEvent::Updated(incident),
        })
    }

    /// Closes the incidents of stalls that have been over for [`AFTER`].
    fn close(
        &mut self,
        incidents: &mut Vec<OpenIncident>,
        episode: &mut Option<Episode>,
    ) -> Result<(), NoReceiver> {
        while let Some(place) = incidents.iter().position(OpenIncident::is_complete) {
            if incidents.get(place).is_some_and(OpenIncident::lacks_evidence)
                && let Some(current) = episode.take()
            {
                // Another stall goes on: the evidence so far is of both.
                self.end_episode(current, incidents);
                *episode = Some(Episode::begin(&mut self.context));
            }
            let mut open = incidents.remove(place);
            let ended_unix_ms = open.ended_unix_ms().unwrap_or_else(mw_sys::unix_ms);
            let incident = self.incident(&mut open, IncidentState::Closed, ended_unix_ms);
            let Some(incident) = incident else { continue };
            let kept = self.context.writer.keep_incident(incident.clone());
            if open.is_requested() {
                self.context.requests.report(match &kept {
                    Ok(id) => RequestProgress::Kept(*id, incident.verdict.clone()),
                    Err(error) => RequestProgress::NotKept(error.to_string()),
                });
            }
            let event = match kept {
                Ok(id) => WatchEvent::Incident(Box::new(Incident { id, ..incident })),
                Err(error) => WatchEvent::Delayed { incident: Box::new(incident), error },
            };
            self.send(event)?;
        }
        Ok(())
    }

    /// The recorder stops: what is known of stalls under way is stored.
    fn interrupt(mut self, mut incidents: Vec<OpenIncident>, episode: Option<Episode>) {
        if let Some(episode) = episode {
            episode.end(&mut self.context, &mut incidents);
        }
        for mut open in incidents {
            let (state, ended_unix_ms) = match open.ended_unix_ms() {
                Some(ended_unix_ms) => (IncidentState::Closed, ended_unix_ms),
                None => (IncidentState::Interrupted, mw_sys::unix_ms()),
            };
            if let Some(incident) = self.incident(&mut open, state, ended_unix_ms) {
                // There is nobody to tell.
                drop(self.context.writer.keep_incident(incident));
            }
        }
    }

    /// Something was explained, which took this CPU time: what can wait does so for many times as long, whichever stall
    /// it is of. The services need the CPUs.
    fn explained(&mut self, cpu: Duration) {
        self.rests_until = rested(self.rests_until, Instant::now(), cpu);
    }

    fn send(&self, event: WatchEvent) -> Result<(), NoReceiver> {
        self.events.send(event).map_err(|_| NoReceiver)
    }

    /// Evidence of a stall, explained. None where nobody was told of it, and it is pressure for which nobody waited, or
    /// before the evidence says who did.
    fn incident(
        &mut self,
        open: &mut OpenIncident,
        state: IncidentState,
        ended_unix_ms: u64,
    ) -> Option<Incident> {
        if state == IncidentState::Open && open.is_pressure_without_evidence() {
            return None;
        }
        let cpu_before = mw_sys::thread_time();
        if !open.has_ended() {
            open.find_path(&self.context, FunctionNaming::OfKernelAlone);
        }
        let known = Incident { state, ..open.known().clone() };
        let since = known.started_unix_ms.saturating_sub(millis(BEFORE));
        let table = self.context.ring.table(since, ended_unix_ms + millis(AFTER));
        let failure = open.failure(&self.context);
        let evidence = open.evidence().unwrap_or_default();
        let mut incident = assemble::incident(known, ended_unix_ms, failure, table, evidence);
        open.describe(&mut self.context, &mut incident);
        incident.unseen.extend(self.context.unseen.iter().cloned());
        let (is_alone, cpu_of_helper) = self.explain(&mut incident);
        self.explained(thread_time_since(cpu_before) + cpu_of_helper);
        (open.has_number() || !is_alone).then_some(incident)
    }

    /// Returns whether it is pressure for which nobody waited, and the CPU time that it took of other threads.
    fn explain(&mut self, incident: &mut Incident) -> (bool, Duration) {
        let snapshot = self.context.snapshot.run(&[(std::process::id(), ())]).pop().flatten();
        let (snapshot, cpu) = snapshot.unwrap_or_else(|| {
            incident.unseen.push(Missing::failed("snapshot", UNANSWERED));
            (snapshot_of_host(&self.context.host), SNAPSHOT_LIMIT)
        });
        let (started, ended) = (incident.started_unix_ms, incident.ended_unix_ms);
        let window = assemble::window(&incident.table, snapshot, started, ended);
        let calm = assemble::calm(&incident.table, &window, started);
        mw_rules::explain(incident, &window, calm.as_ref());
        incident.unseen.sort_by(|a, b| (&a.what, &a.why).cmp(&(&b.what, &b.why)));
        incident.unseen.dedup();
        (mw_rules::is_pressure_alone(incident, &window), cpu)
    }
}

/// Facts about a machine that does not answer: without the size of its pages nothing that is counted in pages would
/// have a size.
fn snapshot_of_host(host: &Host) -> Snapshot {
    let origin = Origin {
        page_bytes: host.page_bytes_or_usual(),
        cpus: Some(host.cpus).filter(|cpus| *cpus > 0),
        ..Origin::default()
    };
    Snapshot { origin, ..Snapshot::default() }
}

/// Until when a thread rests that would have rested until then, and has explained something at this cost.
fn rested(until: Instant, now: Instant, cpu: Duration) -> Instant {
    (until.max(now) + cpu * COST_TO_REST).min(now + MAX_REST)
}

/// The receiver of events has gone: the recorder ends.
#[derive(Debug)]
struct NoReceiver;

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (The recorder): Where the machine did not answer during the stall, sizes are right, and no setting is
    /// written that was not read.
    #[test]
    fn pages_have_a_size_where_the_machine_does_not_answer() {
        let host = Host { page_bytes: 65_536, ..Host::default() };
        assert_eq!(snapshot_of_host(&host).origin.page_bytes, 65_536);
        assert!(snapshot_of_host(&Host::default()).origin.page_bytes > 0);
    }

    #[test]
    fn what_stalls_at_once_takes_no_more_than_one_stall_would() {
        let (now, cost) = (Instant::now(), Duration::from_millis(100));
        let long_ago = now.checked_sub(MAX_REST).unwrap();
        let after_one = rested(long_ago, now, cost);
        assert_eq!(after_one, now + cost * COST_TO_REST);
        assert_eq!(rested(after_one, now, cost), now + 2 * cost * COST_TO_REST);
        assert_eq!(rested(after_one, now, MAX_REST), now + MAX_REST, "a storm that is over");
    }
}
