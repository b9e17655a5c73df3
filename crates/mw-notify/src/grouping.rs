//! One message for incidents of one cause and source within a time. Pure: it is told the time.
//!
//! The first incident is notified at once. Those that follow within the time are held back; when it is over, one message
//! has the worst of them and their number.

use crate::Notice;
use mw_model::IncidentState;
use std::collections::BTreeMap;
use std::time::Duration;

/// Causes and sources that are told apart; with more, none is held back.
const MAX_GROUPS: usize = 256;

#[derive(Debug)]
pub(crate) struct Grouping {
    time: Duration,
    /// By cause, source, and whether it lasts.
    groups: BTreeMap<(String, String, bool), NoticeGroup>,
}

#[derive(Debug)]
struct NoticeGroup {
    until: Duration,
    held: Option<Notice>,
    count: u64,
}

impl Grouping {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, groups: BTreeMap::new() }
    }

    /// Messages to send now.
    pub(crate) fn offer(&mut self, now: Duration, notice: Notice) -> Option<Notice> {
        let is_open = notice.state == IncidentState::Open;
        let key = (notice.cause.clone(), notice.source.clone(), is_open);
        if let Some(group) = self.groups.get_mut(&key).filter(|group| now < group.until) {
            // Of an incident that lasts more is known later.
            let is_known = group.held.as_ref().is_some_and(|held| held.key() == notice.key());
            group.count += u64::from(!is_open || !is_known);
            let is_worse = |held: &Notice| is_worse(held, &notice);
            if !group.held.as_ref().is_some_and(is_worse) {
                group.held = Some(notice);
            }
            return None;
        }
        if self.groups.len() < MAX_GROUPS {
            self.groups.insert(key, NoticeGroup { until: now + self.time, held: None, count: 0 });
        }
        Some(notice)
    }

    /// An incident is over: that it lasts is not told any more.
    pub(crate) fn retract(&mut self, key: &str) {
        for group in self.groups.values_mut() {
            let is_it = |held: &Notice| held.state == IncidentState::Open && held.key() == key;
            if group.held.as_ref().is_some_and(is_it) {
                (group.held, group.count) = (None, group.count.saturating_sub(1));
            }
        }
    }

    /// Messages that were held back until now.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<Notice> {
        let mut due = Vec::new();
        let until = now + self.time;
        self.groups.retain(|_, group| {
            if now < group.until {
                return true;
            }
            let Some(held) = group.held.take() else { return false };
            due.push(Notice { others: group.count.saturating_sub(1), ..held });
            (group.until, group.count) = (until, 0);
            true
        });
        due
    }

    /// Time of the next message that is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.groups.values().map(|group| group.until).min()
    }
}

/// True if one is worse than a later one.
fn is_worse(held: &Notice, later: &Notice) -> bool {
    match held.severity.cmp(&later.severity) {
        std::cmp::Ordering::Equal => held.stall_ms > later.stall_ms,
        order => order == std::cmp::Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Severity;

    fn notice(cause: &str, at: u64) -> Notice {
        Notice { cause: cause.to_owned(), ..Notice::test("db1", at) }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Promise (The recorder): Incidents of one cause and source within a time are one message, and no more are sent
    /// of each source in an hour than configured.
    #[test]
    fn the_same_cause_within_a_time_is_one_message() {
        let mut grouping = Grouping::new(at(600));
        assert!(grouping.offer(at(0), notice("a", 0)).is_some());
        assert!(grouping.offer(at(1), notice("b", 1)).is_some(), "another cause");
        let other = Notice { source: "oom_kill/db".to_owned(), ..notice("a", 1) };
        assert!(grouping.offer(at(1), other).is_some(), "of another cgroup");
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
    fn of_those_held_back_the_worst_is_told() {
        let mut grouping = Grouping::new(at(600));
        let long = |at, stall_ms| Notice { stall_ms, ..notice("a", at) };
        let _ = grouping.offer(at(0), long(0, 1.0));
        for (second, stall_ms) in [(1, 500.0), (2, 9000.0), (3, 700.0)] {
            assert!(grouping.offer(at(second), long(second, stall_ms)).is_none());
        }
        let critical = Notice { severity: Severity::Critical, ..long(4, 1.0) };
        let due = grouping.due(at(600));
        assert_eq!((due[0].started_unix_ms, due[0].others), (2, 2));
        assert!(grouping.offer(at(601), critical).is_none());
        assert!(grouping.offer(at(602), long(5, 9000.0)).is_none());
        assert_eq!(grouping.due(at(1200))[0].started_unix_ms, 4);
    }

    #[test]
    fn an_incident_that_lasts_is_one_however_often_it_is_explained() {
        let mut grouping = Grouping::new(at(600));
        let open = |at| Notice { state: IncidentState::Open, ..notice("a", at) };
        let _ = grouping.offer(at(0), open(0));
        for second in 1..9 {
            assert!(grouping.offer(at(second), open(1)).is_none());
        }
        assert_eq!(grouping.due(at(600))[0].others, 0);
    }

    #[test]
    fn what_is_over_is_not_told_to_last() {
        let mut grouping = Grouping::new(at(600));
        let open = |at| Notice { state: IncidentState::Open, ..notice("a", at) };
        let _ = grouping.offer(at(0), open(0));
        assert!(grouping.offer(at(1), open(1)).is_none());
        grouping.retract(&open(1).key());
        assert!(grouping.due(at(600)).is_empty());
    }
}
