//! Creation on 2 MiB pages as a share of the zeroing bandwidth.

use crate::huge_pages;
use crate::workspace::go_on;
use anyhow::Context;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const RUNS: usize = 10;
const MIB: u64 = 1024;
/// Rounds of `memwright bench`, of whose medians the share is.
const ROUNDS: &str = "3";
const FIGURE: &str = "creating huge pages, of the zeroing bandwidth";

/// One run of `memwright bench`, in milliseconds for each GiB.
pub(super) struct Run {
    pub(super) create: f64,
    pub(super) zeroing: f64,
    /// In percent.
    pub(super) share: f64,
    pub(super) other_cpus: f64,
}

/// All runs.
pub(super) struct Zeroing(pub(super) Vec<Run>);

pub(super) fn measure(memwright: &Path) -> anyhow::Result<Zeroing> {
    let _pool = huge_pages::reserve(memwright, 2 << 20, MIB / 2)?;
    let runs: anyhow::Result<Vec<Run>> = (0..RUNS).map(|_| run(memwright)).collect();
    runs.map(Zeroing)
}

fn run(memwright: &Path) -> anyhow::Result<Run> {
    go_on()?;
    let mut command = Command::new(memwright);
    command.args(["bench", "--json", "--kind", "memfd", "--page", "2M", "--rounds", ROUNDS]);
    command.arg("--size").arg(format!("{MIB}M"));
    let report: Value = serde_json::from_str(&crate::workspace::output(&mut command)?)?;
    let figures = report["figures"].as_array().context("no figures")?;
    let share = figures.iter().find(|figure| figure["name"] == FIGURE).context(FIGURE)?;
    let rows = report["rows"].as_array().context("no rows")?;
    let ours = rows.iter().rev().find(|row| row["way"] == "memwright 2M").context("no row")?;
    let number = |value: &Value| value.as_f64().context("no number");
    Ok(Run {
        create: number(&ours["create_ms_per_gib"]["median"])?,
        zeroing: number(&report["ceiling_ms_per_gib"]["median"])?,
        share: number(&share["value"])?,
        other_cpus: report["others_processors"].as_f64().unwrap_or(f64::NAN),
    })
}
