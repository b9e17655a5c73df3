//! A stall: of which monitor, since when, until when, and its slowest request.

use mw_model::{Trigger, TriggerKind};
use mw_probe::ProbeRequest;

/// A monitor: what a stall is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Monitor {
    /// A probe, by its place.
    Probe(usize),
    Heartbeat,
    Canary,
    Pressure,
    /// A request for evidence: no limit is exceeded.
    Requested,
    /// The kernel's log and counter of kills, with the number of the run of kills: no limit is exceeded, and the
    /// detector does not follow it.
    OomKill(u64),
}

/// A stall that lasts, or that has ended: what the detector reports and an incident is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stall {
    pub(crate) monitor: Monitor,
    pub(crate) trigger: Trigger,
    /// Beginning of the measurement that passed its limit.
    pub(crate) started_unix_ms: u64,
    /// Time at which the limit was found to have passed.
    pub(crate) seen_unix_ms: u64,
    /// Time from which on the monitor was within its limit; `None` while the stall lasts.
    pub(crate) ended_unix_ms: Option<u64>,
    /// The slowest request, for a probe.
    pub(crate) slowest: Option<ProbeRequest>,
}

impl Monitor {
    /// True if tasks and stacks are sampled while its stall lasts: a kill has had its effect when it is seen.
    pub(crate) fn needs_evidence(self) -> bool {
        !matches!(self, Self::OomKill(_))
    }
}

impl Stall {
    /// A stall of a measurement that has taken so long. `probe` is the name of the probe, where the monitor is one.
    pub(crate) fn new(
        monitor: Monitor,
        probe: &str,
        limit_ms: f64,
        worst_ms: f64,
        seen_unix_ms: u64,
    ) -> Self {
        let (kind, name) = match monitor {
            Monitor::Probe(_) => (TriggerKind::Probe, probe),
            Monitor::Canary => (TriggerKind::Canary, "canary"),
            Monitor::Pressure => (TriggerKind::Pressure, "pressure"),
            Monitor::Heartbeat => (TriggerKind::Heartbeat, "heartbeat"),
            Monitor::OomKill(_) => (TriggerKind::OomKill, "oom_kill"),
            Monitor::Requested => (TriggerKind::Requested, "requested"),
        };
        let name = name.to_owned();
        Self {
            monitor,
            trigger: Trigger { kind, name, limit_ms, worst_ms, ..Trigger::default() },
            started_unix_ms: seen_unix_ms.saturating_sub(worst_ms as u64),
            seen_unix_ms,
            ended_unix_ms: None,
            slowest: None,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_unix_ms.is_some()
    }

    /// Keeps the slower one of a request and the slowest so far.
    pub(crate) fn note_request(&mut self, request: ProbeRequest) {
        if self.slowest.is_none_or(|slowest| request.elapsed >= slowest.elapsed) {
            self.slowest = Some(request);
        }
    }
}
