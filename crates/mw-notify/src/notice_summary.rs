//! Content of the message about an incident that lasts.

use mw_model::Severity;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoticeSummary {
    /// The same at its end.
    pub(crate) key: String,
    pub(crate) source: String,
    pub(crate) cause: String,
    pub(crate) severity: Severity,
    pub(crate) cgroup: Option<String>,
}
