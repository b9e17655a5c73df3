//! What became of all plays: the answer in a line, then a table; as text, as Markdown, and as JSON by
//! its fields.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use crate::case::Kind;
use crate::judge::Measured;
use crate::play::Play;
use crate::transcript::Phase;
use crate::{Outcome, confusion, rounds};

/// The version of the JSON form of [`Report`]; it goes up when a consumer could break.
pub const SCHEMA_VERSION: u32 = 1;

/// All plays.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The version of memwright that was played with.
    pub memwright: String,
    /// The answer in one line.
    pub answer: String,
    /// The plays, in their order.
    pub plays: Vec<Play>,
}

/// How many plays came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// They did what they say.
    pub passed: usize,
    /// They did not.
    pub failed: usize,
    /// They could not be tried.
    pub skipped: usize,
}

impl Tally {
    /// Counts them.
    pub fn of(plays: &[Play]) -> Tally {
        let mut tally = Tally::default();
        for play in plays {
            *match play.outcome {
                Outcome::Passed => &mut tally.passed,
                Outcome::Failed(_) => &mut tally.failed,
                Outcome::Skipped(_) => &mut tally.skipped,
            } += 1;
        }
        tally
    }
}

impl Report {
    /// The report of these plays.
    pub fn new(memwright: &str, plays: Vec<Play>) -> Report {
        let answer = answer(&plays);
        Report { schema: SCHEMA_VERSION, memwright: memwright.to_owned(), answer, plays }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let header = ["case", "kernel", "outcome", "first step", "time", "effect"];
        let mut rows = vec![header.map(str::to_owned)];
        rows.extend(self.plays.iter().map(row));
        let mut out = format!("{}\n\n", self.answer);
        out += &columns(&rows);
        for play in &self.plays {
            let _ = details(&mut out, play);
        }
        out
    }

    /// For docs/lab.md: a table of cases and kernels for each kind of case.
    pub fn markdown(&self) -> String {
        let mut out = format!("{}.\n", self.answer);
        if self.plays.iter().any(|play| play.stall.is_some()) {
            return out + "\n" + &confusion::markdown(&self.plays);
        }
        out += &first_steps(&self.plays);
        let kinds = [
            (Kind::Tale, "The field reports, re-enacted"),
            (Kind::Rule, "The rules of the catalogue"),
            (Kind::Decoy, "Decoys, in which memory is not to blame"),
            (Kind::Evaluation, "Options, measured against each other"),
        ];
        for (kind, title) in kinds {
            let plays: Vec<&Play> = self.plays.iter().filter(|play| play.kind == kind).collect();
            if !plays.is_empty() {
                let _ = write!(out, "\n## {title}\n\n");
                out += &markdown_table(&plays);
            }
        }
        out
    }
}

fn answer(plays: &[Play]) -> String {
    let tally = Tally::of(plays);
    let kernels: BTreeSet<&str> = plays.iter().map(|play| play.kernel.as_str()).collect();
    let on = match kernels.len() {
        1 => format!("on kernel {}", and(kernels)),
        _ => format!("on kernels {}", and(kernels)),
    };
    let tried = tally.passed + tally.failed;
    let mut line = match (tried, plays.len()) {
        (0, 0) => return "there is no such case".to_owned(),
        (0, _) => format!("no case could be played {on}"),
        (_, all) if rounds::are(plays) => {
            format!("{} of {all} plays did what their cases say {on}", tally.passed)
        }
        (_, all) => format!("{} of {all} cases did what they say {on}", tally.passed),
    };
    let failed = plays.iter().filter(|play| matches!(play.outcome, Outcome::Failed(_)));
    let failed: BTreeSet<String> = failed.map(Play::full_name).collect();
    if !failed.is_empty() {
        line += &format!("; failed: {}", failed.into_iter().collect::<Vec<_>>().join(", "));
    }
    if tally.skipped > 0 {
        line += &format!("; {} skipped", tally.skipped);
    }
    line
}

/// How long it takes from power-on to a case's first step.
fn first_steps(plays: &[Play]) -> String {
    let mut all: Vec<f64> = plays.iter().filter_map(|play| play.first_step_s).collect();
    all.sort_by(f64::total_cmp);
    let (middle, last) = (all.get(all.len() / 2), all.last());
    let Some((middle, last)) = middle.zip(last) else { return String::new() };
    format!(
        "\nFrom power-on to a case's first step: {middle:.1} s in the middle, {last:.1} s at most.\n"
    )
}

