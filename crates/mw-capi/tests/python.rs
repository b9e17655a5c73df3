//! The Python package with the library and the program of this build.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's own: it has numpy by python3-numpy.
const PYTHON: &str = "/usr/bin/python3";

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python")
}

fn has(module: &str) -> bool {
    let import = format!("import {module}");
    Command::new(PYTHON).args(["-c", &import]).output().is_ok_and(|ended| ended.status.success())
}

/// All files below a directory, in order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

#[test]
fn a_build_of_the_package_leaves_nothing_in_its_source() {
    if !has("setuptools") {
        return mw_test::skip("no setuptools; apt-get install python3-setuptools");
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("python"), dir.path().join("out"));
    let copied = Command::new("cp").arg("-r").arg(package()).arg(&source).status();
    assert!(copied.unwrap().success());
    std::fs::create_dir(&out).unwrap();
    let before = files(&source);
    // As pip does: the backend that pyproject.toml names, in the source.
    let script = "import importlib, re, sys
text = open('pyproject.toml').read()
sys.path.insert(0, '.')
backend = importlib.import_module(re.search('build-backend = \"(.*)\"', text)[1])
backend.build_sdist(sys.argv[1])";
    let mut python = Command::new(PYTHON);
    python.args(["-B", "-c", script]).arg(&out).current_dir(&source);
    let ended = python.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(files(&out).len(), 1);
    assert_eq!(files(&source), before);
}

/// Promise (Fixing): The Python package gives memory that stays valid as long as anybody has a view of it, cancels at
/// Ctrl-C and gives everything back, and raises an exception for every bad argument.
///
/// Promise (Fixing): Bad sizes, closed segments and leases, views that outlive them, forks, threads that close at
/// once, and an interpreter that ends with memory open never crash Python, and touch no freed memory of the library.
///
/// Promise (Fixing): numpy and torch have views of a segment without a copy, and worker processes share one lease.
///
/// Promise (Fixing): An engine that is killed with SIGKILL finds its weights in a lease that was kept, and none that
/// were half copied.
#[test]
fn the_package_passes_its_tests() {
    if !has("numpy") {
        return mw_test::skip("no numpy; apt-get install python3-numpy");
    }
    let _alone = mw_test::alone();
    let ended = Command::new(PYTHON)
        .args(["-X", "dev", "-B", "-m", "unittest", "discover", "--start-directory", "tests"])
        .current_dir(package())
        .env("PYTHONPATH", package())
        .env("MEMWRIGHT_LIBRARY", mw_test::built("mw-capi", "memwright", "libmemwright.so"))
        .env("MEMWRIGHT", mw_test::built("mw-cli", "memwright", "memwright"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.trim_end().ends_with("OK"), "{said}");
}
