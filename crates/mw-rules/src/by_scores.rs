//! The causes of a stall without a critical path: by the strength of all that was observed.

use crate::diagnosis::{Diagnosis, suspects_by};
use crate::registry::Precedence;
use crate::stall_window::{CanaryVerdict, StallWindow};
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
    let is_of_memory = |cause: &ScoredSuspect| find(cause.rule()).is_some_and(Rule::is_of_memory);
    causes.retain(|cause| is_plausible(cause) && is_of_memory(cause));
    Some(Diagnosis { causes, ..Diagnosis::default() })
}

/// The conditions of memory that counters show while the request's time was not traced, as records are lost when memory is
/// short; else what they show beside memory, as when programs in real time let the recorder wait for a CPU. Whether the
/// request waited for them is not known.
pub(crate) fn of_untraced(stall: &StallWindow<'_>) -> Vec<ScoredSuspect> {
    const OF_UNTRACED: f64 = 0.75;
    let without_path = StallWindow { request: None, ..*stall };
    let suspects = suspects_by(of_memory(), &without_path, &mut Vec::new());
    let mut plausible: Vec<ScoredSuspect> =
        suspects.into_iter().map(Suspect::by_strength).filter(is_plausible).collect();
    if plausible.is_empty() {
        let other = outside_memory(&without_path, &mut Vec::new());
        let is_shown = |cause: &ScoredSuspect| precedence(cause) != Precedence::LastResort;
        plausible.extend(other.filter(|cause| is_plausible(cause) && is_shown(cause)));
    }
    let scaled = plausible.into_iter().map(|ScoredSuspect { suspect, score }| {
        suspect.scored(Score::rounded(f64::from(score.0) * OF_UNTRACED))
    });
    ranked(scaled.collect())
}

fn causes(stall: &StallWindow<'_>, skipped: &mut Vec<SkippedRule>) -> Vec<ScoredSuspect> {
    let mut causes = scored_by(of_memory(), stall, skipped);
    if !causes.iter().any(is_plausible) {
        let other = outside_memory(stall, skipped);
        if other.iter().any(is_plausible) {
            causes.clear();
        }
        causes.extend(other);
    }
    ranked(causes)
}

/// The best cause outside memory: without a critical path it is not known how much each explains. Of equals one that
/// names something precedes the last resort.
fn outside_memory(
    stall: &StallWindow<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Option<ScoredSuspect> {
    let of_memory = matches!(stall.canary(), CanaryVerdict::Memory(_))
        || stall.incident.trigger.kind == TriggerKind::Pressure;
    if of_memory {
        return None;
    }
    let others = RULES.iter().filter(|rule| rule.precedence.is_outside_memory());
    let order = |cause: &ScoredSuspect| (cause.score, precedence(cause) != Precedence::LastResort);
    scored_by(others, stall, skipped).into_iter().rev().max_by_key(order)
}

fn scored_by(
    rules: impl IntoIterator<Item = &'static Rule>,
    stall: &StallWindow<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Vec<ScoredSuspect> {
    suspects_by(rules, stall, skipped).into_iter().map(Suspect::by_strength).collect()
}

fn of_memory() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(|rule| !rule.precedence.is_outside_memory())
}

fn precedence(cause: &ScoredSuspect) -> Precedence {
    find(cause.rule()).map_or(Precedence::Symptom, |rule| rule.precedence)
}

fn is_plausible(cause: &ScoredSuspect) -> bool {
    cause.score.is_plausible()
}

/// Plausible causes first; among them those that explain *why* memory was short before those that show
/// only that it was, unless the latter score much higher.
fn ranked(mut causes: Vec<ScoredSuspect>) -> Vec<ScoredSuspect> {
    causes.sort_by_key(|cause| {
        let bonus = match precedence(cause) {
            Precedence::Root => ROOT_BONUS,
            Precedence::Intermediate => INTERMEDIATE_BONUS,
            Precedence::Symptom
            | Precedence::Standstill
            | Precedence::OutsideMemory
            | Precedence::LastResort => 0,
        };
        Reverse((is_plausible(cause), cause.score.0.saturating_add(bonus)))
    });
    causes
}
