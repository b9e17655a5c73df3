//! The incident of a stall, until it is closed.

use crate::assemble::EpisodeEvidence;
use crate::clock::millis;
use crate::connection_readings::{ConnectionReadings, merge_reading};
use crate::context::{AFTER, BEFORE, Context};
use crate::service_answers::ServiceQuestion;
use crate::stall::{Monitor, Stall};
use crate::tracing::FunctionNaming;
use mw_collect::service::WaitingConnections;
use mw_critical_path::{PathSummary, RequestSpan};
use mw_model::{Host, INCIDENT_SCHEMA, Incident, OomKills, ReachedLimit, StoppedDevice};
use mw_probe::{ProbeFailure, ProbeRequest};
use mw_record::Writer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most time from a failure until it is noticed, on a busy machine.
const NOTICED_AFTER_MS: u64 = 2000;

/// Time of the first explanation of a stall that lasts, after it was seen.
const FIRST_UPDATE: Duration = Duration::from_secs(1);

/// Delay of the first explanation, where those of other stalls take too much.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// The longest time between two updates; each is twice as long as the one before.
const MAX_UPDATE: Duration = Duration::from_secs(600);

pub(crate) struct OpenIncident {
    stall: Stall,
    /// Facts of this stall alone: its service, the critical path of its slowest request, its cgroups.
    known: Incident,
    /// Time at which the evidence of the time after it is complete.
    closes_at: Option<Instant>,
    /// True if the state of the service was asked for, once it had failed.
    was_asked: bool,
    readings: ConnectionReadings,
    next_update: Instant,
    update_interval: Duration,
    /// The evidence that covers most of it, and how much that is, in milliseconds.
    evidence: Option<(u64, Arc<EpisodeEvidence>)>,
}

impl OpenIncident {
    pub(crate) fn new(stall: Stall, host: &Host) -> Self {
        let known = Incident {
            schema: INCIDENT_SCHEMA,
            host: host.clone(),
            recorder: std::process::id(),
            trigger: stall.trigger.clone(),
            started_unix_ms: stall.started_unix_ms,
            seen_unix_ms: stall.seen_unix_ms,
            ..Incident::default()
        };
        Self {
            stall,
            known,
            closes_at: None,
            was_asked: false,
            readings: ConnectionReadings::begin(Instant::now()),
            next_update: Instant::now() + FIRST_UPDATE,
            update_interval: FIRST_UPDATE,
            evidence: None,
        }
    }

    pub(crate) fn known(&self) -> &Incident {
        &self.known
    }

    /// True if it has a number: it was stored.
    pub(crate) fn has_number(&self) -> bool {
        self.known.id > 0
    }

    /// True while only the kernel's pressure tells of it.
    pub(crate) fn is_pressure_without_evidence(&self) -> bool {
        self.stall.monitor == Monitor::Pressure && self.evidence.is_none() && !self.has_number()
    }

    /// Its number, a new one where it has none.
    pub(crate) fn number(&mut self, writer: &Writer) -> u64 {
        if !self.has_number() {
            self.known.id = writer.number_incident();
        }
        self.known.id
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stall.has_ended()
    }

    /// True if it was requested.
    pub(crate) fn is_requested(&self) -> bool {
        self.stall.monitor == Monitor::Requested
    }

    /// True if evidence of it is still taken.
    pub(crate) fn is_gathering(&self) -> bool {
        !self.has_ended() && self.stall.monitor.needs_evidence()
    }

    pub(crate) fn ended_unix_ms(&self) -> Option<u64> {
        self.stall.ended_unix_ms
    }

    /// True if this is the stall of a monitor that lasts.
    pub(crate) fn is_of(&self, monitor: Monitor) -> bool {
        self.stall.monitor == monitor && !self.has_ended()
    }

