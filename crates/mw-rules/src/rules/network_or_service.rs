//! # network-or-service
//!
//! The service did not answer, and no wait on this machine was seen.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The probe exceeded its limit, the critical path of its request was not
//! traced, no other rule has a plausible cause, and everything that can be observed without a trace was calm. The service
//! itself, or the network between it and the probe, was slow; which of the two is not known.
//!
//! ## Why it hurts
//! All stalls look the same from outside. If you take this one for a memory problem, you tune the wrong thing, and the
//! stall returns.
//!
//! ## What it looks like
//! A probe exceeds its limit while the pressure of memory, I/O and CPUs and the latencies of the canary do not change.
//!
//! ## How to fix it
//! Check the service's log and its connections (`ss -tin`). Let memwright trace the service (run it as root, with
//! tracefs), and the next stall has a critical path, which tells the two apart.
//!
//! ## Threshold
//! The less any task waited by /proc/pressure, the higher the score, which begins at 60 and is at most 70.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; ss(8).

use crate::cause_score::WORTH_NAMING;
use crate::path_words::manual;
use crate::stall_window::{CanaryVerdict, StallWindow};
use crate::suspect::Suspect;
use mw_model::{Area, FailureKind, Finding, Missing, Quantity, Resource, Severity, TriggerKind};

/// # Errors
/// Nothing could be seen.
pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const LEAST: f64 = 60.0;
    const FURTHER: f64 = 5.0;
    const PER_SHARE: f64 = 0.5;
    if stall.request.is_some() || stall.incident.trigger.kind != TriggerKind::Probe {
        return Ok(None);
    }
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
