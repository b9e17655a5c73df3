//! Explains an incident: asks every rule for its cause, ranks the causes and sums them up in one line.

use crate::diagnosis::{Diagnosis, suspects_by};
use crate::registry::of_oom_kills;
use crate::request::RequestTime;
use crate::stall_window::StallWindow;
use crate::suspect::{PLAUSIBLE_PERCENT, Suspect};
use crate::{blame, by_path, by_scores, confidence, failure, find, roles};
use mw_model::{Cause, Incident, Role, SkippedRule, TriggerKind, Window, format_duration_ms};

/// Explains an incident: fills in its verdict, its causes and roles. Returns the rules that could not be checked, of
/// which the incident has the reasons.
///
/// `window.now` is the machine at the stall's end (settings, nodes, zones, processes…),
/// `window.earlier[0]` the sample from just before the stall, so that rates are those of the stall.
/// `calm` is the same over the minute before, if it was recorded.
pub fn explain(
    incident: &mut Incident,
    window: &Window,
    calm: Option<&Window>,
) -> Vec<SkippedRule> {
    let mut skipped = Vec::new();
    let request = RequestTime::new(incident, window);
    let stall = StallWindow { incident, window, calm, request: request.as_ref() };
    let Diagnosis { causes, contributed, ruled_out } = diagnose(&stall, &mut skipped);
    let causes: Vec<Cause> = causes.into_iter().map(confidence::cause).collect();
    let contributed =
        contributed.into_iter().map(|suspect| confidence::cause(suspect.by_strength()));
    let contributed: Vec<Cause> = contributed.collect();
    let verdict = verdict(&stall, causes.first(), &contributed, skipped.len());
    let (suffering, causing) = (roles::victims(&stall), culprits(&stall, causes.first()));
    let blame = blame::shares(&stall, &causes, &contributed);
    (incident.verdict, incident.ruled_out, incident.blame) = (verdict, ruled_out, blame);
    (incident.causes, incident.contributed) = (causes, contributed);
    (incident.suffering, incident.causing) = (suffering, causing);
    incident.unseen.extend(skipped.iter().map(|skipped| skipped.missing.clone()));
    skipped
}

/// Finds the cause of a stall to which it applies. Rules that could not be checked are added to the list.
type Diagnoser = fn(&StallWindow<'_>, &mut Vec<SkippedRule>) -> Option<Diagnosis>;

/// In the order in which they are tried. The last applies to every stall.
const DIAGNOSERS: &[Diagnoser] = &[
    of_oom_kill,
    failure::diagnose,
    by_path::diagnose,
    by_scores::on_request,
    by_scores::diagnose,
];

fn diagnose(stall: &StallWindow<'_>, skipped: &mut Vec<SkippedRule>) -> Diagnosis {
    DIAGNOSERS.iter().find_map(|diagnoser| diagnoser(stall, skipped)).unwrap_or_default()
}

/// The incident is a kill of the OOM killer, whether or not anything stalled.
fn of_oom_kill(stall: &StallWindow<'_>, skipped: &mut Vec<SkippedRule>) -> Option<Diagnosis> {
    if stall.incident.trigger.kind != TriggerKind::OomKill {
        return None;
    }
    let suspects = suspects_by(of_oom_kills(), stall, skipped).into_iter();
    Some(Diagnosis { causes: suspects.map(Suspect::by_strength).collect(), ..Diagnosis::default() })
}

fn culprits(stall: &StallWindow<'_>, cause: Option<&Cause>) -> Vec<Role> {
    let rule = cause.and_then(|cause| Some((cause, find(&cause.finding.rule)?)));
    rule.map_or_else(Vec::new, |(cause, rule)| (rule.culprits)(stall, cause))
}

/// The headline of an incident: `TARGET stalled for TIME: ACTOR VERB OBJECT`.
fn verdict(
    stall: &StallWindow<'_>,
    cause: Option<&Cause>,
    contributed: &[Cause],
    skipped: usize,
) -> String {
    let what = symptom(stall);
    let blind = match skipped {
        0 => String::new(),
        1 => "; 1 rule could not be checked".to_owned(),
        count => format!("; {count} rules could not be checked"),
    };
    if stall.incident.trigger.kind == TriggerKind::Requested {
        return on_request(cause) + &blind;
    }
    match cause {
        Some(cause) if is_plausible(cause) => format!("{what}: {}", cause.finding.headline),
        Some(cause) => format!("{what}: possibly {}{blind}", cause.finding.headline),
        None => format!("{what}: cause unknown{}{blind}", in_part(contributed)),
    }
}

fn is_plausible(cause: &Cause) -> bool {
    cause.score() >= PLAUSIBLE_PERCENT
}

/// What requested evidence shows: no cause, since nothing is known to have stalled.
fn on_request(cause: Option<&Cause>) -> String {
    let seen = cause
        .map_or("no memory condition that delays tasks", |cause| cause.finding.headline.as_str());
    format!("evidence on request: {seen}")
}

/// The largest part that is explained.
fn in_part(contributed: &[Cause]) -> String {
    let Some(cause) = contributed.first() else { return String::new() };
    let percent = cause.explains_percent.unwrap_or(0);
    format!("; {percent}% of it because {}", cause.finding.headline)
}

/// What stalled, and for how long.
fn symptom(stall: &StallWindow<'_>) -> String {
    let trigger = &stall.incident.trigger;
    // A service that fails again and again is away until it answers well.
    let is_outage = trigger.kind == TriggerKind::Probe && trigger.failure_kind.is_some();
    let worst_ms = match trigger.worst_ms {
        worst_ms if is_outage => worst_ms.max(stall.length_ms()),
        worst_ms if worst_ms > 0.0 => worst_ms,
        _ => stall.length_ms(),
    };
    let time = format_duration_ms(worst_ms);
    let name = if trigger.name.is_empty() { "a probe" } else { &trigger.name };
    match trigger.kind {
        TriggerKind::Probe if trigger.failed_at_once() => format!("{name} failed"),
        TriggerKind::Probe => format!("{name} stalled for {time}"),
        TriggerKind::Canary => format!("page faults stalled for {time}"),
        // The trigger's time contains that of kswapd.
        TriggerKind::Pressure => {
            format!("memory pressure for {}", format_duration_ms(stall.length_ms()))
        }
        TriggerKind::Heartbeat => format!("heartbeat late by {time}"),
        TriggerKind::OomKill => "out of memory".to_owned(),
        TriggerKind::Requested => "evidence on request".to_owned(),
    }
}
