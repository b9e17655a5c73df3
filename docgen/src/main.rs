//! Writes the generated documentation (`cargo xtask docs`, `cargo xtask pictures`). A program of its own, since what it
//! documents is in the program: its command line, its rules, and the types of what it prints.

mod docs;
mod header;
mod manual;
mod monitoring;
mod promises;
mod rule_pages;

use anyhow::Context;
use clap::Parser;
use std::path::{Path, PathBuf};
use xtask::workspace;

#[derive(Parser)]
#[command(name = "docgen", about = "Writes the generated documentation")]
struct DocgenArgs {
    /// Write nothing; fail where something is out of date
    #[arg(long)]
    check: bool,
    /// Write nothing but the report of the incident that standard input has as JSON, to this file
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    report: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = DocgenArgs::parse();
    args.report.map_or_else(|| docs::run(args.check), |file| report(&file))
}

fn report(file: &Path) -> anyhow::Result<()> {
    let incident = serde_json::from_reader(std::io::stdin().lock())?;
    std::fs::write(file, mw_render::html::incident(&incident)?)
        .with_context(|| file.display().to_string())
}
