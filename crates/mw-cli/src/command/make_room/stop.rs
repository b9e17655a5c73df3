//! Why making room ended early.

use crate::Failure;
use std::fmt;

/// The reason that it ended before the memory was available.
#[derive(Debug)]
pub(super) enum Stop {
    NoStepRemains,
    /// A limit of --max-cost.
    Cost(String),
    Interrupted,
    Failed(Failure),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStepRemains => f.write_str("no step remains"),
            Self::Cost(why) => f.write_str(why),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}
