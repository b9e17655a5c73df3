//! The lab's quick list, with the program as it is built for the tests. All of the lab is `cargo xtask lab`.

mod quick;

use crate::workspace::built;
use anyhow::Context;
use std::process::{Command, Stdio};

/// A run of the quick list that failed.
pub(crate) struct FailedRun {
    watched: bool,
    /// `CASE/VARIANT`.
    name: String,
    why: String,
}

impl std::fmt::Display for FailedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let watched = if self.watched { ", watched" } else { "" };
        write!(f, "{}{watched}: {}", self.name, self.why)
    }
}

/// Number of parts of the quick list (quick.rs).
pub(crate) const PARTS: usize = quick::PARTS.len();

/// Name of a part, from 0 on.
pub(crate) fn title(part: usize) -> &'static str {
    quick::PARTS.get(part).map_or("", |part| part.title)
}

/// Plays a part, with the program that `cargo build --workspace` makes: it passes the same bounds as the optimised one,
/// whose build takes longer than the runs. Returns what failed, for [`again`].
///
/// Promise (The lab): In decoys, in which memory is not the cause, nothing is found.
///
/// Promise (The lab): Every field report is reproduced, found, fixed and verified; a node with pinned pages is
/// distinguished.
pub(crate) fn run_part(part: usize) -> anyhow::Result<Vec<FailedRun>> {
    let part = quick::PARTS.get(part).context("no such part of the quick list")?;
    for run in part.runs {
        println!("{}: {}", run.name, run.reason);
    }
    let names: Vec<&str> = part.runs.iter().map(|run| run.name).collect();
    failed_of(&names, part.watched, part.guests)
}

/// Runs what failed once more, with nothing beside it.
pub(crate) fn again(failed: &[FailedRun]) -> anyhow::Result<()> {
    let mut still = Vec::new();
    for run in failed {
        println!("failed at first: {run}");
        still.extend(failed_of(&[&run.name], run.watched, 1)?);
    }
    let still: Vec<String> = still.iter().map(FailedRun::to_string).collect();
    anyhow::ensure!(still.is_empty(), "failed twice: {}", still.join("; "));
    Ok(())
}

/// The runs with `names` that do not pass; one that cannot run here does not pass either.
fn failed_of(names: &[&str], watched: bool, guests: u16) -> anyhow::Result<Vec<FailedRun>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = Command::new(built("memwright"));
    command.args(["lab", "--json", &format!("--jobs={guests}")]).args(names);
    command.args(watched.then_some("--watch"));
    let output = command.stderr(Stdio::inherit()).output().context("memwright lab")?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("memwright lab {}: {}", names.join(" "), output.status))?;
    let runs = report["runs"].as_array().context("memwright lab: no runs in its report")?;
    anyhow::ensure!(runs.len() == names.len(), "memwright lab: {} runs", runs.len());
    let text = |run: &serde_json::Value, field: &str| run[field].as_str().unwrap_or("").to_owned();
    let failed = runs.iter().filter(|run| run["outcome"] != "passed").map(|run| FailedRun {
        watched,
        name: format!("{}/{}", text(run, "case"), text(run, "variant")),
        why: format!("{}: {}", text(run, "outcome"), text(run, "why")),
    });
    Ok(failed.collect())
}
