//! The report for a terminal.

use std::fmt::Write;

use crate::Outcome;
use crate::report::figures::effect;
use crate::report::summary::outcome_word;
use crate::runner::CaseRun;

const HEADER: [&str; 6] = ["case", "kernel", "outcome", "first step", "time", "effect"];

pub(super) fn render(summary: &str, runs: &[CaseRun]) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(runs.iter().map(row));
    let mut out = format!("{summary}\n\n");
    out += &columns(&rows);
    for run in runs {
        let _ = details(&mut out, run);
    }
    out
}

fn row(run: &CaseRun) -> [String; 6] {
    let first = run.first_step_s.map_or_else(|| "-".to_owned(), |s| format!("{s:.1} s"));
    [
        run.full_name(),
        run.kernel.clone(),
        outcome(run),
        first,
        format!("{:.0} s", run.wall_s),
        effects(run),
    ]
}

/// The measurements, or the recorder's verdict.
fn effects(run: &CaseRun) -> String {
    match &run.stall {
        Some(stall) => stall.verdict.clone(),
        None => run.measured.iter().map(effect).collect::<Vec<_>>().join("; "),
    }
}

/// The outcome, and the number of the try where it is not the first.
pub(super) fn outcome(run: &CaseRun) -> String {
    let word = outcome_word(&run.outcome);
    if run.tries > 1 { format!("{word}, try {}", run.tries) } else { word.to_owned() }
}

/// Left-aligned columns, two blanks between them.
fn columns(rows: &[[String; 6]]) -> String {
    let mut widths = [0; 6];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// The reason why a run did not pass, and the last lines of its console.
fn details(out: &mut String, run: &CaseRun) -> std::fmt::Result {
    let (word, why) = match &run.outcome {
        Outcome::Passed => return Ok(()),
        Outcome::Failed(why) => ("failed", why),
        Outcome::Skipped(why) => ("skipped", why),
    };
    writeln!(out, "\n{} on {} {word}: {why}", run.full_name(), run.kernel)?;
    for line in run.console_tail.iter().flat_map(|tail| tail.lines()) {
        writeln!(out, "  | {}", line.trim_end())?;
    }
    Ok(())
}
