//! The machine as a capture of a recording shows it.

use mw_collect::{Source, capture};
use mw_model::Snapshot;
use tempfile::TempDir;

/// What a capture holds, unpacked for as long as it is read.
pub(super) fn snapshot(bytes: &[u8]) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let dir = TempDir::with_prefix("memwright-")?;
    let file = dir.path().join("capture.tar.zst");
    std::fs::write(&file, bytes)?;
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree)?;
    capture::unpack(&file, &tree)?;
    Ok(mw_collect::snapshot(&Source::tree(&tree)?))
}
