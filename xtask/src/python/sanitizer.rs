//! The tests of the package with the library under AddressSanitizer.
//!
//! The compiler that is installed has the instrumentation, but offers it to nightly alone: RUSTC_BOOTSTRAP. The library
//! is loaded by a Python that is not instrumented, so that the run-time library of gcc comes first (LD_PRELOAD).

use super::interpreter::{DEBIAN, with_package};
use crate::workspace::{self, cargo_with, target_dir};
use anyhow::ensure;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Reads an error that was freed: what the sanitizer has to see.
const USE_AFTER_FREE: &str = "
import ctypes
from pymemwright._library import library, PROGRESS_FN
lib, error, segment = library(), ctypes.c_void_p(), ctypes.c_void_p()
options = lib.mw_options_new(1 << 62)
lib.mw_segment_create(options, PROGRESS_FN(), None, ctypes.byref(segment), ctypes.byref(error))
lib.mw_error_free(error)
lib.mw_error_text(error)
";

pub(super) fn run() -> anyhow::Result<()> {
    let library = build()?;
    let runtime = workspace::output(Command::new("gcc").arg("-print-file-name=libasan.so"))?;
    let python = || -> anyhow::Result<Command> {
        let mut python = with_package(Path::new(DEBIAN), &target_dir().join("debug"))?;
        python
            .args(["-X", "dev", "-B"])
            .env("MEMWRIGHT_LIBRARY", &library)
            .env("LD_PRELOAD", runtime.trim())
            // The interpreter frees little when it ends.
            .env("ASAN_OPTIONS", "detect_leaks=0");
        Ok(python)
    };
    let seen = python()?.args(["-c", USE_AFTER_FREE]).output()?;
    let seen = String::from_utf8_lossy(&seen.stderr).into_owned();
    ensure!(seen.contains("heap-use-after-free"), "the sanitizer sees no use after free: {seen}");
    workspace::run(python()?.args(["-m", "unittest", "discover", "--start-directory", "tests"]))
}

/// The library, with the sanitizer.
fn build() -> anyhow::Result<PathBuf> {
    let dir = std::path::absolute(target_dir().join("python/sanitizer"))?;
    cargo_with(&["build", "--locked", "--package", "mw-capi", "--target", TARGET], |cargo| {
        cargo
            .env("CARGO_TARGET_DIR", &dir)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address");
    })?;
    let library = dir.join(TARGET).join("debug/libmemwright.so");
    ensure!(library.exists(), "{}", library.display());
    Ok(library)
}
