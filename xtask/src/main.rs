//! The project's own chores: `cargo xtask --help`.

mod arch;
mod ci;
mod docs;
mod environments;
mod evaluate;
mod fixtures;
mod header;
mod lab;
mod new;
mod packages;
mod plots;
mod promises;
mod recorders;
mod suites;
mod tests;
mod units;

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what the tests need, then run everything that has to pass
    Ci {
        /// Also run long campaigns, every case of the lab and other people's test suites, which takes hours
        #[arg(long)]
        full: bool,
    },
    /// Run test programs as `ci` does (all of them, or those named), and list the slowest tests
    Test {
        /// A package, as in mw-pool, or a package and a target, as in 'mw-cli watch'
        names: Vec<String>,
        /// Run long campaigns too
        #[arg(long)]
        full: bool,
        /// List so many of the slowest
        #[arg(long, default_value_t = 30)]
        slowest: usize,
    },
    /// Run other people's test suites without the library and under `memwright run`, and compare
    Suites {
        /// ltp, postgresql or cpython (all of them, or those named)
        names: Vec<String>,
        /// Option sets: default, prefault, lock, huge or direct-io (all of them, or those named)
        #[arg(long, value_delimiter = ',')]
        options: Vec<String>,
        /// Where LTP is installed [default: $LTPROOT, or /opt/ltp]
        #[arg(long)]
        ltp: Option<PathBuf>,
        /// Write docs/suites.md from the latest result of every suite, run now or before
        #[arg(long)]
        write: bool,
    },
    /// Write the generated documentation: rule pages, man pages, completions, JSON schema,
    /// C header
    Docs {
        /// Write nothing; fail where something is out of date
        #[arg(long)]
        check: bool,
    },
    /// Create the skeleton of a rule, a probe, a collector or a lab case
    New {
        kind: new::Kind,
        /// Its name in kebab-case
        name: String,
    },
    /// The same as `new rule`
    #[command(hide = true)]
    NewRule {
        /// Its id in kebab-case
        name: String,
    },
    /// Make the fixtures again in virtual machines (all of them, or those named)
    Fixtures {
        /// Cases under lab/
        names: Vec<String>,
    },
    /// Run the lab's cases in virtual machines (all of them, or those named)
    Lab {
        /// Cases under lab/, or single variants of them
        names: Vec<String>,
        /// On every packaged kernel
        #[arg(long)]
        all_kernels: bool,
        /// Run the recorder in the guest instead, where a case has [watch]
        #[arg(long)]
        watch: bool,
        /// Runs of each case
        #[arg(long, default_value_t = 1)]
        rounds: u16,
        /// Guests at once
        #[arg(long, default_value_t = 1)]
        jobs: u16,
        /// Write the results to docs/lab.md and docs/lab/, to docs/rounds.md with --rounds, or docs/stalls.md with
        /// --watch
        #[arg(long)]
        write: bool,
        /// Run nothing; write docs/lab.md from docs/lab/results.json
        #[arg(long, conflicts_with_all = ["watch", "rounds", "write"])]
        redraw: bool,
    },
    /// Draw docs/lab/ from the logs that `memwright lab --keep-logs` has kept
    LabPlots {
        /// The folder
        logs: PathBuf,
    },
    /// Measure the options of the lab's evaluations against each other, and write docs/evaluations
    Evaluate {
        /// Evaluations under lab/ (all of them, or those named)
        names: Vec<String>,
        /// How often each option is measured
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// How many options are measured at once
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Measure nothing; write the pages from what was measured before
        #[arg(long, conflicts_with = "rounds")]
        redraw: bool,
    },
    /// Run `check` in containers, under masks, in control groups and on other kernels, and judge each
    /// first line and exit code (all environments, or those whose names begin so)
    Environments {
        /// The beginnings of names
        names: Vec<String>,
        /// The `memwright` to run [default: built here, optimised]
        #[arg(long)]
        program: Option<PathBuf>,
        /// Write docs/environments.md from it
        #[arg(long)]
        write: bool,
    },
    /// Measure what the recorder costs beside atop, sar, pcp and pt-stalk, all at once
    Recorders {
        /// How long; a recording's own size needs 360 and more
        #[arg(long, default_value_t = 360)]
        seconds: u64,
        /// Write the table into docs/benchmarks.md
        #[arg(long)]
        write: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::Ci { full } => ci::run(full),
        Chore::Test { names, full, slowest } => tests::chosen(&names, full, slowest),
        Chore::Suites { names, options, ltp, write } => {
            suites::run(&suites::Choice { names, options, ltp, write })
        }
        Chore::Docs { check } => docs::run(check),
        Chore::New { kind, name } => new::run(kind, &name),
        Chore::NewRule { name } => new::run(new::Kind::Rule, &name),
        Chore::Fixtures { names } => fixtures::run(&names),
        Chore::Lab { redraw: true, .. } => lab::redraw(),
        Chore::Lab { names, all_kernels, watch, rounds, jobs, write, redraw: false } => {
            let selection = lab::Selection { names, all_kernels, rounds, jobs };
            if watch { lab::watch(&selection, write) } else { lab::run(&selection, write) }
        }
        Chore::LabPlots { logs } => plots::run(&logs).map(drop),
        Chore::Evaluate { names, rounds, jobs, redraw } => {
            evaluate::run(&names, rounds, jobs, redraw)
        }
        Chore::Environments { names, program, write } => environments::run(&names, program, write),
        Chore::Recorders { seconds, write } => recorders::run(seconds, write),
    }
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo puts what it builds.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// Runs cargo in the repository and fails when it fails.
fn cargo(args: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(args).current_dir(root()).status()?;
    anyhow::ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// Reads a text file of the repository.
fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
