//! The causes of a stall without a critical path: by the strength of all that was observed.

use crate::diagnosis::{Diagnosis, suspects_by};
use crate::registry::Precedence;
use crate::stall_window::StallWindow;
use crate::suspect::{Score, ScoredSuspect, Suspect};
use crate::{RULES, Rule, find};
use mw_model::{SkippedRule, TriggerKind};
use std::cmp::Reverse;

/// The percentage by which a root cause ranks ahead of a symptom.
const ROOT_BONUS: u8 = 40;

/// The same for an intermediate cause.
const INTERMEDIATE_BONUS: u8 = 20;

/// Finds causes of memory, and others only where no condition of memory is plausible.
pub(crate) fn diagnose(
    stall: &StallWindow<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Option<Diagnosis> {
    Some(Diagnosis { causes: causes(stall, skipped), ..Diagnosis::default() })
}

/// The conditions of memory while nothing is known to have stalled: the evidence was requested.
pub(crate) fn on_request(
    stall: &StallWindow<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Option<Diagnosis> {
    if stall.incident.trigger.kind != TriggerKind::Requested {
        return None;
    }
    let mut causes = causes(stall, skipped);
    causes.retain(|cause| is_plausible(cause) && cause.suspect.finding.subject.is_memory());
    Some(Diagnosis { causes, ..Diagnosis::default() })
}

/// The conditions of memory that counters show while the request's time was not traced: records are lost when memory is
/// short. Whether the request waited for them is not known.
pub(crate) fn of_untraced(stall: &StallWindow<'_>) -> Vec<ScoredSuspect> {
    const OF_UNTRACED: f64 = 0.75;
    let without_path = StallWindow { request: None, ..*stall };
    let suspects = suspects_by(of_memory(), &without_path, &mut Vec::new());
    let plausible = suspects.into_iter().map(Suspect::by_strength).filter(is_plausible);
    let scaled = plausible.map(|ScoredSuspect { suspect, score }| {
        suspect.scored(Score::rounded(f64::from(score.0) * OF_UNTRACED))
    });
    ranked(scaled.collect())
}

fn causes(stall: &StallWindow<'_>, skipped: &mut Vec<SkippedRule>) -> Vec<ScoredSuspect> {
    let by = |rules: Vec<&Rule>, skipped: &mut Vec<SkippedRule>| -> Vec<ScoredSuspect> {
        suspects_by(rules, stall, skipped).into_iter().map(Suspect::by_strength).collect()
    };
    let mut causes = by(of_memory(), skipped);
    if !causes.iter().any(is_plausible) {
        let last = RULES.iter().filter(|rule| rule.precedence == Precedence::LastResort);
        let others = by(last.collect(), skipped);
        if others.iter().any(is_plausible) {
            causes.clear();
        }
        causes.extend(others);
    }
    ranked(causes)
}

fn of_memory() -> Vec<&'static Rule> {
    RULES.iter().filter(|rule| rule.precedence != Precedence::LastResort).collect()
}

fn is_plausible(cause: &ScoredSuspect) -> bool {
    cause.score.is_plausible()
}

/// Plausible causes first; among them those that explain *why* memory was short before those that show
/// only that it was, unless the latter score much higher.
fn ranked(mut causes: Vec<ScoredSuspect>) -> Vec<ScoredSuspect> {
    causes.sort_by_key(|cause| {
        let precedence = find(cause.rule()).map_or(Precedence::Symptom, |rule| rule.precedence);
        let bonus = match precedence {
            Precedence::Root => ROOT_BONUS,
            Precedence::Intermediate => INTERMEDIATE_BONUS,
            Precedence::Symptom | Precedence::LastResort => 0,
        };
        Reverse((is_plausible(cause), cause.score.0.saturating_add(bonus)))
    });
    causes
}
