//! Limits that a service names in the error with which it fails.

use crate::stall_window::StallWindow;
use mw_model::FailureKind;

/// What there may be no more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedLimit {
    Tasks,
    OpenFiles,
    OpenFilesOfMachine,
    Space,
}

/// The limit that the error of the service names.
pub(crate) fn named(stall: &StallWindow<'_>) -> Option<NamedLimit> {
    if stall.failed_by(FailureKind::NoSpace, &["no space left on device", "enospc"]) {
        Some(NamedLimit::Space)
    } else if stall.says(&["too many open files in system", "enfile"]) {
        Some(NamedLimit::OpenFilesOfMachine)
    } else if stall.says(&["too many open files", "emfile"]) {
        Some(NamedLimit::OpenFiles)
    } else if stall.says(&["resource temporarily unavailable"]) && stall.says(&["fork"]) {
        Some(NamedLimit::Tasks)
    } else {
        None
    }
}
