//! The conditions of a Kubernetes node.
//!
//! - `condition`: the conditions, and the patch that sets them; pure
//! - `api`: asks the API server, for a limited time

mod api;
mod condition;

pub use api::NodeApi;
pub use condition::{
    ConditionStatus, KnownConditions, PublishedCondition, all_unknown, conditions, patch, removal,
};
