//! # not-memory
//!
//! A service stalled, and memory was not the cause.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. Where the critical path of the request was traced, it
//! names what the request spent most of its time on, if that is not memory: a CPU that another program
//! had, the hypervisor, a disk, an I/O limit, a stopped process or a frozen cgroup, the network, a FUSE or NFS server,
//! or the service itself, also where its listen queue is full or a Java virtual machine collected garbage; or the probe's own
//! thread, which computed all the time.
//! The time in which memwright had the CPU is subtracted, unless it was most of the request. Otherwise it explains only
//! stalls for which no
//! other rule has a plausible cause (a score of 40% or more):
//! - **CPU contention**: both canary threads, the one that touches new pages and the one that does not,
//!   were delayed alike; tasks waited for a CPU; one program used most of the CPU time;
//! - a **disk**: tasks waited for I/O, were blocked in a file system, a journal or a block device, or a
//!   disk was busy all the time, and no task reclaimed memory;
//! - a **stopped process**: a signal or a debugger stopped it (state T or t);
//! - the **network or the service itself**: everything that can be observed on this machine was calm.
//!
//! ## Why it hurts
//! All stalls look the same from outside. If you take this one for a memory problem, you tune the wrong
//! thing, and the stall returns.
//!
//! ## What it looks like
//! A probe exceeds its limit while scan rates, compaction and memory pressure do not change.
//!
//! ## How to fix it
//! CPU contention: give the service a larger CPU weight, or the other program a quota. Disk: find the
//! writer and give it a smaller I/O weight. Hypervisor: move the virtual machine to a host with free CPUs, or give it a
//! larger share there. Stopped process: continue it (`kill -CONT PID`). Network or
//! service: investigate there.
//!
//! ## Threshold
//! The canary counts as delayed from 20 ms on, twice its period. It counts as delayed by memory if
//! touching new pages takes that much longer than the same work without, and twice as long in total;
//! then this rule does not apply. CPU contention: tasks waited for a CPU for a fifth of the stall, or
//! the canary was late for a twentieth of it; a program is named if its processes used half of the CPU
//! time and a quarter of one CPU. Disk: tasks waited for I/O for a third of the stall, or one was
//! blocked for as long, or a disk was busy for four fifths of it. Network or service: the less any task
//! waited, the higher the score. Hypervisor: of the time in which the request's tasks ran or waited for a CPU,
//! the share counts that was stolen (`steal` of /proc/stat) of all CPU time in the same seconds; with half of the
//! request it is the cause.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; proc_pid_stat(5); systemd.resource-control(5).

use crate::cause_score::WORTH_NAMING;
use crate::hog::hog;
use crate::outside_memory::{busiest_disk, manual};
use crate::stall_window::{CanaryVerdict, StallWindow};
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::BLOCK_LAYER;
use std::cmp::Reverse;

use mw_model::{
    Area, BlockedTask, FailureKind, Finding, Missing, Quantity, Resource, Severity, TriggerKind,
};

/// Share of the stall that tasks waited for a CPU.
const CPU_PRESSURE_PERCENT: f64 = 20.0;

/// Share of the stall that tasks waited for I/O or one was blocked, and that a disk was busy.
const IO_PERCENT: f64 = 33.0;
const DISK_BUSY_PERCENT: f64 = 80.0;

/// Share of the samples that found a process stopped.
const STOPPED_PERCENT: f64 = 50.0;

/// Nothing is certain.
const MOST: f64 = 95.0;

/// Fallback if most of the request is not known, because it was not answered and no service was found: a process that was
/// stopped meanwhile explains it.
const UNSEEN: &[TimeClass] = &[TimeClass::Unknown, TimeClass::Idle, TimeClass::TimeLimit];
const UNSEEN_PERCENT: f64 = 80.0;

/// Confidence and cause.
type CauseCandidate = (f64, Finding);

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if let Some(request) = stall.request {
        let unseen = request.percent(UNSEEN);
        let stopped = stopped(stall).filter(|_| unseen >= UNSEEN_PERCENT);
        let stopped = stopped
            .map(|(sure, finding)| Suspect::new(finding, sure.round() as u8).explaining(unseen));
        let stolen = || crate::outside_memory::hypervisor(stall, request);
        return Ok(stopped
            .or_else(stolen)
            .or_else(|| crate::outside_memory::cause(stall, request)));
    }
    let of_memory = matches!(stall.canary(), CanaryVerdict::Memory(_))
        || stall.incident.trigger.kind == TriggerKind::Pressure;
    if of_memory {
        return Ok(None);
    }
    let by_network = network_or_service(stall)?;
    let candidates = [stopped(stall), frozen(stall), cpus(stall), disk(stall), by_network];
    let candidates = candidates.into_iter().flatten().filter(|(sure, _)| *sure >= WORTH_NAMING);
    // The first of equals: a candidate that names a culprit precedes one that does not.
    let candidates: Vec<CauseCandidate> = candidates.collect();
    let best = candidates.into_iter().rev().max_by(|a, b| a.0.total_cmp(&b.0));
    Ok(best.map(|(sure, finding)| Suspect::new(finding, sure.min(MOST).round() as u8)))
}

