//! Lines in which programs announce that they kill a process, or why they will.
//!
//! The lines are those of systemd (src/core/service.c, src/core/unit.c, src/core/scope.c), systemd-oomd
//! (src/oom/oomd-manager.c), earlyoom (kill.c), nohang, the kubelet (pkg/kubelet/eviction) and dockerd (daemon/stop.go).
//! The caller says which program wrote a line: its text proves nothing.

/// A program whose lines are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillingProgram {
    Systemd,
    SystemdOomd,
    Earlyoom,
    Nohang,
    Kubelet,
    ContainerRuntime,
}

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KillNotice {
    /// systemd-oomd killed all processes of a cgroup.
    CgroupKill { path: String, reason: OomdReason },
    /// A daemon sends a signal to a process.
    ProcessSignal { pid: u32, name: String, signal: u8, uid: Option<u32> },
    /// Available memory is below a limit of a daemon; it kills next.
    LowMemory,
    /// The kubelet evicts pods, because the node is short of this resource.
    Eviction { resource: String },
    /// The kubelet evicted a pod: `namespace/name`.
    PodEviction { pod: String },
    /// systemd ends a unit.
    Unit { unit: String, event: UnitEvent },
    /// systemd sends a signal to a process of a unit.
    UnitKill { unit: String, pid: u32, name: String, signal: u8, is_requested: bool },
    /// The kubelet ends a container of a pod.
    ContainerEnd { pod: String, container: String },
    /// A container did not stop in time.
    ContainerForce { container: String },
}

/// Reasons of systemd-oomd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OomdReason {
    /// Memory pressure of this cgroup.
    Pressure(String),
    SwapUse,
    Other,
}

/// Events of a unit that make systemd kill its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitEvent {
    StopTimeout,
    StartTimeout,
    Watchdog,
    RuntimeLimit,
    /// The OOM killer killed a process of it.
    OomKill,
}

/// Reads a line of a program.
pub fn kill_notice(program: KillingProgram, message: &str) -> Option<KillNotice> {
    let message = message.trim();
    match program {
        KillingProgram::SystemdOomd => {
            let (path, reason) = oomd_kill(message)?;
            Some(KillNotice::CgroupKill { path: path.to_owned(), reason: oomd_reason(reason) })
        }
        KillingProgram::Earlyoom => earlyoom(message),
        KillingProgram::Nohang => {
            let is_low = message.starts_with("Memory status that requires corrective actions");
            is_low.then_some(KillNotice::LowMemory)
        }
        KillingProgram::Kubelet => kubelet(message),
        KillingProgram::Systemd => systemd(message),
        KillingProgram::ContainerRuntime => container(message),
    }
}

/// `Killed /a.slice/b.service due to memory pressure for /a.slice being 70.10% > 60.00% for > 20s with reclaim activity`:
/// the cgroup and the reason. Where a prekill hook may run first, it is `Marked … for killing due to …`.
pub(crate) fn oomd_kill(message: &str) -> Option<(&str, &str)> {
    let (rest, middle) = match message.strip_prefix("Killed ") {
        Some(rest) => (rest, " due to "),
        None => (message.strip_prefix("Marked ")?, " for killing due to "),
    };
    rest.split_once(middle)
}

/// The cgroup whose pressure was the reason.
pub(crate) fn pressed_cgroup(reason: &str) -> Option<&str> {
    Some(reason.strip_prefix("memory pressure for ")?.split_once(" being ")?.0)
}

fn oomd_reason(reason: &str) -> OomdReason {
    if let Some(path) = pressed_cgroup(reason) {
        return OomdReason::Pressure(path.to_owned());
    }
    match reason.starts_with("memory used ") && reason.contains(" swap used ") {
        true => OomdReason::SwapUse,
        false => OomdReason::Other,
    }
}

/// `sending SIGTERM to process 7 uid 0 "web": badness 8, VmRSS 1 MiB`, `low memory! at or below SIGTERM limits: …`.
fn earlyoom(message: &str) -> Option<KillNotice> {
    if message.starts_with("low memory! ") {
        return Some(KillNotice::LowMemory);
    }
    let (signal, rest) = message.strip_prefix("sending ")?.split_once(" to process ")?;
    let (pid, rest) = rest.split_once(" uid ")?;
    let (uid, rest) = rest.split_once(" \"")?;
    // The name may have quotes; from 1.8 on the command line follows, which may have anything.
    let end = ["\": badness ", "\": oom_score "].iter().filter_map(|end| rest.find(end)).min()?;
    Some(KillNotice::ProcessSignal {
        pid: pid.parse().ok()?,
        name: rest.get(..end)?.to_owned(),
        signal: signal_number(signal)?,
        uid: uid.parse().ok(),
    })
}

