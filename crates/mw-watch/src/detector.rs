//! Decides when a stall begins and when it is over. Pure: it is told the time and what was seen.
//!
//! ```text
//!          a limit is exceeded             all are within limits again, for QUIET_MS
//!   calm ───────────────────────────▶ stalled ─────────────────────────────────────▶ calm
//!    ▲                                   │ MAX_STALL_MS: the evidence is closed
//!    └───────────────────────────────────┘ those still exceeded count again once they were within
//! ```

use mw_model::{Trigger, TriggerKind};

/// A stall is over when all monitors were within their limits for so long: a second stall within it is the same one.
pub const QUIET_MS: f64 = 1000.0;

/// The longest stall of which evidence is taken; within the ring with time before and after it.
pub const MAX_STALL_MS: f64 = 60_000.0;

/// The share of a heartbeat's token time-out from which on its lateness is a stall, in percent.
pub const HEARTBEAT_PERCENT: f64 = 25.0;

/// Pressure lasts so long after the kernel's trigger has spoken: it speaks once a window, of a
/// second.
const PRESSURE_MS: f64 = 1500.0;

/// What has been under way for less is not waited for: nearly all end before.
pub(crate) const FRESH_MS: f64 = 1.0;

/// Limits of the monitors that are not probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// Of touching fresh memory.
    pub(crate) canary_ms: f64,
    /// Token time-out of a heartbeat that the machine must keep.
    pub(crate) token_ms: Option<f64>,
}

/// What a probe is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProbeReading {
    pub(crate) limit_ms: f64,
    /// How long the question under way has been out.
    pub(crate) under_way_ms: Option<f64>,
    /// The number of the last answer, how long it took, and whether it was a failure.
    pub(crate) last: Option<(u64, f64, bool)>,
}

/// What the canary is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CanaryReading {
    pub(crate) touching_ms: f64,
    /// How overdue the thread that touches nothing is.
    pub(crate) late_ms: f64,
}

/// What was seen in one turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Readings<'a> {
    pub(crate) probes: &'a [ProbeReading],
    pub(crate) canary: Option<CanaryReading>,
    /// Whether the kernel's pressure trigger has spoken since the last turn.
    pub(crate) pressure: bool,
}

impl Readings<'_> {
    /// How long until the next look that is under way passes its limit, in milliseconds; infinite
    /// where none is. Those that have passed it are no more waited for.
    pub(crate) fn passes_in(&self, limits: &Limits) -> f64 {
        let probes = self.probes.iter();
        let probes = probes.filter_map(|probe| Some(probe.limit_ms - probe.under_way_ms?));
        let canary = self.canary.and_then(|look| limits.canary_passes_in(look));
        probes
            .chain(canary)
            .filter(|passes_in_ms| *passes_in_ms > 0.0)
            .fold(f64::INFINITY, f64::min)
    }
}

/// The limit that was exceeded, and by how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exceeded {
    pub(crate) kind: TriggerKind,
    /// The probe's place, for a probe.
    pub(crate) probe: usize,
    pub(crate) limit_ms: f64,
    pub(crate) took_ms: f64,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Turn {
    Same,
    Begun(Exceeded),
    /// The stall is over; all monitors have been within their limits for so many milliseconds.
    Over {
        good_for_ms: f64,
    },
}

/// Follows probes, canary and pressure.
#[derive(Debug)]
pub(crate) struct Detector {
    limits: Limits,
    probes: Vec<Followed>,
    canary: Followed,
    heartbeat: Followed,
    pressure: Followed,
    /// When the kernel's pressure trigger last spoke.
    pressure_at_ms: Option<f64>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, Default)]
struct Followed {
    bad: bool,
    /// Bad since before its last stall was closed: begins no other until it was good.
    chronic: bool,
    answered: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Calm,
    Stalled { since_ms: f64, good_since_ms: Option<f64> },
}

impl Detector {
    pub(crate) fn new(limits: Limits, probes: usize) -> Self {
        Self {
            limits,
            probes: vec![Followed::default(); probes],
            canary: Followed::default(),
            heartbeat: Followed::default(),
            pressure: Followed::default(),
            pressure_at_ms: None,
            phase: Phase::Calm,
        }
    }

    /// Whether there is a stall.
    pub(crate) fn is_stalled(&self) -> bool {
        self.phase != Phase::Calm
    }

    /// Whether all monitors are within their limits, stall or not.
    pub(crate) fn is_good(&self) -> bool {
        !matches!(self.phase, Phase::Stalled { good_since_ms: None, .. })
    }

    /// One look at everything, at `now_ms` of a clock that never goes back.
    pub(crate) fn turn(&mut self, now_ms: f64, seen: Readings<'_>) -> Turn {
        let passed = self.passed(now_ms, seen);
        let bad = self.followed().any(|look| look.bad && !look.chronic);
        match self.phase {
            Phase::Calm => match passed {
                Some(passed) => {
                    self.phase = Phase::Stalled { since_ms: now_ms, good_since_ms: None };
                    Turn::Begun(passed)
                }
                None => Turn::Same,
            },
            Phase::Stalled { since_ms, .. } if now_ms - since_ms >= MAX_STALL_MS => {
                for look in self.followed() {
                    look.chronic = look.bad;
                }
                self.calm(0.0)
            }
            Phase::Stalled { since_ms, .. } if bad => {
                self.phase = Phase::Stalled { since_ms, good_since_ms: None };
                Turn::Same
            }
            Phase::Stalled { since_ms, good_since_ms } => {
                let good_since_ms = good_since_ms.unwrap_or(now_ms);
                if now_ms - good_since_ms >= QUIET_MS {
                    return self.calm(now_ms - good_since_ms);
                }
                self.phase = Phase::Stalled { since_ms, good_since_ms: Some(good_since_ms) };
                Turn::Same
            }
        }
    }

