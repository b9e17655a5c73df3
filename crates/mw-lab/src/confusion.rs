//! What the recorder said of each case's stall, against what was to be said: docs/stalls.md.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::play::Play;

/// Where no stall was seen, or none was explained.
const NOTHING: &str = "nothing";

/// Rows are cases, columns the causes that were named first.
pub fn markdown(plays: &[Play]) -> String {
    let said: BTreeSet<&str> = plays.iter().map(cause).collect();
    let columns: Vec<&str> = said.into_iter().collect();
    let mut out = format!(
        "| case | kernel | {} | what the recorder said |\n|---|---{}|---|\n",
        columns.join(" | "),
        "|---".repeat(columns.len())
    );
    for play in plays {
        let mark = |column: &&str| match (*column == cause(play), &play.outcome) {
            (false, _) => "",
            (true, crate::Outcome::Passed) => "right",
            (true, _) => "**wrong**",
        };
        let marks: Vec<&str> = columns.iter().map(mark).collect();
        let verdict = match (&play.stall, &play.outcome) {
            (Some(stall), _) => stall.verdict.clone(),
            (None, outcome) => outcome.to_string(),
        };
        let verdict = verdict.replace('|', "\\|").replace('\n', " ");
        let name = play.full_name();
        let _ = writeln!(out, "| `{name}` | {} | {} | {verdict} |", play.kernel, marks.join(" | "));
    }
    out
}

fn cause(play: &Play) -> &str {
    play.stall.as_ref().and_then(|stall| stall.cause.as_deref()).unwrap_or(NOTHING)
}
