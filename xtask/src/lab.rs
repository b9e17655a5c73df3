//! Plays the lab's cases with the program as it is built here, and writes docs/lab.md and the
//! drawings in docs/lab.

use crate::{cargo, plots, root, target_dir};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PAGE: &str = "docs/lab.md";
const PAGE_HEAD: &str = "\
# The lab: cases on real kernels

Made by `cargo xtask lab --write` (with `--all-kernels`, each case on both kernels): each case was played
by `memwright lab` in a virtual machine with a stock Debian kernel. Of what a case measures, the value
before its condition was made comes first, then while it was in force, after `memwright fix` and after
`memwright undo`, each with how many times the first value it is. Guests are emulated in software, so
that times tell of ratios, not of speeds.

";

const STALLS: &str = "docs/stalls.md";
const STALLS_HEAD: &str = "\
# What the recorder says of stalls

Made by `cargo xtask lab --watch --write`: in each case the recorder (`memwright watch`) ran in the virtual
machine while the condition was made, with a probe of the service that suffers. A case is right when the
first cause of its longest stall is one that the case names; where memory is not to blame, when that is
said of every stall. Rows are cases, columns are the causes that were named first.

";

/// What CI plays: the field reports and the decoys, each on its own kernel, as they are and watched by
/// the recorder.
pub(crate) fn ci() -> anyhow::Result<()> {
    let binary = build()?;
    play(&binary, &["--kind", "tale,decoy", "--strict"])?;
    play(&binary, &["--kind", "tale,decoy", "--strict", "--watch"])
}

/// Has the recorder watch the cases called `names` (none: all that say how); `write` keeps the result.
pub(crate) fn watch(names: &[String], write: bool) -> anyhow::Result<()> {
    let binary = build()?;
    let mut args: Vec<&str> = names.iter().map(String::as_str).collect();
    args.push("--watch");
    if !write {
        return play(&binary, &args);
    }
    let output = markdown(&binary, &args, None)?;
    let table = String::from_utf8(output.stdout)?;
    anyhow::ensure!(!table.is_empty(), "memwright lab has said nothing");
    std::fs::write(root().join(STALLS), format!("{STALLS_HEAD}{table}")).context(STALLS)?;
    println!("wrote {STALLS}");
    anyhow::ensure!(output.status.success(), "not every stall was explained, see {STALLS}");
    Ok(())
}

/// Plays the cases called `names` (none: all), on both kernels where `all_kernels`, else each on its
/// own; `write` keeps the result.
pub(crate) fn run(names: &[String], all_kernels: bool, write: bool) -> anyhow::Result<()> {
    let binary = build()?;
    let mut args: Vec<&str> = names.iter().map(String::as_str).collect();
    args.extend(all_kernels.then_some("--all-kernels"));
    if write { write_page(&binary, &args) } else { play(&binary, &args) }
}

/// Optimised, as users have it: in an emulated guest an unoptimised program outruns its own limits of
/// time.
fn build() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--locked", "--release", "--package", "mw-cli", "--features", "full"])?;
    Ok(target_dir().join("release/memwright"))
}

fn play(binary: &Path, args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(binary).arg("lab").args(args).status().context("memwright lab")?;
    anyhow::ensure!(status.success(), "memwright lab {}: not every case passed", args.join(" "));
    Ok(())
}

fn markdown(binary: &Path, args: &[&str], logs: Option<&Path>) -> anyhow::Result<Output> {
    let mut command = Command::new(binary);
    command.arg("lab").args(args).args(["--format", "markdown"]);
    if let Some(logs) = logs {
        command.arg("--keep-logs").arg(logs);
    }
    command.stderr(Stdio::inherit()).output().context("memwright lab")
}

/// A page with failures is written too: it is what was seen.
fn write_page(binary: &Path, args: &[&str]) -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let output = markdown(binary, args, Some(logs.path()))?;
    let table = String::from_utf8(output.stdout)?;
    anyhow::ensure!(!table.is_empty(), "memwright lab has said nothing");
    let drawings = drawings(&plots::run(logs.path())?);
    let page = root().join(PAGE);
    std::fs::write(&page, format!("{PAGE_HEAD}{table}{drawings}")).context(PAGE)?;
    println!("wrote {PAGE}");
    anyhow::ensure!(output.status.success(), "not every case passed, see {PAGE}");
    Ok(())
}

/// The last part of the page.
fn drawings(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown = |name: &String| format!("\n![{name}](lab/{name})\n");
    format!("\n## Over time\n{}", names.iter().map(shown).collect::<String>())
}
