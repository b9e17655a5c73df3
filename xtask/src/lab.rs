//! Plays the lab's cases with the program as it is built here, and writes docs/lab.md and the
//! drawings in docs/lab.

use crate::{cargo, plots, root, target_dir};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/lab.md";
const PAGE_HEAD: &str = "\
# The lab: cases on real kernels

Made by `cargo xtask lab --write` (with `--all-kernels`, each case on both kernels): each case was played
by `memwright lab` in a virtual machine with a stock Debian kernel. Of what a case measures, the value
before its condition was made comes first, then while it was in force, after `memwright fix` and after
`memwright undo`, each with how many times the first value it is. Guests are emulated in software, so
that times tell of ratios, not of speeds.

";

/// What CI plays: the field reports and the decoys, each on its own kernel.
pub(crate) fn ci() -> anyhow::Result<()> {
    play(&build()?, &["--kind", "tale,decoy", "--strict"])
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
    cargo(&["build", "--locked", "--release", "--package", "mw-cli", "--features", "lab"])?;
    Ok(target_dir().join("release/memwright"))
}

fn play(binary: &Path, args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(binary).arg("lab").args(args).status().context("memwright lab")?;
    anyhow::ensure!(status.success(), "memwright lab {}: not every case passed", args.join(" "));
    Ok(())
}

/// A page with failures is written too: it is what was seen.
fn write_page(binary: &Path, args: &[&str]) -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let output = Command::new(binary)
        .arg("lab")
        .args(args)
        .args(["--format", "markdown", "--keep-logs"])
        .arg(logs.path())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("memwright lab")?;
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
