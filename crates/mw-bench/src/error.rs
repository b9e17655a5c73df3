//! Failures of a bench.

use mw_model::{Assessment, Missing, format_bytes};
use mw_remedy::ReservationError;
use std::io;

/// Memory that is always left free.
pub(crate) const RESERVE_BYTES: u64 = 2 << 30;

/// A failure of a bench.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Available memory was not measured.
    #[error("{0}")]
    NotMeasured(Missing),
    /// Less memory is available.
    #[error(
        "{} is too much: {} are available to this process, of which {} stay free{}; use --size {}M",
        requested_bytes.map_or_else(|| "64M".to_owned(), format_bytes),
        format_bytes(*available_bytes),
        format_bytes(RESERVE_BYTES),
        if *has_reservation { " and huge pages are reserved as well" } else { "" },
        most_bytes >> 20
    )]
    TooLarge {
        requested_bytes: Option<u64>,
        available_bytes: u64,
        has_reservation: bool,
        most_bytes: u64,
    },
    /// `check --for` refuses the size.
    #[error("refused by check --for")]
    Refused(Box<Assessment>),
    #[error(transparent)]
    Signals(io::Error),
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    #[error("interrupted; all memory was released")]
    Interrupted,
}
