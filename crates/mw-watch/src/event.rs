//! Events that the recorder reports.

use mw_model::{Incident, Trigger};
use mw_record::RecordError;
use std::io;

#[derive(Debug)]
pub enum WatchEvent {
    /// A stall has begun, and evidence is taken.
    Begun(Trigger),
    /// A stall lasts; its incident is stored with a provisional cause.
    Provisional(Box<Incident>),
    /// A stall that lasts was explained again.
    Updated(Box<Incident>),
    /// A stall is over and its incident is kept.
    Incident(Box<Incident>),
    /// The machine could not be looked at for a capture.
    NotCaptured(io::Error),
    /// A stall is over and its incident could not be kept yet; the writer tries again.
    Delayed {
        /// The incident, without a number.
        incident: Box<Incident>,
        error: RecordError,
    },
}
