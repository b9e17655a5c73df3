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
