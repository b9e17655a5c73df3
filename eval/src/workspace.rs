//! The repository, and an end when this process is asked to.

use std::ffi::OsString;
use std::path::Path;

pub(crate) use xtask::workspace::{cargo, compile_c, output, read, root, run, target_dir};

/// Fails once this process has been asked to end.
pub(crate) fn go_on() -> anyhow::Result<()> {
    anyhow::ensure!(!mw_sys::is_termination_requested(), "interrupted");
    Ok(())
}

/// `PATH` with another directory before all others.
pub(crate) fn path_from(first: &Path) -> anyhow::Result<OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(first.to_owned()).chain(std::env::split_paths(&inherited));
    Ok(std::env::join_paths(paths)?)
}
