//! # service-itself
//!
//! The service took the time itself: it computed, slept, or waited for a lock of its own.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request a task of the service computed, slept on a timer, or
//! waited until a time limit of its own or for a lock. Memory was not the cause. Of a lock of the kernel's own (of a file, a
//! directory, an address space) whose holder was not seen, the confidence is low.
//!
//! ## Why it hurts
//! No setting of the machine makes such a request faster.
//!
//! ## What it looks like
//! The service's thread uses a whole CPU, or sleeps, while the counters of the machine do not change.
//!
//! ## How to fix it
//! See what the program does: `memwright why --pid PID` names the wait and the place in the program, a profiler the code
//! that computes.
//!
//! ## Threshold
//! This time is at least half of the request, and the task is one of the service. Where most of it was idle, no thread
//! worked on the request, and it is `network-or-service`. A lock between sessions is `lock-wait`, another program that the
//! service waited for `slow-dependency`, a pause of a Java virtual machine `garbage-collection`, and a probe that was slow
//! itself `recorder-itself`.
//!
//! ## References
//! perf-top(1); proc_pid_stack(5).

use crate::path_words::{named, see};
use crate::request::{RequestTime, is_task_within};
use crate::rules::{
    hypervisor_steal, network_loss, network_wait, recorder_itself, stopped_process,
};
use crate::spent_time::{CONFIRMED, LIKELY, POSSIBLE, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{PathPart, PathTask, TimeClass, TimeKind, Wait, WaitLink};
use mw_model::{Area, Finding, Missing, Severity};

/// Ways in which a program takes time itself.
pub(crate) const OWN: &[TimeClass] = &[
    TimeClass::Sleep,
    TimeClass::TimeLimit,
    TimeClass::Computing,
    TimeClass::Lock,
    TimeClass::Idle,
];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(time) = time_of_program(stall) else { return Ok(None) };
    if leaving_link(stall, &time).is_some() || time.spent == TimeClass::Idle {
        return Ok(None);
    }
    let (did, sure) = deed(&time);
    let headline = format!("{} {did}", named(stall, &time.part.task));
    let impact = if is_lock_of_kernel(time.part) {
        "What held the lock was not seen."
    } else {
        "The service spent this time itself."
    };
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_impact(impact)
        .with_remedy(see(&time.part.task));
    Ok(Some(time.cause(finding, sure)))
}

/// The time that a program took itself, the service or one that it waited for, where it is no pause of a virtual machine.
pub(crate) fn time_of_program<'a>(stall: &StallWindow<'a>) -> Option<SpentTime<'a>> {
    own_time(stall).filter(|_| stall.request.is_none_or(|r| r.path.main_pause().is_none()))
}

/// The time that a program or its virtual machine took itself; `None` where that is no proof, because a process was
/// stopped, the hypervisor ran others, the network lost the request, or a peer did not answer.
pub(crate) fn own_time<'a>(stall: &StallWindow<'a>) -> Option<SpentTime<'a>> {
    let request = stall.request?;
    let is_of_program = |spent, part: &_| {
        OWN.contains(&spent) && !recorder_itself::probes(stall, request, spent, part)
    };
    let time = SpentTime::of(request, is_of_program)?;
    let is_other = hypervisor_steal::is_cause(stall, request)
        || stopped_process::behind_unseen(stall, request).is_some()
        || network_loss::explains(stall, &time)
        || network_wait::explains(stall, &time);
    (!is_other).then_some(time)
}

/// The way in which the task spent the time, and the strength of that as evidence.
pub(crate) fn deed(time: &SpentTime<'_>) -> (&'static str, u8) {
    match time.spent {
        TimeClass::Sleep => ("slept on a timer", CONFIRMED),
        TimeClass::TimeLimit => ("waited until its own time limit", LIKELY),
        TimeClass::Computing => ("computed", CONFIRMED),
        TimeClass::Lock if is_lock_of_kernel(time.part) => {
            ("waited for a lock of the kernel", POSSIBLE)
        }
        TimeClass::Lock => ("waited for a lock", LIKELY),
        _ => ("waited for an event", POSSIBLE),
    }
}

/// True for a lock that the kernel takes for itself, as of a file or an address space, and not for the program.
fn is_lock_of_kernel(part: &PathPart) -> bool {
    matches!(part.kind, TimeKind::Waiting(Wait::Semaphore | Wait::Mutex))
}

/// The link at which the chain of waits leaves the service, if the task at its end is another program's.
pub(crate) fn leaving_link<'a>(
    stall: &StallWindow<'a>,
    time: &SpentTime<'a>,
) -> Option<&'a WaitLink> {
    let service = stall.incident.service.as_ref()?;
    let request: &'a RequestTime<'a> = stall.request?;
    let is_of_service = |task: &PathTask| {
        let in_group = service.cgroup.as_deref().is_some_and(|cgroup| is_task_within(task, cgroup));
        let is_known = |pid| service.processes.iter().any(|process| process.pid == pid);
        in_group || is_known(task.process) || is_known(task.tid)
    };
    if is_of_service(&time.part.task) {
        return None;
    }
    let chain = &request.path.chain;
    chain.iter().rev().find(|link| is_of_service(&link.waiter) && !is_of_service(&link.other))
}
