//! Incidents that last: which are told before their end, and when. Pure: it is told the time.
//!
//! An outage is told once it has lasted for [`LastingDelays::outage`], other incidents later. A service that fails
//! again and again is told each time after twice as long, so that its messages stay few, and one that stays down is
//! told all the same. What was told while it lasted is told again at its end.

use crate::Notice;
use crate::notice_summary::NoticeSummary;
use mw_model::fair::place_to_free;
use mw_model::{Severity, TriggerKind};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Incidents that are remembered, of each kind: those that last, and those that were told. Of more the oldest of whoever
/// has most go.
const MAX_REMEMBERED: usize = 256;

/// Within so long an outage is another one of the same series.
const SERIES: Duration = Duration::from_secs(3600);

/// The longest that an outage of a series lasts before it is told.
const MAX_OUTAGE: Duration = Duration::from_secs(600);

/// The incident of a single kill is over and told before.
const OOM_KILL: Duration = Duration::from_secs(20);

/// A stall of the machine.
const OTHERS: Duration = Duration::from_secs(60);

/// Shortest duration of incidents that are reported while they last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastingDelays {
    pub(crate) outage: Duration,
    /// Shorter stalls are not told.
    pub(crate) least: Duration,
}

#[derive(Debug)]
pub(crate) struct OpenIncidents {
    delays: LastingDelays,
    pending: VecDeque<PendingNotice>,
    told: VecDeque<NoticeSummary>,
    /// Times of the reports of a source's outages.
    outages: BTreeMap<String, VecDeque<Duration>>,
}

#[derive(Debug)]
struct PendingNotice {
    key: String,
    notice: Notice,
    /// Its beginning.
    began: Duration,
    due: Duration,
}

impl OpenIncidents {
    pub(crate) fn new(delays: LastingDelays) -> Self {
        let (pending, told, outages) = Default::default();
        Self { delays, pending, told, outages }
    }

    pub(crate) fn is_told(&self, key: &str) -> bool {
        self.told.iter().any(|told| told.key == key)
    }

    /// An incident lasts; what is known of it replaces what was known before.
    pub(crate) fn wait(&mut self, now: Duration, notice: Notice) {
        let key = notice.key();
        if self.is_told(&key) {
            return;
        }
        if let Some(known) = self.pending.iter_mut().find(|known| known.key == key) {
            known.notice = notice;
            return;
        }
        let lasted = notice.ended_unix_ms.saturating_sub(notice.started_unix_ms);
        let began = now.saturating_sub(Duration::from_millis(lasted));
        let due = began + self.delay(now, &notice);
        self.pending.push_back(PendingNotice { key, notice, began, due });
        free(&mut self.pending, |pending| &pending.notice.source);
    }

    fn delay(&mut self, now: Duration, notice: &Notice) -> Duration {
        match notice.trigger {
            TriggerKind::Probe => self.outage_delay(now, &notice.source).max(self.delays.least),
            TriggerKind::OomKill => OOM_KILL,
            _ => OTHERS.max(self.delays.least),
        }
    }

    fn outage_delay(&mut self, now: Duration, source: &str) -> Duration {
        self.outages.retain(|_, told| {
            told.retain(|at| now.saturating_sub(*at) < SERIES);
            !told.is_empty()
        });
        let told = self.outages.get(source).map_or(0, VecDeque::len);
        let factor = 1_u32.checked_shl(u32::try_from(told).unwrap_or(u32::MAX)).unwrap_or(u32::MAX);
        let most = MAX_OUTAGE.max(self.delays.outage);
        self.delays.outage.saturating_mul(factor).min(most)
    }

