//! Messages on their way to one receiver: what was not delivered is tried again later, and delays no other. Pure: it is
//! told the time.

use crate::Notice;
use crate::delivery_error::DeliveryError;
use crate::queue::free;
use std::collections::VecDeque;
use std::time::Duration;

/// Period in which a message is tried again, and the pauses between two tries: the receiver may ask for longer ones only.
const RETRY_FOR: Duration = Duration::from_secs(15 * 60);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) notice: Notice,
    pub(crate) tries: u32,
    began: Duration,
    pause: Duration,
    due: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Attempts {
    waiting: VecDeque<Attempt>,
}

/// Fate of a message that was not delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeliveryFate {
    Again,
    GivenUp,
}

impl Attempts {
    /// Adds a message. How many had to go for it.
    pub(crate) fn add(&mut self, now: Duration, notice: Notice) -> u64 {
        let (tries, pause) = (0, FIRST_PAUSE);
        self.waiting.push_back(Attempt { notice, tries, began: now, pause, due: now });
        free(&mut self.waiting, |attempt| &attempt.notice)
    }

    /// The message to be tried now, or at once the last time: that of a service first.
    pub(crate) fn take(&mut self, now: Duration, is_last: bool) -> Option<Attempt> {
        let due = self.waiting.iter().enumerate().filter(|(_, one)| is_last || one.due <= now);
        let first = due.min_by_key(|(_, one)| (!one.notice.is_of_service(), one.due));
        let (place, _) = first?;
        let mut attempt = self.waiting.remove(place)?;
        attempt.tries += 1;
        Some(attempt)
    }

    /// Time of the next try.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.waiting.iter().map(|attempt| attempt.due).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A message was not delivered.
    pub(crate) fn failed(
        &mut self,
        now: Duration,
        attempt: Attempt,
        failed: &DeliveryError,
    ) -> DeliveryFate {
        let rest = failed.after.unwrap_or_default().max(attempt.pause);
        let is_late = now.saturating_sub(attempt.began) + rest > RETRY_FOR;
        if !failed.again || is_late {
            return DeliveryFate::GivenUp;
        }
        let pause = (attempt.pause * 2).min(MAX_PAUSE);
        self.waiting.push_back(Attempt { pause, due: now + rest, ..attempt });
        DeliveryFate::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Severity;

    /// Number of tries of a message in 15 minutes, if the receiver asks for this pause each time.
    fn tries(after: Option<Duration>) -> u32 {
        let mut attempts = Attempts::default();
        attempts.add(Duration::ZERO, Notice::test("h", 0));
        let (mut tries, mut now) = (0, Duration::ZERO);
        while let Some(next) = attempts.next() {
            now = now.max(next);
            let Some(attempt) = attempts.take(now, false) else { break };
            tries = attempt.tries;
            let failed = DeliveryError { text: String::new(), again: true, after };
            attempts.failed(now, attempt, &failed);
        }
        tries
    }

    #[test]
    fn a_receiver_that_asks_for_no_pause_gets_the_usual_ones() {
        assert_eq!(tries(None), 20);
        assert_eq!(tries(Some(Duration::ZERO)), 20);
        assert_eq!(tries(Some(Duration::from_secs(300))), 4);
    }

    #[test]
    fn a_message_that_fails_holds_up_no_other() {
        let mut attempts = Attempts::default();
        attempts.add(Duration::ZERO, Notice::test("h", 0));
        let first = attempts.take(Duration::ZERO, false).unwrap();
        attempts.failed(Duration::ZERO, first, &DeliveryError::for_now("x"));
        attempts.add(Duration::ZERO, Notice::test("h", 1));
        attempts
            .add(Duration::ZERO, Notice { severity: Severity::Critical, ..Notice::test("h", 2) });
        let next = attempts.take(Duration::ZERO, false).unwrap();
        assert_eq!(next.notice.started_unix_ms, 2, "a service's first");
        assert_eq!(attempts.take(Duration::ZERO, false).unwrap().notice.started_unix_ms, 1);
        assert!(attempts.take(Duration::ZERO, false).is_none());
        assert_eq!(attempts.take(Duration::ZERO, true).unwrap().tries, 2);
    }
}
