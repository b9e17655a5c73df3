//! Selects the incidents that a table is notified of. Pure.

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
    pub open: WhileOpen,
}

/// Incidents that are reported while they last, beside their end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhileOpen {
    /// Those that have lasted for a while; an outage after its first seconds.
    #[default]
    Long,
    /// All, with their first cause.
    AtOnce,
    Never,
}

impl Filter {
    /// True if it is told now, as far as its length goes: of one that lasts that is not known yet.
    pub(crate) fn takes(&self, notice: &Notice) -> bool {
        match notice.state {
            IncidentState::Open if self.open == WhileOpen::Never => false,
            IncidentState::Open if self.open == WhileOpen::Long => is_news(notice),
            _ => self.is_wanted(notice) && self.is_long(notice),
        }
    }

    /// By its cause and severity.
    pub(crate) fn is_wanted(&self, notice: &Notice) -> bool {
        let is_of_cause = self.causes.is_empty() || self.causes.contains(&notice.cause);
        let is_severe = self.min_severity.is_none_or(|least| notice.severity >= least);
        is_of_cause && is_severe && is_news(notice)
    }

    fn is_long(&self, notice: &Notice) -> bool {
        let least_ms = self.min_stall.map_or(0.0, |least| least.as_secs_f64() * 1000.0);
        notice.trigger == TriggerKind::OomKill || notice.stall_ms >= least_ms
    }
}

/// Evidence on request is not reported to those who requested it.
fn is_news(notice: &Notice) -> bool {
    notice.trigger != TriggerKind::Requested
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
        check_on(&notice, Filter { open: WhileOpen::Never, ..usual() }, false);
        check_on(&notice, Filter { min_stall: Some(Duration::from_secs(3)), ..usual() }, true);
        let at_once = Filter { open: WhileOpen::AtOnce, ..usual() };
        check_on(&notice, at_once.clone(), true);
        check_on(&notice, Filter { min_stall: Some(Duration::from_secs(3)), ..at_once }, false);
    }
}