fn and(words: BTreeSet<&str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn row(play: &Play) -> [String; 6] {
    let first = play.first_step_s.map_or_else(|| "-".to_owned(), |s| format!("{s:.1} s"));
    [
        play.full_name(),
        play.kernel.clone(),
        outcome(play),
        first,
        format!("{:.0} s", play.wall_s),
        effects(play),
    ]
}

/// What was measured, or what the recorder said.
fn effects(play: &Play) -> String {
    if let Some(stall) = &play.stall {
        return stall.verdict.clone();
    }
    play.measured.iter().map(effect).collect::<Vec<_>>().join("; ")
}

/// One word of the outcome.
pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::Skipped(_) => "skipped",
    }
}

/// The outcome, and at which try where it was not the first.
fn outcome(play: &Play) -> String {
    let word = outcome_word(&play.outcome);
    if play.tries > 1 { format!("{word}, try {}", play.tries) } else { word.to_owned() }
}

/// A measurement over the phases, and how many times what it was before: `create 2 s, during 14 (x7),
/// fixed 2 (x1)`.
pub(crate) fn effect(measured: &Measured) -> String {
    let value = |phase| measured.values.get(&phase).copied();
    let before = value(Phase::Before);
    let mut parts = Vec::new();
    for phase in [Phase::During, Phase::Fixed, Phase::Undone] {
        let Some(now) = value(phase) else { continue };
        let times = before.filter(|before| *before > 0.0).map(|before| now / before);
        let times = times.map_or_else(String::new, |times| format!(" (x{})", short(times)));
        parts.push(format!("{} {}{times}", phase.name(), short(now)));
    }
    let first = before.map(|before| format!(" {}", short(before))).unwrap_or_default();
    format!("{}{first} {}, {}", measured.name, measured.unit, parts.join(", "))
}

