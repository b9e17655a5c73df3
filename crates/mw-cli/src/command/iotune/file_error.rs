//! Failures of the files of settings.

use crate::{Exit, Failure};
use std::io::ErrorKind;
use std::path::Path;

/// A failure with the file that it is about.
pub(super) fn failed(path: impl AsRef<Path>, error: &std::io::Error) -> Failure {
    let path = path.as_ref().display();
    match error.kind() {
        ErrorKind::PermissionDenied => {
            Failure::new(Exit::PermissionDenied, format!("{path}: {error}; run it as root"))
        }
        _ => Failure::new(Exit::CouldNotCheck, format!("{path}: {error}")),
    }
}