/// `"Killing container with a grace period" pod="default/web-1" podUID="…" containerID="containerd://0f…"`,
/// `"Eviction manager: must evict pod(s) to reclaim" resourceName="memory"`,
/// `"Eviction manager: pod is evicted successfully" pod="default/web-1"`.
fn kubelet(message: &str) -> Option<KillNotice> {
    let lower = message.to_ascii_lowercase();
    if let Some(at) = lower.find("must evict pod(s) to reclaim") {
        let rest = message.get(at..)?;
        let named = rest.split_once("resourceName=\"").and_then(|(_, rest)| rest.split('"').next());
        let resource = named.or_else(|| rest.split_whitespace().nth(5))?;
        return Some(KillNotice::Eviction { resource: resource.to_owned() });
    }
    if lower.contains("killing container with a grace period") {
        let value = |key: &str| message.split_once(key)?.1.split('"').next();
        let (pod, id) = (value(" pod=\"")?, value(" containerID=\"")?);
        let id = id.rsplit_once("://").map_or(id, |(_, id)| id);
        let (pod, container) = (pod.to_owned(), container_id(id)?.to_owned());
        return Some(KillNotice::ContainerEnd { pod, container });
    }
    let pod = evicted_pod(message)?;
    pod.contains('/').then(|| KillNotice::PodEviction { pod: pod.to_owned() })
}

/// The pod of a line that it was evicted.
pub(crate) fn evicted_pod(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("evicted successfully")?;
    Some(rest.split('"').find(|part| part.contains('/')).unwrap_or_else(|| rest.trim()))
}

/// `db.service: State 'stop-sigterm' timed out. Killing.`, `db.service: Killing process 7 (postgres) with signal SIGKILL.`
fn systemd(message: &str) -> Option<KillNotice> {
    let (unit, rest) = message.split_once(": ")?;
    if unit.contains(char::is_whitespace) || !unit.contains('.') {
        return None;
    }
    if let Some(kill) = unit_kill(unit, rest) {
        return Some(kill);
    }
    let is_stop = rest.starts_with("State 'stop-")
        || rest.starts_with("State 'final-")
        || rest.starts_with("Stopping timed out");
    let event = if is_stop && rest.contains("timed out") {
        UnitEvent::StopTimeout
    } else if rest.starts_with("start") && rest.contains("operation timed out") {
        UnitEvent::StartTimeout
    } else if rest.starts_with("Watchdog timeout") {
        UnitEvent::Watchdog
    } else if rest.contains("reached runtime time limit") {
        UnitEvent::RuntimeLimit
    } else if rest.starts_with("A process of this unit has been killed by the OOM killer") {
        UnitEvent::OomKill
    } else {
        return None;
    };
    Some(KillNotice::Unit { unit: unit.to_owned(), event })
}

/// `Killing process 7 (postgres) with signal SIGKILL.`, and from 252 on
/// `Sent signal SIGKILL to main process 7 (postgres) on client request.`
fn unit_kill(unit: &str, rest: &str) -> Option<KillNotice> {
    let (signal, process, is_requested) = match rest.strip_prefix("Killing process ") {
        Some(rest) => {
            let (process, signal) = rest.rsplit_once(" with signal ")?;
            (signal, process, false)
        }
        None => {
            let rest = rest.strip_prefix("Sent signal ")?.strip_suffix(" on client request.")?;
            let (signal, rest) = rest.split_once(" to ")?;
            (signal, rest.split_once("process ")?.1, true)
        }
    };
    let (pid, name) = process.split_once(" (")?;
    Some(KillNotice::UnitKill {
        unit: unit.to_owned(),
        pid: pid.parse().ok()?,
        name: name.strip_suffix(')')?.to_owned(),
        signal: signal_number(signal.trim_end_matches('.'))?,
        is_requested,
    })
}

/// `level=info msg="Container failed to exit within 10s of signal 15 - using the force" container=0f…`.
fn container(message: &str) -> Option<KillNotice> {
    let is_forced = message.contains("ontainer failed to exit within ")
        && (message.contains("using the force") || message.contains("trying direct SIGKILL"));
    let id = message.split_once("container=").filter(|_| is_forced)?.1;
    let container = container_id(id.trim_start_matches('"'))?.to_owned();
    Some(KillNotice::ContainerForce { container })
}

/// The number of a container that a text begins with.
fn container_id(text: &str) -> Option<&str> {
    let id = text.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    (id.len() >= MIN_CONTAINER_ID).then_some(id)
}

/// The shortest number of a container that is written.
const MIN_CONTAINER_ID: usize = 12;

