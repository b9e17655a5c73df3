//! Recorders that their authors publish as crates, built here: below and Rezolus.

use crate::packages;
use crate::workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler of BPF is newer than Debian's default, which fails on what below loads.
const PACKAGES: &[(&str, &str)] = &[
    ("clang-19", CLANG),
    ("libelf-dev", "/usr/include/libelf.h"),
    ("zlib1g-dev", "/usr/include/zlib.h"),
    ("pkg-config", "/usr/bin/pkg-config"),
];
const CLANG: &str = "/usr/bin/clang-19";

const CRATES: &[&str] = &["below@0.9.0", "rezolus@5.4.0"];

/// Builds them, unless that was done; the directory of the programs.
pub(super) fn build(cache: &Path) -> anyhow::Result<PathBuf> {
    packages::install(PACKAGES)?;
    let cache = std::path::absolute(cache)?.join("crates");
    let tools = cache.join("tools");
    std::fs::create_dir_all(&tools)?;
    let clang = tools.join("clang");
    if !clang.exists() {
        std::os::unix::fs::symlink(CLANG, clang)?;
    }
    let mut command = Command::new("cargo");
    command.env("PATH", workspace::path_from(&tools)?);
    command.args(["install", "--quiet", "--locked", "--root"]).arg(&cache);
    command.arg("--target-dir").arg(cache.join("target")).args(CRATES);
    workspace::run(&mut command)?;
    Ok(cache.join("bin"))
}
