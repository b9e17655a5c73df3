//! Lines of programs: daemons that kill in place of the kernel, and words that only look like a kill.

use crate::counted_lines::CountedLines;
use crate::kernel_warnings::KernelWarnings;
use crate::notices::{
    KillNotice, KillingProgram, evicted_pod, kill_notice, oomd_kill, pressed_cgroup,
};
use crate::own_shortages::OwnShortage;
use std::collections::{BTreeMap, BTreeSet};

/// The most of a daemon's words on its victim.
const MAX_DETAILS_CHARS: usize = 60;
/// Kills of daemons, and candidates, that are kept.
const MAX_KEPT: usize = 64;

/// Facts of programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramFacts {
    pub(crate) kills: Vec<DaemonKill>,
    pub(crate) more_kills: u64,
    /// Lines of programs that ran out of memory of their own, by kind.
    pub(crate) own_shortages: BTreeMap<OwnShortage, CountedLines>,
    /// Lines of devices and servers that fail.
    pub(crate) device_errors: CountedLines,
    /// Objects of the kernel that kmemleak suspects to be lost.
    pub(crate) suspected_leaks: u64,
    /// Refusals of the kernel at limits other than memory.
    pub(crate) warnings: KernelWarnings,
    candidates: Vec<Candidate>,
    /// The last line of earlyoom about memory.
    low: Option<String>,
    /// Units that systemd ended since a process of theirs was killed for lack of memory.
    pub(crate) ended_units: BTreeSet<String>,
    /// A line of earlyoom by which memory was nearly used up, and swap was not: it waits for both.
    pub(crate) waited_for_swap: Option<String>,
}

/// A kill of a daemon.
#[derive(Debug, Clone, Default)]
pub(crate) struct DaemonKill {
    pub(crate) daemon: String,
    pub(crate) stamp: Option<String>,
    pub(crate) victim: String,
    /// The cgroup whose pressure or use was the reason.
    pub(crate) reason_of: Option<String>,
    pub(crate) reason: String,
    /// The daemon's words on the victim: its score and size, or its processes.
    pub(crate) details: Option<String>,
    /// Candidates, the first first.
    pub(crate) candidates: Vec<Candidate>,
}

/// A cgroup that systemd-oomd considered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidate {
    pub(crate) path: String,
    pub(crate) memory: String,
    pub(crate) pressure_avg10: String,
}

/// Daemons that kill before the kernel does.
const DAEMONS: [&str; 8] = [
    "systemd-oomd",
    "earlyoom",
    "nohang",
    "oomd",
    "lmkd",
    "lowmemorykiller",
    "bustd",
    "nohang-desktop",
];

impl ProgramFacts {
    /// Reads a line of a program.
    pub(crate) fn read(&mut self, program: &str, stamp: Option<&str>, message: &str) {
        let daemon = DAEMONS.iter().find(|daemon| **daemon == program);
        match daemon {
            _ if program == "kubelet" => self.kubelet(stamp, message),
            _ if program == "systemd" => self.systemd(message),
            Some(&"systemd-oomd") => self.systemd_oomd(stamp, message),
            Some(&"earlyoom") => self.earlyoom(stamp, message),
            Some(daemon) => self.signal(daemon, stamp, message),
            None => self.own_shortage(message, OwnShortage::of(message)),
        }
    }

    /// Reads a line of the kernel that is of no report.
    pub(crate) fn kernel_line(&mut self, stamp: Option<&str>, message: &str) {
        const ERRORS: [&str; 5] = [
            "I/O error",
            "not responding",
            "timeout, aborting",
            "timeout, completion",
            "failed command",
        ];
        if let Some((daemon, rest)) = daemon_line(message) {
            return self.read(daemon, stamp, rest);
        }
        if self.warnings.read(message) {
            return;
        }
        if let Some(count) = suspected_leaks(message) {
            self.suspected_leaks = self.suspected_leaks.saturating_add(count);
        } else if let Some(rest) = message.strip_prefix("lowmemorykiller: ") {
            self.signal("lowmemorykiller", stamp, rest);
        } else if let Some(rest) = message.strip_prefix("[talos] ") {
            self.talos(stamp, rest);
        } else if ERRORS.iter().any(|error| message.contains(error)) {
            self.device_errors.add(message);
        } else {
            self.own_shortage(message, OwnShortage::of_kernel(message));
        }
    }

