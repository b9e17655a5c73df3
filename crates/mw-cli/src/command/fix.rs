//! `memwright fix`: plans, journals, applies and verifies changes, and persists them.

use crate::args::FixArgs;
use crate::config::Config;
use crate::progress::Spinner;
use crate::{Exit, Failure, advice, live, terminal};
use mw_model::{Consent, Finding, Remedy, Severity, Step, format_count};
use mw_remedy::{
    AppliedChange, ApplyError, ApplyOutcome, ChangeError, ChangeState, DONE_ONCE, Journal,
    JournalError, Kernel, LOCK_WAIT, Plan, apply, changes, keep, nobody, setting_of,
};
use mw_rules::profiles::{self, TuningProfile};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Number of times that a one-time action is done while its finding remains: one compaction skips pages that are locked
/// or under I/O at that moment.
const MAX_ROUNDS: usize = 3;

/// The result of `check`, before or after.
struct CheckResult {
    findings: Vec<Finding>,
    /// The reason that the machine could not be checked, where it could not.
    unknown: Option<String>,
    /// Rules that could not be checked.
    unchecked: BTreeSet<String>,
}

/// The result of `fix`, for people and as JSON.
#[derive(Serialize)]
struct FixReport {
    dry_run: bool,
    plan: Plan,
    applied: ApplyOutcome,
    #[serde(rename = "kept")]
    persisted: Vec<AppliedChange>,
    /// Rules with a finding before and none now.
    #[serde(rename = "mended")]
    fixed: Vec<String>,
    /// Remaining findings of the rules that were fixed.
    remaining: Vec<Finding>,
    /// Rules whose remedy is applied only when they are named.
    needs_name: Vec<String>,
    /// Warnings and worse whose remedy memwright does not apply.
    manual: Vec<Finding>,
    /// Named rules without a finding.
    nothing_found: Vec<String>,
    /// Named rules that could not be checked.
    #[serde(rename = "not_looked")]
    could_not_check: Vec<String>,
}

pub(crate) fn run(args: &FixArgs, config: &Config) -> Result<Exit, Failure> {
    for id in &args.rules {
        if !super::rule(id)?.has_hazard() {
            let why = format!(
                "'{id}' explains stalls and has nothing to fix; 'memwright explain {id}' tells what \
                 to do"
            );
            return Err(Failure::new(Exit::Usage, why));
        }
    }
    let before = check()?;
    let profile = args.profile.as_deref().and_then(TuningProfile::find);
    let named: BTreeSet<&str> = match profile {
        Some(_) => profiles::rules().collect(),
        None => args.rules.iter().map(String::as_str).collect(),
    };
    let kernel = Kernel::live();
    let mut chosen = choose(&before.findings, &named);
    chosen.extend(profile.map(|profile| profile.finding(&|path| present(&kernel, path))));
    let plan = plan(&kernel, &chosen)?;
    if let Some(verdict) = before.unknown
        && named.is_empty()
        && plan.is_empty()
        && !args.persist
    {
        return Err(Failure::new(Exit::CouldNotCheck, verdict));
    }
    let mut report = FixReport {
        dry_run: args.dry_run,
        applied: ApplyOutcome::default(),
        persisted: Vec::new(),
        fixed: Vec::new(),
        remaining: Vec::new(),
        needs_name: needs_name(&before.findings, &named),
        manual: manual(&before.findings, &named),
        nothing_found: absent(&named, |id| {
            profile.is_none()
                && !before.unchecked.contains(id)
                && before.findings.iter().all(|f| f.rule != id)
        }),
        could_not_check: absent(&named, |id| before.unchecked.contains(id)),
        plan,
    };
    if !args.dry_run && (args.persist || !report.plan.is_empty()) {
        carry_out(&kernel, args, config, &mut report)?;
    }
    if args.format.is_json() {
        super::print_json(&report)?;
    } else {
        terminal::print(&text(&report, &config.state_dir(args.state_dir.as_deref())));
    }
    let left = !report.remaining.is_empty() || !report.could_not_check.is_empty();
    Ok(if left { Exit::Findings } else { Exit::Fine })
}

/// A setting's value; none where this kernel does not have it, or it cannot be read, as the plan says then.
fn present(kernel: &Kernel, path: &str) -> Option<String> {
    kernel.read_setting(path).ok().map(|content| setting_of(&content))
}

