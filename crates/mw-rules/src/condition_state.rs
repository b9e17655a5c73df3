//! What a check says about the conditions of a Kubernetes node: each is decided by some rules alone. Of a finding only
//! the severity critical makes one true: a pod is not moved for a warning.

use crate::{NodeCondition, RULES, Rule};
use mw_model::{Finding, Report, Severity};

/// State of a condition by a check.
#[derive(Debug, Clone, PartialEq)]
pub enum ConditionState<'a> {
    /// The problem, the worst if there are several.
    True(&'a Finding),
    False,
    /// None of its rules could be checked, and why.
    Unknown(String),
}

impl NodeCondition {
    /// The rules that find the problem.
    pub fn rules(self) -> impl Iterator<Item = &'static Rule> {
        RULES.iter().filter(move |rule| rule.condition == Some(self))
    }

    /// State of it by a check.
    pub fn state(self, report: &Report) -> ConditionState<'_> {
        let is_own = |id: &str| self.rules().any(|rule| rule.id == id);
        let is_problem =
            |finding: &&Finding| finding.severity == Severity::Critical && is_own(&finding.rule);
        if let Some(finding) = report.findings.iter().find(is_problem) {
            return ConditionState::True(finding);
        }
        let mut skipped = report.skipped.iter().filter(|skipped| is_own(&skipped.rule)).peekable();
        match skipped.peek().map(|skipped| skipped.missing.to_string()) {
            Some(why) if skipped.count() == self.rules().count() => ConditionState::Unknown(why),
            _ if report.is_unknown() => ConditionState::Unknown(report.verdict.clone()),
            _ => ConditionState::False,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Missing, SkippedRule, Subject, Window};

    /// Of a machine on which all rules but one could be checked, and found nothing.
    fn report() -> Report {
        let mut report = crate::check(&Window::default(), None);
        report.unchecked.clear();
        report.skipped.clear();
        report.quiet = vec!["shm-limit".to_owned()];
        report
    }

    fn with_finding(rule: &str, severity: Severity) -> Report {
        let mut finding = Finding::new(severity, Subject::Other("memory".to_owned()), "found");
        rule.clone_into(&mut finding.rule);
        Report { findings: vec![finding], worst: Some(severity), ..report() }
    }

    fn skipped(rule: &Rule) -> SkippedRule {
        let missing = Missing::absent("/proc/vmstat", "no such file");
        SkippedRule { rule: rule.id.to_owned(), missing }
    }

    #[test]
    fn every_condition_has_rules_that_look_for_hazards() {
        for condition in NodeCondition::ALL {
            assert!(condition.rules().count() > 0, "{condition:?}");
            assert!(condition.rules().all(Rule::has_hazard), "{condition:?}");
        }
    }

    #[test]
    fn only_a_critical_finding_of_its_rules_is_a_problem() {
        let fragmented = NodeCondition::MemoryFragmented;
        let own = fragmented.rules().next().map_or("", |rule| rule.id);
        for (report, is_fine) in [
            (report(), true),
            (with_finding(own, Severity::Warning), true),
            (with_finding(own, Severity::Critical), false),
            (with_finding("shm-limit", Severity::Critical), true),
        ] {
            let state = fragmented.state(&report);
            assert_eq!(state == ConditionState::False, is_fine, "{state:?}");
        }
    }

    #[test]
    fn it_is_unknown_only_where_none_of_its_rules_could_be_checked() {
        let stalling = NodeCondition::MemoryStalling;
        let mut report = report();
        report.skipped = stalling.rules().map(skipped).collect();
        let why = "/proc/vmstat: no such file";
        assert_eq!(stalling.state(&report), ConditionState::Unknown(why.to_owned()));
        report.skipped.pop();
        assert_eq!(stalling.state(&report), ConditionState::False);
        report.quiet.clear();
        assert!(matches!(stalling.state(&report), ConditionState::Unknown(_)));
    }
}