fn signal_number(name: &str) -> Option<u8> {
    match name {
        "SIGKILL" => Some(9),
        "SIGTERM" => Some(15),
        "SIGABRT" => Some(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use KillingProgram::{ContainerRuntime, Earlyoom, Kubelet, Nohang, Systemd, SystemdOomd};

    #[track_caller]
    fn check(program: KillingProgram, message: &str, notice: Option<KillNotice>) {
        assert_eq!(kill_notice(program, message), notice, "{message}");
    }

    fn unit(event: UnitEvent) -> Option<KillNotice> {
        Some(KillNotice::Unit { unit: "db.service".to_owned(), event })
    }

    #[test]
    fn daemons_of_memory() {
        let oomd = |reason| {
            Some(KillNotice::CgroupKill { path: "/user.slice/a.scope".to_owned(), reason })
        };
        let pressure = "Killed /user.slice/a.scope due to memory pressure for /user.slice being 70.24% > 50.00% \
                        for > 20s with reclaim activity";
        check(SystemdOomd, pressure, oomd(OomdReason::Pressure("/user.slice".to_owned())));
        let swap = "Killed /user.slice/a.scope due to memory used (8123457536) / total (8242307072) and swap used \
                    (3865468928) / total (4294963200) being more than 90.00%";
        check(SystemdOomd, swap, oomd(OomdReason::SwapUse));
        let marked =
            pressure.replace("Killed ", "Marked ").replace(" due to", " for killing due to");
        check(SystemdOomd, &marked, oomd(OomdReason::Pressure("/user.slice".to_owned())));
        check(SystemdOomd, "Considered 62 cgroups for killing, top candidates were:", None);
        let signal = |pid, name: &str, signal| {
            let name = name.to_owned();
            Some(KillNotice::ProcessSignal { pid, name, signal, uid: Some(1000) })
        };
        let old =
            "sending SIGTERM to process 1985588 uid 1000 \"(sd-pam)\": badness 733, VmRSS 3 MiB";
        check(Earlyoom, old, signal(1_985_588, "(sd-pam)", 15));
        let new = "sending SIGKILL to process 7 uid 1000 \"a\": b\": oom_score 9, VmRSS 6 MiB, cmdline \"x\": badness 1\"";
        check(Earlyoom, new, signal(7, "a\": b", 9));
        check(
            Earlyoom,
            "low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%",
            Some(KillNotice::LowMemory),
        );
        check(Earlyoom, "mem avail:  1234 of  7861 MiB (15.70%)", None);
        check(
            Nohang,
            "Memory status that requires corrective actions:\n  MemAvailable [1 MiB, 0.1 %] <= hard_threshold_min_mem",
            Some(KillNotice::LowMemory),
        );
    }

    #[test]
    fn units_of_systemd() {
        check(
            Systemd,
            "db.service: State 'stop-sigterm' timed out. Killing.",
            unit(UnitEvent::StopTimeout),
        );
        check(Systemd, "db.service: Stopping timed out. Killing.", unit(UnitEvent::StopTimeout));
        check(
            Systemd,
            "db.service: start operation timed out. Terminating.",
            unit(UnitEvent::StartTimeout),
        );
        check(Systemd, "db.service: Watchdog timeout (limit 30s)!", unit(UnitEvent::Watchdog));
        check(
            Systemd,
            "db.service: Service reached runtime time limit. Stopping.",
            unit(UnitEvent::RuntimeLimit),
        );
        check(
            Systemd,
            "db.service: A process of this unit has been killed by the OOM killer.",
            unit(UnitEvent::OomKill),
        );
        let kill = |name: &str, signal, is_requested| {
            let (unit, name) = ("db.service".to_owned(), name.to_owned());
            Some(KillNotice::UnitKill { unit, pid: 812, name, signal, is_requested })
        };
        check(
            Systemd,
            "db.service: Killing process 812 (a) (b) with signal SIGKILL.",
            kill("a) (b", 9, false),
        );
        let requested =
            "db.service: Sent signal SIGTERM to main process 812 (postgres) on client request.";
        check(Systemd, requested, kill("postgres", 15, true));
        check(Systemd, "Stopping db.service - Database: timed out", None);
        check(Systemd, "db.service: Main process exited, code=killed, status=9/KILL", None);
    }

    #[test]
    fn containers_and_pods() {
        let force = "time=\"2026-11-28T01:00:00Z\" level=info msg=\"Container failed to exit within 10s of signal 15 - \
                     using the force\" container=0f9e8d7c6b5a4f3e2d1c error=\"context deadline exceeded\"";
        let container = "0f9e8d7c6b5a4f3e2d1c".to_owned();
        check(ContainerRuntime, force, Some(KillNotice::ContainerForce { container }));
        check(
            ContainerRuntime,
            "level=info msg=\"ignoring event\" container=0f9e8d7c6b5a4f3e2d1c",
            None,
        );
        let line = "\"Killing container with a grace period\" pod=\"default/web-1\" podUID=\"1-2\" containerName=\"web\" \
                    containerID=\"containerd://0f9e8d7c6b5a4f3e2d1c\" gracePeriod=30";
        let (pod, container) = ("default/web-1".to_owned(), "0f9e8d7c6b5a4f3e2d1c".to_owned());
        check(Kubelet, line, Some(KillNotice::ContainerEnd { pod, container }));
        let resource = "memory".to_owned();
        let eviction = Some(KillNotice::Eviction { resource });
        let line = "I0102 eviction_manager.go:350] \"Eviction manager: must evict pod(s) to reclaim\" resourceName=\"memory\"";
        check(Kubelet, line, eviction.clone());
        check(Kubelet, "eviction manager: must evict pod(s) to reclaim memory", eviction);
        let pod = "default/mysql".to_owned();
        let line = "\"Eviction manager: pod is evicted successfully\" pod=\"default/mysql\"";
        check(Kubelet, line, Some(KillNotice::PodEviction { pod }));
    }
}
