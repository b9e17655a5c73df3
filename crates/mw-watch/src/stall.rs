//! A stall under way, until its incident is closed.

use crate::assemble::Gathered;
use crate::clock::millis;
use crate::context::{AFTER, BEFORE, Context};
use crate::detector::{Monitor, RequestTimes};
use crate::service_answers::Question;
use crate::stalls::Begun;
use mw_critical_path::{PathSummary, Request};
use mw_model::{CpuUse, GroupUse, Incident, Missing, OomKills, Outage, Service, ServiceView};
use mw_probe::ProbeFailure;
use mw_record::Writer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time of the first explanation of a stall that lasts, after it was seen.
const FIRST_UPDATE: Duration = Duration::from_secs(1);

/// Delay of the first explanation, where those of other stalls take too much.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// The longest time between two updates; each is twice as long as the one before.
const MAX_UPDATE: Duration = Duration::from_secs(600);

pub(crate) struct OpenStall {
    begun: Begun,
    id: Option<u64>,
    ended: Option<Ended>,
    slowest: Option<RequestTimes>,
    path: Option<PathSummary>,
    groups: Vec<GroupUse>,
    cpus: Option<CpuUse>,
    service: Option<Service>,
    /// The reason why the service is not known.
    missing: Option<Missing>,
    outage: Option<Outage>,
    /// True if its state was asked for, once it had failed.
    was_asked: bool,
    view: Option<ServiceView>,
    next_update: Instant,
    update_interval: Duration,
    /// The evidence that covers most of it, and how much that is, in milliseconds.
    gathered: Option<(u64, Arc<Gathered>)>,
}

#[derive(Clone, Copy)]
struct Ended {
    unix_ms: u64,
    /// Time at which this thread was notified of it.
    at: Instant,
}

impl OpenStall {
    pub(crate) fn new(begun: Begun) -> Self {
        Self {
            begun,
            id: None,
            ended: None,
            slowest: None,
            path: None,
            groups: Vec::new(),
            cpus: None,
            service: None,
            missing: None,
            outage: None,
            was_asked: false,
            view: None,
            next_update: Instant::now() + FIRST_UPDATE,
            update_interval: FIRST_UPDATE,
            gathered: None,
        }
    }

    pub(crate) fn begun(&self) -> &Begun {
        &self.begun
    }

    pub(crate) fn id(&self) -> Option<u64> {
        self.id
    }

    /// The number of its incident, a new one where it has none.
    pub(crate) fn number(&mut self, writer: &Writer) -> u64 {
        *self.id.get_or_insert_with(|| writer.number_incident())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// True if somebody asked for it.
    pub(crate) fn is_requested(&self) -> bool {
        self.begun.monitor == Monitor::Requested
    }

    /// True if evidence of it is still taken.
    pub(crate) fn is_gathering(&self) -> bool {
        !self.has_ended() && self.begun.monitor.needs_evidence()
    }

    pub(crate) fn ended_unix_ms(&self) -> Option<u64> {
        self.ended.map(|ended| ended.unix_ms)
    }

    /// True if this is the stall of a monitor that lasts.
    pub(crate) fn is_of(&self, monitor: Monitor) -> bool {
        self.begun.monitor == monitor && !self.has_ended()
    }

    /// True if the time after it is recorded as well.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended.is_some_and(|ended| ended.at.elapsed() >= AFTER)
    }

    /// Asks who the service is, what it says of its sessions, and what became of it where it failed.
    pub(crate) fn ask_service(&mut self, with: &mut Context) {
        let Monitor::Probe(probe) = self.begun.monitor else { return };
        let seen_unix_ms = self.begun.seen_unix_ms;
        match with.answers.ask(probe, Question::Begin { seen_unix_ms }) {
            Ok(answer) => {
                (self.service, self.missing) = (answer.service, answer.missing);
                (self.outage, self.view) = (answer.outage, answer.view);
            }
            Err(missing) => self.missing = Some(missing),
        }
    }

    /// A service that was slow first may fail while the stall lasts, as one that the OOM killer ends: what became of it
    /// is asked once.
    pub(crate) fn note_failure(&mut self, with: &mut Context) {
        let Monitor::Probe(probe) = self.begun.monitor else { return };
        let Some(prober) = with.monitors.probers.get(probe) else { return };
        if self.outage.is_some() || self.was_asked || prober.last().is_none_or(|last| !last.failed)
        {
            return;
        }
        self.was_asked = true;
        let failed_unix_ms = mw_sys::unix_ms();
        match with.answers.ask(probe, Question::Outage { failed_unix_ms }) {
            Ok(answer) => self.outage = answer.outage,
            Err(missing) => self.missing = Some(missing),
        }
    }

    /// It is over: while the trace is there, the path of its slowest request is found.
    pub(crate) fn end(
        &mut self,
        with: &Context,
        ended_unix_ms: u64,
        slowest: Option<RequestTimes>,
    ) {
        self.slowest = slowest;
        self.find_path(with);
        self.ended = Some(Ended { unix_ms: ended_unix_ms, at: Instant::now() });
    }

    /// True if a provisional explanation is due.
    pub(crate) fn is_update_due(&self) -> bool {
        !self.has_ended() && Instant::now() >= self.next_update
    }

    /// True if nobody has been told a cause although that was due long ago.
    pub(crate) fn is_overdue(&self) -> bool {
        self.id.is_none() && Instant::now() >= self.next_update + MAX_SILENCE
    }

