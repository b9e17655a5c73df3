//! Where screens come from.

use crate::moment::{Screen, Timeline};

pub trait Feed {
    /// Takes a sample of the running machine.
    fn sample(&mut self);

    /// The screen at a time; `None` is the newest sample.
    fn screen(&mut self, at_ms: Option<u64>) -> Screen;

    /// The times that can be shown.
    fn timeline(&self) -> &Timeline;

    /// True if every interval brings a new sample.
    fn is_live(&self) -> bool;
}