    /// Notes words of a shortage that is not the kernel's.
    fn own_shortage(&mut self, message: &str, kind: Option<OwnShortage>) {
        if let Some(kind) = kind {
            self.own_shortages.entry(kind).or_default().add(message);
        }
    }

    /// `db.service: Failed with result 'oom-kill'.` (src/core/service.c, `service_enter_dead()`).
    fn systemd(&mut self, message: &str) {
        match message.trim().strip_suffix(": Failed with result 'oom-kill'.") {
            Some(unit) if self.ended_units.len() < MAX_KEPT => {
                self.ended_units.insert(unit.to_owned());
            }
            _ => self.own_shortage(message, OwnShortage::of(message)),
        }
    }

    fn systemd_oomd(&mut self, stamp: Option<&str>, message: &str) {
        let message = message.trim();
        if message.starts_with("Considered ") {
            self.candidates.clear();
        } else if let Some(path) = message.strip_prefix("Path: ") {
            if self.candidates.len() < MAX_KEPT {
                let path = path.to_owned();
                self.candidates.push(Candidate { path, ..Candidate::default() });
            }
        } else if let (Some(last), Some((key, value))) =
            (self.candidates.last_mut(), message.split_once(": "))
        {
            match key {
                "Current Memory Usage" => value.clone_into(&mut last.memory),
                "Pressure" => {
                    let avg10 = value.split_once("Avg10: ").map_or("", |(_, rest)| rest);
                    avg10
                        .split(' ')
                        .next()
                        .unwrap_or_default()
                        .clone_into(&mut last.pressure_avg10);
                }
                _ => {}
            }
        }
        if let Some((path, reason)) = oomd_kill(message) {
            let reason_of = pressed_cgroup(reason).map(str::to_owned);
            let candidates = self.candidates.clone();
            self.kill(DaemonKill {
                daemon: "systemd-oomd".to_owned(),
                stamp: stamp.map(str::to_owned),
                victim: path.to_owned(),
                reason_of,
                reason: reason.to_owned(),
                details: None,
                candidates,
            });
        }
    }

    /// `"Eviction manager: pod is evicted successfully" pod="default/web-1"`.
    fn kubelet(&mut self, stamp: Option<&str>, message: &str) {
        let Some(pod) = evicted_pod(message) else { return };
        self.kill(DaemonKill {
            daemon: "kubelet".to_owned(),
            stamp: stamp.map(str::to_owned),
            victim: format!("pod {}", pod.rsplit('/').next().unwrap_or(pod)),
            reason: "the node was short of a resource (eviction)".to_owned(),
            ..DaemonKill::default()
        });
    }

    /// `sending SIGTERM to process 7 uid 0 "a": badness 8, VmRSS 1 MiB`.
    fn earlyoom(&mut self, stamp: Option<&str>, message: &str) {
        if message.starts_with("mem avail") {
            let words = message.split_whitespace().collect::<Vec<&str>>().join(" ");
            if waits_for_swap(&words) {
                self.waited_for_swap.get_or_insert_with(|| words.clone());
            }
            self.low = Some(words);
        }
        let notice = kill_notice(KillingProgram::Earlyoom, message);
        let Some(KillNotice::ProcessSignal { pid, name, .. }) = notice else { return };
        let details = message.rsplit_once("\": ").map(|(_, details)| details);
        let details = details.and_then(|details| details.split(", cmdline").next());
        self.kill(DaemonKill {
            daemon: "earlyoom".to_owned(),
            stamp: stamp.map(str::to_owned),
            victim: format!("{name} ({pid})"),
            reason: self.low.clone().unwrap_or_else(|| "little memory was available".to_owned()),
            details: details.map(|details| details.chars().take(MAX_DETAILS_CHARS).collect()),
            ..DaemonKill::default()
        });
    }

