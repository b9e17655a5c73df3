//! Failures of the pool server.

use crate::{Exit, Failure};
use mw_pool::Error;
use mw_pool::protocol::Refusal;

/// One line for people, and the exit code.
pub(crate) fn failure(error: Error) -> Failure {
    let exit = match &error {
        Error::Refused(Refusal::Denied, _) => Exit::PermissionDenied,
        Error::Refused(Refusal::TooLarge | Refusal::Full | Refusal::Limit, _) => Exit::Findings,
        Error::Refused(Refusal::NoSuchPool | Refusal::Exists | Refusal::Invalid, _) => Exit::Usage,
        _ => Exit::CouldNotCheck,
    };
    Failure::new(exit, error)
}
