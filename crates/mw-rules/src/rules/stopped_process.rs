//! # stopped-process
//!
//! A signal or a debugger stopped a process of the service.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. A task of the critical path was stopped (state T, or t by a debugger);
//! where the path does not show what the service did, or there is none, a process that was found stopped during the
//! stall. Memory was not the cause.
//!
//! ## Why it hurts
//! A stopped process does not run until it is continued. Its connections stay open, and clients wait for their own time
//! limits.
//!
//! ## What it looks like
//! `ps -o stat` has T or t for the process. The machine is idle.
//!
//! ## How to fix it
//! Continue it (`kill -CONT PID`), or detach the debugger that traces it (`grep TracerPid /proc/PID/status`).
//!
//! ## Threshold
//! It takes at least half of the request. If four fifths of the request are unknown, or idle, a process that was
//! stopped in half of the samples explains them; one that is not of the probed service only if no peer is known that the
//! task waited for (`network-wait`). Without a critical path, the score is 95 for a process of the probed
//! service and 80 for another one.
//!
//! ## References
//! signal(7), SIGSTOP; proc_pid_stat(5); ptrace(2).

use crate::awaited_peer;
use crate::path_words::manual;
use crate::request::RequestTime;
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{TimeClass, kernel};
use mw_model::{Area, BlockedTask, Finding, Missing, Quantity, Severity};
use std::cmp::Reverse;

/// Share of the samples that found a process stopped.
const STOPPED_PERCENT: f64 = 50.0;

/// Fallback if most of the request is not known, because it was not answered and no service was found: a process that
/// was stopped meanwhile explains it.
const UNSEEN: &[TimeClass] = &[TimeClass::Unknown, TimeClass::Idle, TimeClass::TimeLimit];
const UNSEEN_PERCENT: f64 = 80.0;

pub(crate) const STOPPED: &[TimeClass] = &[TimeClass::Stopped];

const IMPACT: &str = "A stopped process does not answer; its connections stay open.";

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(match stall.request {
        Some(request) => behind_unseen(stall, request).or_else(|| by_path(request)),
        None => of_samples(stall).map(|(_, stopped)| stopped),
    })
}

/// The stopped process that explains a request of which next to nothing is known.
pub(crate) fn behind_unseen(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    let unseen = request.percent(UNSEEN);
    let (is_probed, stopped) = of_samples(stall).filter(|_| unseen >= UNSEEN_PERCENT)?;
    let is_it = is_probed || !awaited_peer::explains_most(stall, request);
    is_it.then(|| stopped.explaining(unseen))
}

fn by_path(request: &RequestTime<'_>) -> Option<Suspect> {
    let time = SpentTime::on(request, STOPPED)?;
    let task = &time.part.task;
    // The number of a task outside of this PID namespace is that of another one here.
    let pid = task.pid().map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let (by, remedy) = if kernel::TRACED_STOP.are_in(&time.part.stack) {
        let command = format!("grep TracerPid /proc/{pid}/status");
        (" by a debugger", manual("detach the debugger that traces it", &command))
    } else {
        ("", manual("continue the process", &format!("kill -CONT {pid}")))
    };
    let headline = format!("{} was stopped{by}", task.label());
    let finding = Finding::new(Severity::Critical, Area::StoppedProcess, headline)
        .with_impact(IMPACT)
        .with_remedy(remedy);
    Some(time.cause(finding, CONFIRMED))
}

/// A process that was found stopped in most samples of the stall, and true if it is of the probed service.
fn of_samples(stall: &StallWindow<'_>) -> Option<(bool, Suspect)> {
    const OF_THE_SERVICE: f64 = 95.0;
    const OF_ANOTHER: f64 = 80.0;
    let tasks = stall.incident.blocked.iter().filter(|task| "Tt".contains(task.state));
    let long = tasks.filter(|task| task.seen_percent() >= STOPPED_PERCENT);
    // Of a process's threads the first has its name.
    let first = |task: &&BlockedTask| (stall.is_probed(&task.task), task.seen, Reverse(task.pid));
    let task = long.max_by_key(first)?;
    let is_probed = stall.is_probed(&task.task);
    let (sure, perhaps) = match is_probed {
        true => (OF_THE_SERVICE, ""),
        false => (OF_ANOTHER, ", perhaps the service"),
    };
    let headline = format!("{} ({}) was stopped{perhaps}", task.task, task.pid);
    let finding = Finding::new(Severity::Critical, Area::StoppedProcess, headline)
        .with_evidence(
            format!("{} in state {}", task.task, task.state),
            Quantity::Percent(task.seen_percent()),
            format!("/proc/{}/stat", task.pid),
        )
        .with_impact(IMPACT)
        .with_remedy(manual("continue the process", &format!("kill -CONT {}", task.pid)));
    Some((is_probed, Suspect::of_score(finding, sure)))
}
