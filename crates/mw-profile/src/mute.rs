//! Tracepoints of waits that fire very often without a stall cost more than they explain: some cgroups
//! are always at their limit. They are switched off then for a while, or until a stall.

use std::time::{Duration, Instant};

/// Records of waits a second from which on it is too much.
const MAX_WAITS_PER_S: f64 = 4000.0;
/// Time for which they are off.
const MUTE: Duration = Duration::from_secs(60);

/// Action on the tracepoints of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    Off,
    On,
}

/// Time until which they are off.
#[derive(Debug)]
pub(crate) struct Mute {
    updated: Instant,
    until: Option<Instant>,
}

impl Mute {
    pub(crate) fn new(now: Instant) -> Self {
        Self { updated: now, until: None }
    }

    /// Counts the `waits` since the last update; whether to switch them now. During a stall they stay on.
    pub(crate) fn update(&mut self, waits: usize, stalled: bool, now: Instant) -> Option<Switch> {
        // Several short rounds are no masses: a second is the least that is judged by.
        let since = now.saturating_duration_since(self.updated).as_secs_f64().max(1.0);
        self.updated = now;
        if stalled {
            self.until = None;
            return None;
        }
        if let Some(until) = self.until {
            return (now >= until).then(|| {
                self.until = None;
                Switch::On
            });
        }
        #[allow(clippy::cast_precision_loss, reason = "a rate")]
        let too_many = waits as f64 > MAX_WAITS_PER_S * since;
        too_many.then(|| {
            self.until = Some(now + MUTE);
            Switch::Off
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rounds: &[(u64, usize, bool, Option<Switch>)]) {
        let start = Instant::now();
        let mut mute = Mute::new(start);
        for (second, waits, stalled, expected) in rounds {
            let now = start + Duration::from_secs(*second);
            assert_eq!(mute.update(*waits, *stalled, now), *expected, "at {second} s");
        }
    }

    #[test]
    fn masses_are_off_for_a_minute() {
        check(&[
            (1, 3900, false, None),
            (2, 5000, false, Some(Switch::Off)),
            (3, 0, false, None),
            (61, 0, false, None),
            (62, 0, false, Some(Switch::On)),
            (63, 5000, false, Some(Switch::Off)),
        ]);
    }

    #[test]
    fn a_stall_turns_them_on_and_keeps_them_so() {
        check(&[
            (1, 5000, false, Some(Switch::Off)),
            (2, 0, true, None),
            (3, 50_000, true, None),
            (4, 0, false, None),
            (70, 0, false, None),
        ]);
    }
}
