//! The cause of a stall by the critical path of its slowest request.
//!
//! A cause has to explain at least half of the request; what explains less contributed. A shortage of memory is the cause
//! from three tenths on, where nothing but the recorder explains more: a request that nothing delays waits for no memory,
//! while it computes, and waits for CPUs and disks now and then. Among causes, one that says why a resource was short
//! precedes one that says only that it was. Where there is none, the cause is unknown, and what was ruled out is listed.

use crate::diagnosis::Diagnosis;
use crate::registry::{Precedence, Rule};
use crate::request::RequestTime;
use crate::rules::recorder_itself;
use crate::stall_window::StallWindow;
use crate::suspect::{Score, ScoredSuspect, Strength, Suspect};
use crate::{RULES, by_scores};
use mw_critical_path::TimeClass;
use mw_model::{RuledOut, SkippedRule};
use std::cmp::Reverse;

/// A cause explains at least so much of the request, in percent.
const CAUSE_PERCENT: u8 = 50;

/// The like for a shortage of memory that explains more than anything else does, and more than was not seen.
const SHORTAGE_PERCENT: u8 = 30;

/// What explains less is not worth mentioning.
const CONTRIBUTED_PERCENT: u8 = 10;

/// Counters have to confirm a condition with this strength.
const CONDITION_STRENGTH: Strength = Strength(30);

