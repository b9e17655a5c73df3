//! Fixing findings: which ones, the changes of their remedies, and whether the findings are gone. What helped is
//! persisted.

use crate::apply::{AppliedChange, ApplyOutcome, DONE_ONCE, apply, keep};
use crate::failure::{ApplyError, ChangeError};
use crate::journal::{Journal, JournalError, LOCK_WAIT};
use crate::kernel::Kernel;
use crate::plan::{Plan, PlanError};
use crate::point::nobody;
use crate::status::{ChangeState, changes};
use mw_model::{Consent, Finding, Remedy, Severity, Step};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Number of times that a one-time action is done while its finding remains: one compaction skips pages that are locked
/// or under I/O at that moment.
const MAX_ROUNDS: usize = 3;

/// Settings of a fix.
#[derive(Debug, Clone)]
pub struct FixSettings<'a> {
    /// The rules to fix; if there are none, all whose remedy needs no name.
    pub named: BTreeSet<&'a str>,
    /// The settings of a profile.
    pub profile: Option<Finding>,
    pub dry_run: bool,
    pub persist: bool,
    /// Directory of the journal.
    pub state_dir: &'a Path,
}

/// The findings of a check, before or after.
#[derive(Debug, Clone, Default)]
pub struct CheckFindings {
    pub findings: Vec<Finding>,
    /// Rules that could not be checked.
    pub unchecked: BTreeSet<String>,
}

/// Checks the machine once more.
pub type Recheck<'a, E> = &'a mut dyn FnMut() -> Result<CheckFindings, E>;

/// The result of `fix`, for people and as JSON.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FixReport {
    pub dry_run: bool,
    pub plan: Plan,
    pub applied: ApplyOutcome,
    #[serde(rename = "kept")]
    pub persisted: Vec<AppliedChange>,
    /// Rules with a finding before and none now.
    #[serde(rename = "mended")]
    pub fixed: Vec<String>,
    /// Remaining findings of the rules that were fixed.
    pub remaining: Vec<Finding>,
    /// Rules whose remedy is applied only when they are named.
    pub needs_name: Vec<String>,
    /// Warnings and worse whose remedy memwright does not apply.
    pub manual: Vec<Finding>,
    /// Named rules without a finding.
    pub nothing_found: Vec<String>,
    /// Named rules that could not be checked.
    #[serde(rename = "not_looked")]
    pub could_not_check: Vec<String>,
}

/// The reason why a fix was not carried out. `E` is that of the check.
#[derive(Debug)]
pub enum FixError<E> {
    Check(E),
    Plan(PlanError),
    Journal(JournalError),
    Apply(ApplyError),
    /// The changes are in force, and could not be persisted.
    Persist(ChangeError),
}

impl FixReport {
    /// The changes that these findings need, none of which is made yet.
    ///
    /// # Errors
    /// A setting could not be read, or a remedy is invalid.
    pub fn plan(
        kernel: &Kernel,
        before: &CheckFindings,
        settings: &FixSettings<'_>,
    ) -> Result<Self, PlanError> {
        let named = &settings.named;
        let mut chosen = choose(&before.findings, named);
        chosen.extend(settings.profile.clone());
        Ok(Self {
            dry_run: settings.dry_run,
            needs_name: needs_name(&before.findings, named),
            manual: manual(&before.findings, named),
            nothing_found: absent(named, |id| {
                settings.profile.is_none()
                    && !before.unchecked.contains(id)
                    && before.findings.iter().all(|f| f.rule != id)
            }),
            could_not_check: absent(named, |id| before.unchecked.contains(id)),
            plan: Plan::new(kernel, &chosen)?,
            ..Self::default()
        })
    }

    /// Makes the changes, checks again, and persists what is to be kept.
    ///
    /// # Errors
    /// [`FixError`]; what was changed before is reverted, unless the error says otherwise.
    pub fn carry_out<E>(
        &mut self,
        kernel: &Kernel,
        settings: &FixSettings<'_>,
        recheck: Recheck<'_, E>,
    ) -> Result<(), FixError<E>> {
        let mut journal =
            Journal::lock(settings.state_dir, LOCK_WAIT).map_err(FixError::Journal)?;
        if !self.plan.is_empty() {
            self.apply(kernel, &mut journal, recheck)?;
        }
        if settings.persist {
            for action in self.applied.changes.iter_mut().filter(|change| change.once) {
                action.not_kept = Some(DONE_ONCE.to_owned());
            }
            let ids = self.to_keep(kernel, &journal, settings);
            self.persisted =
                keep(kernel, &mut journal, &ids, &mut nobody).map_err(FixError::Persist)?;
        }
        Ok(())
    }

    /// Applies the plan and checks again.
    fn apply<E>(
        &mut self,
        kernel: &Kernel,
        journal: &mut Journal,
        recheck: Recheck<'_, E>,
    ) -> Result<(), FixError<E>> {
        self.applied =
            apply(kernel, journal, &self.plan, false, &mut nobody).map_err(FixError::Apply)?;
        let touched: BTreeSet<&str> = self
            .plan
            .changes
            .iter()
            .flat_map(|change| std::iter::once(&change.rule).chain(&change.also))
            .map(String::as_str)
            .collect();
        let mut after = recheck().map_err(FixError::Check)?;
        for _ in 1..MAX_ROUNDS {
            let again: Vec<Finding> = after
                .findings
                .iter()
                .filter(|found| is_worth_repeating(found, &touched))
                .cloned()
                .collect();
            if again.is_empty() {
                break;
            }
            let plan = Plan::new(kernel, &again).map_err(FixError::Plan)?;
            let more =
                apply(kernel, journal, &plan, false, &mut nobody).map_err(FixError::Apply)?;
            self.applied.changes.extend(more.changes);
            after = recheck().map_err(FixError::Check)?;
        }
        self.remaining =
            after.findings.into_iter().filter(|f| touched.contains(f.rule.as_str())).collect();
        let still: BTreeSet<&str> = self.remaining.iter().map(|f| f.rule.as_str()).collect();
        self.fixed = touched.difference(&still).map(|rule| (*rule).to_owned()).collect();
        Ok(())
    }

