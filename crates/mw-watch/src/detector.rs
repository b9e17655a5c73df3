//! Decides when a stall begins and when it is over. Pure: it is told the time and what was read.
//!
//! ```text
//!          a limit is exceeded             within its limit again, for QUIET_MS
//!   calm ───────────────────────────▶ stalled ───────────────────────────────────▶ calm
//! ```
//!
//! Each probe has a stall of its own. What is not a probe (canary, heartbeat, pressure) begins none in the first minute
//! of the stall of another monitor: it is evidence of that stall then. Anybody can keep the machine's pressure up, so that
//! its stalls hide others no longer than that and not when they follow one another, and end after a while: what goes on
//! begins the next one, which may last twice as long. A request for evidence begins one at any time, and keeps no other
//! from beginning.

use mw_model::{Trigger, TriggerKind};

/// A stall is over when its monitor was within its limit for so long: a second stall within it is the same one.
pub const QUIET_MS: f64 = 1000.0;

/// Time for which evidence of one stall is collected; within the ring with time before and after it.
pub const MAX_EVIDENCE_MS: f64 = 60_000.0;

/// The share of a heartbeat's token timeout from which on its lateness is a stall, in percent.
pub const HEARTBEAT_PERCENT: f64 = 25.0;

/// A stall hides those that are evidence of it for so long.
const HIDES_MS: f64 = MAX_EVIDENCE_MS;

/// A stall of the machine that follows one within so long hides none.
const FOLLOWS_MS: f64 = 10.0 * 60_000.0;

/// A stall of the machine ends after so long. One that follows another within an hour may last twice as long as that.
const FIRST_SPAN_MS: f64 = 5.0 * 60_000.0;
const MAX_SPAN_MS: f64 = 30.0 * 60_000.0;
const APART_MS: f64 = 60.0 * 60_000.0;

/// Pressure lasts so long after the kernel's trigger has fired: it fires once a window, of a second.
const PRESSURE_MS: f64 = 1500.0;

/// Time for which evidence is collected on request.
pub const REQUESTED_MS: f64 = 5000.0;

/// Shortest age of a request that is waited for: nearly all end before.
pub(crate) const FRESH_MS: f64 = 1.0;

/// From this share of its limit on, what is under way raises an alarm.
const ALARM_SHARE: f64 = 0.5;

/// Limits of the monitors that are not probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// Of touching new pages.
    pub(crate) canary_ms: f64,
    /// Token timeout of a heartbeat that the machine must keep.
    pub(crate) token_ms: Option<f64>,
}

/// Beginning and end of a request, or the time at which it was last seen under way, in nanoseconds (`CLOCK_MONOTONIC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestTimes {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// The process of the command that asked, where the target is one.
    pub(crate) command: Option<u32>,
}

/// State of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProbeReading {
    pub(crate) limit_ms: f64,
    /// Time that a request may be outstanding before the alarm.
    pub(crate) alarm_ms: f64,
    pub(crate) under_way: Option<UnderWayReading>,
    /// The last request that ended.
    pub(crate) last: Option<AnswerReading>,
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct UnderWayReading {
    pub(crate) began_ns: u64,
    pub(crate) elapsed_ms: f64,
    pub(crate) command: Option<u32>,
}

/// A request that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct AnswerReading {
    /// Counts the requests, from 1.
    pub(crate) sequence: u64,
    pub(crate) began_ns: u64,
    pub(crate) took_ms: f64,
    pub(crate) failed: bool,
}

/// State of the canary.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CanaryReading {
    pub(crate) touching_ms: f64,
    /// Delay of the thread that touches nothing.
    pub(crate) late_ms: f64,
}

/// Values that were read in one turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Readings<'a> {
    pub(crate) probes: &'a [ProbeReading],
    pub(crate) canary: Option<CanaryReading>,
    /// True if the kernel's pressure trigger has fired since the last turn.
    pub(crate) pressure: bool,
    /// True if somebody has asked for evidence since the last turn.
    pub(crate) requested: bool,
}

