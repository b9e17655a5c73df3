//! The diagnosis of a stall, and the conditions that rules find on the way to it.

use crate::Rule;
use crate::stall_window::StallWindow;
use crate::suspect::{ScoredSuspect, Suspect};
use mw_model::{RuledOut, SkippedRule};

#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The most likely first; empty where the cause is unknown.
    pub(crate) causes: Vec<ScoredSuspect>,
    pub(crate) contributed: Vec<Suspect>,
    pub(crate) ruled_out: Vec<RuledOut>,
}

/// The conditions that these rules find.
pub(crate) fn suspects_by<'a>(
    rules: impl IntoIterator<Item = &'a Rule>,
    stall: &StallWindow<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    for rule in rules {
        match rule.cause(stall) {
            Ok(suspect) => suspects.extend(suspect),
            Err(missing) => skipped.push(SkippedRule { rule: rule.id.to_owned(), missing }),
        }
    }
    suspects
}
