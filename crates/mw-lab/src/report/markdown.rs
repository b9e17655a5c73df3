//! The report as Markdown: a table of the cases with their main effects, and a table of all
//! measurements below it.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Outcome;
use crate::case::CaseKind;
use crate::judge::MeasurementSeries;
use crate::judge::transcript::RunPhase;
use crate::report::figures::{cell, short};
use crate::report::rounds::Rounds;
use crate::runner::CaseRun;

const TITLES: [(CaseKind, &str); 4] = [
    (CaseKind::FieldReport, "Field reports"),
    (CaseKind::Rule, "Rules"),
    (CaseKind::Decoy, "Decoys, in which memory is not the cause"),
    (CaseKind::Evaluation, "Options compared"),
];

/// The most measurements in the first table; the details have all.
const MAIN_EFFECTS: usize = 2;

pub(super) fn render(runs: &[CaseRun]) -> String {
    let mut out = first_steps(runs);
    let mut details = String::new();
    for (kind, title) in TITLES {
        let runs: Vec<&CaseRun> = runs.iter().filter(|run| run.kind == kind).collect();
        let groups = Rounds::group(&runs);
        if groups.is_empty() {
            continue;
        }
        let with_effects: BTreeSet<String> = groups
            .iter()
            .filter(|group| !group.measured().is_empty())
            .map(|group| group.first().full_name())
            .collect();
        let (measured, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| with_effects.contains(&group.first().full_name()));
        let tables = [effects_table(&measured), outcomes_table(&others)];
        let _ = write!(out, "\n## {title}\n\n{}", tables.concat().trim_start());
        measured.iter().for_each(|group| details += &detail_rows(group));
    }
    if !details.is_empty() {
        out += "\n## All measurements\n\n| case | kernel | measurement | before | during | after fix \
                | after revert |\n|---|---|---|--:|--:|--:|--:|\n";
        out += &details;
    }
    out
}

/// From power-on to a case's first step; empty where stored runs lack it.
fn first_steps(runs: &[CaseRun]) -> String {
    let mut all: Vec<f64> = runs.iter().filter_map(|run| run.first_step_s).collect();
    all.sort_by(f64::total_cmp);
    let ran = runs.iter().filter(|run| !matches!(run.outcome, Outcome::Skipped(_))).count();
    if all.len() < ran {
        return String::new();
    }
    let (median, last) = (all.get(all.len() / 2), all.last());
    let Some((median, last)) = median.zip(last) else { return String::new() };
    format!("From power-on to a case's first step: median {median:.1} s, at most {last:.1} s.\n")
}

fn effects_table(groups: &[Rounds<'_>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut out = "| case | kernel | outcome | time | effect: before → during → after fix → after \
                   revert |\n|---|---|---|--:|---|\n"
        .to_owned();
    for group in groups {
        let (run, effects) = (group.first(), main_effects(group).join("<br>"));
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {:.0} s | {effects} |",
            run.full_name(),
            run.kernel,
            escaped(&group.outcome()),
            group.wall_s(),
        );
    }
    out
}

/// Rows without a measurement: kernels with the same outcome share a row.
fn outcomes_table(groups: &[Rounds<'_>]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut rows: Vec<(String, String, Vec<String>, Vec<String>)> = Vec::new();
    for group in groups {
        let (name, outcome) = (group.first().full_name(), escaped(&group.outcome()));
        let (kernel, time) = (group.first().kernel.clone(), format!("{:.0} s", group.wall_s()));
        match rows.iter_mut().find(|row| row.0 == name && row.1 == outcome) {
            Some(row) => {
                row.2.push(kernel);
                row.3.push(time);
            }
            None => rows.push((name, outcome, vec![kernel], vec![time])),
        }
    }
    let mut out = "\n| case | kernel | outcome | time |\n|---|---|---|--:|\n".to_owned();
    for (name, outcome, kernels, times) in rows {
        let (kernels, times) = (kernels.join(", "), times.join(", "));
        let _ = writeln!(out, "| `{name}` | {kernels} | {outcome} | {times} |");
    }
    out
}

/// Order: measurements that the case promises come first.
fn main_effects(group: &Rounds<'_>) -> Vec<String> {
    let mut measured = group.measured();
    let phases = |series: &MeasurementSeries| series.values.len();
    measured.sort_by_key(|series| (!series.has_bounds, std::cmp::Reverse(phases(series))));
    let shown = measured.iter().filter(|series| series.has_bounds || phases(series) > 1);
    shown.take(MAIN_EFFECTS).map(|series| main_effect(group, series)).collect()
}

fn main_effect(group: &Rounds<'_>, series: &MeasurementSeries) -> String {
    let last = series.values.keys().last().copied().unwrap_or(RunPhase::During);
    let phases = RunPhase::ALL.into_iter().filter(|phase| *phase <= last);
    let values: Vec<String> = phases.map(|phase| cell(series, phase)).collect();
    let spread = group.spread(&series.name);
    format!("{}: {} {}{spread}", series.name, values.join(" → "), series.unit)
}

fn detail_rows(group: &Rounds<'_>) -> String {
    let run = group.first();
    let mut out = String::new();
    for series in group.measured() {
        let values: Vec<String> =
            RunPhase::ALL.into_iter().map(|phase| with_multiple(&series, phase)).collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {}, {} | {} |",
            run.full_name(),
            run.kernel,
            series.name,
            series.unit,
            values.join(" | ")
        );
    }
    out
}

/// The value, and its multiple of the value before the condition.
fn with_multiple(series: &MeasurementSeries, phase: RunPhase) -> String {
    let value = cell(series, phase);
    let before = series.values.get(&RunPhase::Before).filter(|before| **before > 0.0);
    match (before, series.values.get(&phase)) {
        (Some(before), Some(now)) if phase != RunPhase::Before => {
            format!("{value} (x{})", short(now / before))
        }
        _ => value,
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
