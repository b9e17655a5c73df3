//! What make-room provided, until it is released.

use crate::command::reserved::PoolReservation;

/// The memory that was provided, released when it is dropped.
pub(super) enum ProvidedMemory {
    /// It is free, and nobody holds it.
    Free,
    Pool(Vec<PoolReservation>),
    Segment {
        _memory: Box<mw_segment::Segment>,
    },
}

impl ProvidedMemory {
    /// Leaves the pool as it is; the changes stand in the journal.
    pub(super) fn leave(self) -> Vec<u64> {
        match self {
            Self::Pool(reserved) => {
                reserved.into_iter().filter_map(PoolReservation::leave).collect()
            }
            Self::Free | Self::Segment { .. } => Vec::new(),
        }
    }
}
