//! One message for incidents of one cause and probe within a time, and a limit for all. Pure: it is told the time.
//!
//! The first incident is notified at once. Those that follow within [`Limits::group`] are held back; when that time is over,
//! one message has the last of them and their number.

use crate::Notice;
use mw_model::IncidentState;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Causes and probes that are told apart; with more, none is held back.
const MAX_GROUPS: usize = 256;

/// Stalls that are remembered as notified while they lasted.
const MAX_OPENED: usize = 256;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) group: Duration,
    pub(crate) max_per_hour: usize,
}

#[derive(Debug)]
pub(crate) struct Grouping {
    limits: Limits,
    groups: BTreeMap<(String, String, bool), Group>,
    /// When the messages of the last hour were sent.
    sent: VecDeque<Duration>,
    /// Stalls that were notified while they lasted, with their cause then.
    opened: VecDeque<(String, String)>,
    /// Messages beyond the limit.
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct Group {
    until: Duration,
    held: Option<Notice>,
    count: u64,
}

impl Grouping {
    pub(crate) fn new(limits: Limits) -> Self {
        let (groups, sent, opened) = Default::default();
        Self { limits, groups, sent, opened, refused: 0 }
    }

    /// What is to be sent now.
    pub(crate) fn offer(&mut self, now: Duration, mut notice: Notice) -> Option<Notice> {
        let is_open = notice.state == IncidentState::Open;
        let key = notice.key();
        if let Some(place) = self.opened.iter().position(|(opened, _)| *opened == key) {
            notice.opened_as = self.opened.remove(place).map(|(_, cause)| cause);
            // A receiver that was notified of the beginning is notified of the end.
            return self.permit(now, notice);
        }
        let group = (notice.cause.clone(), notice.probe.clone(), is_open);
        if let Some(group) = self.groups.get_mut(&group).filter(|group| now < group.until) {
            group.count += 1;
            group.held = Some(notice);
            return None;
        }
        if self.groups.len() < MAX_GROUPS {
            let until = now + self.limits.group;
            self.groups.insert(group, Group { until, held: None, count: 0 });
        }
        let permitted = self.permit(now, notice)?;
        if is_open {
            self.opened.push_back((key, permitted.cause.clone()));
            if self.opened.len() > MAX_OPENED {
                self.opened.pop_front();
            }
        }
        Some(permitted)
    }

    /// What was held back until now.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<Notice> {
        let mut due = Vec::new();
        let until = now + self.limits.group;
        self.groups.retain(|_, group| {
            if now < group.until {
                return true;
            }
            let Some(held) = group.held.take() else { return false };
            due.push(Notice { others: group.count.saturating_sub(1), ..held });
            (group.until, group.count) = (until, 0);
            true
        });
        due.into_iter().filter_map(|notice| self.permit(now, notice)).collect()
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.groups.values().map(|group| group.until).min()
    }

    fn permit(&mut self, now: Duration, notice: Notice) -> Option<Notice> {
        while self.sent.front().is_some_and(|sent| now.saturating_sub(*sent) >= HOUR) {
            self.sent.pop_front();
        }
        if self.sent.len() >= self.limits.max_per_hour {
            self.refused += 1;
            return None;
        }
        self.sent.push_back(now);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { group: Duration::from_secs(600), max_per_hour: 4 };

    fn notice(cause: &str, at: u64) -> Notice {
        Notice { cause: cause.to_owned(), ..Notice::test("db1", at) }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_same_cause_within_a_time_is_one_message() {
        let mut grouping = Grouping::new(LIMITS);
        assert!(grouping.offer(at(0), notice("a", 0)).is_some());
        assert!(grouping.offer(at(1), notice("b", 1)).is_some(), "another cause");
        assert!(grouping.offer(at(2), notice("a", 2)).is_none());
        assert!(grouping.offer(at(3), notice("a", 3)).is_none());
        assert!(grouping.due(at(599)).is_empty());
        let due = grouping.due(at(600));
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].others, due[0].started_unix_ms), (1, 3), "the last, and the other");
        assert!(grouping.due(at(1201)).is_empty(), "nothing was held");
        assert_eq!(grouping.next(), None);
    }

    #[test]
    fn messages_are_limited_over_all_causes() {
        let mut grouping = Grouping::new(LIMITS);
        let sent = (0..10).filter_map(|n| grouping.offer(at(n), notice(&format!("c{n}"), n)));
        assert_eq!(sent.count(), LIMITS.max_per_hour);
        assert_eq!(grouping.refused, 6);
        assert!(grouping.offer(at(3600), notice("later", 11)).is_some());
    }

    #[test]
    fn the_end_of_what_was_told_while_it_lasted_is_told() {
        let mut grouping = Grouping::new(LIMITS);
        let open = Notice { state: IncidentState::Open, ..notice("a", 7) };
        assert!(grouping.offer(at(0), open).is_some());
        let closed = grouping.offer(at(5), notice("b", 7)).unwrap();
        assert_eq!(closed.opened_as.as_deref(), Some("a"), "under the cause of the beginning");
    }
}
