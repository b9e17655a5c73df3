//! What `check` says: the whole of it, for every output format.

use crate::{Answer, CallerLimit, Finding, Missing, Preflight, Severity};
use serde::Serialize;

/// The version of the JSON form of [`Report`]; it goes up when a consumer could break.
pub const SCHEMA_VERSION: u32 = 1;

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The version of memwright that made it.
    pub memwright: String,
    /// `live` or the tree that was looked at.
    pub root: String,
    /// The kernel's version, where it is known.
    pub kernel: Option<String>,
    /// When the machine was looked at, in milliseconds since 1970.
    pub taken_unix_ms: Option<u64>,
    /// The answer in one line.
    pub verdict: String,
    /// What a check of this machine must see and could not: with any of it, the answer is that the
    /// machine could not be checked.
    pub unchecked: Vec<Missing>,
    /// Files of the kernel for which something else answers, such as lxcfs in a container.
    pub replaced: Vec<Missing>,
    /// The worst finding's severity; absent when nothing was found.
    pub worst: Option<Severity>,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that a large request of the process that looked gets without anything being written or
    /// swapped out, in bytes: what the machine has, or what `limited_by` leaves of it.
    pub ready_bytes: Option<u64>,
    /// The limit on the process that looked for which it gets less than the machine has.
    pub limited_by: Option<CallerLimit>,
    /// Limits on the process that looked that could not be determined: it may get less than
    /// `ready_bytes`.
    pub limits_unseen: Vec<Missing>,
    /// The answer to `--for`.
    pub preflight: Option<Preflight>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// Rules that looked and found nothing.
    pub quiet: Vec<String>,
    /// Rules that could not look.
    pub skipped: Vec<SkippedRule>,
}

impl Report {
    /// Whether the answer is that the machine could not be checked: too much of it is hidden, and
    /// what was seen does not settle the answer either.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let refused = self.preflight.as_ref().is_some_and(|p| p.answer == Answer::No);
        let is_settled = refused || self.worst == Some(Severity::Critical);
        let is_blind = self.findings.is_empty() && self.quiet.is_empty();
        is_blind || (!self.unchecked.is_empty() && !is_settled)
    }
}

/// A rule that could not look, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedRule {
    /// The rule's id.
    pub rule: String,
    /// What it lacked.
    pub missing: Missing,
}