/// Three digits that matter.
pub fn short(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
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

/// Why a play did not pass, and what its console said last.
fn details(out: &mut String, play: &Play) -> std::fmt::Result {
    let (word, why) = match &play.outcome {
        Outcome::Passed => return Ok(()),
        Outcome::Failed(why) => ("failed", why),
        Outcome::Skipped(why) => ("skipped", why),
    };
    writeln!(out, "\n{} on {} {word}: {why}", play.full_name(), play.kernel)?;
    for line in play.last_words.iter().flat_map(|words| words.lines()) {
        writeln!(out, "  | {}", line.trim_end())?;
    }
    Ok(())
}

fn markdown_table(plays: &[&Play]) -> String {
    let kernels: BTreeSet<&str> = plays.iter().map(|play| play.kernel.as_str()).collect();
    let mut out = format!(
        "| case | {} |\n|---{}|\n",
        kernels.iter().copied().collect::<Vec<_>>().join(" | "),
        "|---".repeat(kernels.len())
    );
    let mut names: Vec<String> = Vec::new();
    for name in plays.iter().map(|play| play.full_name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let cell = |kernel: &&str| {
            let of_it = |play: &&&Play| play.full_name() == name && play.kernel == **kernel;
            markdown_cell(&plays.iter().filter(of_it).copied().collect::<Vec<_>>())
        };
        let cells: Vec<String> = kernels.iter().map(cell).collect();
        let _ = writeln!(out, "| `{name}` | {} |", cells.join(" | "));
    }
    out
}

/// All plays of a case on a kernel.
fn markdown_cell(plays: &[&Play]) -> String {
    let mut cell = match plays {
        [] => return "-".to_owned(),
        [play] => match &play.outcome {
            Outcome::Passed => format!("{} in {:.0} s", outcome(play), play.wall_s),
            Outcome::Failed(why) => format!("**{}**: {why}", outcome(play)),
            Outcome::Skipped(why) => format!("skipped: {why}"),
        },
        plays => rounds::outcomes(plays),
    };
    for line in rounds::effects(plays) {
        cell += &format!("<br>{line}");
    }
    cell.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn play(case: &str, kernel: &str, outcome: Outcome) -> Play {
        Play {
            case: case.to_owned(),
            variant: "firing".to_owned(),
            kind: Kind::Rule,
            kernel: kernel.to_owned(),
            outcome,
            tries: 1,
            last_words: None,
            measured: Vec::new(),
            checks: BTreeMap::new(),
            changes: Vec::new(),
            stall: None,
            troubles: Vec::new(),
            steps: Vec::new(),
            first_step_s: Some(3.1),
            wall_s: 12.3,
        }
    }

    fn create() -> Measured {
        let values = [(Phase::Before, 2.0), (Phase::During, 14.04), (Phase::Fixed, 2.1)];
        Measured { name: "create".into(), unit: "s".into(), values: BTreeMap::from(values) }
    }

    #[test]
    fn the_first_line_is_the_answer() {
        let failed = Outcome::Failed("why".to_owned());
        let skipped = Outcome::Skipped("why".to_owned());
        let check = |plays: Vec<Play>, want: &str| {
            let report = Report::new("0", plays);
            assert_eq!(report.text().lines().next(), Some(want));
        };
        check(
            vec![play("a", "6.1", Outcome::Passed), play("b", "6.12", failed)],
            "1 of 2 cases did what they say on kernels 6.1 and 6.12; failed: b/firing",
        );
        check(
            vec![play("a", "6.1", Outcome::Passed), play("b", "6.1", skipped.clone())],
            "1 of 2 cases did what they say on kernel 6.1; 1 skipped",
        );
        check(vec![play("a", "6.1", skipped)], "no case could be played on kernel 6.1; 1 skipped");
        check(vec![], "there is no such case");
    }

    #[test]
    fn the_table_shows_effects_and_why_something_failed() {
        let mut bad = play("b", "6.1", Outcome::Failed("too slow".to_owned()));
        bad.measured = vec![create()];
        bad.last_words = Some("last\nwords".to_owned());
        let text = Report::new("0", vec![play("a", "6.1", Outcome::Passed), bad]).text();
        let want = "\
1 of 2 cases did what they say on kernel 6.1; failed: b/firing

case      kernel  outcome  first step  time  effect
a/firing  6.1     passed   3.1 s       12 s
b/firing  6.1     failed   3.1 s       12 s  create 2 s, during 14.0 (x7.02), fixed 2.10 (x1.05)

b/firing on 6.1 failed: too slow
  | last
  | words
";
        assert_eq!(text, want);
    }

    #[test]
    fn rounds_of_a_case_are_taken_together() {
        let round = |factor: f64, outcome| {
            let values = [(Phase::Before, 2.0), (Phase::During, 2.0 * factor)];
            let values = BTreeMap::from(values);
            let one = Measured { name: "create".into(), unit: "s".into(), values };
            Play { measured: vec![one], ..play("a", "6.1", outcome) }
        };
        let failed = Outcome::Failed("too slow".to_owned());
        let again = Play { tries: 2, ..round(9.0, Outcome::Passed) };
        let rounds = vec![round(7.0, Outcome::Passed), again, round(5.0, failed)];
        let text = Report::new("0", rounds).markdown();
        let want = "2 of 3 plays did what their cases say on kernel 6.1; failed: a/firing.";
        assert!(text.starts_with(want), "{text}");
        let want = "| `a/firing` | passed 2 of 3, in 12 s, 1 of them not at the first try; \
                    **failed: too slow**<br>create 2 s, during 14 (x7); during x5 to x9 |";
        assert!(text.contains(want), "{text}");
    }

    #[test]
    fn markdown_has_a_column_for_each_kernel() {
        let mut measured = play("a", "6.1", Outcome::Passed);
        measured.measured = vec![create()];
        let skipped = play("a", "6.12", Outcome::Skipped("x|y".to_owned()));
        let text = Report::new("0", vec![measured, skipped]).markdown();
        assert!(text.contains("| case | 6.1 | 6.12 |\n|---|---|---|\n"), "{text}");
        assert!(text.contains("first step: 3.1 s in the middle, 3.1 s at most"), "{text}");
        assert!(
            text.contains(
                "| `a/firing` | passed in 12 s<br>create 2 s, during 14.0 (x7.02), fixed 2.10 (x1.05) \
                 | skipped: x\\|y |"
            ),
            "{text}"
        );
    }
}
