//! Failures of making room, and reasons that it ended early.

use mw_model::{Missing, RoomStop, format_bytes};
use mw_remedy::{KernelError, ReservationError};

/// A failure of making room.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// The kernel's counters were not read, or the requested pages or node do not exist.
    #[error("{0}")]
    NotMeasured(Missing),
    #[error("node {0} is gone")]
    NodeGone(u32),
    #[error("make-room needs root")]
    NeedsRoot,
    /// The size of the pages.
    #[error("this kernel has no pool of pages of {}", format_bytes(*.0))]
    NoPool(u64),
    /// The kernel refused to reclaim or to compact.
    #[error(transparent)]
    Step(KernelError),
    /// A pool was not read, or not written.
    #[error(transparent)]
    Pool(KernelError),
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    #[error("the memory was there and could not be held: {0}")]
    NotHeld(mw_segment::Error),
}

/// The reason that it ended before the memory was available.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Less was provided than was requested.
    Short(RoomStop),
    Failed(RoomError),
}

impl From<RoomError> for Stop {
    fn from(error: RoomError) -> Self {
        Self::Failed(error)
    }
}