fn check() -> Result<CheckResult, Failure> {
    let report = mw_rules::check(&live::window()?, None);
    let unknown = report.is_unknown().then_some(report.verdict);
    let unchecked = report.skipped.into_iter().map(|skipped| skipped.rule).collect();
    Ok(CheckResult { findings: report.findings, unchecked, unknown })
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

fn carry_out(
    kernel: &Kernel,
    args: &FixArgs,
    config: &Config,
    report: &mut FixReport,
) -> Result<(), Failure> {
    let _spinner = Spinner::start("fixing");
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let mut journal = lock(&state_dir).map_err(|error| {
        Failure::new(journal_exit(&error), advice::with_sudo(&error, error.is_privilege()))
    })?;
    if !report.plan.is_empty() {
        fix(kernel, &mut journal, &state_dir, report)?;
    }
    if args.persist {
        for action in report.applied.changes.iter_mut().filter(|change| change.once) {
            action.not_kept = Some(DONE_ONCE.to_owned());
        }
        let ids = to_keep(kernel, &journal, args, report);
        report.persisted = keep(kernel, &mut journal, &ids, &mut nobody).map_err(|cause| {
            let line = format!(
                "the changes are in force but could not be persisted: {cause}; revert with: {}",
                advice::undo(&[], &state_dir)
            );
            Failure::new(
                if cause.is_privilege() { Exit::PermissionDenied } else { Exit::Findings },
                line,
            )
        })?;
    }
    Ok(())
}

/// Applies the plan and looks again.
fn fix(
    kernel: &Kernel,
    journal: &mut Journal,
    state_dir: &Path,
    report: &mut FixReport,
) -> Result<(), Failure> {
    report.applied = apply(kernel, journal, &report.plan, false, &mut nobody)
        .map_err(|error| apply_failure(state_dir, &error))?;
    let touched: BTreeSet<&str> = report
        .plan
        .changes
        .iter()
        .flat_map(|change| std::iter::once(&change.rule).chain(&change.also))
        .map(String::as_str)
        .collect();
    let mut after = check()?;
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
        let more = apply(kernel, journal, &plan(kernel, &again)?, false, &mut nobody)
            .map_err(|error| apply_failure(state_dir, &error))?;
        report.applied.changes.extend(more.changes);
        after = check()?;
    }
    report.remaining =
        after.findings.into_iter().filter(|f| touched.contains(f.rule.as_str())).collect();
    let still: BTreeSet<&str> = report.remaining.iter().map(|f| f.rule.as_str()).collect();
    report.fixed = touched.difference(&still).map(|rule| (*rule).to_owned()).collect();
    Ok(())
}

