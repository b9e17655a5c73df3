//! Content and time of a receiver's messages: filter, groups and budget of one table. Pure: it is told the time.

use crate::Notice;
use crate::budget::Budget;
use crate::filter::{Filter, WhileOpen};
use crate::grouping::Grouping;
use crate::lasting::{LastingDelays, OpenIncidents};
use crate::receiver_config::ReceiverConfig;
use mw_model::{IncidentState, TriggerKind};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Schedule {
    filter: Filter,
    lasting: OpenIncidents,
    grouping: Grouping,
    budget: Budget,
}

impl Schedule {
    pub(crate) fn new(table: &ReceiverConfig) -> Self {
        let filter = table.filter.clone();
        let least = filter.min_stall.unwrap_or_default();
        Self {
            filter,
            lasting: OpenIncidents::new(LastingDelays { outage: table.outage, least }),
            grouping: Grouping::new(table.group),
            budget: Budget::new(table.max_per_hour),
        }
    }

    /// Messages to send now.
    pub(crate) fn offer(&mut self, now: Duration, mut notice: Notice) -> Option<Notice> {
        let key = notice.key();
        if notice.state == IncidentState::Open {
            if !self.filter.takes(&notice) || self.lasting.is_told(&key) {
                return None;
            }
            if self.filter.open == WhileOpen::Long {
                self.lasting.wait(now, notice);
                return None;
            }
            return self.group(now, notice);
        }
        self.grouping.retract(&key);
        if let Some(told) = self.lasting.close(&key) {
            // A receiver that was notified of the beginning is notified of the end, whatever came of it.
            notice.severity = told.severity;
            notice.opened_as = Some(told);
            return Some(notice);
        }
        let notice = self.filter.takes(&notice).then_some(notice)?;
        self.group(now, notice)
    }

    fn group(&mut self, now: Duration, notice: Notice) -> Option<Notice> {
        let notice = self.grouping.offer(now, notice)?;
        self.permit(now, notice)
    }

    fn permit(&mut self, now: Duration, notice: Notice) -> Option<Notice> {
        if !self.budget.permits(now, &notice) {
            return None;
        }
        if notice.state == IncidentState::Open {
            self.lasting.tell(now, &notice);
        }
        Some(notice)
    }

