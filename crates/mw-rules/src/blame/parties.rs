//! The victim of a stall, and the parties that tasks, processes and cgroups belong to.

use crate::disk_writers::server;
use crate::forced_work::writer;
use crate::stall_window::StallWindow;
use mw_critical_path::PathTask;
use mw_model::{
    BlameParty, KillParty, PartyKind, ServiceProcess, TriggerKind, cgroup_owner, is_cgroup_within,
};

const ROOT: &str = "/";

/// The parties of a stall.
pub(super) struct Parties<'a> {
    pub(super) stall: &'a StallWindow<'a>,
    pub(super) victim: BlameParty,
    /// The victim's cgroup: what is in it or below is its own.
    own_root: Option<&'a str>,
}

impl<'a> Parties<'a> {
    pub(super) fn new(stall: &'a StallWindow<'a>) -> Self {
        let victim = victim(stall);
        let own_root = victim_cgroup(stall).map(|path| cgroup_owner(path).root);
        Self { stall, victim, own_root }
    }

    /// The party whose limit was met: the victim itself, or the cgroup above it or elsewhere that has the limit.
    pub(super) fn at_limit(&self, path: &str) -> BlameParty {
        if self.is_own_cgroup(path) { self.victim.clone() } else { BlameParty::of_cgroup(path) }
    }

    /// The culprit that a task stands for; `None` for a thread of the recorder, or a task of the victim.
    pub(super) fn of_task(&self, task: &PathTask) -> Option<BlameParty> {
        if self.stall.is_recorder(task) {
            return None;
        }
        let name = task.process_name.as_ref().unwrap_or(&task.name);
        let pid = task.pid();
        // The evidence of the stall was taken earlier than the path: a task may have ended since.
        let known = pid.and_then(|pid| self.stall.incident.cgroups.get(&pid));
        let paths = task.cgroup.iter().chain(&task.other_cgroups).chain(known);
        let mut paths = paths.map(String::as_str);
        self.accused(pid, name, paths.find(|path| *path != ROOT))
    }

    /// The culprit that a process stands for, as [`Self::of_task`].
    pub(super) fn of_process(&self, pid: u32, name: &str) -> Option<BlameParty> {
        let incident = self.stall.incident;
        if pid != 0 && pid == incident.recorder {
            return None;
        }
        let process = ServiceProcess { pid, name: name.to_owned() };
        let writer = writer(incident, &process);
        let of_writer = || writer.and_then(|writer| writer.cgroup.as_deref());
        let path = incident.cgroups.get(&pid).map(String::as_str).or_else(of_writer);
        let party =
            self.accused((pid != 0).then_some(pid), name, path.filter(|path| *path != ROOT))?;
        let unit = writer.and_then(|writer| writer.unit.as_deref());
        match unit.filter(|_| matches!(party.kind, PartyKind::Cgroup | PartyKind::Process)) {
            Some(unit) => {
                let of_unit = BlameParty { name: unit.to_owned(), kind: PartyKind::Unit, ..party };
                (!of_unit.is_same(&self.victim)).then_some(of_unit)
            }
            None => Some(party),
        }
    }

    /// The culprit that a cgroup is; `None` for one of the victim.
    pub(super) fn of_cgroup(&self, path: &str) -> Option<BlameParty> {
        let is_other = path != ROOT && !self.is_own_cgroup(path);
        let party = is_other.then(|| BlameParty::of_cgroup(path))?;
        (!party.is_same(&self.victim)).then_some(party)
    }

    /// The culprit that sent a signal.
    pub(super) fn of_sender(&self, sender: &KillParty) -> Option<BlameParty> {
        let process = &sender.process;
        let path = sender.cgroup.as_deref().filter(|path| *path != ROOT);
        self.accused(Some(process.pid).filter(|pid| *pid != 0), &process.name, path)
    }

    fn accused(&self, pid: Option<u32>, name: &str, path: Option<&str>) -> Option<BlameParty> {
        if pid.is_some_and(|pid| self.is_own_process(pid)) {
            return None;
        }
        let party = match path {
            Some(path) => self.of_cgroup(path)?,
            None if name.is_empty() => return None,
            None => BlameParty::named(PartyKind::Process, name),
        };
        (!party.is_same(&self.victim)).then(|| party.with_process(pid.unwrap_or(0), name))
    }

    fn is_own_cgroup(&self, path: &str) -> bool {
        self.own_root.is_some_and(|root| is_cgroup_within(path, root))
    }

    fn is_own_process(&self, pid: u32) -> bool {
        let service = self.stall.incident.service.iter();
        service.flat_map(|service| &service.processes).any(|process| process.pid == pid)
    }
}

/// The cgroup of the probed service, or of the task that the path shows in its place.
fn victim_cgroup<'a>(stall: &StallWindow<'a>) -> Option<&'a str> {
    if stall.incident.trigger.kind != TriggerKind::Probe {
        return None;
    }
    let of_server = || server(stall).and_then(|task| task.cgroup.as_deref());
    stall.own_group().or_else(of_server)
}

/// The victim: of a probe the service, else the machine.
fn victim(stall: &StallWindow<'_>) -> BlameParty {
    let incident = stall.incident;
    if incident.trigger.kind != TriggerKind::Probe {
        return BlameParty::of_kind(PartyKind::Machine);
    }
    let process = incident.service.as_ref().and_then(|service| service.processes.first());
    let with_process = |party: BlameParty| match process {
        Some(process) => party.with_process(process.pid, &process.name),
        None => party,
    };
    let path = victim_cgroup(stall);
    let unit = incident.service.as_ref().and_then(|service| service.unit.as_deref());
    match (path.map(BlameParty::of_cgroup), unit, process) {
        // On version 1 the unit is in a hierarchy of its own.
        (Some(party), Some(unit), _) if party.kind == PartyKind::Cgroup => {
            let named = BlameParty::named(PartyKind::Unit, unit);
            with_process(BlameParty { cgroup: party.cgroup, user: party.user, ..named })
        }
        (Some(party), ..) => with_process(party),
        (None, Some(unit), _) => with_process(BlameParty::named(PartyKind::Unit, unit)),
        (None, None, Some(process)) => {
            with_process(BlameParty::named(PartyKind::Process, &process.name))
        }
        (None, None, None) => BlameParty::named(PartyKind::Probe, &incident.trigger.name),
    }
}
