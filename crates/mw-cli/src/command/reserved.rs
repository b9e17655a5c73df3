//! Failures of reserving huge pages, and of releasing them.

use super::fix::journal_failure;
use crate::{Exit, Failure, terminal};
use mw_remedy::ReservationError;
use std::fmt::Display;

impl From<ReservationError> for Failure {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Journal(error) => journal_failure(&error),
            error => Self::new(Exit::PermissionDenied, error),
        }
    }
}

/// Reports that pages remain reserved.
pub(crate) fn report_remaining(why: &dyn Display) {
    terminal::tell(format_args!(
        "memwright: huge pages remain reserved: {why}; see 'memwright changes'"
    ));
}
