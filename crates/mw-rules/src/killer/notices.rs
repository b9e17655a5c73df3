//! Lines of programs that kill: the reason of a kill, and kills that only they tell of.

use super::daemons::{daemons, programs_of};
use mw_kernel_log::{KillNotice, KillingProgram, OomdReason, UnitEvent, kill_notice};
use mw_model::{
    FatalSignal, JournalLine, KillParty, KillReason, KillSource, Killer, ProcessKill,
    ServiceProcess, is_cgroup_within,
};

/// A line is of a kill that came so shortly before it: a killer may write when it is done.
const AFTER_MS: u64 = 5_000;
/// A line is of a kill that came so shortly after it: systemd's time between two signals is longer, but it writes again.
const BEFORE_MS: u64 = 15_000;
/// A pod may take so long to end until the kubelet writes that it is evicted.
const EVICTION_MS: u64 = 120_000;

/// Length limit of a line that is kept.
const MAX_TEXT_CHARS: usize = 300;

/// A line in which a program tells of a kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillLogLine {
    pub unix_ms: u64,
    pub program: KillingProgram,
    pub notice: KillNotice,
    pub text: String,
}

/// Words of lines that tell of kills, as extended regular expressions: of the kernel first.
pub const KILL_LOG_WORDS: [&str; 17] = [
    "Killed process",
    "invoked oom-killer",
    "oom-kill:",
    "^memory: usage",
    "memory.oom.group",
    "due to memory",
    "sending SIG",
    "low memory!",
    "corrective actions",
    "timed out",
    "Watchdog timeout",
    "runtime time limit",
    "killed by the OOM killer",
    "Killing process",
    "Sent signal",
    "evict|Killing container",
    "failed to exit within",
];

impl KillLogLine {
    /// Reads a line of the journal, of a unit of the system or of systemd's manager.
    pub fn parse(line: &JournalLine) -> Option<Self> {
        let programs = match line.unit.as_deref() {
            _ if line.is_of_manager => &[KillingProgram::Systemd],
            Some(unit) => programs_of(unit),
            None => &[],
        };
        let text = &line.message;
        let read = |program: &KillingProgram| Some((*program, kill_notice(*program, text)?));
        let (program, notice) = programs.iter().find_map(read)?;
        let text = text.chars().take(MAX_TEXT_CHARS).collect();
        Some(Self { unix_ms: line.unix_ms, program, notice, text })
    }

    /// True if it was written so shortly before a time, or after it.
    fn is_around(&self, unix_ms: u64, before_ms: u64, after_ms: u64) -> bool {
        let times = unix_ms.saturating_sub(before_ms)..=unix_ms.saturating_add(after_ms);
        times.contains(&self.unix_ms)
    }
}

/// Adds the reason of a kill that has none.
pub(super) fn add_reason(kill: &mut ProcessKill, lines: &[KillLogLine]) {
    let near = lines.iter().filter(|line| line.is_around(kill.unix_ms, BEFORE_MS, AFTER_MS));
    let near: Vec<&KillLogLine> = near.collect();
    let found = match &kill.killer {
        Killer::OomDaemon(daemon) => daemons_reason(kill, daemon, &near),
        Killer::Systemd => systemds_reason(kill, &near),
        Killer::ContainerRuntime(_) => {
            let found = containers_reason(kill, lines);
            if let Some((killer, ..)) = &found {
                kill.killer = killer.clone();
            }
            let (reason, line) = found
                .map_or((KillReason::ContainerRequest, None), |(_, reason, line)| {
                    (reason, Some(line))
                });
            (kill.reason, kill.line) = (reason, line);
            return;
        }
        _ => None,
    };
    if let Some((reason, line)) = found {
        (kill.reason, kill.line) = (reason, Some(line));
    }
}

fn daemons_reason(
    kill: &ProcessKill,
    daemon: &str,
    lines: &[&KillLogLine],
) -> Option<(KillReason, String)> {
    let (_, program) = daemons().find(|(name, _)| *name == daemon)?;
    let mut of_daemon = lines.iter().rev().filter(|line| line.program == program);
    of_daemon.find_map(|line| {
        let reason = match &line.notice {
            KillNotice::CgroupKill { path, reason } => {
                is_cgroup_within(kill.victim.cgroup.as_deref()?, path)
                    .then(|| oomds_reason(reason))?
            }
            KillNotice::ProcessSignal { pid, .. } if *pid != kill.victim.process.pid => {
                return None;
            }
            KillNotice::ProcessSignal { .. } | KillNotice::LowMemory => KillReason::LowMemory,
            _ => return None,
        };
        Some((reason, line.text.clone()))
    })
}

fn oomds_reason(reason: &OomdReason) -> KillReason {
    match reason {
        OomdReason::Pressure(path) => KillReason::MemoryPressure(path.clone()),
        OomdReason::SwapUse => KillReason::SwapUse,
        OomdReason::Other => KillReason::Unknown,
    }
}

