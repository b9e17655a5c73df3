//! Failures that are told apart from slowness: an immediate one has no cause on this machine but what ended the
//! service, or a limit that it named.

use crate::diagnosis::{Diagnosis, suspects_by};
use crate::registry::Precedence;
use crate::rules::service_failure;
use crate::stall_window::StallWindow;
use crate::suspect::{ScoredSuspect, Suspect};
use mw_model::SkippedRule;
use std::cmp::Reverse;

/// The cause of a stall in which the service failed at once, or the OOM killer ended it; `None` where it was slow.
pub(crate) fn diagnose(stall: &StallWindow<'_>, _: &mut Vec<SkippedRule>) -> Option<Diagnosis> {
    service_failure::kind(stall)?;
    let of_failures = crate::RULES.iter().filter(|rule| rule.has_cause() && rule.is_of_failures);
    // A rule that could not be checked is no help here: the service said itself why it failed.
    let suspects = suspects_by(of_failures, stall, &mut Vec::new()).into_iter();
    let mut causes: Vec<_> =
        suspects.map(Suspect::by_strength).filter(|cause| cause.score.is_plausible()).collect();
    causes.sort_by_key(|cause| (is_last_resort(cause), Reverse(cause.score)));
    Some(Diagnosis { causes, ..Diagnosis::default() })
}

fn is_last_resort(cause: &ScoredSuspect) -> bool {
    crate::find(cause.rule()).is_some_and(|rule| rule.precedence == Precedence::LastResort)
}
