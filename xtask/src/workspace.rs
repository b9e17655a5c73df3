//! The repository, and cargo in it.

use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// Runs cargo in the repository and fails when it fails.
pub(crate) fn cargo(args: &[&str]) -> anyhow::Result<()> {
    cargo_with(args, |_| {})
}

/// The same, of a command that is changed first.
pub(crate) fn cargo_with(args: &[&str], change: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    change(&mut command);
    let status = command.status()?;
    anyhow::ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// Runs a command, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    anyhow::ensure!(status.success(), "{command:?} failed");
    Ok(())
}

/// Standard output of a command that succeeds.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads a text file of the repository.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Fails once this process has been asked to end.
pub(crate) fn go_on() -> anyhow::Result<()> {
    anyhow::ensure!(!mw_sys::is_termination_requested(), "interrupted");
    Ok(())
}

/// `PATH` with another folder before all others.
pub(crate) fn path_from(first: &Path) -> anyhow::Result<OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(first.to_owned()).chain(std::env::split_paths(&inherited));
    Ok(std::env::join_paths(paths)?)
}
