//! Words and commands for the tasks and cgroups that a finding names.

use crate::stall_window::StallWindow;
use mw_critical_path::PathTask;
use mw_model::visible::shell_word;
use mw_model::{PartyKind, Remedy, Step, TriggerKind, cgroup_owner};

/// A task of a path for a headline. The recorder's own threads wait as others do, and are nobody's service.
pub(crate) fn named(stall: &StallWindow<'_>, task: &PathTask) -> String {
    if stall.is_recorder(task) {
        let asked = stall.incident.path.as_ref().map(|path| path.task.tid);
        let who = match stall.incident.trigger.kind {
            _ if asked != Some(task.tid) => "a thread of memwright's own",
            TriggerKind::Probe => "the probe",
            _ => "the canary",
        };
        return who.to_owned();
    }
    task.label()
}

pub(crate) fn manual(summary: &str, command: &str) -> Remedy {
    Remedy::named(summary, vec![Step::manual(command)])
}

/// The remedy of a task that has to be looked into.
pub(crate) fn see(task: &PathTask) -> Remedy {
    manual("see what the program does", &why(task))
}

/// The command that explains what a task does; the number of one outside of this PID namespace is another's here.
pub(crate) fn why(task: &PathTask) -> String {
    match task.pid() {
        Some(pid) => format!("memwright why --pid {pid}"),
        None => {
            "memwright why --pid PID    # on the host: it is outside this PID namespace".to_owned()
        }
    }
}

/// The systemd unit of the service as a word of a command, or `UNIT` where none is known.
pub(crate) fn unit_of_service(stall: &StallWindow<'_>) -> String {
    let service = stall.incident.service.as_ref();
    let unit = service.and_then(|service| service.unit.as_deref()).and_then(shell_word);
    unit.or_else(|| unit_of(stall.own_group()?)).unwrap_or_else(|| UNKNOWN_UNIT.to_owned())
}

/// The like of a cgroup.
pub(crate) fn unit_of_cgroup(path: Option<&str>) -> String {
    path.and_then(unit_of).unwrap_or_else(|| UNKNOWN_UNIT.to_owned())
}

const UNKNOWN_UNIT: &str = "UNIT";

/// A unit of a user's own manager is none that the system's manager knows.
pub(crate) fn unit_of(path: &str) -> Option<String> {
    let owner = cgroup_owner(path);
    let is_of_system = owner.kind == PartyKind::Unit && !owner.name.contains(' ');
    is_of_system.then(|| shell_word(&owner.name)).flatten()
}