impl Readings<'_> {
    /// Time until the next request or touch that is under way passes its limit, or the share of it that
    /// raises the alarm, in milliseconds; infinite where none is. Those that have passed it are no more waited
    /// for.
    pub(crate) fn passes_in(&self, limits: &Limits) -> f64 {
        let probe = |probe: &ProbeReading| {
            let elapsed_ms = probe.under_way?.elapsed_ms;
            Some([probe.limit_ms - elapsed_ms, probe.alarm_ms - elapsed_ms])
        };
        let canary = self.canary.into_iter().flat_map(|reading| {
            let alarm = limits.scaled(ALARM_SHARE);
            [limits.canary_passes_in(reading), alarm.canary_passes_in(reading)]
        });
        self.probes
            .iter()
            .filter_map(probe)
            .flatten()
            .chain(canary.flatten())
            .filter(|passes_in_ms| *passes_in_ms > 0.0)
            .fold(f64::INFINITY, f64::min)
    }

    /// True if something has been under way for so long that it may become a stall.
    pub(crate) fn are_alarming(&self, limits: &Limits) -> bool {
        let slow = |probe: &ProbeReading| {
            probe.under_way.is_some_and(|request| request.elapsed_ms >= probe.alarm_ms)
        };
        let (heartbeat, touch) =
            limits.scaled(ALARM_SHARE).passed_by(self.canary.unwrap_or_default());
        self.probes.iter().any(slow) || heartbeat.is_some() || touch.is_some()
    }
}

/// A monitor: what a stall is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Monitor {
    /// A probe, by its place.
    Probe(usize),
    Heartbeat,
    Canary,
    Pressure,
    /// Somebody asked for evidence: no limit is exceeded.
    Requested,
    /// The kernel's log and counter of kills, with the number of the run of kills: no limit is exceeded, and this
    /// detector does not follow it.
    OomKill(u64),
}

impl Monitor {
    /// True if tasks and stacks are looked at while its stall lasts: what a kill did is over when it is seen.
    pub(crate) fn needs_evidence(self) -> bool {
        !matches!(self, Self::OomKill(_))
    }
}

/// The limit that was exceeded, and by how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exceeded {
    pub(crate) monitor: Monitor,
    pub(crate) limit_ms: f64,
    pub(crate) took_ms: f64,
}

/// Result of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Transition {
    Begun(Exceeded),
    /// The stall is over; its monitor has been within its limit for so many milliseconds.
    Over {
        monitor: Monitor,
        good_for_ms: f64,
        /// The slowest request, for a probe.
        slowest: Option<RequestTimes>,
    },
}

/// Follows probes, canary and pressure.
#[derive(Debug)]
pub(crate) struct Detector {
    limits: Limits,
    probes: Vec<Followed>,
    /// In the order of [`OTHERS`].
    others: [Followed; OTHERS.len()],
    /// Time at which the kernel's pressure trigger last fired.
    pressure_at_ms: Option<f64>,
    /// Time at which evidence was last requested.
    requested_at_ms: Option<f64>,
}

/// One monitor.
#[derive(Debug, Clone, Copy, Default)]
struct Followed {
    bad: bool,
    answered: u64,
    phase: Phase,
    /// The slowest request of the stall under way.
    slowest: Option<RequestTimes>,
    /// Beginning of the last request that was seen under way, and its command.
    command: Option<(u64, u32)>,
    /// Beginning of the last stall, and its longest duration, where it is the machine's.
    began_ms: f64,
    span_ms: f64,
    ended_ms: Option<f64>,
    /// True if that followed another one shortly.
    follows: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Calm,
    Stalled {
        good_since_ms: Option<f64>,
    },
}

/// The monitors that are not probes.
const OTHERS: [Monitor; 4] =
    [Monitor::Heartbeat, Monitor::Canary, Monitor::Pressure, Monitor::Requested];

impl Detector {
    pub(crate) fn new(limits: Limits, probes: usize) -> Self {
        Self {
            limits,
            probes: vec![Followed::default(); probes],
            others: [Followed::default(); OTHERS.len()],
            pressure_at_ms: None,
            requested_at_ms: None,
        }
    }

    /// True if there is a stall of any monitor.
    pub(crate) fn is_stalled(&self) -> bool {
        self.followed().any(Followed::is_stalled)
    }

    /// True if all monitors are within their limits, stall or not.
    pub(crate) fn is_good(&self) -> bool {
        !self.followed().any(|followed| followed.bad)
    }

    /// The slowest request so far of the stall of a probe.
    pub(crate) fn slowest(&self, probe: usize) -> Option<RequestTimes> {
        self.probes.get(probe)?.slowest
    }

