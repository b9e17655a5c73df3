//! What the steps of `cargo xtask ci` come to.

use std::time::Duration;

/// A step that has run, or was left out.
pub(super) struct CiStep {
    pub(super) name: &'static str,
    pub(super) took: Duration,
    pub(super) result: anyhow::Result<StepOutcome>,
}

pub(super) enum StepOutcome {
    /// A few words on what it did.
    Done(String),
    /// The reason why it did not run, or not all of it.
    LeftOut(String),
}
