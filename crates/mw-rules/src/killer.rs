//! The killer of a process and the reason, from a signal and what logs tell. Pure.
//!
//! The kernel's own signals (`SI_KERNEL`) are not only those of the OOM killer: it also kills at `RLIMIT_CPU`
//! (kernel/time/posix-cpu-timers.c) and when the first process of a PID namespace ends (kernel/pid_namespace.c). Which one
//! it was is decided by evidence, and is unknown without it. A write to `cgroup.kill` and `PR_SET_PDEATHSIG` send the
//! signal as the task that writes or ends (`SEND_SIG_NOINFO`), so that they look as a call of kill(2) does.
//!
//! A process names itself as it likes. It is taken for a daemon only in the daemon's own unit of the system, or where root
//! runs it.

mod daemons;
mod notices;

pub use daemons::kill_log_units;
use daemons::{daemons, programs_of};
use mw_kernel_log::KillingProgram;
use mw_model::{
    FatalSignal, KillParty, KillReason, KillSource, Killer, OomShortage, OomVictim, ProcessKill,
};
pub use notices::{KILL_LOG_WORDS, KillLogLine, kills_of_lines};

/// Time between a kill of the OOM killer and its line in the kernel's log.
const LOG_MS: u64 = 3_000;

/// A fatal signal that was sent, and what was read of both ends at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentSignal {
    pub unix_ms: u64,
    pub signal: FatalSignal,
    /// The kernel sent it for itself (`SI_KERNEL`).
    pub is_of_kernel: bool,
    pub victim: KillParty,
    /// The task in whose context it was sent.
    pub sender: Option<KillParty>,
    /// The kernel marked the process as a victim of its OOM killer (tracepoint `oom:mark_victim`), or in the same context
    /// another one, of whose memory it had a part.
    pub is_oom_victim: bool,
    /// CPU time that the process may use at most, in seconds, where it has used that much.
    pub reached_cpu_limit_s: Option<u64>,
    /// The sender is the first process of the PID namespace of the process.
    pub is_of_namespace_init: bool,
    /// What could not be read.
    pub unseen: Vec<String>,
}

/// Programs by which containers are sent signals.
const RUNTIMES: [&str; 10] = [
    "runc",
    "crun",
    "youki",
    "containerd-shim",
    "containerd",
    "dockerd",
    "conmon",
    "crio",
    "podman",
    "docker-init",
];

/// Explains a signal by the kills of the OOM killer and the lines of programs around it.
pub fn explain_signal(sent: SentSignal, oom: &[OomVictim], lines: &[KillLogLine]) -> ProcessKill {
    let mut kill = ProcessKill {
        unix_ms: sent.unix_ms,
        signal: sent.signal,
        source: KillSource::Signal,
        ..ProcessKill::default()
    };
    let logged = oom.iter().find(|oom| is_kill_of(oom, &sent));
    if sent.is_of_kernel {
        (kill.killer, kill.reason) = kernels_reason(&sent, logged);
    } else if let Some(sender) =
        sent.sender.as_ref().filter(|sender| !sender.process.name.is_empty())
    {
        kill.killer = killer(sender);
    }
    (kill.victim, kill.sender, kill.unseen) = (sent.victim, sent.sender, sent.unseen);
    if let Some(logged) = logged {
        kill.victim.cgroup = kill.victim.cgroup.or_else(|| logged.cgroup.clone());
        kill.victim.uid = kill.victim.uid.or(logged.user);
    }
    notices::add_reason(&mut kill, lines);
    kill
}

/// Adds the reason of a kill, where other evidence has come since.
pub fn complete_kill(kill: &mut ProcessKill, lines: &[KillLogLine]) {
    if matches!(
        kill.reason,
        KillReason::Unknown | KillReason::ContainerRequest | KillReason::UnitEnded(_)
    ) {
        notices::add_reason(kill, lines);
    }
}

