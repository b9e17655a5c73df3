//! The Python package: its wheel, its notebook, its tests under AddressSanitizer, and what it costs.

mod sanitizer;
mod wheel;

use crate::packages;
use crate::workspace::{self, cargo, root, target_dir};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Part {
    /// The package as a wheel
    Wheel,
    /// The notebook of its examples, executed as Jupyter does
    Notebook,
    /// Its tests with the library under AddressSanitizer
    Sanitizer,
    /// Measurements of what it costs; needs root and 10 GiB of memory
    Figures,
}

/// Debian's own: it has numpy and torch by packages.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// What executes the notebook, from the Python Package Index: Debian's matplotlib depends on compilers.
const NOTEBOOK: [&str; 3] = ["ipykernel==7.4.0", "matplotlib==3.11.2", "nbclient==0.11.0"];

const PAGE: &str = "docs/python.md";

pub(crate) fn run(part: Part, out: Option<PathBuf>, write: bool) -> anyhow::Result<()> {
    match part {
        Part::Wheel => wheel::build(out),
        Part::Notebook => {
            cargo(&["build", "--package", "mw-cli", "--features", "full"])?;
            notebook()
        }
        Part::Sanitizer => sanitizer::run(),
        Part::Figures => figures(write),
    }
}

/// Executes the notebook with the programs that are built already.
pub(crate) fn notebook() -> anyhow::Result<()> {
    let dir = target_dir().join("python/notebook");
    let python = dir.join("bin/python");
    if !python.exists() {
        workspace::run(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    }
    workspace::run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(NOTEBOOK))?;
    workspace::run(package(&python, &target_dir().join("debug"))?.arg("tests/notebook.py"))
}

/// `full`: with what is too large for each run.
pub(crate) fn full() -> anyhow::Result<()> {
    packages::install(&[("python3-torch", "/usr/share/doc/python3-torch")])?;
    let mut python = package(Path::new(DEBIAN_PYTHON), &target_dir().join("debug"))?;
    workspace::run(python.args(["-X", "dev", "-B", "tests/torch_views.py"]))?;
    sanitizer::run()
}

fn figures(write: bool) -> anyhow::Result<()> {
    cargo(&["build", "--release", "--package", "mw-capi"])?;
    cargo(&["build", "--release", "--package", "mw-cli", "--features", "full"])?;
    let mut python = package(Path::new(DEBIAN_PYTHON), &target_dir().join("release"))?;
    let page = workspace::output(python.args(["-B", "tests/figures.py"]))?;
    println!("{page}");
    if write {
        std::fs::write(root().join(PAGE), page).context(PAGE)?;
    }
    Ok(())
}

/// A Python in the directory of the package, which takes the library and the program from `built`.
fn package(python: &Path, built: &Path) -> anyhow::Result<Command> {
    let built = std::path::absolute(built)?;
    let package = root().join("python");
    let mut command = Command::new(python);
    command
        .current_dir(&package)
        .env("PYTHONPATH", &package)
        .env("MEMWRIGHT_LIBRARY", built.join("libmemwright.so"))
        .env("MEMWRIGHT", built.join("memwright"));
    Ok(command)
}
