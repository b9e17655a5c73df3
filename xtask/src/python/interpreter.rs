//! A Python that runs the package of the working tree.

use crate::workspace::root;
use std::path::Path;
use std::process::Command;

/// Debian's own: it has numpy and torch by packages.
pub(super) const DEBIAN: &str = "/usr/bin/python3";

/// A Python in the directory of the package, which takes the library and the program from `built`.
pub(super) fn with_package(python: &Path, built: &Path) -> anyhow::Result<Command> {
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
