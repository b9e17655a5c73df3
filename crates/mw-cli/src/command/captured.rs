//! The machine as a capture of a recording shows it.

use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_collect::{Source, capture};
use mw_model::Snapshot;
use std::path::Path;
use tempfile::TempDir;

/// What a capture of this recording holds, unpacked for as long as it is read.
pub(super) fn snapshot(bytes: &[u8], recording: &Path) -> Result<Snapshot, Failure> {
    let could_not = |error| Failure::new(Exit::CouldNotCheck, error);
    let name = format!("capture in {}", recording.display());
    without_interruption(|| unpacked(bytes, Path::new(&name)).map_err(could_not))
}

fn unpacked(bytes: &[u8], name: &Path) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let dir = TempDir::with_prefix("memwright-")?;
    capture::unpack_from(bytes, name, dir.path())?;
    let source = Source::tree(dir.path()).map_err(|error| error.of_archive(name))?;
    Ok(mw_collect::snapshot(&source))
}
