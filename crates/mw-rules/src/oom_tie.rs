//! What kills of the OOM killer have to do with a stalled service.
//!
//! The kernel counts kills of the whole machine. That one falls into a stall says nothing of the service: it was of the
//! service, or memory was so short that the service had to wait, or it is no cause.

use crate::request::RequestTime;
use crate::stall_window::{CanaryVerdict, StallWindow};
use mw_critical_path::TimeClass;
use mw_model::{EndKind, FailureKind, GroupUse, Resource, ServiceProcess, TriggerKind, WaitKind};

/// From which share of the stall, or of the request, on waits for memory count.
const LEAST_PERCENT: f64 = 10.0;

const SIGKILL: u32 = 9;

/// True if kills during a stall may be its cause.
pub(crate) fn concern(stall: &StallWindow<'_>) -> bool {
    is_of_service(stall) || is_unlogged_end(stall) || shortage_was_felt(stall)
}

/// A process of the service was killed, or its cgroup met a limit for which one was.
fn is_of_service(stall: &StallWindow<'_>) -> bool {
    let incident = stall.incident;
    if stall.waits(&[WaitKind::Oom]).any(|wait| is_own(stall, wait.pid, &wait.task)) {
        return true;
    }
    let own = stall.own_group();
    let has_kills =
        |group: &GroupUse| Some(group.path.as_str()) == own && group.oom_kills.unwrap_or(0) > 0;
    incident.groups.iter().any(has_kills)
        || incident.oom.iter().any(|oom| {
            let is_killed = |killed: &ServiceProcess| is_own(stall, killed.pid, &killed.name);
            own.is_some_and(|path| oom.concerns(path))
                || oom.services.iter().any(|fate| fate.probe == incident.trigger.name)
                || oom.victims.iter().any(|victim| is_killed(&victim.process))
        })
}

/// True if a task is one of the service, or has its name.
fn is_own(stall: &StallWindow<'_>, pid: u32, name: &str) -> bool {
    let incident = stall.incident;
    let outage = incident.outage.iter();
    let former = outage.flat_map(|outage| outage.former.iter().chain(&outage.listener));
    let known = incident.service.iter().flat_map(|service| &service.processes);
    let is_it = |process: &ServiceProcess| (pid != 0 && process.pid == pid) || process.name == name;
    stall.is_probed(name) || known.chain(former).any(is_it)
}

/// The service, or the command of its probe, ended as the OOM killer ends a process, and the log does not say whom that
/// killed.
fn is_unlogged_end(stall: &StallWindow<'_>) -> bool {
    let incident = stall.incident;
    let logged = incident.oom.iter().flat_map(|oom| &oom.victims);
    let is_unlogged = logged.fold(0, |sum: u64, victim| sum.saturating_add(victim.count))
        < incident.oom.as_ref().map_or(1, |oom| oom.count);
    let end = incident.outage.as_ref().and_then(|outage| outage.ended.as_ref());
    let ended_so = end.is_some_and(|end| match end.how {
        EndKind::Unknown => true,
        EndKind::Signalled => end.signal == Some(SIGKILL),
        EndKind::Exited | EndKind::OomKilled => false,
    });
    let failure = incident.trigger.failure_kind;
    (is_unlogged && ended_so) || failure == Some(FailureKind::Killed)
}

/// Memory was short beyond the limit of a single cgroup, and the service, or at least some task, waited for it. Who was
/// answered at once did not.
fn shortage_was_felt(stall: &StallWindow<'_>) -> bool {
    let trigger = &stall.incident.trigger;
    let is_wide = stall.incident.oom.as_ref().is_none_or(|oom| !oom.are_of_cgroups());
    if !is_wide || (trigger.kind == TriggerKind::Probe && trigger.failed_at_once()) {
        return false;
    }
    match stall.request {
        Some(request) => has_reclaimed(request),
        None => trigger.kind == TriggerKind::Pressure || somebody_waited(stall),
    }
}

fn has_reclaimed(request: &RequestTime<'_>) -> bool {
    request.explained_by(&[TimeClass::Reclaim]) >= LEAST_PERCENT
}

/// By all that was recorded; also where nothing was.
fn somebody_waited(stall: &StallWindow<'_>) -> bool {
    const WAITS: &[WaitKind] =
        &[WaitKind::DirectReclaim, WaitKind::ReclaimThrottle, WaitKind::Swap, WaitKind::Oom];
    let pressed = stall.pressure_percent(Resource::Memory);
    let canary = stall.canary();
    let waited = stall.longest_wait(WAITS).map(|waited| stall.share_percent(&waited));
    let is_long = |share: Option<f64>| share.is_some_and(|share| share >= LEAST_PERCENT);
    let nobody_looked =
        pressed.is_none() && canary == CanaryVerdict::Unknown && !stall.waits_were_looked_for();
    is_long(pressed)
        || is_long(waited)
        || matches!(canary, CanaryVerdict::Memory(_))
        || nobody_looked
}