    /// `[talos] Sending SIGKILL to cgroup {…, "cgroup": "/sys/fs/cgroup/kubepods/burstable/pod1/2"}`, and then
    /// `[talos] victim processes: {…, "processes": ["a"]}`: Talos Linux writes to the kernel's log.
    fn talos(&mut self, stamp: Option<&str>, message: &str) {
        let value = |key: &str, end: char| {
            let (_, rest) = message.split_once(key)?;
            rest.split(end).next()
        };
        if message.starts_with("Sending SIGKILL to cgroup")
            && let Some(path) = value("\"cgroup\": \"", '"')
        {
            self.kill(DaemonKill {
                daemon: "Talos".to_owned(),
                stamp: stamp.map(str::to_owned),
                victim: path.strip_prefix("/sys/fs/cgroup").unwrap_or(path).to_owned(),
                reason: "its OOM controller acts on memory pressure (PSI) of the machine"
                    .to_owned(),
                ..DaemonKill::default()
            });
        } else if message.starts_with("victim processes")
            && let Some(kill) = self.kills.last_mut().filter(|kill| kill.details.is_none())
            && let Some(names) = value("\"processes\": [", ']').filter(|names| !names.is_empty())
        {
            kill.details = Some(names.replace('"', "").chars().take(MAX_DETAILS_CHARS).collect());
        }
    }

    /// `Kill 'a' (7), …`.
    fn signal(&mut self, daemon: &str, stamp: Option<&str>, message: &str) {
        let lower = message.to_lowercase();
        let is_kill = lower.starts_with("sending sig") || lower.starts_with("kill");
        if !is_kill {
            return;
        }
        let quoted = message.split(['"', '\'']).nth(1).unwrap_or("a process");
        // The name may have digits: its number is in brackets, or the first of all.
        let bracketed = message.split('(').nth(1).unwrap_or_default();
        let number = |text: &str| {
            let mut numbers = text.split(|c: char| !c.is_ascii_digit());
            numbers.find(|number| !number.is_empty()).map(str::to_owned)
        };
        let pid = number(bracketed).or_else(|| number(message));
        let pid = pid.map_or(String::new(), |pid| format!(" ({pid})"));
        self.kill(DaemonKill {
            daemon: daemon.to_owned(),
            stamp: stamp.map(str::to_owned),
            victim: format!("{quoted}{pid}"),
            reason: "little memory was available".to_owned(),
            ..DaemonKill::default()
        });
    }

    fn kill(&mut self, kill: DaemonKill) {
        if self.kills.len() < MAX_KEPT {
            self.kills.push(kill);
        } else {
            self.more_kills = self.more_kills.saturating_add(1);
        }
    }
}

/// `mem avail: 56 of 15881 MiB ( 0.35%), swap free: 2555 of 4095 MiB (62.38%)`: true if memory is below each of earlyoom's
/// usual limits, and swap above each.
fn waits_for_swap(line: &str) -> bool {
    const MEMORY_PERCENT: f64 = 2.0;
    const SWAP_PERCENT: f64 = 10.0;
    let mut shares = line.split('%').filter_map(|part| {
        part.rsplit('(').next()?.trim().parse::<f64>().ok().filter(|share| share.is_finite())
    });
    let (memory, swap) = (shares.next(), shares.next());
    memory.is_some_and(|share| share <= MEMORY_PERCENT)
        && swap.is_some_and(|share| share > SWAP_PERCENT)
}

/// `kmemleak: 12 new suspected memory leaks (see /sys/kernel/debug/kmemleak)` (mm/kmemleak.c, `kmemleak_scan()`).
fn suspected_leaks(message: &str) -> Option<u64> {
    let (count, _) =
        message.strip_prefix("kmemleak: ")?.split_once(" new suspected memory leaks")?;
    count.parse().ok()
}