    fn calm(&mut self, good_for_ms: f64) -> Turn {
        self.phase = Phase::Calm;
        Turn::Over { good_for_ms }
    }

    fn followed(&mut self) -> impl Iterator<Item = &mut Followed> {
        let others = [&mut self.canary, &mut self.heartbeat, &mut self.pressure];
        self.probes.iter_mut().chain(others)
    }

    /// The first look that passes its limit in this turn and is no old acquaintance.
    fn passed(&mut self, now_ms: f64, seen: Readings<'_>) -> Option<Exceeded> {
        let mut passed = None;
        for (place, (followed, look)) in self.probes.iter_mut().zip(seen.probes).enumerate() {
            let new = |took_ms| Exceeded {
                kind: TriggerKind::Probe,
                probe: place,
                limit_ms: look.limit_ms,
                took_ms,
            };
            let took_ms = followed.asked(look).filter(|_| !followed.chronic);
            passed = passed.or(took_ms.map(new));
        }
        let (heartbeat, canary) = self.limits.passed_by(seen.canary.unwrap_or_default());
        let pressure = self.pressed(now_ms, seen.pressure);
        let canary = self.canary.follow(canary);
        let heartbeat = self.heartbeat.follow(heartbeat);
        let pressure = self.pressure.follow(pressure);
        passed.or(heartbeat).or(canary).or(pressure)
    }

    /// The kernel's trigger speaks once a window while there is pressure.
    fn pressed(&mut self, now_ms: f64, spoke: bool) -> Option<Exceeded> {
        if spoke {
            self.pressure_at_ms = Some(now_ms);
        }
        let limit_ms = crate::PRESSURE_STALL.as_secs_f64() * 1000.0;
        let recent = self.pressure_at_ms.is_some_and(|at| now_ms - at < PRESSURE_MS);
        recent.then(|| Exceeded::new(TriggerKind::Pressure, limit_ms, limit_ms))
    }
}

impl Limits {
    /// The least of them: what begins now passes none before.
    pub(crate) fn least_ms(&self) -> f64 {
        self.heartbeat_ms().map_or(self.canary_ms, |heartbeat_ms| heartbeat_ms.min(self.canary_ms))
    }

    /// How long until the canary passes a limit, where a touch or a turn is under way; negative
    /// where it has passed one.
    pub(crate) fn canary_passes_in(&self, look: CanaryReading) -> Option<f64> {
        let touch = (look.touching_ms >= FRESH_MS)
            .then_some(self.canary_ms - (look.touching_ms - look.late_ms));
        let heartbeat = self.heartbeat_ms().filter(|_| look.late_ms >= FRESH_MS);
        let heartbeat = heartbeat.map(|limit_ms| limit_ms - look.late_ms);
        touch.into_iter().chain(heartbeat).reduce(f64::min)
    }

    fn heartbeat_ms(&self) -> Option<f64> {
        self.token_ms.map(|token_ms| token_ms * HEARTBEAT_PERCENT / 100.0)
    }

    /// Whether the canary passes the limit of a heartbeat, and its own.
    fn passed_by(&self, look: CanaryReading) -> (Option<Exceeded>, Option<Exceeded>) {
        let heartbeat = self
            .heartbeat_ms()
            .filter(|limit_ms| look.late_ms >= *limit_ms)
            .map(|limit_ms| Exceeded::new(TriggerKind::Heartbeat, limit_ms, look.late_ms));
        // Where the thread that touches nothing is late too, it is processors that are short.
        let canary = (look.touching_ms - look.late_ms >= self.canary_ms)
            .then(|| Exceeded::new(TriggerKind::Canary, self.canary_ms, look.touching_ms));
        (heartbeat, canary)
    }
}

impl Followed {
    /// Follows a look that is bad or good at every turn; what it passed, unless that is old.
    fn follow(&mut self, passed: Option<Exceeded>) -> Option<Exceeded> {
        self.bad = passed.is_some();
        self.chronic &= self.bad;
        passed.filter(|_| !self.chronic)
    }

    /// Follows a probe, which is bad from its limit to its answer, and from a failure to the next
    /// answer; how long it has taken where it passes its limit in this turn.
    fn asked(&mut self, look: &ProbeReading) -> Option<f64> {
        let waiting = look.under_way_ms.filter(|ms| *ms >= look.limit_ms);
        if let Some((number, took_ms, failed)) = look.last.filter(|(n, ..)| *n != self.answered) {
            self.answered = number;
            let slow = took_ms >= look.limit_ms;
            self.bad = failed || waiting.is_some();
            self.chronic &= failed || slow;
            return if failed || slow { Some(took_ms) } else { waiting };
        }
        self.bad |= waiting.is_some();
        waiting
    }
}

impl Exceeded {
    fn new(kind: TriggerKind, limit_ms: f64, took_ms: f64) -> Self {
        Self { kind, probe: 0, limit_ms, took_ms }
    }

    /// The trigger as an incident has it.
    pub(crate) fn trigger(&self, probe_name: &str) -> Trigger {
        let name = match self.kind {
            TriggerKind::Probe => probe_name,
            TriggerKind::Canary => "canary",
            TriggerKind::Pressure => "pressure",
            TriggerKind::Heartbeat => "heartbeat",
        };
        Trigger {
            kind: self.kind,
            name: name.to_owned(),
            limit_ms: self.limit_ms,
            worst_ms: self.took_ms,
            failure: None,
        }
    }
}

#[cfg(test)]
mod tests;
