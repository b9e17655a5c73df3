//! Figures 1 and 2 of the field report, from the recording of n1.

use super::played::Played;
use crate::cluster::phase::Phase;
use crate::plots;
use anyhow::Context;
use mw_render::plot::{self, Tone};
use std::fmt::Write;

const MIB: f64 = (1 << 20) as f64;

/// A column of the recording: its name, what it is in the figure, how much of its unit is one of the figure's, and
/// whether it counts since boot.
type Column = (&'static str, &'static str, f64, bool);

/// The disk of the tablespaces.
const WRITTEN: Column = ("disk.nvme1n1.written_bytes", "slow disk MiB/s", MIB, true);
const MEMORY: &[Column] = &[
    ("meminfo.Dirty", "dirty MiB", MIB, false),
    ("meminfo.Writeback", "writeback MiB", MIB, false),
    ("meminfo.MemFree", "free MiB", MIB, false),
    ("vmstat.pgscan_kswapd", "scanned pages/s", 1.0, true),
    ("canary.touch_us", "page fault ms", 1000.0, false),
];

/// The two drawings.
pub(super) fn draw(played: &Played) -> anyhow::Result<[(&'static str, String); 2]> {
    let footnote = format!(
        "Linux {}, emulated. The field report's figures 1 and 2 show throughput and memory of the same act on a larger \
         machine.",
        played.release
    );
    let one = |title: &str, columns: &[Column]| {
        let text = table(played, columns)?;
        let lines = plots::series(title.to_owned(), vec![footnote.clone()], &text, tone)?;
        anyhow::Ok(plot::lines(&lines)?)
    };
    Ok([
        ("throughput.svg", one("What the slow disk writes", &[WRITTEN])?),
        ("memory.svg", one("Memory of the node with the flood", MEMORY)?),
    ])
}

/// The columns in the phases, as a file that `plots` draws.
fn table(played: &Played, columns: &[Column]) -> anyhow::Result<String> {
    let table = &played.series;
    let recorded = |name: &str| table.columns.iter().find(|recorded| recorded.name == name);
    let recorded = columns
        .iter()
        .map(|column| recorded(column.0).with_context(|| format!("{} is not recorded", column.0)));
    let recorded: Vec<&mw_model::Column> = recorded.collect::<anyhow::Result<_>>()?;
    let mut text = "t_s,phase".to_owned();
    columns.iter().for_each(|column| text += &format!(",{}", column.1));
    let begin_s = played.phases.first().context("no phase")?.from_s;
    let at_s = |row: usize| table.at_unix_ms[row] as f64 / 1000.0;
    let value = |column: &mw_model::Column, row: usize| match column.values[row] {
        mw_model::NO_VALUE => f64::NAN,
        value => value as f64,
    };
    for row in 1..table.at_unix_ms.len() {
        let is_in = |phase: &&Phase| (phase.from_s..phase.to_s).contains(&at_s(row));
        let Some(phase) = played.phases.iter().find(is_in) else { continue };
        let _ = write!(text, "\n{:.1},{}", at_s(row) - begin_s, phase.name);
        for ((_, _, unit, counts), recorded) in columns.iter().zip(&recorded) {
            let grew = value(recorded, row) - value(recorded, row - 1);
            let took_s = at_s(row) - at_s(row - 1);
            let shown = if *counts { grew / took_s } else { value(recorded, row) };
            let _ = write!(text, ",{:.2}", shown / unit);
        }
    }
    Ok(text + "\n")
}

fn tone(phase: &str) -> Tone {
    match phase {
        "healthy" => Tone::Plain,
        "flood" => Tone::Bad,
        _ => Tone::Good,
    }
}
