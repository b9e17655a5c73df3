//! DuckDB, which comes from the Python package index.

use crate::skip;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGES: [&str; 2] = ["duckdb==2.0.1", "pytz"];

/// A Python that has DuckDB, below `dir`. Without Python or a network the test is reported as skipped.
///
/// # Panics
/// Nothing can be written below `dir`.
#[must_use]
#[track_caller]
pub fn python_with_duckdb(dir: &Path) -> Option<PathBuf> {
    let home = dir.join("duckdb");
    let python = home.join("bin/python");
    // Tests run at the same time.
    let lock = File::create(dir.join("duckdb.lock")).expect("a lock");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    let has_packages = || Command::new(&python).args(["-c", "import duckdb, pytz"]).output();
    if has_packages().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let venv = Command::new("python3").args(["-m", "venv"]).arg(&home).output();
    if !venv.is_ok_and(|output| output.status.success()) {
        skip("python3 -m venv does not work (Debian: python3-venv)");
        return None;
    }
    let mut pip = Command::new(home.join("bin/pip"));
    let pip = pip.args(["install", "-q"]).args(PACKAGES).output().expect("pip");
    if !pip.status.success() {
        skip(format!("no {PACKAGES:?}: {}", String::from_utf8_lossy(&pip.stderr)));
        return None;
    }
    Some(python)
}
