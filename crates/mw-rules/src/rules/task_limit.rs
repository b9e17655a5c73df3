//! # task-limit
//!
//! The service reached a limit of tasks, and could not fork.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The service failed at once and said that fork(2) failed with EAGAIN, which
//! the kernel returns at a limit of tasks alone: pids.max of the cgroup, RLIMIT_NPROC of the user, kernel.threads-max or
//! kernel.pid_max. A thread that could not be started is not taken for it, since the C library also returns EAGAIN where
//! memory is missing. Memory was not the cause.
//!
//! ## Why it hurts
//! A server that starts a process for each connection, as PostgreSQL does, refuses all new ones.
//!
//! ## What it looks like
//! `fork: Resource temporarily unavailable`; the kernel's log has `fork rejected by pids controller in CGROUP`.
//!
//! ## How to fix it
//! Compare `TasksCurrent` with `TasksMax` (`systemctl show UNIT -p TasksCurrent,TasksMax`) and raise it: `systemctl
//! set-property UNIT TasksMax=8192`; or find out what starts so many.
//!
//! ## Threshold
//! The service said so itself; or pids.current of its cgroup, or of one above, is at pids.max during the stall, and the
//! service failed, or its request waited for nothing that the machine lacks.
//!
//! ## References
//! fork(2), EAGAIN; Linux, Documentation/admin-guide/cgroup-v2.rst, "PID"; systemd.resource-control(5), `TasksMax=`.

use crate::named_limit::{self, NamedLimit};
use crate::path_words::{manual, unit_of_service};
use crate::reached_limit;
use crate::rules::service_failure;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Quantity, ReachedLimitKind, Remedy, Severity, cgroup_name};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let is_refused = named_limit::named(stall) == Some(NamedLimit::Tasks);
    if !is_refused || service_failure::kind(stall).is_none() {
        return Ok(at_limit(stall));
    }
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let headline = "the service reached a limit of tasks: fork(2) failed";
    let finding = Finding::new(Severity::Critical, Area::Tasks, headline)
        .with_evidence("error of the service", Quantity::Text(said), "probe")
        .with_impact("No process is started; what needs one fails.")
        .with_remedy(remedy(stall));
    Ok(Some(Suspect::new(finding, service_failure::CERTAIN)))
}

/// By the count of the cgroup: a thread or process that could not be started is missed by requests, and nobody says so.
fn at_limit(stall: &StallWindow<'_>) -> Option<Suspect> {
    let reached = reached_limit::find(stall, &[ReachedLimitKind::Tasks])?;
    let headline =
        format!("{} has all of its {} tasks", cgroup_name(&reached.holder), reached.limit);
    let finding = Finding::new(Severity::Critical, Area::Tasks, headline)
        .with_evidence("tasks", Quantity::Count(reached.used), "pids.current")
        .with_evidence("limit", Quantity::Count(reached.limit), "pids.max")
        .with_impact("No process or thread is started; what needs one fails.")
        .with_remedy(remedy(stall));
    Some(reached_limit::suspect(stall, finding))
}

fn remedy(stall: &StallWindow<'_>) -> Remedy {
    let command = format!("systemctl show {} -p TasksCurrent,TasksMax", unit_of_service(stall));
    manual("raise TasksMax= of the unit, or find out what starts so many", &command)
}
