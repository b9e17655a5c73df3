//! JSON for programs; docs/schema/ describes it, and `schema` in it says which version it is.

use mw_model::{Report, visible};

/// The report as one JSON document with a newline at its end.
///
/// # Errors
/// A number in the report has no JSON form.
pub fn report(report: &Report) -> serde_json::Result<String> {
    serde_json::to_string_pretty(report).map(|json| visible::json(&json) + "\n")
}