/// A process that cannot answer because it is stopped.
fn stopped(stall: &StallWindow<'_>) -> Option<CauseCandidate> {
    const OF_THE_SERVICE: f64 = 95.0;
    const OF_ANOTHER: f64 = 80.0;
    let tasks = stall.incident.blocked.iter().filter(|task| "Tt".contains(task.state));
    let long = tasks.filter(|task| seen_percent(task) >= STOPPED_PERCENT);
    // Of a process's threads the first has its name.
    let task =
        long.max_by_key(|task| (stall.is_probed(&task.task), task.seen, Reverse(task.pid)))?;
    let (sure, perhaps) = match stall.is_probed(&task.task) {
        true => (OF_THE_SERVICE, ""),
        false => (OF_ANOTHER, ", perhaps the service"),
    };
    let headline = format!("{} ({}) was stopped{perhaps}", task.task, task.pid);
    let finding = Finding::new(Severity::Critical, Area::StoppedProcess, headline)
        .with_evidence(
            format!("{} in state {}", task.task, task.state),
            Quantity::Percent(seen_percent(task)),
            format!("/proc/{}/stat", task.pid),
        )
        .with_impact("A stopped process does not answer; its connections stay open.")
        .with_remedy(manual("continue the process", &format!("kill -CONT {}", task.pid)));
    Some((sure, finding))
}

/// A cgroup that was frozen.
fn frozen(stall: &StallWindow<'_>) -> Option<CauseCandidate> {
    const OF_THE_SERVICE: f64 = 95.0;
    const OF_ANOTHER: f64 = 60.0;
    let group = stall.frozen_group()?;
    let (sure, perhaps) = match group.of_service {
        true => (OF_THE_SERVICE, ""),
        false => (OF_ANOTHER, ", perhaps the service"),
    };
    let headline = format!("{} was frozen{perhaps}", mw_model::cgroup_name(&group.path));
    let finding = Finding::new(Severity::Critical, Area::FrozenCgroup, headline)
        .with_impact("No task of a frozen cgroup runs; connections stay open.")
        .with_remedy(manual("thaw the cgroup", "systemctl thaw UNIT"));
    Some((sure, finding))
}

fn seen_percent(task: &BlockedTask) -> f64 {
    f64::from(task.seen) * 100.0 / f64::from(task.looks.max(task.seen).max(1))
}

/// More runnable tasks than CPUs.
fn cpus(stall: &StallWindow<'_>) -> Option<CauseCandidate> {
    const OF_THE_CANARY: f64 = 45.0;
    const OF_PRESSURE: f64 = 30.0;
    const PER_SHARE: f64 = 0.3;
    const OF_A_HOG: f64 = 15.0;
    const FURTHER: f64 = 15.0;
    let mut finding = Finding::new(Severity::Critical, Area::Cpus, "");
    let mut sure = 0.0;
    let waited = stall.pressure_percent(Resource::Cpu);
    // A single late turn in seconds is no contention if the kernel reports no task waiting.
    let calm = waited.is_some_and(|share| share < CPU_PRESSURE_PERCENT);
    let least_us = if calm { stall.incident.duration_ms().saturating_mul(1000) / 20 } else { 0 };
    if let CanaryVerdict::Cpus(us) = stall.canary()
        && us >= least_us
    {
        sure += OF_THE_CANARY;
        let late = Quantity::Milliseconds(us as f64 / 1000.0);
        finding = finding.with_evidence("delay of both canary threads", late, "canary");
    }
    if let Some(share) = waited.filter(|share| *share >= CPU_PRESSURE_PERCENT) {
        sure = (sure + FURTHER).max(OF_PRESSURE + PER_SHARE * share);
        let source = "/proc/pressure/cpu";
        finding = finding.with_evidence("CPU pressure, some", Quantity::Percent(share), source);
    }
    if sure == 0.0 {
        return None;
    }
    let hog = hog(stall);
    let headline = match &hog {
        Some((name, share)) => {
            sure += OF_A_HOG;
            let what = format!("share of the CPU time used, by '{name}'");
            finding = finding.with_evidence(what, Quantity::Percent(*share), "/proc/PID/stat");
            format!("{name} used most of the CPU time")
        }
        None => "tasks competed for the CPUs".to_owned(),
    };
    finding.headline = headline;
    let finding = finding
        .with_impact("Every task that was ready to run had to wait for a CPU.")
        .with_remedy(manual(
            "give the service a larger CPU weight, or the other program a quota",
            "systemctl set-property UNIT CPUWeight=1000",
        ));
    Some((sure, finding))
}

