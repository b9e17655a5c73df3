//! Kills in words. Foreign text is as it was read.

use super::{FatalSignal, KillParty, KillReason, Killer, ProcessKill};
use crate::{OomShortage, ServiceProcess, cgroup_name};

impl ProcessKill {
    /// `postgres (pid 812) was killed by systemd-oomd at 03:12:07: memory pressure of user.slice was above its limit`.
    #[must_use]
    pub fn sentence(&self, time: &str) -> String {
        let verb = match self.signal {
            FatalSignal::Kill => "killed",
            FatalSignal::Term => "sent SIGTERM",
            FatalSignal::Abort => "sent SIGABRT",
        };
        let reason = match self.reason_text() {
            Some(reason) => format!(": {reason}"),
            None if self.is_explained() => String::new(),
            None => ": reason unknown".to_owned(),
        };
        format!("{} was {verb} by {} at {time}{reason}", self.victim, self.killer_text())
    }

    /// The same of a headline: `systemd-oomd killed postgres (812): memory pressure of user.slice was above its limit`.
    #[must_use]
    pub fn headline(&self) -> String {
        let verb = match self.signal {
            FatalSignal::Kill => "killed",
            FatalSignal::Term => "sent SIGTERM to",
            FatalSignal::Abort => "sent SIGABRT to",
        };
        let ServiceProcess { pid, name } = &self.victim.process;
        let reason = self.reason_text().map_or(String::new(), |reason| format!(": {reason}"));
        format!("{} {verb} {name} ({pid}){reason}", self.killer_text())
    }

    /// A process needs no reason to send a signal.
    fn is_explained(&self) -> bool {
        self.killer == Killer::Process
    }

    /// `systemd-oomd`, `bash (pid 77, user 1000, session-3.scope)`.
    #[must_use]
    pub fn killer_text(&self) -> String {
        match (&self.killer, &self.sender) {
            (Killer::OomKiller, _) => "the kernel's OOM killer".to_owned(),
            (Killer::OomDaemon(name), _) => name.clone(),
            (Killer::Kubelet, _) => "the kubelet".to_owned(),
            (Killer::Systemd, Some(sender)) if sender.process.pid > 1 => {
                sender.uid.map_or("systemd".to_owned(), |uid| format!("systemd of user {uid}"))
            }
            (Killer::Systemd, _) => "systemd".to_owned(),
            (Killer::ContainerRuntime(name), Some(sender)) => match &sender.unit {
                Some(unit) => format!("{name} of {unit}"),
                None => name.clone(),
            },
            (Killer::ContainerRuntime(name), None) => name.clone(),
            (Killer::Kernel, _) => "the kernel".to_owned(),
            (Killer::Process, Some(sender)) => sender.described(),
            (Killer::Unknown, Some(sender)) if sender.process.pid > 0 => {
                format!("pid {}, which ended before it could be read", sender.process.pid)
            }
            (Killer::Process | Killer::Unknown, _) => "an unknown sender".to_owned(),
        }
    }

    /// The reason, where there is evidence of one.
    #[must_use]
    pub fn reason_text(&self) -> Option<String> {
        let name = |path: &String| shown_cgroup(path);
        Some(match &self.reason {
            KillReason::OutOfMemory(shortage) => shortage_text(shortage),
            KillReason::MemoryPressure(path) => {
                format!("memory pressure of {} was above its limit", name(path))
            }
            KillReason::SwapUse => "swap and memory were used up to its limit".to_owned(),
            KillReason::LowMemory => "available memory was below its limit".to_owned(),
            KillReason::Eviction(resource) => {
                format!("it evicted the pod, because the node was short of {resource}")
            }
            KillReason::OomPolicy(unit) => {
                format!("the OOM killer had killed a process of {unit} (OOMPolicy=)")
            }
            KillReason::StopTimeout(unit) => format!("{unit} did not stop in time"),
            KillReason::StartTimeout(unit) => format!("{unit} did not start in time"),
            KillReason::Watchdog(unit) => format!("{unit} did not report to its watchdog in time"),
            KillReason::RuntimeLimit(unit) => format!("{unit} ran for as long as it may"),
            KillReason::UnitEnded(unit) => format!("{unit} was ended"),
            KillReason::ClientRequest(unit) => {
                format!("somebody asked for it (systemctl kill {unit})")
            }
            KillReason::ContainerStopTimeout => "the container did not stop in time".to_owned(),
            KillReason::ContainerRequest => {
                "somebody asked for it (docker kill, docker rm -f, the end of a pod)".to_owned()
            }
            KillReason::CpuTimeLimit(seconds) => {
                format!("it had used {seconds} s of CPU time, as much as it may (RLIMIT_CPU)")
            }
            KillReason::NamespaceEnded => {
                "the first process of its PID namespace had ended".to_owned()
            }
            KillReason::Unknown => return None,
        })
    }
}