    /// The changes to keep across reboots: those of this run that helped, and those that an earlier run
    /// made and that are in force.
    fn to_keep(&self, kernel: &Kernel, journal: &Journal, settings: &FixSettings<'_>) -> Vec<u64> {
        let FixSettings { named, profile, .. } = settings;
        let of_this_run = |id: u64| self.applied.changes.iter().any(|change| change.id == id);
        let is_wanted = |rule: &str| {
            let is_of_profile = profile.as_ref().is_some_and(|profile| profile.rule == rule);
            is_of_profile || named.is_empty() || named.contains(rule)
        };
        changes(kernel, journal.history())
            .changes
            .into_iter()
            .filter(|change| change.state == ChangeState::InForce && change.kept_in.is_none())
            .filter(|change| match of_this_run(change.id) {
                true => self.fixed.contains(&change.rule),
                false => is_wanted(&change.rule),
            })
            .map(|change| change.id)
            .collect()
    }
}

/// The findings to fix: of the named rules, or all whose remedy needs no name.
fn choose(findings: &[Finding], named: &BTreeSet<&str>) -> Vec<Finding> {
    let wanted = |finding: &&Finding| match &finding.remedy {
        _ if !named.is_empty() => named.contains(finding.rule.as_str()),
        Some(remedy) => remedy.is_ours() && remedy.consent == Consent::Automatic,
        None => false,
    };
    findings.iter().filter(wanted).cloned().collect()
}

fn needs_name(findings: &[Finding], named: &BTreeSet<&str>) -> Vec<String> {
    if !named.is_empty() {
        return Vec::new();
    }
    let only_named = |finding: &&Finding| {
        finding.remedy.as_ref().is_some_and(|r| r.is_ours() && r.consent == Consent::Named)
    };
    let rules: BTreeSet<String> =
        findings.iter().filter(only_named).map(|finding| finding.rule.clone()).collect();
    rules.into_iter().collect()
}

/// Warnings of `check` that `fix` leaves, where no rule is named.
fn manual(findings: &[Finding], named: &BTreeSet<&str>) -> Vec<Finding> {
    let is_ours = |finding: &Finding| finding.remedy.as_ref().is_some_and(Remedy::is_ours);
    let is_left = |finding: &&Finding| {
        named.is_empty() && finding.severity >= Severity::Warning && !is_ours(finding)
    };
    findings.iter().filter(is_left).cloned().collect()
}

fn absent(named: &BTreeSet<&str>, is: impl Fn(&str) -> bool) -> Vec<String> {
    named.iter().filter(|id| is(id)).map(|id| (*id).to_owned()).collect()
}

/// True if a finding that remains has a remedy of one-time actions only. A remedy with a step for a person
/// does not get further by itself.
fn is_worth_repeating(found: &Finding, touched: &BTreeSet<&str>) -> bool {
    let is_action = |step: &Step| matches!(step, Step::Once { .. });
    touched.contains(found.rule.as_str())
        && found
            .remedy
            .as_ref()
            .is_some_and(|remedy| !remedy.steps.is_empty() && remedy.steps.iter().all(is_action))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Subject;

    const COMPACT: &str = "/proc/sys/vm/compact_memory";

    fn finding(rule: &str, severity: Severity, steps: Vec<Step>) -> Finding {
        Finding {
            rule: rule.to_owned(),
            ..Finding::new(severity, Subject::Node(0), "it is full")
                .with_remedy(Remedy::named("free it", steps))
        }
    }

    fn compact() -> Step {
        Step::Once { path: COMPACT.to_owned(), value: "1".to_owned() }
    }

    /// Promise (Fixing): A one-time action is repeated while its finding remains, three times at most.
    #[test]
    fn only_what_a_further_action_may_fix_is_repeated() {
        let warning = |rule, steps| finding(rule, Severity::Warning, steps);
        let touched = BTreeSet::from(["rule"]);
        assert!(is_worth_repeating(&warning("rule", vec![compact()]), &touched));
        assert!(!is_worth_repeating(&warning("another", vec![compact()]), &touched));
        let by_hand = warning("rule", vec![compact(), Step::manual("end the program")]);
        assert!(!is_worth_repeating(&by_hand, &touched));
        assert!(!is_worth_repeating(&warning("rule", Vec::new()), &touched));
    }

    #[test]
    fn only_warnings_without_a_change_are_left_to_people() {
        let by_hand = || vec![Step::manual("rm -r /dev/shm/x")];
        let findings = vec![
            finding("tmpfs-full", Severity::Warning, by_hand()),
            finding("note", Severity::Note, by_hand()),
            finding("fragmented-node", Severity::Warning, vec![compact()]),
        ];
        assert!(manual(&findings, &BTreeSet::from(["note"])).is_empty());
        let manual = manual(&findings, &BTreeSet::new());
        assert_eq!(manual.len(), 1);
        assert_eq!(manual[0].rule, "tmpfs-full");
    }
}