/// A slow disk.
fn disk(stall: &StallWindow<'_>) -> Option<CauseCandidate> {
    const LEAST: f64 = 35.0;
    const OF_STUCK: f64 = 50.0;
    const OF_PRESSURE: f64 = 30.0;
    const OF_BUSY: f64 = 15.0;
    const FURTHER: f64 = 10.0;
    let mut kinds = Vec::new();
    let mut finding = Finding::new(Severity::Critical, Area::Disk, "");
    let stuck = blocked_in_io(stall);
    if let Some((task, share)) = stuck {
        kinds.push(OF_STUCK * share / 100.0 * stall.weight_of(&task.task));
        let what = format!("{} blocked in {}", task.task, task.stack.first().map_or("", |f| f));
        let source = format!("/proc/{}/stack", task.pid);
        finding = finding.with_evidence(what, Quantity::Percent(share), source);
    }
    let waited = stall.pressure_percent(Resource::Io);
    if let Some(share) = waited.filter(|share| *share >= IO_PERCENT) {
        kinds.push(OF_PRESSURE * share / 100.0);
        let source = "/proc/pressure/io";
        finding = finding.with_evidence("I/O pressure, some", Quantity::Percent(share), source);
    }
    let busiest = busiest_disk(stall).filter(|(_, share)| *share >= DISK_BUSY_PERCENT);
    if let Some((name, share)) = &busiest {
        kinds.push(OF_BUSY);
        let what = format!("{name} busy");
        finding = finding.with_evidence(what, Quantity::Percent(*share), "/proc/diskstats");
    }
    let best = kinds.iter().copied().reduce(f64::max)?;
    let further = kinds.len().saturating_sub(1) as f64 * FURTHER;
    let name = busiest.map_or_else(|| "a disk".to_owned(), |(name, _)| format!("the disk {name}"));
    finding.headline = format!("{name} was slow");
    let finding = finding
        .with_impact("Every task that read from the disk or synced to it had to wait.")
        .with_remedy(manual("find the writer and give it a smaller I/O weight", "pidstat -d 1"));
    Some((LEAST + best + further, finding))
}

/// The task that was blocked longest in a file system, a journal or a block device.
fn blocked_in_io<'a>(stall: &StallWindow<'a>) -> Option<(&'a BlockedTask, f64)> {
    let in_io = |task: &&BlockedTask| task.state == 'D' && BLOCK_LAYER.are_in(&task.stack);
    let tasks = stall.incident.blocked.iter().filter(in_io);
    let task = tasks.max_by_key(|task| (stall.is_probed(&task.task), task.seen))?;
    Some((task, seen_percent(task))).filter(|(_, share)| *share >= IO_PERCENT)
}

/// Everything that can be observed on this machine was calm.
///
/// # Errors
/// Nothing could be seen.
fn network_or_service(stall: &StallWindow<'_>) -> Result<Option<CauseCandidate>, Missing> {
    const LEAST: f64 = 60.0;
    const FURTHER: f64 = 5.0;
    const PER_SHARE: f64 = 0.5;
    if stall.incident.trigger.kind != TriggerKind::Probe {
        return Ok(None);
    }
    let pressures = [
        ("memory", stall.pressure_percent(Resource::Memory)),
        ("io", stall.pressure_percent(Resource::Io)),
        ("cpu", stall.pressure_percent(Resource::Cpu)),
    ];
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
        "nothing listened at the service's address".to_owned()
    } else {
        "the network or the service itself was slow".to_owned()
    };
    let mut finding = Finding::new(Severity::Warning, Area::NetworkOrService, headline)
        .with_impact("The service does not answer, although nothing on this machine delays it.")
        .with_remedy(manual("check the service's log and its connections", "ss -tin"));
    for (name, share) in pressures {
        if let Some(share) = share {
            let source = format!("/proc/pressure/{name}");
            finding = finding.with_evidence(
                format!("{name} pressure, some"),
                Quantity::Percent(share),
                source,
            );
        }
    }
    if calm {
        let calm = Quantity::Text("calm".to_owned());
        finding = finding.with_evidence("both canary threads", calm, "canary");
    }
    Ok(Some((sure, finding)))
}