/// Finds the cause. Where records of most of the request were lost, counters may still show one.
pub(crate) fn diagnose(
    stall: &StallWindow<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Option<Diagnosis> {
    let request = stall.request?;
    let diagnosis = of_request(stall, request, skipped);
    if diagnosis.causes.is_empty() && request.is_mostly_untraced() {
        return Some(Diagnosis { causes: by_scores::of_untraced(stall), ..diagnosis });
    }
    Some(diagnosis)
}

fn of_request(
    stall: &StallWindow<'_>,
    request: &RequestTime<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Diagnosis {
    let mut found: Vec<(Precedence, Suspect)> = Vec::new();
    let mut most = 0;
    for rule in RULES.iter().filter(|rule| rule.has_cause()) {
        let Some(suspect) = suspect(rule, stall, request, skipped) else { continue };
        let explains = suspect.explained();
        if explains >= CAUSE_PERCENT || !is_of_recorder(rule, request, explains) {
            most = most.max(explains);
        }
        found.push((rule.precedence, suspect));
    }
    let unseen = request.percent(&[TimeClass::Untraced, TimeClass::Unknown]);
    let is_cause = |precedence: Precedence, suspect: &Suspect| {
        let explains = suspect.explained();
        let is_largest = explains == most && f64::from(explains) > unseen;
        let is_shortage = is_largest && !precedence.is_outside_memory();
        explains >= if is_shortage { SHORTAGE_PERCENT } else { CAUSE_PERCENT }
    };
    found.sort_by_key(|(precedence, suspect)| {
        Reverse((is_cause(*precedence, suspect), rank(*precedence, suspect, most)))
    });
    let (causes, contributed): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(precedence, suspect)| is_cause(*precedence, suspect));
    let contributed = contributed.into_iter().map(|(_, suspect)| suspect).collect();
    // A condition that explains no more than the cause does adds nothing.
    let contributed = if causes.is_empty() { contributed } else { beside(&causes, contributed) };
    let ruled_out = if causes.is_empty() { ruled_out(request) } else { Vec::new() };
    let scored = |(precedence, suspect)| scored(precedence, suspect, request);
    let causes = causes.into_iter().map(scored).collect();
    Diagnosis { causes, contributed, ruled_out }
}

/// The recorder takes time because something stalls, and what it takes hides no shortage. A probe that was slow itself is
/// none of that.
fn is_of_recorder(rule: &Rule, request: &RequestTime<'_>, explains: u8) -> bool {
    rule.blamed() == recorder_itself::OWN
        && request.percent(recorder_itself::OWN).round() >= f64::from(explains)
}

/// The condition of one rule, with how much of the request it explains.
fn suspect(
    rule: &Rule,
    stall: &StallWindow<'_>,
    request: &RequestTime<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Option<Suspect> {
    let explains = request.explained_by(rule.explains);
    if !rule.explains.is_empty() && explains < f64::from(CONTRIBUTED_PERCENT) {
        return None;
    }
    let suspect = match rule.cause(stall) {
        Ok(suspect) => suspect?,
        Err(missing) => {
            skipped.push(SkippedRule { rule: rule.id.to_owned(), missing });
            return None;
        }
    };
    let has_share = suspect.explains_percent.is_some();
    let suspect = if has_share { suspect } else { suspect.explaining(explains) };
    let is_enough =
        suspect.explained() >= CONTRIBUTED_PERCENT && suspect.strength >= CONDITION_STRENGTH;
    is_enough.then_some(suspect)
}

/// Causes that explain nearly as much as the one that explains most first; among them those that say why before those
/// that say only that a resource was short, and the better confirmed first.
fn rank(precedence: Precedence, suspect: &Suspect, most: u8) -> (bool, u8, u8, Strength) {
    const NEARLY: u8 = 30;
    let explains = suspect.explained();
    let depth = match precedence {
        Precedence::Standstill => 4,
        Precedence::Root if Score::of(suspect.strength).is_plausible() => 3,
        Precedence::Intermediate => 2,
        Precedence::Root | Precedence::Symptom => 1,
        Precedence::OutsideMemory | Precedence::LastResort => 0,
    };
    // Within a tenth of the request they explain the same.
    let is_nearly_most = explains.saturating_add(NEARLY) >= most;
    (is_nearly_most, depth, explains / 10, suspect.strength)
}

/// What contributed beside a cause: not its own symptoms, which explain the same parts.
fn beside(causes: &[(Precedence, Suspect)], contributed: Vec<Suspect>) -> Vec<Suspect> {
    let first = causes.first().map_or(0, |(_, suspect)| suspect.explained());
    let left = 100_u8.saturating_sub(first);
    let is_other = |suspect: &Suspect| suspect.explained() <= left.saturating_add(5);
    contributed.into_iter().filter(is_other).collect()
}

/// The score of a cause: by how much it explains, how far counters confirm its condition, and how far the path can be
/// trusted.
fn scored(precedence: Precedence, suspect: Suspect, request: &RequestTime<'_>) -> ScoredSuspect {
    const LEAST: f64 = 60.0;
    const MOST: f64 = 97.0;
    const CONFIRMED: f64 = 85.0;
    const OF_CONDITION: f64 = 0.35;
    const BEYOND_CONDITION: f64 = 10.0;
    let explains = f64::from(suspect.explained());
    let strength = f64::from(suspect.strength.0);
    let by_dose = LEAST + (explains - f64::from(CAUSE_PERCENT)) * (MOST - LEAST) / 50.0;
    let confirmed = (strength / CONFIRMED).min(1.0);
    let score = by_dose * (1.0 - OF_CONDITION + OF_CONDITION * confirmed) * request.reliability();
    // The path shows that a task waited, and not always for what.
    let is_last = precedence.is_outside_memory();
    let score = if is_last { score.min(strength + BEYOND_CONDITION) } else { score };
    suspect.scored(Score::rounded(score))
}

/// Why the usual suspects were not the cause.
fn ruled_out(request: &RequestTime<'_>) -> Vec<RuledOut> {
    const SUSPECTS: &[(&str, &[TimeClass])] = &[
        (
            "memory of the machine",
            &[TimeClass::Reclaim, TimeClass::Compaction, TimeClass::SwapIn, TimeClass::Refault],
        ),
        (
            "the memory limit of its cgroup",
            &[
                TimeClass::CgroupReclaim,
                TimeClass::MemoryHigh,
                TimeClass::GroupSwapIn,
                TimeClass::GroupRefault,
            ],
        ),
        ("CPU contention", &[TimeClass::CpuContention]),
        ("a CPU quota", &[TimeClass::CpuQuota]),
        (
            "a disk",
            &[
                TimeClass::Disk,
                TimeClass::FileRead,
                TimeClass::FileWrite,
                TimeClass::Journal,
                TimeClass::Writeback,
                TimeClass::DirtyThrottling,
                TimeClass::IoLimit,
            ],
        ),
        (
            "a stopped process, or a frozen cgroup or file system",
            &[TimeClass::Stopped, TimeClass::Frozen, TimeClass::FilesystemFrozen],
        ),
    ];
    let suspect = |(what, spent): &(&str, &[TimeClass])| {
        let share = request.percent(spent);
        (share < f64::from(CAUSE_PERCENT)).then(|| RuledOut {
            what: (*what).to_owned(),
            why: format!("the request spent {share:.0}% of its time in it"),
        })
    };
    SUSPECTS.iter().filter_map(suspect).collect()
}