    /// Takes one reading of everything, at `now_ms` of a clock that never goes back, and adds what it came to.
    pub(crate) fn turn(&mut self, now_ms: f64, seen: Readings<'_>, into: &mut Vec<Transition>) {
        into.clear();
        for (place, (followed, reading)) in self.probes.iter_mut().zip(seen.probes).enumerate() {
            let exceeded = followed.request(reading).map(|took_ms| Exceeded {
                monitor: Monitor::Probe(place),
                limit_ms: reading.limit_ms,
                took_ms,
            });
            into.extend(followed.step(now_ms, Monitor::Probe(place), exceeded));
        }
        let (heartbeat, canary) = self.limits.passed_by(seen.canary.unwrap_or_default());
        let pressure = self.pressed(now_ms, seen.pressure);
        let requested = self.requested(now_ms, seen.requested);
        for (place, exceeded) in [heartbeat, canary, pressure, requested].into_iter().enumerate() {
            let is_hidden = self.hides(now_ms);
            let (Some(followed), Some(monitor)) = (self.others.get_mut(place), OTHERS.get(place))
            else {
                continue;
            };
            followed.bad = exceeded.is_some();
            let begins = *monitor == Monitor::Requested || !is_hidden;
            let exceeded = exceeded.filter(|_| followed.is_stalled() || begins);
            let is_long = *monitor != Monitor::Requested && followed.is_long(now_ms);
            into.extend(match is_long {
                true => Some(followed.end(now_ms, *monitor, 0.0)),
                false => followed.step(now_ms, *monitor, exceeded),
            });
        }
    }

    /// True if a stall is under way of which others are evidence; one that was asked for is not.
    fn hides(&self, now_ms: f64) -> bool {
        let is_young =
            |followed: &&Followed| followed.is_stalled() && now_ms - followed.began_ms < HIDES_MS;
        let others = self.others.iter().zip(OTHERS);
        let measured = others.filter(|(_, monitor)| *monitor != Monitor::Requested);
        let mut measured = measured.map(|(followed, _)| followed).filter(is_young);
        self.probes.iter().any(|probe| is_young(&probe)) || measured.any(|other| !other.follows)
    }

    fn followed(&self) -> impl Iterator<Item = &Followed> {
        self.probes.iter().chain(&self.others)
    }

    /// The kernel's trigger fires once a window while there is pressure.
    fn pressed(&mut self, now_ms: f64, fired: bool) -> Option<Exceeded> {
        if fired {
            self.pressure_at_ms = Some(now_ms);
        }
        let limit_ms = crate::PRESSURE_STALL.as_secs_f64() * 1000.0;
        let recent = self.pressure_at_ms.is_some_and(|at| now_ms - at < PRESSURE_MS);
        recent.then_some(Exceeded { monitor: Monitor::Pressure, limit_ms, took_ms: limit_ms })
    }

    fn requested(&mut self, now_ms: f64, asked: bool) -> Option<Exceeded> {
        if asked {
            self.requested_at_ms = Some(now_ms);
        }
        let lasts = self.requested_at_ms.is_some_and(|at| now_ms - at < REQUESTED_MS);
        lasts.then_some(Exceeded { monitor: Monitor::Requested, limit_ms: 0.0, took_ms: 0.0 })
    }
}

impl Limits {
    /// The least of them: what begins now passes none before.
    pub(crate) fn least_ms(&self) -> f64 {
        self.heartbeat_ms().map_or(self.canary_ms, |heartbeat_ms| heartbeat_ms.min(self.canary_ms))
    }

    /// Time until the canary passes a limit, where a touch or a turn is under way; negative
    /// where it has passed one.
    pub(crate) fn canary_passes_in(&self, reading: CanaryReading) -> Option<f64> {
        let touch = (reading.touching_ms >= FRESH_MS)
            .then_some(self.canary_ms - (reading.touching_ms - reading.late_ms));
        let heartbeat = self.heartbeat_ms().filter(|_| reading.late_ms >= FRESH_MS);
        let heartbeat = heartbeat.map(|limit_ms| limit_ms - reading.late_ms);
        touch.into_iter().chain(heartbeat).reduce(f64::min)
    }

    fn scaled(&self, share: f64) -> Self {
        Self {
            canary_ms: self.canary_ms * share,
            token_ms: self.token_ms.map(|token_ms| token_ms * share),
        }
    }

    fn heartbeat_ms(&self) -> Option<f64> {
        self.token_ms.map(|token_ms| token_ms * HEARTBEAT_PERCENT / 100.0)
    }

    /// Whether the canary passes the limit of a heartbeat, and its own.
    fn passed_by(&self, reading: CanaryReading) -> (Option<Exceeded>, Option<Exceeded>) {
        let exceeded = |monitor, limit_ms, took_ms| Exceeded { monitor, limit_ms, took_ms };
        let heartbeat = self
            .heartbeat_ms()
            .filter(|limit_ms| reading.late_ms >= *limit_ms)
            .map(|limit_ms| exceeded(Monitor::Heartbeat, limit_ms, reading.late_ms));
        // Where the thread that touches nothing is late too, it is CPUs that are short.
        let canary = (reading.touching_ms - reading.late_ms >= self.canary_ms)
            .then(|| exceeded(Monitor::Canary, self.canary_ms, reading.touching_ms));
        (heartbeat, canary)
    }
}

