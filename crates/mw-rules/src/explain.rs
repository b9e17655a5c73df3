//! Explains an incident: asks every rule for its cause, ranks the causes and sums them up in one line.

use crate::cause_score::PLAUSIBLE_PERCENT;
use crate::confidence::with_confidence;
use crate::diagnosis::{Diagnosis, diagnose};
use crate::failure::refused;
use crate::registry::{Precedence, of_oom_kills};
use crate::request::Request;
use crate::stall::Stall;
use crate::{RULES, Rule, find, roles};
use mw_model::{
    Cause, Incident, Role, RuledOut, SkippedRule, Trigger, TriggerKind, Window, format_duration_ms,
};

/// How many percent a root cause ranks ahead of a symptom.
const ROOT_BONUS: u8 = 40;

/// The same for an intermediate cause.
const INTERMEDIATE_BONUS: u8 = 20;

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
    let is_of_kill = incident.trigger.kind == TriggerKind::OomKill;
    let Diagnosis { causes, contributed, ruled_out } = match (refused(&stall), &request) {
        _ if is_of_kill => {
            let rules: Vec<&Rule> = of_oom_kills().iter().collect();
            Diagnosis { causes: causes_by(&rules, &stall, &mut skipped), ..Diagnosis::default() }
        }
        (Some(causes), _) => Diagnosis { causes, ..Diagnosis::default() },
        (None, Some(request)) => {
            let diagnosis = diagnose(&stall, request, &mut skipped);
            if diagnosis.causes.is_empty() && request.is_mostly_untraced() {
                Diagnosis { causes: by_counters(&stall), ..diagnosis }
            } else {
                diagnosis
            }
        }
        _ if incident.trigger.kind == TriggerKind::Requested => {
            Diagnosis { causes: seen(&stall, &mut skipped), ..Diagnosis::default() }
        }
        (None, None) => {
            Diagnosis { causes: by_scores(&stall, &mut skipped), ..Diagnosis::default() }
        }
    };
    let causes = with_confidence(causes);
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

/// The causes without a critical path: by scores of all that was observed.
fn by_scores(stall: &Stall<'_>, skipped: &mut Vec<SkippedRule>) -> Vec<Cause> {
    let (last, memory): (Vec<&Rule>, Vec<&Rule>) =
        RULES.iter().partition(|rule| rule.precedence == Precedence::LastResort);
    let mut causes = causes_by(&memory, stall, skipped);
    causes.sort_by_key(|cause| std::cmp::Reverse(rank(cause)));
    if !causes.iter().any(is_plausible) {
        let others = causes_by(&last, stall, skipped);
        if others.iter().any(is_plausible) {
            causes.clear();
        }
        causes.extend(others);
        causes.sort_by_key(|cause| std::cmp::Reverse(rank(cause)));
    }
    causes
}

/// The memory conditions that were seen while nothing is known to have stalled.
fn seen(stall: &Stall<'_>, skipped: &mut Vec<SkippedRule>) -> Vec<Cause> {
    let mut causes = by_scores(stall, skipped);
    causes.retain(|cause| is_plausible(cause) && cause.finding.subject.is_memory());
    causes
}

/// The memory conditions that counters show while the request's time was not traced: records are lost when memory is
/// short. Whether the request waited for them is not known.
fn by_counters(stall: &Stall<'_>) -> Vec<Cause> {
    const OF_UNTRACED: f64 = 0.75;
    let memory: Vec<&Rule> =
        RULES.iter().filter(|rule| rule.precedence != Precedence::LastResort).collect();
    let mut causes = causes_by(&memory, &Stall { request: None, ..*stall }, &mut Vec::new());
    causes.retain(is_plausible);
    for cause in &mut causes {
        let score = f64::from(cause.confidence_percent) * OF_UNTRACED;
        cause.confidence_percent = score.round() as u8;
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(rank(cause)));
    causes
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

fn culprits(stall: &Stall<'_>, cause: Option<&Cause>) -> Vec<Role> {
    let rule = cause.and_then(|cause| Some((cause, find(&cause.finding.rule)?)));
    rule.map_or_else(Vec::new, |(cause, rule)| (rule.culprits)(stall, cause))
}

fn is_plausible(cause: &Cause) -> bool {
    cause.score() >= PLAUSIBLE_PERCENT
}

/// Plausible causes first; among them those that explain *why* memory was short before those that show
/// only that it was, unless the latter score much higher.
fn rank(cause: &Cause) -> (bool, u8) {
    let precedence = find(&cause.finding.rule).map_or(Precedence::Symptom, |rule| rule.precedence);
    let bonus = match precedence {
        Precedence::Root => ROOT_BONUS,
        Precedence::Intermediate => INTERMEDIATE_BONUS,
        Precedence::Symptom | Precedence::LastResort => 0,
    };
    (is_plausible(cause), cause.score().saturating_add(bonus))
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
