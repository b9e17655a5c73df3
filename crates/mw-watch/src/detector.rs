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

use crate::clock::float_ms;
use crate::stall::{Monitor, Stall};
use mw_probe::{ProbeReading, ProbeRequest};

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
pub(crate) struct MonitorLimits {
    /// Of touching new pages.
    pub(crate) canary_ms: f64,
    /// Token timeout of a heartbeat that the machine must keep.
    pub(crate) token_ms: Option<f64>,
}

/// State of the canary.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CanaryReading {
    pub(crate) touching_ms: f64,
    /// Delay of the thread that touches nothing.
    pub(crate) late_ms: f64,
}

/// Time of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnTime {
    /// By a clock that never goes back.
    pub(crate) monotonic_ms: f64,
    pub(crate) unix_ms: u64,
}

/// Readings of all monitors in one turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MonitorReadings<'a> {
    pub(crate) time: TurnTime,
    pub(crate) probes: &'a [ProbeReading],
    pub(crate) canary: Option<CanaryReading>,
    /// True if the kernel's pressure trigger has fired since the last turn.
    pub(crate) pressure: bool,
    /// True if evidence was requested since the last turn.
    pub(crate) requested: bool,
}

impl MonitorReadings<'_> {
    /// Time until the next request or touch that is under way passes its limit, or the share of it that
    /// raises the alarm, in milliseconds; infinite where none is. Those that have passed it are no more waited
    /// for.
    pub(crate) fn passes_in(&self, limits: &MonitorLimits) -> f64 {
        let probe = |probe: &ProbeReading| {
            let elapsed = probe.under_way?.elapsed;
            Some([probe.limit, probe.alarm_after].map(|until| float_ms(until) - float_ms(elapsed)))
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
    pub(crate) fn are_alarming(&self, limits: &MonitorLimits) -> bool {
        let slow = |probe: &ProbeReading| {
            probe.under_way.is_some_and(|request| request.elapsed >= probe.alarm_after)
        };
        let alarms = limits.scaled(ALARM_SHARE).passed_by(self.canary.unwrap_or_default());
        self.probes.iter().any(slow) || alarms.iter().any(Option::is_some)
    }
}

/// Follows probes, canary and pressure.
#[derive(Debug)]
pub(crate) struct Detector {
    limits: MonitorLimits,
    probes: Vec<MonitorState>,
    /// In the order of [`OTHERS`].
    others: [MonitorState; OTHERS.len()],
    /// Time at which the kernel's pressure trigger last fired.
    pressure_at_ms: Option<f64>,
    /// Time at which evidence was last requested.
    requested_at_ms: Option<f64>,
}

/// One monitor.
#[derive(Debug)]
struct MonitorState {
    monitor: Monitor,
    /// Its name, where it is a probe.
    name: String,
    limit_ms: f64,
    bad: bool,
    /// The last request that ended.
    answered: u64,
    /// The stall under way.
    stall: Option<Stall>,
    good_since_ms: Option<f64>,
    /// Beginning of the last stall, and its longest duration, where it is the machine's.
    began_ms: f64,
    span_ms: f64,
    ended_ms: Option<f64>,
    /// True if that followed another one shortly.
    follows: bool,
}

/// The monitors that are not probes.
const OTHERS: [Monitor; 4] =
    [Monitor::Heartbeat, Monitor::Canary, Monitor::Pressure, Monitor::Requested];

impl Detector {
    /// Follows the probes of these names, in this order.
    pub(crate) fn new(limits: MonitorLimits, probes: impl IntoIterator<Item = String>) -> Self {
        let probes = probes.into_iter().enumerate();
        let pressure_ms = float_ms(crate::PRESSURE_STALL);
        Self {
            limits,
            probes: probes
                .map(|(place, name)| MonitorState::new(Monitor::Probe(place), name, 0.0))
                .collect(),
            others: OTHERS.map(|monitor| {
                let limit_ms = match monitor {
                    Monitor::Heartbeat => limits.heartbeat_ms().unwrap_or(0.0),
                    Monitor::Canary => limits.canary_ms,
                    Monitor::Pressure => pressure_ms,
                    Monitor::Probe(_) | Monitor::Requested | Monitor::OomKill(_) => 0.0,
                };
                MonitorState::new(monitor, String::new(), limit_ms)
            }),
            pressure_at_ms: None,
            requested_at_ms: None,
        }
    }

    /// True if there is a stall of any monitor.
    pub(crate) fn is_stalled(&self) -> bool {
        self.states().any(MonitorState::is_stalled)
    }

    /// True if all monitors are within their limits, stall or not.
    pub(crate) fn is_good(&self) -> bool {
        !self.states().any(|followed| followed.bad)
    }

    /// The stalls of probes that last.
    pub(crate) fn probe_stalls(&self) -> impl Iterator<Item = &Stall> {
        self.probes.iter().filter_map(|probe| probe.stall.as_ref())
    }

    /// Takes one reading of everything, and puts the stalls that begin or end with it into the list.
    pub(crate) fn turn(&mut self, readings: &MonitorReadings<'_>, into: &mut Vec<Stall>) {
        into.clear();
        let time = readings.time;
        for (followed, probe) in self.probes.iter_mut().zip(readings.probes) {
            into.extend(followed.turn_probe(time, probe));
        }
        let [heartbeat, canary] = self.limits.passed_by(readings.canary.unwrap_or_default());
        let pressure = self.note_pressure(time.monotonic_ms, readings.pressure);
        let requested = self.note_request(time.monotonic_ms, readings.requested);
        for (place, took_ms) in [heartbeat, canary, pressure, requested].into_iter().enumerate() {
            let is_hidden = self.hides(time.monotonic_ms);
            let Some(followed) = self.others.get_mut(place) else { continue };
            followed.bad = took_ms.is_some();
            let is_requested = followed.monitor == Monitor::Requested;
            let begins = is_requested || !is_hidden;
            let took_ms = took_ms.filter(|_| followed.is_stalled() || begins);
            into.extend(match !is_requested && followed.is_long(time.monotonic_ms) {
                true => followed.end(time, 0.0),
                false => followed.step(time, took_ms),
            });
        }
    }

    /// True if a stall is under way of which others are evidence; one that was asked for is not.
    fn hides(&self, now_ms: f64) -> bool {
        let is_young = |followed: &&MonitorState| {
            followed.is_stalled() && now_ms - followed.began_ms < HIDES_MS
        };
        let others = self.others.iter().filter(|other| other.monitor != Monitor::Requested);
        let mut measured = others.filter(is_young);
        self.probes.iter().any(|probe| is_young(&probe)) || measured.any(|other| !other.follows)
    }

    fn states(&self) -> impl Iterator<Item = &MonitorState> {
        self.probes.iter().chain(&self.others)
    }

    /// Time of a stall of pressure, while there is one: the kernel's trigger fires once a window.
    fn note_pressure(&mut self, now_ms: f64, fired: bool) -> Option<f64> {
        if fired {
            self.pressure_at_ms = Some(now_ms);
        }
        let recent = self.pressure_at_ms.is_some_and(|at| now_ms - at < PRESSURE_MS);
        recent.then(|| float_ms(crate::PRESSURE_STALL))
    }

    /// Time of a request for evidence, while it lasts: it exceeds no limit.
    fn note_request(&mut self, now_ms: f64, asked: bool) -> Option<f64> {
        if asked {
            self.requested_at_ms = Some(now_ms);
        }
        let lasts = self.requested_at_ms.is_some_and(|at| now_ms - at < REQUESTED_MS);
        lasts.then_some(0.0)
    }
}

impl MonitorLimits {
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

    /// Time by which the canary was late for a heartbeat, and time of its touch, each where it passes its limit.
    fn passed_by(&self, reading: CanaryReading) -> [Option<f64>; 2] {
        let is_late = self.heartbeat_ms().is_some_and(|limit_ms| reading.late_ms >= limit_ms);
        // Where the thread that touches nothing is late too, it is CPUs that are short.
        let is_slow = reading.touching_ms - reading.late_ms >= self.canary_ms;
        [is_late.then_some(reading.late_ms), is_slow.then_some(reading.touching_ms)]
    }
}

impl MonitorState {
    fn new(monitor: Monitor, name: String, limit_ms: f64) -> Self {
        Self {
            monitor,
            name,
            limit_ms,
            bad: false,
            answered: 0,
            stall: None,
            good_since_ms: None,
            began_ms: 0.0,
            span_ms: 0.0,
            ended_ms: None,
            follows: false,
        }
    }

    fn is_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// The stall of a probe that begins or ends with a reading.
    fn turn_probe(&mut self, time: TurnTime, reading: &ProbeReading) -> Option<Stall> {
        self.limit_ms = float_ms(reading.limit);
        let slow = self.slow_requests(reading);
        let first = slow.iter().flatten().next();
        let change = self.step(time, first.map(|request| float_ms(request.elapsed)));
        if let Some(stall) = &mut self.stall {
            slow.into_iter().flatten().for_each(|request| stall.note_request(request));
        }
        change
    }

    /// The requests of a probe that are slow, or failed, in this turn: the one that ended and the one under way. A
    /// probe is bad from its limit to its answer, and from a failure to the next answer.
    fn slow_requests(&mut self, reading: &ProbeReading) -> [Option<ProbeRequest>; 2] {
        let ended = reading.last.filter(|request| request.sequence != self.answered);
        if let Some(request) = ended {
            (self.answered, self.bad) = (request.sequence, request.failed);
        }
        let is_slow = |request: &ProbeRequest| request.elapsed >= reading.limit;
        let waiting = reading.under_way.filter(is_slow);
        self.bad |= waiting.is_some();
        [ended.filter(|request| request.failed || is_slow(request)), waiting]
    }

    fn begin(&mut self, time: TurnTime, took_ms: f64) -> Stall {
        let since = |ended_ms| time.monotonic_ms - ended_ms;
        let since_ms = self.ended_ms.map_or(f64::INFINITY, since);
        self.follows = since_ms < FOLLOWS_MS;
        self.span_ms =
            if since_ms < APART_MS { (self.span_ms * 2.0).min(MAX_SPAN_MS) } else { FIRST_SPAN_MS };
        self.began_ms = time.monotonic_ms;
        self.good_since_ms = None;
        let stall = Stall::new(self.monitor, &self.name, self.limit_ms, took_ms, time.unix_ms);
        self.stall.insert(stall).clone()
    }

    fn end(&mut self, time: TurnTime, good_for_ms: f64) -> Option<Stall> {
        self.ended_ms = Some(time.monotonic_ms);
        let ended_unix_ms = Some(time.unix_ms.saturating_sub(good_for_ms as u64));
        self.stall.take().map(|stall| Stall { ended_unix_ms, ..stall })
    }

    /// True if its stall has lasted for so long that what goes on is another.
    fn is_long(&self, now_ms: f64) -> bool {
        self.is_stalled() && now_ms - self.began_ms >= self.span_ms
    }

    /// The stall that begins or ends in a turn in which the monitor took so long that it passed its limit.
    fn step(&mut self, time: TurnTime, took_ms: Option<f64>) -> Option<Stall> {
        if !self.is_stalled() {
            return took_ms.map(|took_ms| self.begin(time, took_ms));
        }
        if self.bad || took_ms.is_some() {
            // A slow answer has ended what was bad.
            self.good_since_ms = (!self.bad).then_some(time.monotonic_ms);
            return None;
        }
        let good_since_ms = *self.good_since_ms.get_or_insert(time.monotonic_ms);
        let good_for_ms = time.monotonic_ms - good_since_ms;
        if good_for_ms >= QUIET_MS { self.end(time, good_for_ms) } else { None }
    }
}

#[cfg(test)]
mod tests;
