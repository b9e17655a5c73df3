//! Draws what cases of the lab saw over time: a case that leaves `/run/keep/series.csv` gets a drawing.
//!
//! The file's first line names its columns: `t_s`, the time in seconds; `phase`, where the case is (may
//! be left out); and any number of `NAME UNIT`. Columns of one unit share a panel. An empty cell was
//! not seen.
//!
//! ```text
//! t_s,phase,dirty MiB,free MiB,last beat ms ago
//! 12.00,before,21.5,327.3,110
//! ```

use anyhow::Context;
use mw_lab::judge::transcript::RunPhase;
use mw_lab::{Variant, catalogue};
use mw_render::plot::{self, Lines, Panel, PlotSpan, Series, Tone};
use std::path::Path;

use crate::workspace::root;

const TIME: &str = "t_s";
const PHASE: &str = "phase";
const FOLDER: &str = "eval/results/lab";

/// Draws every variant whose logs, each on its own kernel, are in the directory of
/// `memwright lab --keep-logs`; returns the names of the files in eval/results/lab.
pub(crate) fn run(logs: &Path) -> anyhow::Result<Vec<String>> {
    let mut drawn = Vec::new();
    for variant in catalogue::select(&root().join("lab"), &[], &[])? {
        let dir = logs.join(&variant.case).join(format!("{}-{}", variant.name, variant.kernel));
        let Ok(text) = std::fs::read_to_string(dir.join("keep/series.csv")) else { continue };
        let release = std::fs::read_to_string(dir.join("release")).unwrap_or_default();
        let name = format!("{}-{}.svg", variant.case, variant.name);
        let lines = lines(&variant, release.trim(), &text).context(variant.full_name())?;
        std::fs::create_dir_all(root().join(FOLDER)).context(FOLDER)?;
        let file = root().join(FOLDER).join(&name);
        std::fs::write(file, plot::lines(&lines)?).context(name.clone())?;
        println!("wrote {FOLDER}/{name}");
        drawn.push(name);
    }
    Ok(drawn)
}

fn lines(variant: &Variant, release: &str, text: &str) -> anyhow::Result<Lines> {
    let footnote = vec![variant.how.clone(), format!("Kernel {release}, emulated in software.")];
    series(variant.full_name(), footnote, text, tone)
}

/// A drawing of a file as above; `tone` is that of a phase.
pub(crate) fn series(
    title: String,
    footnote: Vec<String>,
    text: &str,
    tone: impl Fn(&str) -> Tone,
) -> anyhow::Result<Lines> {
    let table = Table::read(text)?;
    Ok(Lines { title, panels: table.panels(), spans: table.spans(tone), footnote })
}

/// The file, column by column.
struct Table {
    times_s: Vec<f64>,
    phases: Vec<String>,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    unit: String,
    values: Vec<f64>,
}

impl Table {
    fn read(text: &str) -> anyhow::Result<Table> {
        let mut rows = text.lines().map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
        let head = rows.next().context("the series is empty")?;
        anyhow::ensure!(head.contains(&TIME), "the series has no column {TIME}");
        let mut table = Table { times_s: Vec::new(), phases: Vec::new(), columns: Vec::new() };
        for title in head.iter().filter(|title| ![TIME, PHASE].contains(*title)) {
            let (name, unit) =
                title.rsplit_once(' ').with_context(|| format!("{title:?}: no unit"))?;
            let (name, unit) = (name.to_owned(), unit.to_owned());
            table.columns.push(Column { name, unit, values: Vec::new() });
        }
        for row in rows {
            anyhow::ensure!(row.len() == head.len(), "{row:?} is not as long as {head:?}");
            let mut columns = table.columns.iter_mut();
            for (title, cell) in head.iter().zip(row) {
                match *title {
                    TIME => {
                        table.times_s.push(cell.parse().with_context(|| format!("time {cell:?}"))?)
                    }
                    PHASE => table.phases.push(cell.to_owned()),
                    _ => {
                        let column = columns.next().context("more cells than columns")?;
                        column.values.push(cell.parse().unwrap_or(f64::NAN));
                    }
                }
            }
        }
        Ok(table)
    }

