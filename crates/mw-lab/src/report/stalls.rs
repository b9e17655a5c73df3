//! A table for a page: the cause that the recorder named for each case's stall, and whether it was right.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Outcome;
use crate::runner::CaseRun;

/// Text for a run without a stall, or without an explanation.
const NO_CAUSE: &str = "none";

/// Rows are cases, columns the causes that were named first.
pub(super) fn table(runs: &[CaseRun]) -> String {
    let causes: BTreeSet<&str> = runs.iter().map(cause).collect();
    let columns: Vec<&str> = causes.into_iter().collect();
    let mut out = format!(
        "| case | kernel | {} | the recorder's verdict |\n|---|---{}|---|\n",
        columns.join(" | "),
        "|---".repeat(columns.len())
    );
    for run in runs {
        let mark = |column: &&str| match (*column == cause(run), &run.outcome) {
            (false, _) => "",
            (true, Outcome::Passed) => "right",
            (true, _) => "**wrong**",
        };
        let marks: Vec<&str> = columns.iter().map(mark).collect();
        let verdict = match (&run.stall, &run.outcome) {
            (Some(stall), _) => stall.verdict.clone(),
            (None, outcome) => outcome.to_string(),
        };
        let verdict = verdict.replace('|', "\\|").replace('\n', " ");
        let name = run.full_name();
        let _ = writeln!(out, "| `{name}` | {} | {} | {verdict} |", run.kernel, marks.join(" | "));
    }
    out
}

fn cause(run: &CaseRun) -> &str {
    run.stall.as_ref().and_then(|stall| stall.cause.as_deref()).unwrap_or(NO_CAUSE)
}
