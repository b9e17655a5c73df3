//! The project's own chores: `cargo xtask --help`.

mod arch;
mod ci;
mod docs;
mod fixtures;
mod header;
mod new_rule;
mod promises;

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
    Ci,
    /// Write the generated documentation: rule pages, man pages, completions, JSON schema,
    /// C header
    Docs {
        /// Write nothing; fail where something is out of date
        #[arg(long)]
        check: bool,
    },
    /// Create a rule: source file, registry line, fixtures and lab case to be filled in
    NewRule {
        /// Its id in kebab-case, named after the bad condition
        name: String,
    },
    /// Make the fixtures again in virtual machines (all of them, or those named)
    Fixtures {
        /// Cases under lab/
        names: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::Ci => ci::run(),
        Chore::Docs { check } => docs::run(check),
        Chore::NewRule { name } => new_rule::run(&name),
        Chore::Fixtures { names } => fixtures::run(&names),
    }
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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