    /// One for each unit, in the order of the columns.
    fn panels(&self) -> Vec<Panel> {
        let mut panels: Vec<(&str, Vec<&Column>)> = Vec::new();
        for column in &self.columns {
            match panels.iter_mut().find(|(unit, _)| *unit == column.unit) {
                Some((_, columns)) => columns.push(column),
                None => panels.push((&column.unit, vec![column])),
            }
        }
        let panel = |(unit, columns): (&str, Vec<&Column>)| Panel {
            heading: match columns.as_slice() {
                [one] => format!("{}, {unit}", one.name),
                _ => unit.to_owned(),
            },
            series: columns.into_iter().map(|column| self.series(column)).collect(),
        };
        panels.into_iter().map(panel).collect()
    }

    /// Time between two phases, which was not sampled: a gap.
    fn series(&self, column: &Column) -> Series {
        let mut points = Vec::new();
        for (row, (time_s, value)) in self.times_s.iter().zip(&column.values).enumerate() {
            if row > 0 && self.phases.get(row) != self.phases.get(row - 1) {
                points.push((*time_s, f64::NAN));
            }
            points.push((*time_s, *value));
        }
        Series { name: column.name.clone(), points }
    }

    fn spans(&self, tone: impl Fn(&str) -> Tone) -> Vec<PlotSpan> {
        let mut spans: Vec<PlotSpan> = Vec::new();
        for (time_s, phase) in self.times_s.iter().zip(&self.phases) {
            match spans.last_mut() {
                Some(span) if span.name == *phase => span.to_s = *time_s,
                _ => spans.push(PlotSpan {
                    name: phase.clone(),
                    from_s: *time_s,
                    to_s: *time_s,
                    tone: tone(phase),
                }),
            }
        }
        spans
    }
}

fn tone(phase: &str) -> Tone {
    match RunPhase::ALL.into_iter().find(|known| known.name() == phase) {
        Some(RunPhase::During | RunPhase::Reverted) => Tone::Bad,
        Some(RunPhase::Fixed) => Tone::Good,
        Some(RunPhase::Before) | None => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "t_s,phase,dirty MiB,free MiB,last beat ms\n\
                        1.0,before,0,300,90\n1.5,before,5,290,\n4.0,during,200,3,2100\n";

    #[test]
    fn columns_of_a_unit_share_a_panel() {
        let panels = Table::read(TEXT).unwrap().panels();
        let headings: Vec<&str> = panels.iter().map(|panel| panel.heading.as_str()).collect();
        assert_eq!(headings, ["MiB", "last beat, ms"]);
        assert_eq!(panels[0].series[1].name, "free");
        let beats = &panels[1].series[0].points;
        assert_eq!((beats[0], beats[3]), ((1.0, 90.0), (4.0, 2100.0)));
        assert!(beats[1].1.is_nan(), "not seen");
        assert!(beats[2].1.is_nan(), "between the phases");
    }

    #[test]
    fn phases_are_spans() {
        let spans = Table::read(TEXT).unwrap().spans(tone);
        let seen: Vec<_> =
            spans.iter().map(|s| (s.name.as_str(), s.from_s, s.to_s, s.tone)).collect();
        assert_eq!(seen, [("before", 1.0, 1.5, Tone::Plain), ("during", 4.0, 4.0, Tone::Bad)]);
        assert!(Table::read("t_s,x s\n1,2\n").unwrap().spans(tone).is_empty());
    }

    #[test]
    fn what_is_no_series_is_said() {
        for text in ["", "a b\n1\n", "t_s,x\n", "t_s,x s\n1\n", "t_s,x s\nnoon,1\n"] {
            assert!(Table::read(text).is_err(), "{text:?}");
        }
    }
}
