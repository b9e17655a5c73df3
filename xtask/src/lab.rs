//! Plays the lab's cases with the program as it is built here, and writes docs/lab.md and the
//! drawings in docs/lab.

use crate::{cargo, plots, root, target_dir};
use anyhow::Context;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PAGE: &str = "docs/lab.md";
const PAGE_HEAD: &str = "\
# The lab: cases on real kernels

Made by `cargo xtask lab --write` (with `--all-kernels`, each case on both kernels): each case was played
by `memwright lab` in a virtual machine with a stock Debian kernel. Of what a case measures, the value
before its condition was made comes first, then while it was in force, after `memwright fix` and after
`memwright undo`, each with how many times the first value it is. Guests are emulated in software, so
that times tell of ratios, not of speeds; what failed was played once more, and says at which try it passed.

";

const STALLS: &str = "docs/stalls.md";
const STALLS_HEAD: &str = "\
# What the recorder says of stalls

Made by `cargo xtask lab --watch --write`: in each case the recorder (`memwright watch`) ran in the virtual
machine while the condition was made, with a probe of the service that suffers. A case is right when the
first cause of its longest stall is one that the case names; where memory is not to blame, when that is
said of every stall. Rows are cases, columns are the causes that were named first.

";

const ROUNDS: &str = "docs/rounds.md";
const ROUNDS_HEAD: &str = "\
# The lab, again and again

Made by `cargo xtask lab CASE… --rounds N --write`: each case was played as often as is said here, in a
virtual machine with a stock Debian kernel, without a second try for any. Values are medians of all
rounds, as in docs/lab.md; at the end of a line, the least and the most that any round showed.

";

/// The machine has other work to do: what fails is played once more, and said.
const RETRIES: u16 = 1;

/// What CI plays: the field reports and the decoys, each on its own kernel, as they are and watched by
/// the recorder.
pub(crate) fn ci() -> anyhow::Result<()> {
    let binary = build()?;
    let retries = format!("--retries={RETRIES}");
    let args = ["--kind", "tale,decoy", "--strict", &retries];
    play(&binary, &args)?;
    play(&binary, &[&args[..], &["--watch"]].concat())
}

/// What is played.
pub(crate) struct Choice {
    /// Cases or variants; none: all.
    pub(crate) names: Vec<String>,
    /// On both kernels, and not each on its own.
    pub(crate) all_kernels: bool,
    /// How often.
    pub(crate) rounds: u16,
    /// How many at once.
    pub(crate) jobs: u16,
}

impl Choice {
    fn args(&self) -> Vec<String> {
        let mut args = self.names.clone();
        args.extend(self.all_kernels.then(|| "--all-kernels".to_owned()));
        args.extend([format!("--rounds={}", self.rounds), format!("--jobs={}", self.jobs)]);
        // Rounds are there to see how often a case fails.
        args.extend((self.rounds == 1).then(|| format!("--retries={RETRIES}")));
        args
    }
}

/// Has the recorder watch; `write` keeps the result.
pub(crate) fn watch(choice: &Choice, write: bool) -> anyhow::Result<()> {
    let binary = build()?;
    let mut args = choice.args();
    args.push("--watch".to_owned());
    if write { write_table(&binary, &args, STALLS, STALLS_HEAD) } else { play(&binary, &args) }
}

/// Plays; `write` keeps the result.
pub(crate) fn run(choice: &Choice, write: bool) -> anyhow::Result<()> {
    let binary = build()?;
    let args = choice.args();
    match (write, choice.rounds) {
        (false, _) => play(&binary, &args),
        (true, 1) => write_page(&binary, &args),
        (true, _) => write_table(&binary, &args, ROUNDS, ROUNDS_HEAD),
    }
}

/// Optimised, as users have it: in an emulated guest an unoptimised program outruns its own limits of
/// time.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    cargo(&["build", "--locked", "--release", "--package", "mw-cli", "--features", "full"])?;
    cargo(&["build", "--locked", "--release", "--package", "mw-preload"])?;
    Ok(target_dir().join("release/memwright"))
}

fn play(binary: &Path, args: &[impl AsRef<OsStr>]) -> anyhow::Result<()> {
    let status = Command::new(binary).arg("lab").args(args).status().context("memwright lab")?;
    anyhow::ensure!(status.success(), "memwright lab: not every case passed");
    Ok(())
}

/// The table, and whether every case passed: a page with failures is written too, it is what was seen.
fn markdown(binary: &Path, args: &[String], logs: Option<&Path>) -> anyhow::Result<(String, bool)> {
    let mut command = Command::new(binary);
    command.arg("lab").args(args).args(["--format", "markdown"]);
    if let Some(logs) = logs {
        command.arg("--keep-logs").arg(logs);
    }
    let output = command.stderr(Stdio::inherit()).output().context("memwright lab")?;
    let table = String::from_utf8(output.stdout)?;
    anyhow::ensure!(!table.is_empty(), "memwright lab has said nothing");
    Ok((table, output.status.success()))
}

fn write_table(binary: &Path, args: &[String], page: &str, head: &str) -> anyhow::Result<()> {
    let (table, passed) = markdown(binary, args, None)?;
    std::fs::write(root().join(page), format!("{head}{table}")).context(page.to_owned())?;
    println!("wrote {page}");
    anyhow::ensure!(passed, "not every play was what it should be, see {page}");
    Ok(())
}

fn write_page(binary: &Path, args: &[String]) -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let (table, passed) = markdown(binary, args, Some(logs.path()))?;
    let drawings = drawings(&plots::run(logs.path())?);
    let page = root().join(PAGE);
    std::fs::write(&page, format!("{PAGE_HEAD}{table}{drawings}")).context(PAGE)?;
    println!("wrote {PAGE}");
    anyhow::ensure!(passed, "not every case passed, see {PAGE}");
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