    /// True if the time after it is recorded as well.
    pub(crate) fn is_complete(&self) -> bool {
        self.closes_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Asks who the service is, what it says of its sessions, and what became of it where it failed.
    pub(crate) fn ask_service(&mut self, with: &mut Context) {
        let Monitor::Probe(probe) = self.stall.monitor else { return };
        let seen_unix_ms = self.stall.seen_unix_ms;
        match with.answers.ask(probe, ServiceQuestion::Begin { seen_unix_ms }) {
            Ok(answer) => {
                let known = &mut self.known;
                (known.service, known.outage) = (answer.service, answer.outage);
                known.service_view = answer.view;
                known.unseen.extend(answer.missing);
            }
            Err(missing) => self.known.unseen.push(missing),
        }
    }

    /// A service that was slow first may fail while the stall lasts, as one that the OOM killer ends: what became of it
    /// is asked once.
    pub(crate) fn note_failure(&mut self, with: &mut Context) {
        let Monitor::Probe(probe) = self.stall.monitor else { return };
        let Some(prober) = with.monitors.probers.get(probe) else { return };
        if self.known.outage.is_some()
            || self.was_asked
            || prober.last().is_none_or(|last| !last.failed)
        {
            return;
        }
        self.was_asked = true;
        let failed_unix_ms = mw_sys::unix_ms();
        match with.answers.ask(probe, ServiceQuestion::Outage { failed_unix_ms }) {
            Ok(answer) => self.known.outage = answer.outage,
            Err(missing) => self.known.unseen.push(missing),
        }
    }

    /// Reads the connections on which processes of its service wait, where that is due.
    pub(crate) fn read_connections(&mut self, with: &mut Context) {
        let Monitor::Probe(probe) = self.stall.monitor else { return };
        let began = Instant::now();
        if !self.readings.is_due(began) {
            return;
        }
        let asked = with.tracing.with_asked(&self.service_processes()).into_iter().collect();
        let read_unix_ms = mw_sys::unix_ms();
        let missing = match with.answers.ask(probe, ServiceQuestion::Connections { asked }) {
            Ok(answer) => {
                let WaitingConnections { connections, unseen } = answer.connections;
                merge_reading(&mut self.known.connections, connections, read_unix_ms);
                let is_same_limit = |one: &ReachedLimit, other: &ReachedLimit| {
                    (one.kind, &one.holder) == (other.kind, &other.holder)
                };
                keep_new(&mut self.known.reached_limits, answer.reached_limits, is_same_limit);
                let is_same_device =
                    |one: &StoppedDevice, other: &StoppedDevice| one.name == other.name;
                keep_new(&mut self.known.stopped_devices, answer.stopped_devices, is_same_device);
                unseen
            }
            Err(missing) => vec![missing],
        };
        self.readings.note(began, Instant::now());
        for missing in missing {
            if !self.known.unseen.contains(&missing) {
                self.known.unseen.push(missing);
            }
        }
    }

    /// Its stall has ended: while the trace is there, the path of its slowest request is found.
    pub(crate) fn end(&mut self, with: &Context, ended: Stall) {
        (self.stall.ended_unix_ms, self.stall.slowest) = (ended.ended_unix_ms, ended.slowest);
        self.find_path(with, FunctionNaming::OfPrograms);
        self.closes_at = Some(Instant::now() + AFTER);
    }

    /// True if a provisional explanation is due.
    pub(crate) fn is_update_due(&self) -> bool {
        !self.has_ended() && Instant::now() >= self.next_update
    }

    /// True if nobody has been told a cause although that was due long ago.
    pub(crate) fn is_overdue(&self) -> bool {
        !self.has_number() && Instant::now() >= self.next_update + MAX_SILENCE
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
    pub(crate) fn find_path(&mut self, with: &Context, names: FunctionNaming) {
        if !self.stall.monitor.needs_evidence() {
            return;
        }
        let processes = self.service_processes();
        let mut groups = with.tracing.groups_since(self.stall.seen_unix_ms, &processes);
        for group in &mut groups {
            let known = self.known.groups.iter().find(|known| known.path == group.path);
            known.into_iter().for_each(|known| group.keep_limits(known));
        }
        self.known.groups = groups;
        self.known.cpus = with.tracing.cpus_since(self.stall.seen_unix_ms);
        let Some(request) = self.request(with) else { return };
        let Some(path) = with.tracing.path(request, names) else { return };
        let first = path.parts.first().and_then(|part| part.task.cgroup.as_deref());
        first.into_iter().for_each(|cgroup| with.tracing.concern(cgroup));
        // Where the recorder was late, others may have taken the room of what was traced.
        let knows_more = |known: &PathSummary| known.seen_ns() > path.seen_ns();
        if !self.known.path.as_ref().is_some_and(knows_more) {
            self.known.path = Some(path);
        }
    }

    fn service_processes(&self) -> Vec<u32> {
        let processes = self.known.service.iter().flat_map(|service| &service.processes);
        processes.map(|process| process.pid).collect()
    }

    /// Its slowest request, so far where it lasts.
    fn slowest(&self, with: &Context) -> Option<ProbeRequest> {
        self.stall.slowest.or_else(|| with.stalls.slowest(self.stall.monitor))
    }

    /// The request whose path explains the stall.
    fn request(&self, with: &Context) -> Option<RequestSpan> {
        let canary = with.monitors.canary.as_ref();
        let mut command = None;
        let (task, (from, to)) = match self.stall.monitor {
            Monitor::Probe(probe) => {
                let prober = with.monitors.probers.get(probe)?;
                let slowest = self.slowest(with)?;
                command = slowest.command;
                (prober.thread()?, (slowest.began_ns, slowest.ended_ns()))
            }
            Monitor::Canary => (canary?.thread()?, canary?.slowest_touch()?),
            Monitor::Heartbeat => (canary?.thread()?, canary?.latest_turn()?),
            Monitor::Pressure | Monitor::Requested | Monitor::OomKill(_) => return None,
        };
        let servers = self.service_processes();
        Some(RequestSpan { task, from, to, servers, command, ..RequestSpan::default() })
    }

    /// The most frequent failure of its outage, if requests failed.
    pub(crate) fn failure(&self, with: &Context) -> Option<ProbeFailure> {
        let Monitor::Probe(probe) = self.stall.monitor else { return None };
        let prober = with.monitors.probers.get(probe)?;
        let ended_unix_ms = self.ended_unix_ms().unwrap_or(u64::MAX);
        // A stall begins by when it was noticed.
        let began_unix_ms = self.stall.started_unix_ms.saturating_sub(NOTICED_AFTER_MS);
        prober.main_failure(&(began_unix_ms..=ended_unix_ms))
    }

    pub(crate) fn lacks_evidence(&self) -> bool {
        self.evidence.is_none() && self.stall.monitor.needs_evidence()
    }

    /// Takes evidence of `[from, until]` (milliseconds since 1970) if it covers more than what is there.
    pub(crate) fn offer(&mut self, evidence: &Arc<EpisodeEvidence>, from: u64, until: u64) {
        let (begin, end) = (self.stall.started_unix_ms, self.ended_unix_ms().unwrap_or(u64::MAX));
        let covers = until.min(end).saturating_sub(from.max(begin));
        if self.evidence.as_ref().is_none_or(|(known, _)| covers > *known) {
            self.evidence = Some((covers, Arc::clone(evidence)));
        }
    }

    pub(crate) fn evidence(&self) -> Option<EpisodeEvidence> {
        self.evidence.as_ref().map(|(_, evidence)| EpisodeEvidence::clone(evidence))
    }

    /// Adds kills and dropped caches, and corrects what the rows and the path have of a stall that began with a
    /// failure.
    pub(crate) fn describe(&self, with: &mut Context, incident: &mut Incident) {
        self.describe_kernel(with, incident);
        incident.delivery = self.slowest(with).and_then(|request| request.delivery);
        // A service that is slow when it starts again did not stall.
        if self.stall.trigger.failed_at_once() && incident.trigger.failure_kind.is_some() {
            incident.trigger.worst_ms = self.stall.trigger.worst_ms;
            incident.path = None;
        }
        let first = self.known.path.as_ref().and_then(|path| path.parts.first());
        if let Some(cgroup) = first.and_then(|part| part.task.cgroup.as_ref()) {
            for group in &mut incident.groups {
                group.of_service |= *cgroup == group.path && group.path != "/";
            }
        }
    }

    /// Adds what the kernel told of kills and of dropped caches.
    fn describe_kernel(&self, with: &mut Context, incident: &mut Incident) {
        let (begin, end) = (incident.started_unix_ms, incident.ended_unix_ms);
        let events = Arc::clone(&with.kernel_events);
        incident.oom = match self.stall.monitor {
            Monitor::OomKill(run) => events.kills_of(run).map(|(kills, lost)| {
                let answers = lost.into_iter().map(|(probe, lost)| {
                    with.answers.ask(probe, ServiceQuestion::Fate(Box::new(lost)))
                });
                let (fates, missing): (Vec<_>, Vec<_>) = answers.partition(Result::is_ok);
                incident.unseen.extend(missing.into_iter().filter_map(Result::err));
                let services = fates.into_iter().flatten().filter_map(|answer| answer.fate);
                OomKills { services: services.collect(), ..kills }
            }),
            _ => events.kills_between(begin, end),
        };
        let ended = self.known.outage.as_ref().and_then(|outage| outage.ended.as_ref());
        let since = begin.saturating_sub(millis(BEFORE));
        incident.kill =
            ended.and_then(|ended| with.signal_kills.kill_of(ended.process.pid, since, end));
        incident.cache_drops = events.drops_between(begin.saturating_sub(millis(BEFORE)), end);
    }
}

/// Keeps what was found at some time of the stall, each once.
fn keep_new<T>(known: &mut Vec<T>, found: Vec<T>, is_same: impl Fn(&T, &T) -> bool) {
    const MAX_KEPT: usize = 32;
    for one in found {
        if known.len() < MAX_KEPT && !known.iter().any(|other| is_same(other, &one)) {
            known.push(one);
        }
    }
}
