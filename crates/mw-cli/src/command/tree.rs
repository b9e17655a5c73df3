//! Another machine: a captured tree, a sosreport, or a file that `memwright capture` wrote.

use crate::input::Input;
use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_collect::{Source, capture};
use std::path::Path;
use tempfile::TempDir;

/// A source, and the directory that a capture was unpacked to.
struct Opened {
    source: Source,
    _unpacked: Option<TempDir>,
}

/// Reads a tree or a capture, which is unpacked for as long.
///
/// # Errors
/// It is neither.
pub(super) fn read<T>(root: &Path, reader: impl FnOnce(&Source) -> T) -> Result<T, Failure> {
    let read = || open(root).map(|opened| reader(&opened.source));
    // Only a capture is unpacked to a directory.
    if root.is_dir() { read() } else { without_interruption(read) }
}

/// A tree, or a capture that is unpacked first.
fn open(root: &Path) -> Result<Opened, Failure> {
    if root.is_dir() {
        let source = Source::tree(root).map_err(|error| Failure::from_error(&error))?;
        return Ok(Opened { source, _unpacked: None });
    }
    let input = Input::open(root).map_err(|error| Failure::of_file(root, &error))?;
    let could_not = |error: &dyn std::fmt::Display| Failure::new(Exit::CouldNotCheck, error);
    let dir = TempDir::with_prefix("memwright-").map_err(|error| could_not(&error))?;
    capture::unpack_from(input, root, dir.path()).map_err(|error| could_not(&error))?;
    let source = Source::tree(dir.path()).map_err(|error| could_not(&error.of_archive(root)))?;
    Ok(Opened { source, _unpacked: Some(dir) })
}