impl KillParty {
    /// `bash (pid 77, user 1000, session-3.scope)`.
    fn described(&self) -> String {
        let mut facts = Vec::new();
        if self.process.pid > 0 {
            facts.push(format!("pid {}", self.process.pid));
        }
        facts.extend(self.uid.map(|uid| match uid {
            0 => "root".to_owned(),
            uid => format!("user {uid}"),
        }));
        let cgroup = self.cgroup.as_ref().filter(|path| *path != "/");
        facts.extend(self.unit.clone().or_else(|| cgroup.map(|path| shown_cgroup(path))));
        let name = if self.process.name.is_empty() { "a process" } else { &self.process.name };
        match facts.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({})", facts.join(", ")),
        }
    }
}

/// Slices by their names, other cgroups as [`cgroup_name`] has them.
fn shown_cgroup(path: &str) -> String {
    let last = path.rsplit('/').find(|part| !part.is_empty());
    match last.filter(|last| last.ends_with(".slice")) {
        Some(slice) => slice.to_owned(),
        None if path == "/" => "the machine".to_owned(),
        None => cgroup_name(path),
    }
}

fn shortage_text(shortage: &OomShortage) -> String {
    match shortage {
        OomShortage::Machine => "the machine had no memory left".to_owned(),
        OomShortage::Cpuset => "the NUMA nodes of its cpuset had no memory left".to_owned(),
        OomShortage::MemoryPolicy => {
            "the NUMA nodes of a memory policy had no memory left".to_owned()
        }
        OomShortage::Cgroup(Some(path)) => {
            format!("{} was at its memory limit", shown_cgroup(path))
        }
        OomShortage::Cgroup(None) => "a cgroup was at its memory limit".to_owned(),
        OomShortage::Unknown => "no memory was left".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(pid: u32, name: &str) -> KillParty {
        let process = ServiceProcess { pid, name: name.to_owned() };
        KillParty { process, ..KillParty::default() }
    }

    #[track_caller]
    fn check(killer: Killer, reason: KillReason, sender: Option<KillParty>, sentence: &str) {
        let victim = party(812, "postgres");
        let kill = ProcessKill { victim, killer, reason, sender, ..ProcessKill::default() };
        assert_eq!(
            kill.sentence("03:12:07"),
            format!("postgres (pid 812) was killed by {sentence}")
        );
    }

    /// Promise (Kills): A kill is one sentence: the process, the killer, the time and the reason.
    #[test]
    fn a_kill_is_a_sentence() {
        let oomd = || Killer::OomDaemon("systemd-oomd".to_owned());
        check(
            oomd(),
            KillReason::MemoryPressure("/user.slice".to_owned()),
            None,
            "systemd-oomd at 03:12:07: memory pressure of user.slice was above its limit",
        );
        check(oomd(), KillReason::Unknown, None, "systemd-oomd at 03:12:07: reason unknown");
        check(
            Killer::OomKiller,
            KillReason::OutOfMemory(OomShortage::Cgroup(Some(
                "/system.slice/db.service".to_owned(),
            ))),
            Some(party(9, "sh")),
            "the kernel's OOM killer at 03:12:07: db.service was at its memory limit",
        );
        let bash = KillParty {
            uid: Some(1000),
            unit: Some("session-3.scope".to_owned()),
            ..party(77, "bash")
        };
        check(
            Killer::Process,
            KillReason::Unknown,
            Some(bash),
            "bash (pid 77, user 1000, session-3.scope) at 03:12:07",
        );
        check(
            Killer::Unknown,
            KillReason::Unknown,
            Some(party(77, "")),
            "pid 77, which ended before it could be read at 03:12:07: reason unknown",
        );
        check(Killer::Kernel, KillReason::Unknown, None, "the kernel at 03:12:07: reason unknown");
        let kill = ProcessKill {
            signal: FatalSignal::Abort,
            killer: Killer::Systemd,
            ..ProcessKill::default()
        };
        assert_eq!(
            kill.sentence("1:02"),
            "a process was sent SIGABRT by systemd at 1:02: reason unknown"
        );
    }

    #[test]
    fn only_memory_is_of_memory() {
        for (reason, is_of_memory) in [
            (KillReason::LowMemory, true),
            (KillReason::OomPolicy("db.service".to_owned()), true),
            (KillReason::Eviction("memory".to_owned()), true),
            (KillReason::Eviction("ephemeral-storage".to_owned()), false),
            (KillReason::StopTimeout("db.service".to_owned()), false),
            (KillReason::CpuTimeLimit(1), false),
            (KillReason::Unknown, false),
        ] {
            assert_eq!(reason.is_of_memory(), is_of_memory, "{reason:?}");
        }
        let killer = Killer::OomDaemon("earlyoom".to_owned());
        assert!(ProcessKill { killer, ..ProcessKill::default() }.is_of_memory());
    }
}