/// The latest event of the unit tells why; without one, what systemd wrote of the signal itself.
fn systemds_reason(kill: &ProcessKill, lines: &[&KillLogLine]) -> Option<(KillReason, String)> {
    let own = kill.victim.unit.as_deref();
    let of_systemd = || lines.iter().rev().filter(|line| line.program == KillingProgram::Systemd);
    // A unit that the process is not known to be in may still name it.
    let named = of_systemd().find_map(|line| match &line.notice {
        KillNotice::UnitKill { unit, pid, .. } if *pid == kill.victim.process.pid => {
            Some((unit.as_str(), *line))
        }
        _ => None,
    });
    let unit = named.map(|(unit, _)| unit).or(own)?;
    let is_requested = |line: &KillLogLine| {
        matches!(&line.notice, KillNotice::UnitKill { is_requested: true, .. })
    };
    if let Some((_, line)) = named.filter(|(_, line)| is_requested(line)) {
        return Some((KillReason::ClientRequest(unit.to_owned()), line.text.clone()));
    }
    let event = of_systemd().find_map(|line| match &line.notice {
        KillNotice::Unit { unit: of, event } if of == unit => Some((*event, *line)),
        _ => None,
    });
    match (event, named) {
        (Some((event, line)), _) => Some((units_reason(event, unit), line.text.clone())),
        (None, Some((_, line))) => {
            Some((KillReason::UnitEnded(unit.to_owned()), line.text.clone()))
        }
        (None, None) => None,
    }
}

fn units_reason(event: UnitEvent, unit: &str) -> KillReason {
    let unit = unit.to_owned();
    match event {
        UnitEvent::StopTimeout => KillReason::StopTimeout(unit),
        UnitEvent::StartTimeout => KillReason::StartTimeout(unit),
        UnitEvent::Watchdog => KillReason::Watchdog(unit),
        UnitEvent::RuntimeLimit => KillReason::RuntimeLimit(unit),
        UnitEvent::OomKill => KillReason::OomPolicy(unit),
    }
}

/// The number of a container is a part of the name of its cgroup.
fn containers_reason(
    kill: &ProcessKill,
    lines: &[KillLogLine],
) -> Option<(Killer, KillReason, String)> {
    let cgroup = kill.victim.cgroup.as_deref()?;
    let around = |line: &KillLogLine, before, after| line.is_around(kill.unix_ms, before, after);
    let forced = lines.iter().filter(|line| around(line, BEFORE_MS, AFTER_MS)).find(|line| {
        matches!(&line.notice, KillNotice::ContainerForce { container } if cgroup.contains(container))
    });
    if let Some(line) = forced {
        let killer = kill.killer.clone();
        return Some((killer, KillReason::ContainerStopTimeout, line.text.clone()));
    }
    let (pod, end) =
        lines.iter().rev().filter(|line| around(line, EVICTION_MS, AFTER_MS)).find_map(|line| {
            match &line.notice {
                KillNotice::ContainerEnd { pod, container } if cgroup.contains(container) => {
                    Some((pod, line))
                }
                _ => None,
            }
        })?;
    let evicted = lines.iter().filter(|line| around(line, AFTER_MS, EVICTION_MS)).find(
        |line| matches!(&line.notice, KillNotice::PodEviction { pod: evicted } if evicted == pod),
    );
    let resource =
        lines.iter().rev().filter(|line| line.unix_ms <= end.unix_ms).find_map(|line| match &line
            .notice
        {
            KillNotice::Eviction { resource } => Some(resource.clone()),
            _ => None,
        });
    Some(match (evicted, resource) {
        (Some(line), Some(resource)) => {
            (Killer::Kubelet, KillReason::Eviction(resource), line.text.clone())
        }
        _ => (Killer::Kubelet, KillReason::Unknown, end.text.clone()),
    })
}

/// Kills that lines tell of, where no signal was seen.
pub fn kills_of_lines(lines: &[KillLogLine]) -> Vec<ProcessKill> {
    let mut kills: Vec<ProcessKill> = Vec::new();
    for line in lines {
        let mut kill = ProcessKill {
            unix_ms: line.unix_ms,
            source: KillSource::Journal,
            line: Some(line.text.clone()),
            ..ProcessKill::default()
        };
        match &line.notice {
            KillNotice::CgroupKill { path, reason } => {
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                let process = ServiceProcess { pid: 0, name };
                kill.victim =
                    KillParty { process, cgroup: Some(path.clone()), ..KillParty::default() };
                kill.reason = oomds_reason(reason);
            }
            KillNotice::ProcessSignal { pid, name, signal, uid } => {
                let process = ServiceProcess { pid: *pid, name: name.clone() };
                kill.victim = KillParty { process, uid: *uid, ..KillParty::default() };
                kill.signal = FatalSignal::from_number((*signal).into()).unwrap_or_default();
                kill.reason = KillReason::LowMemory;
            }
            KillNotice::UnitKill { unit, pid, name, signal, .. } => {
                let process = ServiceProcess { pid: *pid, name: name.clone() };
                kill.victim =
                    KillParty { process, unit: Some(unit.clone()), ..KillParty::default() };
                kill.signal = FatalSignal::from_number((*signal).into()).unwrap_or_default();
            }
            _ => continue,
        }
        kill.killer = killer_of(line.program);
        if kill.killer == Killer::Systemd {
            add_reason(&mut kill, lines);
        }
        kills.push(kill);
    }
    kills
}

fn killer_of(program: KillingProgram) -> Killer {
    match program {
        KillingProgram::Systemd => Killer::Systemd,
        KillingProgram::Kubelet => Killer::Kubelet,
        KillingProgram::ContainerRuntime => Killer::Unknown,
        _ => {
            let daemon = daemons().find(|(_, known)| *known == program);
            daemon.map_or(Killer::Unknown, |(name, _)| Killer::OomDaemon(name.to_owned()))
        }
    }
}
