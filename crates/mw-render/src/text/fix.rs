//! The result of `fix`: the answer, the changes, and what was left to others.

use mw_model::{Finding, format_count};
use mw_remedy::FixReport;
use std::collections::BTreeSet;
use std::fmt::Write;

/// `undo` is the command that reverts the changes.
pub fn fix(report: &FixReport, undo: &str) -> String {
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
        let _ = writeln!(out, "revert with: {undo}");
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
    use mw_model::{Severity, Subject};
    use mw_remedy::{AppliedChange, ApplyOutcome, DONE_ONCE, Plan, PlannedChange};

    const COMPACT: &str = "/proc/sys/vm/compact_memory";
    const MODE: &str = "/proc/sys/vm/zone_reclaim_mode";
    const UNDO: &str = "memwright undo";

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
        fix(&report(changes), UNDO)
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
            plan: Plan { changes: changes.iter().map(planned).collect(), ..Plan::default() },
            applied: ApplyOutcome { changes, already: Vec::new() },
            fixed: vec!["rule".to_owned()],
            ..FixReport::default()
        }
    }

    #[test]
    fn what_is_left_to_people_is_named() {
        let manual = Finding {
            rule: "tmpfs-full".to_owned(),
            ..Finding::new(Severity::Warning, Subject::Node(0), "it is full")
        };
        let report = FixReport { manual: vec![manual], ..report(Vec::new()) };
        let expected = "nothing to change\nleft to you: tmpfs-full: it is full  \
                        (see memwright explain tmpfs-full)\n";
        assert_eq!(fix(&report, UNDO), expected);
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
