//! The repository, and cargo in it.

use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The workspace of the campaigns that CI does not run. It has its own lock file (locks.rs), and shares the target directory.
pub(crate) const EVAL_MANIFEST: &str = "eval/Cargo.toml";

/// A number by which commits differ: the beginning of the hash of the one that is checked out. None outside a
/// repository of git.
pub(crate) fn commit_number() -> Option<usize> {
    const DIGITS: usize = 4;
    let output =
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output().ok()?;
    let hash = String::from_utf8(output.stdout).ok()?;
    usize::from_str_radix(hash.get(..DIGITS)?, 16).ok()
}

/// Directory of cargo's output.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// A program that `cargo build` has made.
pub fn built(name: &str) -> PathBuf {
    target_dir().join("debug").join(name)
}

/// The cargo that runs this task.
pub(crate) fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo in the repository and fails when it fails.
pub fn cargo(args: &[&str]) -> anyhow::Result<()> {
    cargo_with(args, |_| {})
}

/// The same, of a command that is changed first.
pub fn cargo_with(args: &[&str], change: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
    let mut command = cargo_command();
    command.args(args).current_dir(root());
    change(&mut command);
    let status = command.status()?;
    anyhow::ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// Builds the campaigns that CI does not run, and runs one.
pub(crate) fn eval(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<()> {
    let target = std::path::absolute(target_dir())?;
    cargo_with(&["run", "--locked", "--manifest-path", EVAL_MANIFEST], |cargo| {
        cargo.arg("--target-dir").arg(target).arg("--").args(args);
    })
}

/// Runs a command, and fails when it fails.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    anyhow::ensure!(status.success(), "{command:?} failed");
    Ok(())
}

/// Compiles a program in C, for this machine or for a guest, into a directory.
pub fn compile_c(source: &Path, bin: &Path) -> anyhow::Result<()> {
    let program = bin.join(source.file_stem().unwrap_or_default());
    run(Command::new("gcc").args(["-O2", "-pthread", "-static", "-o"]).arg(program).arg(source))
}

/// Standard output of a command that succeeds.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Files that git tracks and that exist, by their paths from [`root`]; `pattern` is a pathspec such as `*.md`.
pub fn tracked(pattern: &str) -> anyhow::Result<Vec<String>> {
    let listed = output(Command::new("git").args(["ls-files", "-z", pattern]).current_dir(root()))?;
    let exists = |file: &&str| root().join(file).exists();
    Ok(listed.split_terminator('\0').filter(exists).map(str::to_owned).collect())
}

/// Reads a text file of the repository.
pub fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
