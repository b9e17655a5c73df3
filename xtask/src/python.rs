//! The Python package: its wheel, its notebook, its tests under AddressSanitizer, and what it costs.

mod interpreter;
mod sanitizer;
mod wheel;

use crate::workspace::{self, cargo, root, target_dir};
use crate::{ages, packages};
use interpreter::{DEBIAN, with_package};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum PythonTask {
    /// The package as a wheel
    Wheel,
    /// The notebook of its examples, executed as Jupyter does
    Notebook,
    /// Its tests with the library under AddressSanitizer
    Sanitizer,
    /// Measurements of what it costs; needs root and 10 GiB of memory
    Figures,
}

/// Program that executes the notebook, from the Python Package Index: Debian's matplotlib depends on compilers.
const NOTEBOOK: [&str; 3] = ["ipykernel==7.4.0", "matplotlib==3.11.2", "nbclient==0.11.0"];

const PAGE: &str = "eval/results/python.md";

pub(crate) fn run(action: PythonTask, out: Option<PathBuf>, write: bool) -> anyhow::Result<()> {
    match action {
        PythonTask::Wheel => wheel::build(out),
        PythonTask::Notebook => {
            build_program()?;
            notebook()
        }
        PythonTask::Sanitizer => {
            build_program()?;
            sanitizer::run()
        }
        PythonTask::Figures => figures(write),
    }
}

fn build_program() -> anyhow::Result<()> {
    cargo(&["build", "--package", "mw-cli"])
}

/// Executes the notebook with the programs that are built already.
///
/// Promise (Fixing): A notebook reads a recording and plots a stall with its cause.
pub(crate) fn notebook() -> anyhow::Result<()> {
    let dir = std::path::absolute(target_dir())?.join("python/notebook");
    let python = dir.join("bin/python");
    if !python.exists() {
        workspace::run(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    }
    workspace::run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(NOTEBOOK))?;
    workspace::run(with_package(&python, &target_dir().join("debug"))?.arg("tests/notebook.py"))
}

/// Torch and the sanitizer, which take too long for each run.
pub(crate) fn full() -> anyhow::Result<()> {
    packages::install(&[("python3-torch", "/usr/share/doc/python3-torch")])?;
    let mut python = with_package(Path::new(DEBIAN), &target_dir().join("debug"))?;
    workspace::run(python.args(["-X", "dev", "-B", "tests/torch_views.py"]))?;
    sanitizer::run()
}

/// Promise (Fixing): The Python package is imported in 50 ms, adds 50 µs to a call of the library, creates a segment
/// of 4 GiB at 90% of the library's speed or more, and attaches 8 GiB on 2 MiB pages in 1 ms/GiB.
fn figures(write: bool) -> anyhow::Result<()> {
    cargo(&["build", "--release", "--package", "mw-capi"])?;
    cargo(&["build", "--release", "--package", "mw-cli"])?;
    let mut python = with_package(Path::new(DEBIAN), &target_dir().join("release"))?;
    let page = write.then(|| std::path::absolute(root().join(PAGE))).transpose()?;
    workspace::run(python.args(["-B", "tests/figures.py"]).args(&page))?;
    page.map_or(Ok(()), |page| ages::stamp(&page))
}