/// `systemd-oomd[659]: Killed /a …`: a daemon that writes to the kernel's log.
fn daemon_line(message: &str) -> Option<(&str, &str)> {
    let (name, rest) = message.split_once('[')?;
    let (_, rest) = rest.split_once("]: ")?;
    DAEMONS.contains(&name).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemons_kill_has_its_reason() {
        let mut facts = ProgramFacts::default();
        for line in [
            "Considered 2 cgroups for killing, top candidates were:",
            "Path: /s/a.service",
            "Pressure: Avg10: 81.20 Avg60: 1.00 Avg300: 1.00 Total: 1s",
            "Current Memory Usage: 4.3G",
            "Killed /s/b.service due to memory pressure for /s being 70.10% > 60.00% for > 20s with reclaim activity",
        ] {
            facts.read("systemd-oomd", None, line);
        }
        let [kill] = facts.kills.as_slice() else { panic!("{facts:?}") };
        assert_eq!((kill.victim.as_str(), kill.reason_of.as_deref()), ("/s/b.service", Some("/s")));
        assert_eq!(
            (kill.candidates[0].memory.as_str(), kill.candidates[0].pressure_avg10.as_str()),
            ("4.3G", "81.20")
        );
        facts.read("earlyoom", None, "sending SIGTERM to process 7 uid 0 \"web\": badness 8");
        assert_eq!(facts.kills[1].victim, "web (7)");
        facts.read("kubelet", None, "\"pod is evicted successfully\" pod=\"default/web-1\"");
        assert_eq!(facts.kills.pop().unwrap().victim, "pod web-1");
        facts.kernel_line(None, "lowmemorykiller: Killing 'a.b2' (12), adj 906, to free 8kB");
        assert_eq!(facts.kills[2].victim, "a.b2 (12)");
        facts.kernel_line(None, "blk_update_request: I/O error, dev sdb, sector 8");
        assert_eq!(facts.device_errors.count, 1);
        for line in ["kmemleak: 12 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"; 2]
        {
            facts.kernel_line(None, line);
        }
        assert_eq!(facts.suspected_leaks, 24);
    }

    #[test]
    fn words_of_programs_are_no_kill() {
        let mut facts = ProgramFacts::default();
        facts.read("app", None, "java.lang.OutOfMemoryError: Java heap space");
        facts.read("postgres", None, "ERROR:  out of memory");
        facts.kernel_line(
            None,
            "Unless rcu_preempt kthread gets sufficient CPU time, OOM is now expected behavior.",
        );
        facts.read("app", None, "memory is fine");
        facts.read("app", None, "java.lang.OutOfMemoryError: unable to create new native thread");
        let kinds: Vec<_> = facts.own_shortages.keys().copied().collect();
        assert_eq!(
            kinds,
            [
                OwnShortage::JavaThread,
                OwnShortage::JavaHeap,
                OwnShortage::Rcu,
                OwnShortage::Program
            ]
        );
        assert!(facts.kills.is_empty());
    }

    #[test]
    fn earlyoom_waits_for_swap_where_it_is_free() {
        let waits = |line: &str| {
            let mut facts = ProgramFacts::default();
            facts.read("earlyoom", None, line);
            facts.waited_for_swap.is_some()
        };
        assert!(waits(
            "mem avail:    56 of 15881 MiB ( 0.35%), swap free: 2555 of 4095 MiB (62.38%)"
        ));
        assert!(!waits(
            "mem avail: 5600 of 15881 MiB (35.26%), swap free: 2555 of 4095 MiB (62.38%)"
        ));
        assert!(!waits(
            "mem avail:    56 of 15881 MiB ( 0.35%), swap free:    0 of    0 MiB ( 0.00%)"
        ));
        assert!(!waits("mem avail: 56"));
    }
}
