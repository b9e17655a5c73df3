//! What make-room provided, until it is released.

use crate::command::reserved::Reserved;

/// The memory that was provided, released when it is dropped.
pub(super) enum Kept {
    /// It is free, and nobody holds it.
    Free,
    Pool(Vec<Reserved>),
    Segment {
        _memory: Box<mw_segment::Segment>,
    },
}

impl Kept {
    /// Leaves the pool as it is; the changes stand in the journal.
    pub(super) fn leave(self) -> Vec<u64> {
        match self {
            Self::Pool(reserved) => reserved.into_iter().filter_map(Reserved::leave).collect(),
            Self::Free | Self::Segment { .. } => Vec::new(),
        }
    }
}
