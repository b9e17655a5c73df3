//! The summary line.

use std::collections::BTreeSet;

use crate::Outcome;
use crate::runner::CaseRun;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Tally {
    pub fn new(runs: &[CaseRun]) -> Tally {
        let mut tally = Tally::default();
        for run in runs {
            *match run.outcome {
                Outcome::Passed => &mut tally.passed,
                Outcome::Failed(_) => &mut tally.failed,
                Outcome::Skipped(_) => &mut tally.skipped,
            } += 1;
        }
        tally
    }
}

pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::Skipped(_) => "skipped",
    }
}

/// True if any case was run more than once on a kernel.
pub(super) fn has_rounds(runs: &[CaseRun]) -> bool {
    let different: BTreeSet<_> = runs.iter().map(|run| (run.full_name(), &run.kernel)).collect();
    different.len() < runs.len()
}

pub(super) fn line(runs: &[CaseRun]) -> String {
    let tally = Tally::new(runs);
    let kernels: BTreeSet<&str> = runs.iter().map(|run| run.kernel.as_str()).collect();
    let on = match kernels.len() {
        1 => format!("on kernel {}", and(kernels)),
        _ => format!("on kernels {}", and(kernels)),
    };
    if runs.is_empty() {
        return "no case selected".to_owned();
    }
    let mut line = if tally.passed + tally.failed == 0 {
        format!("no case could be run {on}")
    } else {
        let what = if has_rounds(runs) { "runs" } else { "cases" };
        format!("{} of {} {what} passed {on}", tally.passed, runs.len())
    };
    let failed = names(runs, |run| matches!(run.outcome, Outcome::Failed(_)));
    if !failed.is_empty() {
        line += &format!("; failed: {failed}");
    }
    let flaky = names(runs, |run| run.outcome == Outcome::Passed && run.tries > 1);
    if !flaky.is_empty() {
        line += &format!("; flaky, passed when repeated: {flaky}");
    }
    if tally.skipped > 0 {
        line += &format!("; {} skipped", tally.skipped);
    }
    line
}

fn names(runs: &[CaseRun], is_listed: impl Fn(&&CaseRun) -> bool) -> String {
    let names: BTreeSet<String> = runs.iter().filter(is_listed).map(CaseRun::full_name).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn and(words: BTreeSet<&str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
