//! The critical path of the slowest request: one stacked bar, a table, and the chain of waits in words.

use super::safe::shown;
use crate::path_words::{answer, chain, doer, duration, kind, percent, remarks, stacks};
use mw_critical_path::PathSummary;
use serde::Serialize;

/// Units across the bar.
const BAR_WIDTH: f64 = 1000.0;
/// Colours of the bar; further parts share the last.
const COLOURS: usize = 6;

#[derive(Debug, Serialize)]
pub(super) struct PathView {
    answer: String,
    rows: Vec<RowView>,
    chain: Vec<String>,
    stacks: Vec<String>,
    remarks: Vec<String>,
}

/// A part: a piece of the bar, and a row of the table.
#[derive(Debug, Serialize)]
struct RowView {
    colour: usize,
    x: f64,
    width: f64,
    percent: String,
    time: String,
    what: String,
    /// Empty for what is summed up.
    task: String,
}

impl PathView {
    pub(super) fn new(path: &PathSummary) -> Option<Self> {
        let answer = answer(path)?;
        let mut rows: Vec<RowView> = Vec::new();
        let mut row = |time, what: &str, task: &str| {
            let x = rows.last().map_or(0.0, |last| last.x + last.width);
            let percent = percent(path, time);
            let width = (percent * BAR_WIDTH / 100.0).min(BAR_WIDTH - x).max(0.0);
            rows.push(RowView {
                colour: (rows.len() + 1).min(COLOURS),
                x,
                width,
                percent: format!("{percent:.1}%"),
                time: duration(time),
                what: shown(what),
                task: shown(task),
            });
        };
        for part in &path.parts {
            row(part.total_ns, &kind(part), &doer(part));
        }
        if path.rest_ns > 0 {
            row(path.rest_ns, "smaller parts", "");
        }
        let all_shown = |lines: Vec<String>| lines.iter().map(|line| shown(line)).collect();
        Some(Self {
            answer: shown(&answer),
            rows,
            chain: all_shown(chain(path)),
            stacks: all_shown(stacks(path)),
            remarks: all_shown(remarks(path)),
        })
    }
}
