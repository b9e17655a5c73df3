//! # cpu-contention
//!
//! Tasks of the service were ready to run, and other programs had the CPUs.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. Where the critical path of the request was traced: for most of it a task
//! waited for a CPU that another program had. Otherwise: both canary threads, the one that touches new pages and the
//! one that does not, were delayed alike; tasks waited for a CPU; one program used most of the CPU time. Memory was not
//! the cause.
//!
//! ## Why it hurts
//! A task that is ready to run waits for its turn. With more runnable tasks than CPUs, each step of a request waits
//! again.
//!
//! ## What it looks like
//! `some` of /proc/pressure/cpu is high, the load average exceeds the number of CPUs, and scan rates, compaction and
//! memory pressure do not change.
//!
//! ## How to fix it
//! Give the service a larger CPU weight (`systemctl set-property UNIT CPUWeight=1000`), or the other program a quota.
//!
//! ## Threshold
//! The wait takes at least half of the request. Without a critical path: tasks waited for a CPU for a fifth of the
//! stall, or the canary was late by 20 ms, twice its period, and for a twentieth of the stall; a program is named if its
//! processes used half of the CPU time and a quarter of one CPU. Where the hypervisor took half of the request, that is
//! the cause (`hypervisor-steal`); a CPU quota of the cgroup is `cpu-throttled`.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; systemd.resource-control(5).

use crate::hog::hog;
use crate::path_words::{manual, named, unit_of_service};
use crate::request::RequestTime;
use crate::rules::hypervisor_steal;
use crate::spent_time::{CONFIRMED, LIKELY, SpentTime};
use crate::stall_window::{CanaryVerdict, StallWindow};
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Area, Finding, Missing, Quantity, Remedy, Resource, Severity};

/// Share of the stall that tasks waited for a CPU.
const PRESSURE_PERCENT: f64 = 20.0;

const IMPACT: &str = "Every task that was ready to run had to wait for a CPU.";

pub(crate) const READY: &[TimeClass] = &[TimeClass::CpuContention];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(match stall.request {
        Some(request) => by_path(stall, request),
        None => by_scores(stall),
    })
}

fn by_path(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    if hypervisor_steal::is_cause(stall, request) {
        return None;
    }
    let time = SpentTime::on(request, READY)?;
    let (headline, sure) = match (&time.part.holder, hog(stall)) {
        (Some(holder), _) => (format!("{} used the CPU time", holder.name), CONFIRMED),
        (None, Some((name, _))) => (format!("{name} probably used the CPU time"), LIKELY),
        (None, None) => ("tasks competed for the CPUs".to_owned(), LIKELY),
    };
    let waiter = Quantity::Text(named(stall, &time.part.task));
    let finding = Finding::new(Severity::Critical, Area::Cpus, headline)
        .with_evidence("ready to run", waiter, "critical path")
        .with_impact(IMPACT)
        .with_remedy(remedy(stall));
    Some(time.cause(finding, sure))
}

/// More runnable tasks than CPUs.
fn by_scores(stall: &StallWindow<'_>) -> Option<Suspect> {
    const OF_THE_CANARY: f64 = 45.0;
    const OF_PRESSURE: f64 = 30.0;
    const PER_SHARE: f64 = 0.3;
    const OF_A_HOG: f64 = 15.0;
    const FURTHER: f64 = 15.0;
    let mut finding = Finding::new(Severity::Critical, Area::Cpus, "");
    let mut sure = 0.0;
    let waited = stall.pressure_percent(Resource::Cpu);
    // A single late turn in seconds is no contention if the kernel reports no task waiting.
    let calm = waited.is_some_and(|share| share < PRESSURE_PERCENT);
    let least_us = if calm { stall.incident.duration_ms().saturating_mul(1000) / 20 } else { 0 };
    if let CanaryVerdict::Cpus(us) = stall.canary()
        && us >= least_us
    {
        sure += OF_THE_CANARY;
        let late = Quantity::Milliseconds(us as f64 / 1000.0);
        finding = finding.with_evidence("delay of both canary threads", late, "canary");
    }
    if let Some(share) = waited.filter(|share| *share >= PRESSURE_PERCENT) {
        sure = (sure + FURTHER).max(OF_PRESSURE + PER_SHARE * share);
        let source = "/proc/pressure/cpu";
        finding = finding.with_evidence("CPU pressure, some", Quantity::Percent(share), source);
    }
    if sure == 0.0 {
        return None;
    }
    finding.headline = match hog(stall) {
        Some((name, share)) => {
            sure += OF_A_HOG;
            let what = format!("share of the CPU time used, by '{name}'");
            finding = finding.with_evidence(what, Quantity::Percent(share), "/proc/PID/stat");
            format!("{name} used most of the CPU time")
        }
        None => "tasks competed for the CPUs".to_owned(),
    };
    Some(Suspect::of_score(finding.with_impact(IMPACT).with_remedy(remedy(stall)), sure))
}

fn remedy(stall: &StallWindow<'_>) -> Remedy {
    let command = format!("systemctl set-property {} CPUWeight=1000", unit_of_service(stall));
    manual("give the service a larger CPU weight, or the other program a quota", &command)
}
