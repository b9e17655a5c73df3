//! What the results consist of.

use super::account::ConditionAccount;
use super::request::RequestRecord;
use serde::{Deserialize, Serialize};

/// A line of the results.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ResultLine {
    Request(RequestRecord),
    Account(ConditionAccount),
}