    /// Messages that were held back until now.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<Notice> {
        let mut sent = Vec::new();
        for notice in self.lasting.due(now) {
            if !self.filter.is_wanted(&notice) {
                continue;
            }
            // The messages of an outage are few by themselves.
            let is_outage = notice.trigger == TriggerKind::Probe;
            sent.extend(match is_outage {
                true => self.permit(now, notice),
                false => self.group(now, notice),
            });
        }
        let held = self.grouping.due(now);
        sent.extend(held.into_iter().filter_map(|notice| self.permit(now, notice)));
        sent
    }

    /// Time of the next message that is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.lasting.next().into_iter().chain(self.grouping.next()).min()
    }

    /// Messages beyond the budget since that was last asked.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.budget.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver_config::ReceiverTarget;
    use mw_model::Severity;

    fn table() -> ReceiverConfig {
        ReceiverConfig {
            name: "test".to_owned(),
            target: ReceiverTarget::journal(),
            filter: Filter::default(),
            timeout: Duration::from_secs(1),
            outage: Duration::from_secs(5),
            group: Duration::from_secs(600),
            max_per_hour: 4,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn oom_kill(cgroup: &str, incident: u64) -> Notice {
        let (trigger, severity) = (TriggerKind::OomKill, Severity::Critical);
        let source = format!("oom_kill{}", mw_model::fair::cgroup_tree(cgroup));
        Notice { trigger, severity, incident, source, ..Notice::test("db1", incident) }
    }

    /// Of a probe, the incident that began at this second.
    fn probe(state: IncidentState, started_s: u64) -> Notice {
        let started_unix_ms = started_s * 1000;
        let ended_unix_ms = started_unix_ms + 1000;
        let (source, cause) = ("probe/db".to_owned(), format!("cause-{started_s}"));
        let notice = Notice::test("db1", 0);
        Notice { state, started_unix_ms, ended_unix_ms, source, cause, ..notice }
    }

    /// Promise (The recorder): By default an outage is told after its first seconds and again when it is over,
    /// whatever else happens on the machine.
    #[test]
    fn a_database_that_is_down_is_told_by_default_and_again_when_it_is_back() {
        let mut schedule = Schedule::new(&table());
        // A user's kills have used up what is his.
        for n in 0..100 {
            let mine = Notice { cause: format!("c{n}"), ..oom_kill("/user.slice/u1/x", n) };
            let _ = schedule.offer(at(n), mine);
        }
        assert!(schedule.take_refused() > 90);
        assert!(schedule.offer(at(201), probe(IncidentState::Open, 200)).is_none());
        assert_eq!(schedule.next(), Some(at(205)));
        let told = schedule.due(at(205));
        assert_eq!((told.len(), told[0].severity), (1, Severity::Critical));
        assert!(schedule.offer(at(208), probe(IncidentState::Open, 200)).is_none(), "told once");
        let over = schedule.offer(at(900), probe(IncidentState::Closed, 200)).unwrap();
        assert_eq!((over.severity, over.opened_as.is_some()), (Severity::Critical, true));
    }

    #[test]
    fn the_end_of_what_was_told_passes_every_filter() {
        let filter = Filter { min_severity: Some(Severity::Critical), ..Filter::default() };
        let mut schedule = Schedule::new(&ReceiverConfig { filter, max_per_hour: 1, ..table() });
        schedule.offer(at(201), probe(IncidentState::Open, 200));
        assert_eq!(schedule.due(at(205)).len(), 1);
        let note = Notice { severity: Severity::Note, ..probe(IncidentState::Closed, 200) };
        assert!(schedule.offer(at(300), note.clone()).is_some());
        assert!(schedule.offer(at(300), note).is_none(), "it is not wanted otherwise");
    }

    #[test]
    fn short_stalls_are_told_at_their_end_and_no_outage_before_the_least_length() {
        let filter = Filter { min_stall: Some(at(30)), ..Filter::default() };
        let mut schedule = Schedule::new(&ReceiverConfig { filter, ..table() });
        schedule.offer(at(201), probe(IncidentState::Open, 200));
        assert_eq!(schedule.next(), Some(at(230)));
        let short = Notice { stall_ms: 2000.0, ..probe(IncidentState::Closed, 200) };
        assert!(schedule.offer(at(203), short).is_none());
        assert!(schedule.due(at(300)).is_empty());
    }

    #[test]
    fn kills_that_go_on_are_told_before_their_incident_is_over() {
        let mut schedule = Schedule::new(&table());
        let open = Notice { state: IncidentState::Open, ..oom_kill("/db", 7) };
        assert!(schedule.offer(at(1), open).is_none());
        assert!(schedule.due(at(19)).is_empty());
        assert_eq!(schedule.due(at(21)).len(), 1);
        assert!(schedule.offer(at(1800), oom_kill("/db", 7)).is_some());
    }

    #[test]
    fn all_are_told_at_once_where_that_is_wanted_and_none_where_not() {
        let open = |open| {
            Schedule::new(&ReceiverConfig {
                filter: Filter { open, ..Filter::default() },
                ..table()
            })
        };
        let mut at_once = open(WhileOpen::AtOnce);
        assert!(at_once.offer(at(201), probe(IncidentState::Open, 200)).is_some());
        assert!(at_once.offer(at(202), probe(IncidentState::Open, 200)).is_none(), "once");
        let closed = Notice { cause: "b".to_owned(), ..probe(IncidentState::Closed, 200) };
        let closed = at_once.offer(at(205), closed).unwrap();
        let told = closed.opened_as.unwrap();
        assert_eq!(told.cause, "cause-200", "under the cause of the beginning");
        let mut never = open(WhileOpen::Never);
        assert!(never.offer(at(201), probe(IncidentState::Open, 200)).is_none());
        assert_eq!(never.next(), None);
    }
}
