//! Decides which kills of the OOM killer belong to one incident. Pure.
//!
//! A kill begins an incident, and those that follow within a quiet time belong to it. Where incidents follow one
//! another within an hour, each has twice the quiet time of the one before: a process that is killed every minute for
//! hours makes a few incidents, the last of which goes on.

/// The quiet time of an incident that follows none.
pub(crate) const LEAST_QUIET_MS: f64 = 10_000.0;
const MOST_QUIET_MS: f64 = 30.0 * 60_000.0;

/// After so long without one, an incident follows none.
const APART_MS: f64 = 60.0 * 60_000.0;

#[derive(Debug, Default)]
pub(crate) struct OomDetector {
    /// Time of the last kill, while an incident is open.
    last_kill_ms: Option<f64>,
    quiet_ms: f64,
    /// Time of the last kill of the last incident.
    ended_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OomTransition {
    Begun,
    Over,
}

impl OomDetector {
    pub(crate) fn is_open(&self) -> bool {
        self.last_kill_ms.is_some()
    }

    /// True if a kill now would follow nothing.
    pub(crate) fn is_forgotten(&self, now_ms: f64) -> bool {
        !self.is_open() && self.ended_ms.is_none_or(|ended_ms| now_ms - ended_ms >= APART_MS)
    }

    /// Takes whether somebody was killed since the last turn.
    pub(crate) fn turn(&mut self, now_ms: f64, killed: bool) -> Option<OomTransition> {
        match self.last_kill_ms {
            None if killed => {
                let follows = self.ended_ms.is_some_and(|ended_ms| now_ms - ended_ms < APART_MS);
                self.quiet_ms =
                    if follows { (self.quiet_ms * 2.0).min(MOST_QUIET_MS) } else { LEAST_QUIET_MS };
                self.last_kill_ms = Some(now_ms);
                Some(OomTransition::Begun)
            }
            Some(_) if killed => {
                self.last_kill_ms = Some(now_ms);
                None
            }
            Some(last_ms) if now_ms - last_ms >= self.quiet_ms => {
                (self.ended_ms, self.last_kill_ms) = (Some(last_ms), None);
                Some(OomTransition::Over)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of incidents of kills that are so far apart, in so many hours.
    fn incidents(apart_s: u32, hours: u32) -> usize {
        let mut detector = OomDetector::default();
        let seconds = (1..=hours * 3600)
            .map(|second| detector.turn(f64::from(second) * 1000.0, second % apart_s == 0));
        seconds.filter(|turn| *turn == Some(OomTransition::Begun)).count()
    }

    /// Promise (The recorder): Kills again and again for hours make a few incidents, not thousands.
    #[test]
    fn kills_again_and_again_are_few_incidents() {
        assert_eq!(incidents(1, 24), 1);
        assert_eq!(incidents(11, 24), 2);
        assert_eq!(incidents(60, 24), 4);
        assert_eq!(incidents(300, 24 * 30), 6);
        assert_eq!(incidents(1700, 24 * 30), 9);
        assert_eq!(incidents(3700, 24), 23, "each for itself");
    }

    #[test]
    fn one_kill_is_over_after_a_quiet_time() {
        let mut detector = OomDetector::default();
        assert_eq!(detector.turn(0.0, false), None);
        assert_eq!(detector.turn(1000.0, true), Some(OomTransition::Begun));
        assert_eq!(detector.turn(1000.0 + LEAST_QUIET_MS - 1.0, false), None);
        assert!(detector.is_open());
        assert_eq!(detector.turn(1000.0 + LEAST_QUIET_MS, false), Some(OomTransition::Over));
        assert!(!detector.is_open());
    }
}
