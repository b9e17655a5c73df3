//! The machine as a capture of a recording shows it.

use crate::{Exit, Failure};
use mw_collect::capture;
use mw_model::Snapshot;
use std::path::Path;

/// A capture of this recording.
pub(super) fn snapshot(bytes: &[u8], recording: &Path) -> Result<Snapshot, Failure> {
    let name = format!("capture in {}", recording.display());
    match capture::read(bytes, Path::new(&name)) {
        Ok(source) => Ok(mw_collect::snapshot(&source)),
        Err(error) => Err(Failure::new(Exit::CouldNotCheck, error)),
    }
}
