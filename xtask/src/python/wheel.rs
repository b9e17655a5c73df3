//! The package as a wheel: the modules and the library in its release form.

use crate::workspace::{cargo, root, target_dir};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn build(out: Option<PathBuf>) -> anyhow::Result<()> {
    cargo(&["build", "--release", "--package", "mw-capi"])?;
    let out = std::path::absolute(out.unwrap_or_else(|| target_dir().join("python")))?;
    let dir = tempfile::tempdir()?;
    let package = dir.path().join("pymemwright");
    let source = root().join("python");
    std::fs::create_dir(&package)?;
    copy(&source.join("pymemwright"), &package)?;
    for file in ["pyproject.toml", "setup.cfg", "build_backend.py", "README.md"] {
        std::fs::copy(source.join(file), dir.path().join(file)).with_context(|| file.to_owned())?;
    }
    let library = target_dir().join("release/libmemwright.so");
    std::fs::copy(library, package.join("libmemwright.so"))?;
    let status = Command::new("python3")
        .args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"])
        .arg(&out)
        .arg(dir.path())
        .status()
        .context("python3")?;
    ensure!(status.success(), "pip wheel: {status}");
    println!("wheel in {}: pip install {}/pymemwright-*.whl", out.display(), out.display());
    Ok(())
}

/// The files of a directory, without what Python has compiled.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in from.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