fn plan(kernel: &Kernel, findings: &[Finding]) -> Result<Plan, Failure> {
    Plan::new(kernel, findings).map_err(|error| {
        let denied = error.is_privilege();
        let exit = if denied { Exit::PermissionDenied } else { Exit::CouldNotCheck };
        Failure::new(exit, advice::with_sudo(&error, denied))
    })
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

/// The changes to keep across reboots: those of this run that helped, and those that an earlier run
/// made and that are in force.
fn to_keep(kernel: &Kernel, journal: &Journal, args: &FixArgs, report: &FixReport) -> Vec<u64> {
    let of_this_run = |id: u64| report.applied.changes.iter().any(|change| change.id == id);
    let profile = args.profile.as_deref().and_then(TuningProfile::find);
    let wanted = |rule: &String| match profile {
        Some(profile) => *rule == profile.rule() || profiles::rules().any(|known| known == rule),
        None => args.rules.is_empty() || args.rules.contains(rule),
    };
    changes(kernel, journal.history())
        .changes
        .into_iter()
        .filter(|change| change.state == ChangeState::InForce && change.kept_in.is_none())
        .filter(|change| match of_this_run(change.id) {
            true => report.fixed.contains(&change.rule),
            false => wanted(&change.rule),
        })
        .map(|change| change.id)
        .collect()
}

/// Opens the journal and waits for another memwright that holds it.
pub(super) fn lock(state_dir: &Path) -> Result<Journal, JournalError> {
    Journal::lock(state_dir, LOCK_WAIT)
}

pub(super) fn journal_exit(error: &JournalError) -> Exit {
    if error.is_privilege() { Exit::PermissionDenied } else { Exit::CouldNotCheck }
}

fn apply_failure(state_dir: &Path, error: &ApplyError) -> Failure {
    let exit = match error {
        _ if error.is_privilege() => Exit::PermissionDenied,
        ApplyError::NothingChanged { .. } if matches!(error.cause(), ChangeError::Journal(_)) => {
            Exit::CouldNotCheck
        }
        _ => Exit::RolledBack,
    };
    let mut line = advice::with_sudo(error, error.is_privilege());
    if let ApplyError::Stuck { stuck, .. } = error {
        let ids: Vec<u64> = stuck.iter().map(|stuck| stuck.change).collect();
        line += &format!("; retry with: {}", advice::undo(&ids, state_dir));
    }
    Failure::new(exit, line)
}

fn text(report: &FixReport, state_dir: &Path) -> String {
    let mut out = answer(report) + "\n";
    let plan = &report.plan;
    if report.dry_run {
        for change in &plan.changes {
            let _ = writeln!(out, "  {change}");
        }
    }
    for change in &report.applied.changes {
        let _ = match &change.before {
            Some(before) => {
                writeln!(out, "  {}: {} {before} -> {}", change.id, change.path, change.value)
            }
            None => {
                writeln!(out, "  {}: wrote {} to {} once", change.id, change.value, change.path)
            }
        };
        if let Some(why) = &change.not_kept {
            let _ = writeln!(out, "  {} not persisted: {why}", change.path);
        }
    }
    for kept in &report.persisted {
        match (&kept.kept, &kept.not_kept) {
            (Some(kept), _) => {
                let _ = writeln!(out, "  persisted in {}", kept.target.file);
                for other in kept.shadowed.iter().filter(|other| other.wins) {
                    let (file, line) = (&other.file, other.line);
                    let _ = writeln!(
                        out,
                        "  overridden by {file} line {line}, which sets it to {}",
                        other.value
                    );
                }
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("not possible");
                let _ = writeln!(out, "  {} not persisted: {why}", kept.path);
            }
        }
    }
    // Those of what is persisted are named there.
    let plan_only = report.plan.changes.iter().filter(|_| report.persisted.is_empty());
    for other in plan_only.flat_map(|change| &change.shadowed).filter(|other| other.wins) {
        let _ = writeln!(out, "overridden at the next boot: {other}");
    }
    let _ = notes(&mut out, report);
    if report.applied.changes.iter().any(|change| !change.once) {
        let _ = writeln!(out, "revert with: {}", advice::undo(&[], state_dir));
    }
    out
}

/// Changes that memwright left to others, a line each.
fn notes(out: &mut String, report: &FixReport) -> std::fmt::Result {
    let plan = &report.plan;
    for finding in &report.remaining {
        writeln!(out, "still present: {}: {}", finding.rule, finding.headline)?;
    }
    for already in &plan.already {
        writeln!(out, "already set: {already}")?;
    }
    for path in &plan.absent {
        writeln!(out, "not on this kernel: {path}")?;
    }
    for conflict in &plan.conflicts {
        writeln!(out, "{conflict}")?;
    }
    for command in &plan.manual {
        writeln!(out, "run by hand: {command}")?;
    }
    for parameter in &plan.boot {
        writeln!(out, "boot parameter: {parameter}")?;
    }
    for rule in &report.needs_name {
        writeln!(
            out,
            "applied only when named: memwright fix {rule}  (see memwright explain {rule})"
        )?;
    }
    for Finding { rule, headline, .. } in &report.manual {
        writeln!(out, "left to you: {rule}: {headline}  (see memwright explain {rule})")?;
    }
    for rule in &report.nothing_found {
        writeln!(out, "nothing to fix: {rule}")?;
    }
    for rule in &report.could_not_check {
        writeln!(out, "could not be checked: {rule}  (see memwright check)")?;
    }
    Ok(())
}

/// The answer in one line.
fn answer(report: &FixReport) -> String {
    let number = |count: usize| format_count(count, "change");
    let made = report.applied.changes.len();
    if report.plan.is_empty() && !report.persisted.is_empty() {
        format!("persisted: {} made earlier", number(report.persisted.len()))
    } else if report.plan.is_empty() {
        "nothing to change".to_owned()
    } else if report.dry_run {
        format!("would make {}; nothing changed (dry run)", number(report.plan.changes.len()))
    } else if report.remaining.is_empty() {
        format!("fixed and verified: {} ({})", report.fixed.join(", "), number(made))
    } else {
        let rules: BTreeSet<&str> =
            report.remaining.iter().map(|finding| finding.rule.as_str()).collect();
        let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
        format!("{} made, but still present: {rules}", number(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Subject;
    use mw_remedy::PlannedChange;

    const COMPACT: &str = "/proc/sys/vm/compact_memory";
    const MODE: &str = "/proc/sys/vm/zone_reclaim_mode";

    fn change(path: &str, before: Option<&str>) -> AppliedChange {
        AppliedChange {
            id: 1,
            rule: "rule".to_owned(),
            path: path.to_owned(),
            before: before.map(str::to_owned),
            value: "1".to_owned(),
            once: before.is_none(),
            kept: None,
            not_kept: before.is_none().then(|| DONE_ONCE.to_owned()),
        }
    }

    fn rendered(changes: Vec<AppliedChange>) -> String {
        text(&report(changes), Path::new(mw_remedy::STATE_DIR))
    }

    fn report(changes: Vec<AppliedChange>) -> FixReport {
        let planned = |change: &AppliedChange| PlannedChange {
            rule: change.rule.clone(),
            also: Vec::new(),
            path: change.path.clone(),
            before: change.before.clone(),
            value: change.value.clone(),
            once: change.once,
            persist: None,
            not_kept: None,
            shadowed: Vec::new(),
        };
        FixReport {
            dry_run: false,
            plan: Plan { changes: changes.iter().map(planned).collect(), ..Plan::default() },
            applied: ApplyOutcome { changes, already: Vec::new() },
            persisted: Vec::new(),
            fixed: vec!["rule".to_owned()],
            remaining: Vec::new(),
            needs_name: Vec::new(),
            manual: Vec::new(),
            nothing_found: Vec::new(),
            could_not_check: Vec::new(),
        }
    }

    /// Promise (Fixing): A one-time action is repeated while its finding remains, three times at most.
    #[test]
    fn only_what_a_further_action_may_fix_is_repeated() {
        let compact = Step::Once { path: COMPACT.to_owned(), value: "1".to_owned() };
        let finding = |rule: &str, steps: Vec<Step>| Finding {
            rule: rule.to_owned(),
            ..Finding::new(Severity::Warning, Subject::Node(0), "fragmented".to_owned())
                .with_remedy(Remedy::named("compact", steps))
        };
        let touched = BTreeSet::from(["rule"]);
        assert!(is_worth_repeating(&finding("rule", vec![compact.clone()]), &touched));
        assert!(!is_worth_repeating(&finding("another", vec![compact.clone()]), &touched));
        let by_hand = finding("rule", vec![compact, Step::manual("end the program")]);
        assert!(!is_worth_repeating(&by_hand, &touched));
        assert!(!is_worth_repeating(&finding("rule", Vec::new()), &touched));
    }

    #[test]
    fn what_is_left_to_people_is_named() {
        let finding = |rule: &str, severity, steps| Finding {
            rule: rule.to_owned(),
            ..Finding::new(severity, Subject::Node(0), "it is full")
                .with_remedy(Remedy::named("free it", steps))
        };
        let by_hand = || vec![Step::manual("rm -r /dev/shm/x")];
        let compact = vec![Step::Once { path: COMPACT.to_owned(), value: "1".to_owned() }];
        let findings = vec![
            finding("tmpfs-full", Severity::Warning, by_hand()),
            finding("note", Severity::Note, by_hand()),
            finding("fragmented-node", Severity::Warning, compact),
        ];
        assert!(manual(&findings, &BTreeSet::from(["note"])).is_empty());
        let manual = manual(&findings, &BTreeSet::new());
        let report = FixReport { manual, ..report(Vec::new()) };
        let text = text(&report, Path::new(mw_remedy::STATE_DIR));
        let expected = "nothing to change\nleft to you: tmpfs-full: it is full  \
                        (see memwright explain tmpfs-full)\n";
        assert_eq!(text, expected);
    }

    /// Promise (Fixing): A revert is offered only where something can be reverted.
    #[test]
    fn a_revert_is_offered_only_for_settings() {
        let action = rendered(vec![change(COMPACT, None)]);
        assert!(action.contains(&format!("  1: wrote 1 to {COMPACT} once\n")), "{action}");
        assert!(action.contains("not persisted: it is a one-time action"), "{action}");
        assert!(!action.contains("memwright undo"), "{action}");
        let both = rendered(vec![change(COMPACT, None), change(MODE, Some("7"))]);
        assert!(both.ends_with("revert with: memwright undo\n"), "{both}");
    }
}