    /// Incidents that have lasted long enough: with their length so far, and outages as critical.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<Notice> {
        let mut due = Vec::new();
        self.pending.retain_mut(|pending| {
            if now < pending.due {
                return true;
            }
            let notice = &mut pending.notice;
            let lasted = now.saturating_sub(pending.began).as_secs_f64() * 1000.0;
            notice.lasts_ms = Some(lasted);
            if notice.trigger == TriggerKind::Probe {
                (notice.stall_ms, notice.severity) =
                    (notice.stall_ms.max(lasted), Severity::Critical);
            }
            due.push(notice.clone());
            false
        });
        due
    }

    /// Time of the next report that is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.pending.iter().map(|pending| pending.due).min()
    }

    /// A receiver is told of an incident that lasts.
    pub(crate) fn tell(&mut self, now: Duration, notice: &Notice) {
        if notice.trigger == TriggerKind::Probe {
            self.outages.entry(notice.source.clone()).or_default().push_back(now);
        }
        self.told.push_back(NoticeSummary {
            key: notice.key(),
            source: notice.source.clone(),
            cause: notice.cause.clone(),
            severity: notice.severity,
            cgroup: notice.cgroup.clone(),
        });
        free(&mut self.told, |told| &told.source);
    }

    /// An incident is over: what was told of it while it lasted.
    pub(crate) fn close(&mut self, key: &str) -> Option<NoticeSummary> {
        self.pending.retain(|pending| pending.key != key);
        let place = self.told.iter().position(|told| told.key == key)?;
        self.told.remove(place)
    }
}

fn free<T>(items: &mut VecDeque<T>, source: impl Fn(&T) -> &String) {
    if items.len() > MAX_REMEMBERED {
        let place = place_to_free(items.iter().map(|item| (source(item).as_str(), 1)));
        items.remove(place.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::IncidentState;

    const DELAYS: LastingDelays =
        LastingDelays { outage: Duration::from_secs(5), least: Duration::ZERO };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn open(started_s: u64) -> Notice {
        let (started_unix_ms, ended_unix_ms) = (started_s * 1000, started_s * 1000 + 1000);
        let state = IncidentState::Open;
        Notice { state, started_unix_ms, ended_unix_ms, ..Notice::test("db1", 0) }
    }

    #[test]
    fn an_outage_is_told_after_its_first_seconds_and_once() {
        let mut lasting = OpenIncidents::new(DELAYS);
        lasting.wait(at(101), open(100));
        assert_eq!(lasting.next(), Some(at(105)));
        lasting.wait(at(103), open(100));
        assert!(lasting.due(at(104)).is_empty());
        let due = lasting.due(at(106));
        assert_eq!((due.len(), due[0].severity, due[0].stall_ms), (1, Severity::Critical, 6000.0));
        lasting.tell(at(106), &due[0]);
        lasting.wait(at(110), open(100));
        assert_eq!(lasting.next(), None);
        assert!(lasting.close(&open(100).key()).is_some());
        assert!(lasting.close(&open(100).key()).is_none());
    }

    #[test]
    fn one_that_is_over_before_is_not_told_to_last() {
        let mut lasting = OpenIncidents::new(DELAYS);
        lasting.wait(at(101), open(100));
        assert_eq!(lasting.close(&open(100).key()), None);
        assert_eq!(lasting.next(), None);
    }

    #[test]
    fn a_service_that_fails_again_and_again_is_told_later_each_time_and_always() {
        let mut lasting = OpenIncidents::new(DELAYS);
        let (mut told, mut began) = (0, 0);
        // Down for 6 s, up for 14 s, for an hour.
        for second in 0..3600 {
            if second % 20 == 1 {
                began = second - 1;
                lasting.wait(at(second), open(began));
            }
            for notice in lasting.due(at(second)) {
                lasting.tell(at(second), &notice);
                told += 1;
            }
            if second % 20 == 6 {
                lasting.close(&open(began).key());
            }
        }
        assert_eq!(told, 1);
        lasting.wait(at(3621), open(3620));
        assert_eq!(lasting.next(), Some(at(3625)), "the next hour, and the first is forgotten");
        for _ in 0..20 {
            lasting.tell(at(3630), &open(3620));
        }
        let _ = lasting.close(&open(3620).key());
        lasting.wait(at(3701), open(3700));
        assert_eq!(lasting.next(), Some(at(3700) + MAX_OUTAGE));
    }

    #[test]
    fn nobody_s_incidents_push_out_another_s() {
        let mut lasting = OpenIncidents::new(DELAYS);
        lasting.wait(at(101), Notice { source: "probe/db".to_owned(), ..open(100) });
        for n in 0..2 * MAX_REMEMBERED as u64 {
            let source = format!("oom_kill/user.slice/{n}");
            lasting.wait(at(101), Notice { source, ..open(1000 + n) });
        }
        assert_eq!(lasting.pending.len(), MAX_REMEMBERED);
        assert_eq!(lasting.pending[0].notice.source, "probe/db");
    }
}
