//! Memory that was provided, until it is released.

use crate::hold;
use mw_remedy::PoolReservation;
use mw_segment::Segment;
use mw_sys::SignalsBlocked;
use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// The memory that was provided, released when it is dropped.
#[derive(Debug)]
pub struct ProvidedMemory {
    /// Pages of pools.
    pool: Vec<PoolReservation>,
    segment: Option<Box<Segment>>,
}

impl ProvidedMemory {
    /// It is free, and nobody holds it.
    pub(crate) fn free() -> Self {
        Self::of_pool(Vec::new())
    }

    pub(crate) fn of_pool(pool: Vec<PoolReservation>) -> Self {
        Self { pool, segment: None }
    }

    pub(crate) fn of_segment(segment: Segment) -> Self {
        Self { pool: Vec::new(), segment: Some(Box::new(segment)) }
    }

    /// Leaves the pool as it is; the changes stand in the journal.
    pub(crate) fn leave(self) -> Vec<u64> {
        self.pool.into_iter().filter_map(PoolReservation::leave).collect()
    }

    /// Holds it until the time is over, or a signal comes that ends a program.
    pub fn hold_for(self, time: Duration, signals: &SignalsBlocked) {
        hold::wait(time, signals);
    }

    /// Keeps pages of a pool alone: a command takes its memory from what is free.
    #[must_use]
    pub fn keep_pool(mut self) -> Self {
        self.segment = None;
        self
    }

    /// Holds it until the command ends, which gets a SIGTERM where a signal comes that ends a program.
    ///
    /// # Errors
    /// Those of waiting for it.
    pub fn hold_until_exit(self, child: Child, signals: &SignalsBlocked) -> io::Result<ExitStatus> {
        hold::wait_for(child, signals)
    }
}
