//! The outcomes of a suite without the library and with it.

use super::outcome::TestOutcome;
use serde::{Deserialize, Serialize};

/// Result of one suite with one option set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Compared {
    pub(super) suite: String,
    pub(super) version: String,
    pub(super) set: String,
    pub(super) same: usize,
    pub(super) skipped: usize,
    pub(super) differences: Vec<Difference>,
}

/// A test that came out differently, with the reason where that is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Difference {
    pub(super) test: String,
    pub(super) plain: TestOutcome,
    pub(super) with: TestOutcome,
    pub(super) known: Option<String>,
}
