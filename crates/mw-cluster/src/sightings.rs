//! Findings that last: what acts on a node (a drain, a condition) acts on them, not on a moment.

use mw_model::{Report, Severity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The checks that have to find it.
const MIN_CHECKS: u32 = 3;

/// A finding that no check has confirmed for so long begins anew.
const GAP_MS: u64 = 15 * 60 * 1000;

const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Critical];

/// Rules with a finding of a severity at least, and when it was found; of one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sightings {
    boot_id: String,
    /// Sightings by `RULE SEVERITY`.
    found: BTreeMap<String, Sighting>,
}

/// Times are in milliseconds since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Sighting {
    first_ms: u64,
    last_ms: u64,
    checks: u32,
}

impl Sighting {
    /// Counts another check that found it.
    fn again(known: Option<Self>, now_ms: u64) -> Self {
        let known = known.filter(|known| now_ms.saturating_sub(known.last_ms) <= GAP_MS);
        Self {
            first_ms: known.map_or(now_ms, |known| known.first_ms.min(now_ms)),
            last_ms: now_ms,
            checks: known.map_or(0, |known| known.checks).saturating_add(1),
        }
    }
}

fn key(rule: &str, severity: Severity) -> String {
    format!("{rule} {severity}")
}

impl Sightings {
    /// No sighting yet, of the boot with this id.
    #[must_use]
    pub fn of_boot(boot_id: &str) -> Self {
        Self { boot_id: boot_id.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Takes what a check has found about the machine. Rules that it did not check, or could not, stay as they were.
    pub fn note(&mut self, report: &Report, now_ms: u64) {
        let mut worst: BTreeMap<&str, Option<Severity>> =
            report.quiet.iter().map(|rule| (rule.as_str(), None)).collect();
        for finding in &report.findings {
            let severity = Some(finding.severity).filter(|_| finding.subject.is_machine());
            let known = worst.entry(&finding.rule).or_default();
            *known = severity.max(*known);
        }
        for (rule, worst) in worst {
            for severity in SEVERITIES {
                let key = key(rule, severity);
                let known = self.found.remove(&key);
                if worst >= Some(severity) {
                    self.found.insert(key, Sighting::again(known, now_ms));
                }
            }
        }
    }

    /// True if a rule's finding has been of this severity at least for `least`, in several checks; in this one, where
    /// that is zero.
    #[must_use]
    pub fn lasts(&self, rule: &str, severity: Severity, least: Duration) -> bool {
        let min_checks = if least.is_zero() { 1 } else { MIN_CHECKS };
        let least_ms = u64::try_from(least.as_millis()).unwrap_or(u64::MAX);
        self.found.get(&key(rule, severity)).is_some_and(
            |Sighting { first_ms, last_ms, checks }| {
                *checks >= min_checks && last_ms.saturating_sub(*first_ms) >= least_ms
            },
        )
    }

    /// Has critical findings that do not last count as warnings.
    pub fn settle(&self, report: &mut Report, least: Duration) {
        for finding in &mut report.findings {
            if !self.lasts(&finding.rule, Severity::Critical, least) {
                finding.severity = finding.severity.min(Severity::Warning);
            }
        }
        mw_rules::sum_up(report);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Area, Finding, Subject};

    const MINUTE: u64 = 60_000;
    const LEAST: Duration = Duration::from_secs(180);

    const RULE: &str = "reclaim-storm";

    /// A report with a finding of the rule, or none.
    fn report(found: Option<(Severity, Subject)>) -> Report {
        let mut report = mw_rules::check(&mw_model::Window::default(), None);
        match found {
            Some((severity, subject)) => {
                let mut finding = Finding::new(severity, subject, "found");
                finding.rule = RULE.to_owned();
                report.findings = vec![finding];
            }
            None => report.quiet = vec![RULE.to_owned()],
        }
        report
    }

    fn found(severity: Severity) -> Report {
        report(Some((severity, Area::Reclaim.into())))
    }

    fn seen_at(minutes: &[u64]) -> Sightings {
        let mut sightings = Sightings::default();
        for minute in minutes {
            sightings.note(&found(Severity::Critical), minute * MINUTE);
        }
        sightings
    }

    fn lasts(sightings: &Sightings) -> bool {
        sightings.lasts(RULE, Severity::Critical, LEAST)
    }

    #[test]
    fn a_finding_lasts_after_minutes_and_several_checks() {
        let lasts = |minutes: &[u64]| lasts(&seen_at(minutes));
        assert!(!lasts(&[0]));
        assert!(!lasts(&[0, 1, 2]), "too short");
        assert!(!lasts(&[0, 5]), "two checks may have met two moments");
        assert!(lasts(&[0, 1, 2, 3]));
        assert!(!lasts(&[0, 1, 2, 30]), "nobody checked between");
    }

    #[test]
    fn a_check_without_the_finding_begins_anew() {
        for other in [report(None), found(Severity::Note)] {
            let mut sightings = seen_at(&[0, 1, 2]);
            sightings.note(&other, 3 * MINUTE);
            sightings.note(&found(Severity::Critical), 4 * MINUTE);
            assert!(!lasts(&sightings));
        }
    }

    #[test]
    fn a_check_of_other_rules_changes_nothing() {
        let mut sightings = seen_at(&[0, 1, 2]);
        let mut other = report(None);
        other.quiet = vec!["oom-kill".to_owned()];
        sightings.note(&other, 2 * MINUTE);
        sightings.note(&found(Severity::Critical), 3 * MINUTE);
        assert!(lasts(&sightings));
    }

    #[test]
    fn a_note_for_hours_makes_no_critical_moment_last() {
        let mut sightings = Sightings::default();
        for minute in 0..60 {
            sightings.note(&found(Severity::Note), minute * MINUTE);
        }
        sightings.note(&found(Severity::Critical), 60 * MINUTE);
        assert!(!lasts(&sightings));
        assert!(sightings.lasts(RULE, Severity::Note, LEAST));
    }

    #[test]
    fn a_process_at_its_limit_never_lasts() {
        let mut sightings = Sightings::default();
        for minute in 0..9 {
            let of_a_user = (Severity::Critical, Subject::Process("toy".to_owned()));
            sightings.note(&report(Some(of_a_user)), minute * MINUTE);
        }
        assert!(!sightings.lasts(RULE, Severity::Note, Duration::ZERO));
    }

    #[test]
    fn what_does_not_last_is_a_warning() {
        let mut report = found(Severity::Critical);
        seen_at(&[0, 1, 2, 3]).settle(&mut report, LEAST);
        assert_eq!(report.worst, Some(Severity::Critical));
        seen_at(&[0]).settle(&mut report, LEAST);
        assert_eq!(report.worst, Some(Severity::Warning));
    }
}
