//! The machine as a capture of a recording shows it.

use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_collect::{Source, capture};
use mw_model::Snapshot;
use tempfile::TempDir;

/// What a capture holds, unpacked for as long as it is read.
pub(super) fn snapshot(bytes: &[u8]) -> Result<Snapshot, Failure> {
    let could_not = |error| Failure::new(Exit::CouldNotCheck, error);
    without_interruption(|| unpacked(bytes).map_err(could_not))
}

fn unpacked(bytes: &[u8]) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let dir = TempDir::with_prefix("memwright-")?;
    let file = dir.path().join("capture.tar.zst");
    std::fs::write(&file, bytes)?;
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree)?;
    capture::unpack(&file, &tree)?;
    Ok(mw_collect::snapshot(&Source::tree(&tree)?))
}
