//! The steps, and what came of them.

use crate::workspace::{read, root};
use anyhow::Context;
use mw_lab::GuestRun;
use std::fs;
use std::path::{Path, PathBuf};

/// The exit code of a step after which the machine is rebooted.
const REBOOT: i32 = 42;

pub(super) struct Step {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The first line: what holds when it succeeds.
    pub(super) promise: String,
}

/// A step that a guest was to do.
pub(super) struct Done {
    pub(super) name: String,
    pub(super) promise: String,
    /// `None`: the guest did not come to its end.
    code: Option<i32>,
    seconds: f64,
    pub(super) log: String,
    /// Input and output that a person types and reads.
    pub(super) shown: String,
}

/// All steps in their order, or those whose names begin with one of `wanted`.
pub(super) fn all(wanted: &[String]) -> anyhow::Result<Vec<Step>> {
    let folder = root().join("lab/system/steps");
    let mut paths: Vec<PathBuf> = folder.read_dir()?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut steps = Vec::new();
    for path in paths {
        let name = path.file_stem().context("no name")?.to_string_lossy().into_owned();
        let text = read(&path)?;
        let first = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let promise = first.with_context(|| format!("{name}: its first line says nothing"))?;
        if wanted.is_empty() || wanted.iter().any(|start| name.starts_with(start)) {
            steps.push(Step { name, promise: promise.to_owned(), path });
        }
    }
    anyhow::ensure!(!steps.is_empty(), "no step has such a name");
    Ok(steps)
}

/// Prints what came of each step and keeps the logs in `logs`.
pub(super) fn judge(steps: &[Step], run: &GuestRun, logs: &Path) -> anyhow::Result<Vec<Done>> {
    let _ = fs::remove_dir_all(logs);
    fs::create_dir_all(logs)?;
    fs::write(logs.join("console"), &run.console)?;
    for (name, contents) in &run.frames.files {
        fs::write(logs.join(name), contents)?;
    }
    let done: Vec<Done> = steps.iter().map(|step| Done::of(step, run)).collect();
    for step in &done {
        let verdict = if step.failed() { "FAILED" } else { "passed" };
        println!("{verdict}  {:>5.1} s  {}: {}", step.seconds, step.name, step.promise);
        if step.failed() {
            let lines: Vec<&str> = step.log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(15)..];
            tail.iter().for_each(|line| println!("    {line}"));
        }
        for figure in step.figures() {
            println!("    {figure}");
        }
    }
    println!("logs: {}", logs.display());
    Ok(done)
}

impl Done {
    fn of(step: &Step, run: &GuestRun) -> Self {
        let text = |kind: &str| run.frames.text(&format!("{}.{kind}", step.name));
        let end = text("end").unwrap_or_default();
        let (code, seconds) = end.split_once(' ').unwrap_or_default();
        Self {
            name: step.name.clone(),
            promise: step.promise.clone(),
            code: code.parse().ok(),
            seconds: seconds.parse().unwrap_or_default(),
            log: text("log").unwrap_or_else(|| format!("the guest ended: {:?}", run.ended)),
            shown: text("shown").unwrap_or_default(),
        }
    }

    pub(super) fn failed(&self) -> bool {
        !matches!(self.code, Some(0 | REBOOT))
    }

    /// Lines such as `install 3.1`.
    pub(super) fn figures(&self) -> impl Iterator<Item = &str> {
        self.log.lines().filter_map(|line| line.strip_prefix("FIGURE "))
    }
}
