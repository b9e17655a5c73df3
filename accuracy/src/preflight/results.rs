//! What the results consist of.

use super::account::Account;
use super::request::Record;
use serde::{Deserialize, Serialize};

/// A line of the results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Request(Record),
    Account(Account),
}
