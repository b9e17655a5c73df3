//! The cause of a stall by the critical path of its slowest request.
//!
//! A cause has to explain at least half of the request; what explains less contributed. Among causes that do, one
//! that says why a resource was short precedes one that says only that it was. Where none does, the cause is
//! unknown, and what was ruled out is listed.

use crate::RULES;
use crate::registry::{Precedence, Rule};
use crate::request::Request;
use crate::stall::Stall;
use mw_critical_path::TimeClass;
use mw_model::{Cause, RuledOut, SkippedRule};

/// A cause explains at least so much of the request, in percent.
const CAUSE_PERCENT: u8 = 50;

/// What explains less is not worth mentioning.
const CONTRIBUTED_PERCENT: u8 = 10;

/// Counters have to confirm a condition with this score.
const CONDITION_PERCENT: u8 = 30;

/// What the critical path comes to.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The most likely first; empty where the cause is unknown.
    pub(crate) causes: Vec<Cause>,
    pub(crate) contributed: Vec<Cause>,
    pub(crate) ruled_out: Vec<RuledOut>,
}

/// Finds the cause.
pub(crate) fn diagnose(
    stall: &Stall<'_>,
    request: &Request<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Diagnosis {
    let mut found: Vec<(Precedence, Cause)> = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.has_cause()) {
        found.extend(cause(rule, stall, request, skipped).map(|cause| (rule.precedence, cause)));
    }
    let most = found.iter().filter_map(|(_, cause)| cause.explains_percent).max().unwrap_or(0);
    found.sort_by_key(|(precedence, cause)| std::cmp::Reverse(rank(*precedence, cause, most)));
    let (causes, contributed): (Vec<Cause>, Vec<Cause>) = found
        .into_iter()
        .map(|(_, cause)| cause)
        .partition(|cause| cause.explains_percent.unwrap_or(0) >= CAUSE_PERCENT);
    // A condition that explains no more than the cause does adds nothing.
    let contributed = if causes.is_empty() { contributed } else { beside(&causes, contributed) };
    let ruled_out = if causes.is_empty() { ruled_out(request) } else { Vec::new() };
    let causes = causes.into_iter().map(|cause| scored(cause, request)).collect();
    Diagnosis { causes, contributed, ruled_out }
}

/// The cause by one rule, with how much of the request it explains.
fn cause(
    rule: &Rule,
    stall: &Stall<'_>,
    request: &Request<'_>,
    skipped: &mut Vec<SkippedRule>,
) -> Option<Cause> {
    let explains = request.explained_by(rule.explains);
    if !rule.explains.is_empty() && explains < f64::from(CONTRIBUTED_PERCENT) {
        return None;
    }
    let cause = match rule.cause(stall) {
        Ok(cause) => cause?,
        Err(missing) => {
            skipped.push(SkippedRule { rule: rule.id.to_owned(), missing });
            return None;
        }
    };
    let cause = if cause.explains_percent.is_some() { cause } else { cause.explaining(explains) };
    let is_enough = cause.explains_percent >= Some(CONTRIBUTED_PERCENT)
        && cause.confidence_percent >= CONDITION_PERCENT;
    is_enough.then_some(cause)
}

/// Causes that explain enough first, and nearly as much as the one that explains most; among them those that say why
/// before those that say only that a resource was short, and the better confirmed first.
fn rank(precedence: Precedence, cause: &Cause, most: u8) -> (bool, bool, u8, u8, u8) {
    const NEARLY: u8 = 30;
    const PLAUSIBLE: u8 = crate::PLAUSIBLE_PERCENT;
    let explains = cause.explains_percent.unwrap_or(0);
    let depth = match precedence {
        Precedence::Root if cause.confidence_percent >= PLAUSIBLE => 3,
        Precedence::Intermediate => 2,
        Precedence::Root | Precedence::Symptom => 1,
        Precedence::LastResort => 0,
    };
    // Within a tenth of the request they explain the same.
    let is_nearly_most = explains.saturating_add(NEARLY) >= most;
    (explains >= CAUSE_PERCENT, is_nearly_most, depth, explains / 10, cause.confidence_percent)
}

/// What contributed beside a cause: not its own symptoms, which explain the same parts.
fn beside(causes: &[Cause], contributed: Vec<Cause>) -> Vec<Cause> {
    let explained = causes.first().and_then(|cause| cause.explains_percent).unwrap_or(0);
    let left = 100_u8.saturating_sub(explained);
    contributed
        .into_iter()
        .filter(|cause| cause.explains_percent.unwrap_or(0) <= left.saturating_add(5))
        .collect()
}

/// The score of a cause: by how much it explains, how far counters confirm its condition, and how far the path can be
/// trusted.
fn scored(cause: Cause, request: &Request<'_>) -> Cause {
    const LEAST: f64 = 60.0;
    const MOST: f64 = 97.0;
    const CONFIRMED: f64 = 85.0;
    const OF_CONDITION: f64 = 0.35;
    const BEYOND_CONDITION: f64 = 10.0;
    let explains = f64::from(cause.explains_percent.unwrap_or(0));
    let by_dose = LEAST + (explains - f64::from(CAUSE_PERCENT)).max(0.0) * (MOST - LEAST) / 50.0;
    let confirmed = (f64::from(cause.confidence_percent) / CONFIRMED).min(1.0);
    let sure = by_dose * (1.0 - OF_CONDITION + OF_CONDITION * confirmed) * request.reliability();
    // The path shows that a task waited, and not always for what.
    let is_last = cause.finding.rule == crate::registry::last_resort();
    let bound = f64::from(cause.confidence_percent) + BEYOND_CONDITION;
    let sure = if is_last { sure.min(bound) } else { sure };
    Cause { confidence_percent: sure.round() as u8, ..cause }
}

/// Why the usual suspects were not the cause.
fn ruled_out(request: &Request<'_>) -> Vec<RuledOut> {
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
        ("a stopped process or frozen cgroup", &[TimeClass::Stopped, TimeClass::Frozen]),
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
