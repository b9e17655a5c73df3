//! The skeletons compile: each is created in one copy of the crates, which cargo then builds: beside what the tests were
//! built with, a check would have to check every dependency.

use super::{SkeletonKind, create_under};
use crate::workspace::{cargo_command, read, root, target_dir};
use anyhow::Context;
use std::path::Path;
use std::process::Command;

/// The folder of the copied crates. Cargo tells them from those of the repository by its name, so that neither's
/// results are taken for the other's in the target directory, while both share all other crates.
const FOLDER: &str = "skeletons";

/// The crates that a skeleton adds to, or that use what it adds.
const CHECKED: &[&str] = &["mw-proc", "mw-collect", "mw-rules", "mw-probe"];

/// Fails where a skeleton does not compile, or compiles with a warning.
pub(crate) fn run() -> anyhow::Result<()> {
    let copy = tempfile::tempdir()?;
    create_all(copy.path())?;
    std::fs::rename(copy.path().join("crates"), copy.path().join(FOLDER))?;
    std::fs::write(copy.path().join("Cargo.toml"), manifest(&read(&root().join("Cargo.toml"))?)?)?;
    let mut command = cargo_command();
    command.args(["build", "--quiet", "--offline", "--lib"]).current_dir(copy.path());
    command.args(CHECKED.iter().flat_map(|package| ["--package", package]));
    // The tests of probes, which a skeleton adds to as well.
    command.args(["--test", "probes"]);
    command.env("CARGO_TARGET_DIR", std::path::absolute(target_dir())?);
    command.env("CARGO_INCREMENTAL", "0");
    let status = command.status().context("cargo build")?;
    anyhow::ensure!(status.success(), "a skeleton of 'cargo xtask new' does not compile");
    Ok(())
}

/// A copy of the crates below `copy`, with one skeleton of each part.
fn create_all(copy: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("cp");
    command.args(["-r", "Cargo.lock", "crates"]).arg(copy).current_dir(root());
    crate::workspace::run(&mut command)?;
    for part in [SkeletonKind::Rule, SkeletonKind::Probe, SkeletonKind::Collector] {
        create_under(copy, part, "new-skeleton")?;
    }
    create_under(copy, SkeletonKind::Cause, "new-cause")?;
    Ok(())
}

/// The manifest of the copy: crates alone, unoptimised, and no warnings.
fn manifest(repository: &str) -> anyhow::Result<String> {
    let (_, rest) = repository.split_once("\nmembers = ").context("no members")?;
    let (_, rest) = rest.split_once("\n\n").context("no end of the members")?;
    let lints = "[workspace.lints.rust]\n";
    anyhow::ensure!(rest.contains(lints), "no {lints}");
    let rest = rest
        .replace("\"crates/", &format!("\"{FOLDER}/"))
        .replace("opt-level = 1", "opt-level = 0")
        .replace(lints, &format!("{lints}warnings = \"deny\"\n"));
    Ok(format!("[workspace]\nresolver = \"3\"\nmembers = [\"{FOLDER}/*\"]\n\n{rest}"))
}
