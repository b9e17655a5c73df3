//! # recorder-itself
//!
//! memwright itself took the time: its recorder had the CPU, or the probe's own thread was slow.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request was ready to run while a thread of memwright had the CPU; or
//! the thread that sent the request had a CPU all the time, so that the service may have answered long before. Neither
//! memory nor the service was the cause.
//!
//! ## Why it hurts
//! Taking evidence of a stall costs CPU time. On a machine with one slow CPU that may delay the service, and a late probe
//! reports a stall that no other client had.
//!
//! ## What it looks like
//! `memwright` uses most of a CPU in `top`, or only the probe is slow and the service's own log has no slow request.
//!
//! ## How to fix it
//! Probe less often, or record without traces (`memwright watch --no-profile`). If the probe itself was slow: see
//! whether the hypervisor takes CPU time (`st` of `vmstat 1`).
//!
//! ## Threshold
//! It takes at least half of the request. The time in which memwright had the CPU is subtracted from the request, unless
//! it was most of it.
//!
//! ## References
//! docs/watch.md, "Cost"; proc_stat(5), `steal`.

use crate::path_words::{manual, named};
use crate::request::{RequestTime, is_of_probe};
use crate::rules::hypervisor_steal;
use crate::spent_time::{CONFIRMED, LIKELY, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{PathPart, TimeClass};
use mw_model::{Area, Finding, Missing, Quantity, Severity};

pub(crate) const OWN: &[TimeClass] = &[TimeClass::Memwright];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let had_cpu = SpentTime::of(request, is_known).map(|time| recorder(stall, &time));
    let probe = SpentTime::of(request, |spent, part| probes(stall, request, spent, part))
        .filter(|_| !hypervisor_steal::is_cause(stall, request))
        .map(|time| slow_probe(&time));
    Ok(had_cpu.into_iter().chain(probe).max_by_key(Suspect::explained))
}

/// True for time that the recorder took from a task which certainly had the request: it takes evidence because something
/// else was slow already.
fn is_known(spent: TimeClass, part: &PathPart) -> bool {
    OWN.contains(&spent) && !part.inferred
}

/// True for time in which the thread that asked computed.
pub(crate) fn probes(
    stall: &StallWindow<'_>,
    request: &RequestTime<'_>,
    spent: TimeClass,
    part: &PathPart,
) -> bool {
    spent == TimeClass::Computing && is_of_probe(stall.incident, request.path, part)
}

fn recorder(stall: &StallWindow<'_>, time: &SpentTime<'_>) -> Suspect {
    let waiter = Quantity::Text(named(stall, &time.part.task));
    let finding = Finding::new(Severity::Warning, Area::Cpus, "memwright itself used the CPU time")
        .with_evidence("ready to run", waiter, "critical path")
        .with_impact("Taking evidence of a stall used a CPU for most of the request.")
        .with_remedy(manual(
            "probe less often, or record without traces",
            "memwright watch --no-profile",
        ));
    time.cause(finding, CONFIRMED)
}

/// The thread that asked had a CPU all the time: the service may have answered long before.
fn slow_probe(time: &SpentTime<'_>) -> Suspect {
    let task = &time.part.task;
    let who = Quantity::Text(format!("{} ({})", task.name, task.tid));
    let headline = "the probe itself was slow, not the service";
    let finding = Finding::new(Severity::Warning, Area::Cpus, headline)
        .with_evidence("had a CPU", who, "critical path")
        .with_impact("A virtual CPU that the hypervisor does not run looks busy from inside.")
        .with_remedy(manual("see whether the hypervisor takes CPU time (st)", "vmstat 1"));
    time.cause(finding, LIKELY)
}
