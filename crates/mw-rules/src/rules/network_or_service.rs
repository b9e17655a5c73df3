//! # network-or-service
//!
//! The service did not answer, and nothing on this machine that it waited for was seen.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The probe exceeded its limit, and either the service was idle for most of
//! the request, so that none of its threads worked on it; or the probe waited on its connection until its own time limit, and
//! no thread was seen that had the request; or the critical path of the request was not traced, no other rule
//! has a plausible cause, and everything that can be observed without a trace was calm. The service itself, or the network
//! between it and the probe, was slow; which of the two is not known.
//!
//! ## Why it hurts
//! All stalls look the same from outside. If you take this one for a memory problem, you tune the wrong thing, and the
//! stall returns.
//!
//! ## What it looks like
//! A probe exceeds its limit while the pressure of memory, I/O and CPUs and the latencies of the canary do not change.
//!
//! ## How to fix it
//! Check the service's log and its connections (`ss -tin`). Without a critical path, let memwright trace the service (run it
//! as root, with tracefs). Probes over TCP know of lost packets: then the cause is `network-loss`.
//!
//! ## Threshold
//! With a critical path: the service is idle for at least half of the request, or the probe waited alone for as long, and
//! the confidence is low. Without one: the
//! less any task waited by /proc/pressure, the higher the score, which begins at 60 and is at most 70.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; ss(8).

use crate::cause_score::WORTH_NAMING;
use crate::path_words::{manual, named};
use crate::request::RequestTime;
use crate::rules::service_itself;
use crate::spent_time::{POSSIBLE, SpentTime};
use crate::stall_window::{CanaryVerdict, StallWindow};
use crate::suspect::Suspect;
use mw_critical_path::{PathPart, TimeClass, TimeKind, Wait};
use mw_model::{Area, FailureKind, Finding, Missing, Quantity, Resource, Severity, TriggerKind};

/// Time of a service that waits for work.
const IDLE: &[TimeClass] = &[TimeClass::Idle];

/// Time in which nobody was seen to have the request.
pub(crate) const UNSEEN: &[TimeClass] = &[TimeClass::Idle, TimeClass::Unknown];

/// # Errors
/// Nothing could be seen.
pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if stall.incident.trigger.kind != TriggerKind::Probe {
        return Ok(None);
    }
    match stall.request {
        Some(request) => Ok(of_idle_service(stall).or_else(|| of_unanswered_probe(request))),
        None => of_calm_machine(stall),
    }
}

/// No thread of the service worked on the request: it was lost on its way, or the service waits for an event of its own.
fn of_idle_service(stall: &StallWindow<'_>) -> Option<Suspect> {
    let time = service_itself::time_of_program(stall).filter(|time| IDLE.contains(&time.spent))?;
    if service_itself::leaving_link(stall, &time).is_some() {
        return None;
    }
    let headline = format!("{} did not work on the request", named(stall, &time.part.task));
    Some(unattended(&time, &headline))
}

/// The probe's own connection was silent until its time limit, and no thread of this machine was seen to have the request.
fn of_unanswered_probe(request: &RequestTime<'_>) -> Option<Suspect> {
    let is_silent = |_, part: &PathPart| {
        part.task.tid == request.path.task.tid
            && matches!(part.kind, TimeKind::TimedOut(Wait::Poll | Wait::Socket))
    };
    let time = SpentTime::of(request, is_silent)?;
    Some(unattended(&time, "no thread was seen to work on the request"))
}

fn unattended(time: &SpentTime<'_>, headline: &str) -> Suspect {
    let finding = Finding::new(Severity::Warning, Area::NetworkOrService, headline)
        .with_impact(
            "The request was lost on its way, or the service waited for an event that did not come.",
        )
        .with_remedy(manual("check the service's log and its connections", "ss -tin"));
    time.cause(finding, POSSIBLE)
}

/// Nothing was traced, and nothing that can be seen without a trace was busy.
fn of_calm_machine(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const LEAST: f64 = 60.0;
    const FURTHER: f64 = 5.0;
    const PER_SHARE: f64 = 0.5;
    let pressures = [Resource::Memory, Resource::Io, Resource::Cpu]
        .map(|resource| (resource, stall.pressure_percent(resource)));
    let calm = stall.canary() == CanaryVerdict::Calm;
    let known: Vec<f64> = pressures.iter().filter_map(|(_, share)| *share).collect();
    if known.is_empty() && !calm {
        let why = "neither the canary nor pressure stall information was recorded";
        return Err(Missing::skipped("canary and /proc/pressure", why));
    }
    let sure = LEAST - PER_SHARE * known.iter().copied().fold(0.0, f64::max)
        + if calm { FURTHER } else { 0.0 }
        + if known.len() == pressures.len() { FURTHER } else { 0.0 };
    let is_refused = stall.incident.trigger.failure_kind == Some(FailureKind::Refused);
    let headline = if is_refused {
        "nothing listened at the service's address"
    } else {
        "the network or the service itself was slow"
    };
    let mut finding = Finding::new(Severity::Warning, Area::NetworkOrService, headline)
        .with_impact("No wait on this machine was seen; what the service did was not traced.")
        .with_remedy(manual("check the service's log and its connections", "ss -tin"));
    for (resource, share) in pressures {
        if let Some(share) = share {
            let name = resource.name();
            let source = format!("/proc/pressure/{name}");
            let what = format!("{name} pressure, some");
            finding = finding.with_evidence(what, Quantity::Percent(share), source);
        }
    }
    if calm {
        let calm = Quantity::Text("calm".to_owned());
        finding = finding.with_evidence("both canary threads", calm, "canary");
    }
    Ok(Some(Suspect::of_score(finding, sure)).filter(|_| sure >= WORTH_NAMING))
}