impl Followed {
    fn is_stalled(&self) -> bool {
        self.phase != Phase::Calm
    }

    /// Follows a probe, which is bad from its limit to its answer, and from a failure to the next
    /// answer; how long it has taken where it passes its limit in this turn.
    fn request(&mut self, reading: &ProbeReading) -> Option<f64> {
        let waiting = reading.under_way.filter(|way| way.elapsed_ms >= reading.limit_ms);
        let mut exceeded = None;
        if let Some(way) = reading.under_way {
            self.command = way.command.map(|command| (way.began_ns, command)).or(self.command);
        }
        if let Some(answer) = reading.last.filter(|answer| answer.sequence != self.answered) {
            self.answered = answer.sequence;
            self.bad = answer.failed;
            if answer.failed || answer.took_ms >= reading.limit_ms {
                exceeded = Some(answer.took_ms);
                self.keep_slowest(answer.began_ns, answer.took_ms);
            }
        }
        if let Some(way) = waiting {
            self.bad = true;
            exceeded = exceeded.or(Some(way.elapsed_ms));
            self.keep_slowest(way.began_ns, way.elapsed_ms);
        }
        exceeded
    }

    fn keep_slowest(&mut self, from_ns: u64, took_ms: f64) {
        let to_ns = from_ns.saturating_add((took_ms * 1e6) as u64);
        let known = self.slowest.map_or(0, |slowest| slowest.to_ns - slowest.from_ns);
        if to_ns - from_ns >= known {
            let command = self.command.filter(|(began_ns, _)| *began_ns == from_ns);
            let command = command.map(|(_, command)| command);
            self.slowest = Some(RequestTimes { from_ns, to_ns, command });
        }
    }

    fn begin(&mut self, now_ms: f64) {
        let since = |ended_ms| now_ms - ended_ms;
        let since_ms = self.ended_ms.map_or(f64::INFINITY, since);
        self.follows = since_ms < FOLLOWS_MS;
        self.span_ms =
            if since_ms < APART_MS { (self.span_ms * 2.0).min(MAX_SPAN_MS) } else { FIRST_SPAN_MS };
        self.began_ms = now_ms;
        self.phase = Phase::Stalled { good_since_ms: None };
    }

    fn end(&mut self, now_ms: f64, monitor: Monitor, good_for_ms: f64) -> Transition {
        (self.phase, self.ended_ms) = (Phase::Calm, Some(now_ms));
        Transition::Over { monitor, good_for_ms, slowest: self.slowest.take() }
    }

    /// True if its stall has lasted for so long that what goes on is another.
    fn is_long(&self, now_ms: f64) -> bool {
        self.is_stalled() && now_ms - self.began_ms >= self.span_ms
    }

    /// The next phase.
    fn step(
        &mut self,
        now_ms: f64,
        monitor: Monitor,
        exceeded: Option<Exceeded>,
    ) -> Option<Transition> {
        match self.phase {
            Phase::Calm => {
                let exceeded = exceeded?;
                self.begin(now_ms);
                Some(Transition::Begun(exceeded))
            }
            Phase::Stalled { .. } if self.bad || exceeded.is_some() => {
                // A slow answer has ended what was bad.
                let good_since_ms = (!self.bad).then_some(now_ms);
                self.phase = Phase::Stalled { good_since_ms };
                None
            }
            Phase::Stalled { good_since_ms } => {
                let good_since_ms = good_since_ms.unwrap_or(now_ms);
                let good_for_ms = now_ms - good_since_ms;
                if good_for_ms >= QUIET_MS {
                    return Some(self.end(now_ms, monitor, good_for_ms));
                }
                self.phase = Phase::Stalled { good_since_ms: Some(good_since_ms) };
                None
            }
        }
    }
}

impl Exceeded {
    /// The trigger as an incident has it.
    pub(crate) fn trigger(&self, probe_name: &str) -> Trigger {
        let (kind, name) = match self.monitor {
            Monitor::Probe(_) => (TriggerKind::Probe, probe_name),
            Monitor::Canary => (TriggerKind::Canary, "canary"),
            Monitor::Pressure => (TriggerKind::Pressure, "pressure"),
            Monitor::Heartbeat => (TriggerKind::Heartbeat, "heartbeat"),
            Monitor::OomKill(_) => (TriggerKind::OomKill, "oom_kill"),
            Monitor::Requested => (TriggerKind::Requested, "requested"),
        };
        Trigger {
            kind,
            name: name.to_owned(),
            limit_ms: self.limit_ms,
            worst_ms: self.took_ms,
            failure: None,
            failure_kind: None,
        }
    }
}

#[cfg(test)]
mod tests;
