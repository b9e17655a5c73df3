//! Explains an incident: asks every rule for its cause, ranks the causes and sums them up in one line.

use crate::cause_score::PLAUSIBLE_PERCENT;
use crate::diagnosis::{Diagnosis, diagnose};
use crate::request::Request;
use crate::stall::Stall;
use crate::suspect::ScoredSuspect;
use crate::{find, roles};
use mw_model::{
    Cause, Incident, Role, RuledOut, SkippedRule, Trigger, TriggerKind, Window, format_duration_ms,
};

/// The explanation of an incident.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// The answer in one line.
    pub verdict: String,
    /// Its causes, the most likely first.
    pub causes: Vec<Cause>,
    /// What explains less than half of the stall.
    pub contributed: Vec<Cause>,
    /// What did not cause it, and why not.
    pub ruled_out: Vec<RuledOut>,
    /// The victims, the worst first.
    pub suffering: Vec<Role>,
    /// The culprits, the most likely first.
    pub causing: Vec<Role>,
    /// Rules that could not be checked.
    pub skipped: Vec<SkippedRule>,
}

impl Explanation {
    /// Stores it in the incident that it is of.
    pub fn into_incident(self, incident: &mut Incident) {
        incident.verdict = self.verdict;
        incident.causes = self.causes;
        incident.contributed = self.contributed;
        incident.ruled_out = self.ruled_out;
        incident.suffering = self.suffering;
        incident.causing = self.causing;
        incident.unseen.extend(self.skipped.into_iter().map(|skipped| skipped.missing));
    }
}

/// Explains an incident.
///
/// `window.now` is the machine at the stall's end (settings, nodes, zones, processes…),
/// `window.earlier[0]` the sample from just before the stall, so that rates are those of the stall.
/// `calm` is the same over the minute before, if it was recorded.
pub fn explain(incident: &Incident, window: &Window, calm: Option<&Window>) -> Explanation {
    let request = Request::new(incident, window);
    let stall = Stall { incident, window, calm, request: request.as_ref() };
    let mut skipped = Vec::new();
    let Diagnosis { causes, contributed, ruled_out } = diagnose(&stall, &mut skipped);
    let causes: Vec<Cause> = causes.into_iter().map(ScoredSuspect::into_cause).collect();
    let contributed = contributed.into_iter().map(|suspect| suspect.by_strength().into_cause());
    let contributed: Vec<Cause> = contributed.collect();
    Explanation {
        verdict: verdict(&stall, causes.first(), &contributed, skipped.len()),
        suffering: roles::victims(&stall),
        causing: culprits(&stall, causes.first()),
        causes,
        contributed,
        ruled_out,
        skipped,
    }
}

fn culprits(stall: &Stall<'_>, cause: Option<&Cause>) -> Vec<Role> {
    let rule = cause.and_then(|cause| Some((cause, find(&cause.finding.rule)?)));
    rule.map_or_else(Vec::new, |(cause, rule)| (rule.culprits)(stall, cause))
}

fn is_plausible(cause: &Cause) -> bool {
    cause.score() >= PLAUSIBLE_PERCENT
}

/// The answer in one line.
fn verdict(
    stall: &Stall<'_>,
    cause: Option<&Cause>,
    contributed: &[Cause],
    skipped: usize,
) -> String {
    let what = symptom(&stall.incident.trigger, stall.length_ms());
    let blind = match skipped {
        0 => String::new(),
        1 => "; 1 rule could not be checked".to_owned(),
        count => format!("; {count} rules could not be checked"),
    };
    if stall.incident.trigger.kind == TriggerKind::Requested {
        return on_request(cause) + &blind;
    }
    let Some(cause) = cause else {
        return format!("{what}: cause unknown{}{blind}", in_part(contributed));
    };
    let (rule, percent) = (&cause.finding.rule, cause.confidence_percent);
    let headline = &cause.finding.headline;
    let explains =
        cause.explains_percent.map_or(String::new(), |p| format!("explains {p}% of it, "));
    if is_plausible(cause) {
        return format!("{what}: {headline} ({rule}, {explains}{percent}% sure)");
    }
    format!("{what}: cause unknown, possibly: {headline} ({rule}, {percent}%){blind}")
}

/// What evidence shows that somebody asked for: no cause, since nothing is known to have stalled.
fn on_request(cause: Option<&Cause>) -> String {
    let seen = cause.map_or_else(
        || "no condition of memory that delays tasks".to_owned(),
        |cause| format!("{} ({})", cause.finding.headline, cause.finding.rule),
    );
    format!("evidence on request: {seen}")
}

/// What explains a part of it.
fn in_part(contributed: &[Cause]) -> String {
    let Some(cause) = contributed.first() else { return ", no rule explains it".to_owned() };
    let percent = cause.explains_percent.unwrap_or(0);
    format!("; {percent}% of it: {} ({})", cause.finding.headline, cause.finding.rule)
}

/// What the trigger measured.
fn symptom(trigger: &Trigger, length_ms: f64) -> String {
    let worst_ms = if trigger.worst_ms > 0.0 { trigger.worst_ms } else { length_ms };
    let time = format_duration_ms(worst_ms);
    let name = if trigger.name.is_empty() { "a probe" } else { &trigger.name };
    match (trigger.kind, &trigger.failure) {
        (TriggerKind::Probe, Some(failure)) if trigger.failed_at_once() => {
            format!("{name} failed ({failure})")
        }
        (TriggerKind::Probe, _) => format!("{name} did not answer for {time}"),
        (TriggerKind::Canary, _) => format!("a page fault took {time} (canary)"),
        (TriggerKind::Pressure, _) => format!("tasks waited {time} for memory (pressure)"),
        (TriggerKind::Heartbeat, _) => format!("a heartbeat was {time} late"),
        (TriggerKind::OomKill, _) => "out of memory".to_owned(),
        (TriggerKind::Requested, _) => "evidence on request".to_owned(),
    }
}
