//! The diagnosis of a stall: the first of several ways to find its cause that applies to it.

use crate::registry::of_oom_kills;
use crate::stall::Stall;
use crate::suspect::{ScoredSuspect, Suspect};
use crate::{Rule, by_path, by_scores, failure};
use mw_model::{RuledOut, SkippedRule, TriggerKind};

#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The most likely first; empty where the cause is unknown.
    pub(crate) causes: Vec<ScoredSuspect>,
    pub(crate) contributed: Vec<Suspect>,
    pub(crate) ruled_out: Vec<RuledOut>,
}

/// Finds the cause of a stall to which it applies. Rules that could not be checked are added to the list.
type Diagnoser = fn(&Stall<'_>, &mut Vec<SkippedRule>) -> Option<Diagnosis>;

/// In the order in which they are tried. The last applies to every stall.
const DIAGNOSERS: &[Diagnoser] = &[
    of_oom_kill,
    failure::diagnose,
    by_path::diagnose,
    by_scores::on_request,
    by_scores::diagnose,
];

pub(crate) fn diagnose(stall: &Stall<'_>, skipped: &mut Vec<SkippedRule>) -> Diagnosis {
    DIAGNOSERS.iter().find_map(|diagnoser| diagnoser(stall, skipped)).unwrap_or_default()
}

/// The incident is a kill of the OOM killer, whether or not anything stalled.
fn of_oom_kill(stall: &Stall<'_>, skipped: &mut Vec<SkippedRule>) -> Option<Diagnosis> {
    if stall.incident.trigger.kind != TriggerKind::OomKill {
        return None;
    }
    let suspects = suspects_by(of_oom_kills(), stall, skipped).into_iter();
    Some(Diagnosis { causes: suspects.map(Suspect::by_strength).collect(), ..Diagnosis::default() })
}

/// The conditions that these rules find.
pub(crate) fn suspects_by<'a>(
    rules: impl IntoIterator<Item = &'a Rule>,
    stall: &Stall<'_>,
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
