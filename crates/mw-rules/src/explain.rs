//! Explains an incident: runs every rule that knows causes, ranks them and says the answer in one
//! line.

use crate::stall::Stall;
use crate::{RULES, Rule, roles};
use mw_model::{
    Cause, Incident, NOT_MEMORY, Role, SkippedRule, Trigger, TriggerKind, Window,
    format_duration_ms,
};

/// How sure a cause has to be for it to be the answer; from here on memory is to blame.
pub const PLAUSIBLE_PERCENT: u8 = 40;

/// What a cause that says why memory was short is ahead of one that says only that it was.
const HEAD_START: u8 = 40;

/// What a cause that says more than that, and has a cause of its own, is ahead.
const HALF_A_HEAD_START: u8 = 20;

/// An incident, explained.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// The answer in one line.
    pub verdict: String,
    /// What explains it, the most likely first; `not-memory` where memory is not to blame.
    pub causes: Vec<Cause>,
    /// Tasks that suffered, the worst first.
    pub suffering: Vec<Role>,
    /// Tasks that caused it, the most likely first.
    pub causing: Vec<Role>,
    /// Rules that could not look.
    pub skipped: Vec<SkippedRule>,
}

/// Explains an incident.
///
/// `window.now` is the machine at the stall's end (settings, nodes, zones, processes…),
/// `window.earlier[0]` the sample from just before the stall began, so that rates are those of the
/// stall. `calm` is the like window over the minute before, where there is one.
pub fn explain(incident: &Incident, window: &Window, calm: Option<&Window>) -> Explanation {
    let stall = Stall { incident, window, calm };
    let mut skipped = Vec::new();
    let (last, memory): (Vec<&Rule>, Vec<&Rule>) =
        RULES.iter().partition(|rule| rule.id == NOT_MEMORY);
    let mut causes = causes_by(&memory, &stall, &mut skipped);
    causes.sort_by_key(|cause| std::cmp::Reverse(rank(cause)));
    if !causes.iter().any(is_plausible) {
        let others = causes_by(&last, &stall, &mut skipped);
        if others.iter().any(is_plausible) {
            causes.clear();
        }
        causes.extend(others);
        causes.sort_by_key(|cause| std::cmp::Reverse(rank(cause)));
    }
    Explanation {
        verdict: verdict(&stall, causes.first(), skipped.len()),
        suffering: roles::suffering(&stall),
        causing: roles::causing(&stall, causes.first()),
        causes,
        skipped,
    }
}

fn causes_by(rules: &[&Rule], stall: &Stall<'_>, skipped: &mut Vec<SkippedRule>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for rule in rules {
        match rule.cause(stall) {
            Ok(cause) => causes.extend(cause),
            Err(missing) => skipped.push(SkippedRule { rule: rule.id.to_owned(), missing }),
        }
    }
    causes
}

fn is_plausible(cause: &Cause) -> bool {
    cause.confidence_percent >= PLAUSIBLE_PERCENT
}

/// Plausible ones first; among them those that say *why* memory was short before those that say
/// only that it was, unless these are much surer.
fn rank(cause: &Cause) -> (bool, u8) {
    let ahead = match cause.finding.rule.as_str() {
        "reclaim-storm" | NOT_MEMORY => 0,
        "oom-kill" | "dirty-throttle" => HALF_A_HEAD_START,
        _ => HEAD_START,
    };
    (is_plausible(cause), cause.confidence_percent.saturating_add(ahead))
}

/// The answer in one line.
fn verdict(stall: &Stall<'_>, cause: Option<&Cause>, skipped: usize) -> String {
    let what = symptom(&stall.incident.trigger, stall.length_ms());
    let blind = match skipped {
        0 => String::new(),
        1 => "; 1 rule could not be checked".to_owned(),
        count => format!("; {count} rules could not be checked"),
    };
    let Some(cause) = cause else {
        return format!("{what}: cause unknown, no rule explains it{blind}");
    };
    let (rule, percent) = (&cause.finding.rule, cause.confidence_percent);
    let headline = &cause.finding.headline;
    if is_plausible(cause) {
        return format!("{what}: {headline} ({rule}, {percent}%)");
    }
    format!("{what}: cause unknown, possibly: {headline} ({rule}, {percent}%){blind}")
}

/// What was seen from outside.
fn symptom(trigger: &Trigger, length_ms: f64) -> String {
    let worst_ms = if trigger.worst_ms > 0.0 { trigger.worst_ms } else { length_ms };
    let time = format_duration_ms(worst_ms);
    let name = if trigger.name.is_empty() { "a probe" } else { &trigger.name };
    match (trigger.kind, &trigger.failure) {
        (TriggerKind::Probe, Some(failure)) if trigger.worst_ms < trigger.limit_ms => {
            format!("{name} failed ({failure})")
        }
        (TriggerKind::Probe, _) => format!("{name} did not answer for {time}"),
        (TriggerKind::Canary, _) => format!("a page fault took {time} (canary)"),
        (TriggerKind::Pressure, _) => format!("tasks waited {time} for memory (pressure)"),
        (TriggerKind::Heartbeat, _) => format!("a heartbeat was {time} late"),
    }
}
