//! Another machine: a captured tree, a sosreport, a file that `memwright capture` wrote, or a text archive.

use crate::{Exit, Failure};
use mw_collect::{Source, input};
use mw_sys::InputFile;
use std::path::Path;

/// Reads a tree, or a file of one, which is held in memory for as long.
///
/// # Errors
/// It is neither.
pub(super) fn read<T>(root: &Path, reader: impl FnOnce(&Source) -> T) -> Result<T, Failure> {
    open(root).map(|source| reader(&source))
}

fn open(root: &Path) -> Result<Source, Failure> {
    if root.is_dir() {
        return Source::tree(root).map_err(|error| Failure::from_error(&error));
    }
    super::confined::confine(root);
    let input = InputFile::open(root).map_err(|error| Failure::of_file(root, &error))?;
    input::read(input, root).map_err(|error| Failure::new(Exit::CouldNotCheck, error))
}