/// A kill of the OOM killer that only the kernel's log tells of.
pub fn kill_of_oom(oom: &OomVictim) -> ProcessKill {
    let victim = KillParty {
        process: oom.process.clone(),
        uid: oom.user,
        cgroup: oom.cgroup.clone(),
        ..KillParty::default()
    };
    ProcessKill {
        unix_ms: oom.last_unix_ms,
        victim,
        killer: Killer::OomKiller,
        reason: KillReason::OutOfMemory(oom.shortage.clone()),
        source: KillSource::KernelLog,
        ..ProcessKill::default()
    }
}

fn is_kill_of(oom: &OomVictim, sent: &SentSignal) -> bool {
    let is_near = oom.last_unix_ms.abs_diff(sent.unix_ms) <= LOG_MS
        || (oom.first_unix_ms..=oom.last_unix_ms).contains(&sent.unix_ms);
    let pid = sent.victim.process.pid;
    sent.is_of_kernel && is_near && pid != 0 && oom.process.pid == pid
}

fn kernels_reason(sent: &SentSignal, logged: Option<&OomVictim>) -> (Killer, KillReason) {
    if let Some(logged) = logged {
        return (Killer::OomKiller, KillReason::OutOfMemory(logged.shortage.clone()));
    }
    if sent.is_oom_victim {
        return (Killer::OomKiller, KillReason::OutOfMemory(OomShortage::Unknown));
    }
    let sender = sent.sender.as_ref().map(|sender| sender.process.pid);
    let is_own = sender == Some(sent.victim.process.pid);
    let reason = match sent.reached_cpu_limit_s {
        // The limit is checked in the context of the process itself.
        Some(seconds) if is_own && sent.signal == FatalSignal::Kill => {
            KillReason::CpuTimeLimit(seconds)
        }
        _ if sent.is_of_namespace_init => KillReason::NamespaceEnded,
        _ => KillReason::Unknown,
    };
    (Killer::Kernel, reason)
}

/// A sender that was read.
fn killer(sender: &KillParty) -> Killer {
    let name = sender.process.name.as_str();
    let is_root = sender.uid == Some(0);
    if let Some((daemon, _)) = daemons().find(|(daemon, _)| is_daemon(sender, daemon)) {
        return Killer::OomDaemon(daemon.to_owned());
    }
    if name == "systemd" && (sender.process.pid == 1 || is_manager_of_user(sender)) {
        return Killer::Systemd;
    }
    let runtime = RUNTIMES.iter().find(|runtime| name.starts_with(*runtime));
    let programs = system_unit(sender).map_or(&[][..], programs_of);
    let is_of_runtime = programs.contains(&KillingProgram::ContainerRuntime);
    match runtime {
        Some(runtime) if is_root || is_of_runtime => {
            Killer::ContainerRuntime((*runtime).to_owned())
        }
        // runc runs from a copy of itself, which has another name.
        None if is_of_runtime => Killer::ContainerRuntime(name.to_owned()),
        _ => Killer::Process,
    }
}

/// True if a process is a daemon: in its unit of the system, or of this name and root's.
fn is_daemon(sender: &KillParty, daemon: &str) -> bool {
    let is_unit =
        system_unit(sender).and_then(|unit| unit.strip_suffix(".service")) == Some(daemon);
    is_unit || sender.uid == Some(0) && sender.process.name == daemon
}

/// The unit of the system whose cgroup a process is in: only the system's manager makes these.
fn system_unit(party: &KillParty) -> Option<&str> {
    let rest = party.cgroup.as_deref()?.strip_prefix("/system.slice/")?;
    rest.split('/').find(|part| !part.ends_with(".slice"))
}

/// `/user.slice/user-1000.slice/user@1000.service/init.scope`.
fn is_manager_of_user(sender: &KillParty) -> bool {
    let path = sender.cgroup.as_deref().unwrap_or_default();
    path.starts_with("/user.slice/") && path.contains("/user@") && path.ends_with("/init.scope")
}

#[cfg(test)]
mod tests;
