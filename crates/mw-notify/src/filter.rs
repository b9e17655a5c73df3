//! Which incidents a table is notified of. Pure.

use crate::Notice;
use mw_model::{IncidentState, Severity, TriggerKind};
use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Rules of causes, and `unknown`; all where empty.
    pub causes: Vec<String>,
    pub min_severity: Option<Severity>,
    /// A kill of the OOM killer has no length, and is told whatever this is.
    pub min_stall: Option<Duration>,
    /// Also while a stall lasts.
    pub open: bool,
}

impl Filter {
    pub(crate) fn takes(&self, notice: &Notice) -> bool {
        let is_of_cause = self.causes.is_empty() || self.causes.contains(&notice.cause);
        let is_severe = self.min_severity.is_none_or(|least| notice.severity >= least);
        let least_ms = self.min_stall.map_or(0.0, |least| least.as_secs_f64() * 1000.0);
        let is_due = self.open || notice.state != IncidentState::Open;
        let is_long = notice.trigger == TriggerKind::OomKill || notice.stall_ms >= least_ms;
        // Who asked for evidence knows of it.
        let is_news = notice.trigger != TriggerKind::Requested;
        is_of_cause && is_severe && is_due && is_long && is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_on(notice: &Notice, filter: Filter, taken: bool) {
        assert_eq!(filter.takes(notice), taken, "{filter:?}");
    }

    #[test]
    fn by_cause_severity_and_length() {
        let mut notice = Notice::test("db1", 0);
        (notice.cause, notice.severity, notice.stall_ms) =
            ("oom-kill".to_owned(), Severity::Warning, 2000.0);
        let usual = Filter::default;
        check_on(&notice, usual(), true);
        check_on(&notice, Filter { causes: vec!["oom-kill".to_owned()], ..usual() }, true);
        check_on(&notice, Filter { causes: vec!["unknown".to_owned()], ..usual() }, false);
        check_on(&notice, Filter { min_severity: Some(Severity::Warning), ..usual() }, true);
        check_on(&notice, Filter { min_severity: Some(Severity::Critical), ..usual() }, false);
        check_on(&notice, Filter { min_stall: Some(Duration::from_secs(2)), ..usual() }, true);
        check_on(&notice, Filter { min_stall: Some(Duration::from_secs(3)), ..usual() }, false);
        notice.trigger = TriggerKind::OomKill;
        check_on(&notice, Filter { min_stall: Some(Duration::from_secs(3)), ..usual() }, true);
        notice.trigger = TriggerKind::Requested;
        check_on(&notice, usual(), false);
        (notice.trigger, notice.state) = (TriggerKind::Probe, IncidentState::Open);
        assert!(!usual().takes(&notice) && Filter { open: true, ..usual() }.takes(&notice));
    }
}