    pub(crate) fn next_update(&self) -> Instant {
        self.next_update
    }

    /// It was explained: the next explanation is later.
    pub(crate) fn updated(&mut self) {
        self.next_update = Instant::now() + self.update_interval;
        self.update_interval = (self.update_interval * 2).min(MAX_UPDATE);
    }

    /// Finds the critical path of its slowest request.
    pub(crate) fn find_path(&mut self, with: &Context) {
        if !self.begun.monitor.needs_evidence() {
            return;
        }
        let processes = self.service.iter().flat_map(|service| &service.processes);
        let processes: Vec<u32> = processes.map(|process| process.pid).collect();
        self.groups = with.tracing.groups_since(self.begun.seen_unix_ms, &processes);
        self.cpus = with.tracing.cpus_since(self.begun.seen_unix_ms);
        let Some(request) = self.request(with) else { return };
        if let Some(path) = with.tracing.path(request) {
            self.path = Some(path);
        }
    }

    fn request(&self, with: &Context) -> Option<Request> {
        let canary = with.monitors.canary.as_ref();
        let mut command = None;
        let (task, times) = match self.begun.monitor {
            Monitor::Probe(probe) => {
                let prober = with.monitors.probers.get(probe)?;
                let slowest = self.slowest.or_else(|| with.stalls.slowest(self.begun.monitor))?;
                command = slowest.command;
                (prober.thread()?, (slowest.from_ns, slowest.to_ns))
            }
            Monitor::Canary => (canary?.thread()?, canary?.slowest_touch()?),
            Monitor::Heartbeat => (canary?.thread()?, canary?.latest_turn()?),
            Monitor::Pressure | Monitor::Requested | Monitor::OomKill(_) => return None,
        };
        let processes = self.service.iter().flat_map(|service| &service.processes);
        let servers = processes.map(|process| process.pid).collect();
        let (from, to) = times;
        Some(Request { task, from, to, servers, command, ..Request::default() })
    }

    /// Failure of the last request, if it failed.
    pub(crate) fn failure(&self, with: &Context) -> Option<ProbeFailure> {
        let Monitor::Probe(probe) = self.begun.monitor else { return None };
        with.monitors.probers.get(probe)?.last_failure()
    }

    /// True if a request failed at once before any was slow: that the service is slow when it starts again is not
    /// what happened to it.
    fn began_with_failure(&self) -> bool {
        self.begun.trigger.failed_at_once()
    }

    pub(crate) fn lacks_evidence(&self) -> bool {
        self.gathered.is_none() && self.begun.monitor.needs_evidence()
    }

    /// Takes evidence of `[from, until]` (milliseconds since 1970) if it covers more than what is there.
    pub(crate) fn offer(&mut self, gathered: &Arc<Gathered>, from: u64, until: u64) {
        let (begin, end) = (self.begun.started_unix_ms, self.ended_unix_ms().unwrap_or(u64::MAX));
        let covers = until.min(end).saturating_sub(from.max(begin));
        if self.gathered.as_ref().is_none_or(|(known, _)| covers > *known) {
            self.gathered = Some((covers, Arc::clone(gathered)));
        }
    }

    pub(crate) fn gathered(&self) -> Option<Gathered> {
        self.gathered.as_ref().map(|(_, gathered)| Gathered::clone(gathered))
    }

    /// Adds what only this stall has.
    pub(crate) fn describe(&self, with: &mut Context, incident: &mut Incident) {
        self.describe_kernel(with, incident);
        incident.path.clone_from(&self.path);
        incident.groups.clone_from(&self.groups);
        incident.cpus = self.cpus;
        incident.service.clone_from(&self.service);
        incident.unseen.extend(self.missing.clone());
        incident.outage.clone_from(&self.outage);
        incident.service_view.clone_from(&self.view);
        if self.began_with_failure() && incident.trigger.failure_kind.is_some() {
            incident.trigger.worst_ms = self.begun.trigger.worst_ms;
            incident.path = None;
        }
        if let Some(cgroup) =
            self.path.as_ref().and_then(|path| path.parts.first()?.task.cgroup.as_ref())
        {
            for group in &mut incident.groups {
                group.of_service |= *cgroup == group.path && group.path != "/";
            }
        }
    }

    /// Adds what the kernel told of kills and of dropped caches.
    fn describe_kernel(&self, with: &mut Context, incident: &mut Incident) {
        let (begin, end) = (incident.started_unix_ms, incident.ended_unix_ms);
        let events = Arc::clone(&with.kernel_events);
        incident.oom = match self.begun.monitor {
            Monitor::OomKill(run) => events.kills_of(run).map(|(kills, lost)| {
                let answers = lost
                    .into_iter()
                    .map(|(probe, lost)| with.answers.ask(probe, Question::Fate(Box::new(lost))));
                let (fates, missing): (Vec<_>, Vec<_>) = answers.partition(Result::is_ok);
                incident.unseen.extend(missing.into_iter().filter_map(Result::err));
                let services = fates.into_iter().flatten().filter_map(|answer| answer.fate);
                OomKills { services: services.collect(), ..kills }
            }),
            _ => events.kills_between(begin, end),
        };
        incident.cache_drops = events.drops_between(begin.saturating_sub(millis(BEFORE)), end);
    }
}
