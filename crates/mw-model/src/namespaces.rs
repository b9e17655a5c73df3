//! What each kind of evidence means within namespaces that are not the machine's first (namespaces(7)).
//!
//! eval/results/namespaces.md is generated from [`EVIDENCE`]. The number of a namespace is the inode of its link in /proc/PID/ns;
//! those of the first ones are part of the kernel's interface (`enum init_ns_ino` of include/uapi/linux/nsfs.h, before
//! that include/linux/proc_ns.h), of networks from Linux 6.18 on.

use crate::Missing;

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namespace {
    Pid,
    Cgroup,
    Mount,
    Network,
    User,
    Time,
}

/// Fate of evidence in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceFate {
    /// It is the machine's, as outside.
    Unchanged,
    /// The kernel's numbers are translated to those of the namespace.
    Translated,
    /// It is of what is within the namespace.
    Within,
    /// There is none.
    Lost,
    /// It would be wrong, and is not taken.
    Refused,
}

/// A kind of evidence in a kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespacedEvidence {
    pub namespace: Namespace,
    pub evidence: &'static str,
    pub fate: EvidenceFate,
    /// Its meaning there.
    pub meaning: &'static str,
    /// Reference to the kernel or the manual.
    pub reference: &'static str,
    /// The test that shows it.
    pub test: &'static str,
}

impl Namespace {
    pub const ALL: [Self; 6] =
        [Self::Pid, Self::Cgroup, Self::Mount, Self::Network, Self::User, Self::Time];

    /// As namespaces(7) calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Cgroup => "cgroup",
            Self::Mount => "mount",
            Self::Network => "network",
            Self::User => "user",
            Self::Time => "time",
        }
    }

    /// Its link in /proc/PID/ns.
    #[must_use]
    pub fn link(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Cgroup => "cgroup",
            Self::Mount => "mnt",
            Self::Network => "net",
            Self::User => "user",
            Self::Time => "time",
        }
    }

    /// The number of the machine's first namespace of this kind; of networks and mounts it is this one from Linux 6.18 on.
    #[must_use]
    pub fn first_number(self) -> u32 {
        match self {
            Self::Pid => 0xEFFF_FFFC,
            Self::Cgroup => 0xEFFF_FFFB,
            Self::Mount => 0xEFFF_FFF8,
            Self::Network => 0xEFFF_FFF9,
            Self::User => 0xEFFF_FFFD,
            Self::Time => 0xEFFF_FFFA,
        }
    }

    /// The first namespace has the same number on all kernels.
    #[must_use]
    pub fn has_fixed_number(self) -> bool {
        !matches!(self, Self::Mount | Self::Network)
    }

    /// Evidence that is lost in a namespace of this kind that is not the machine's first. A mount namespace loses nothing by
    /// itself: what its mounts hide is said where it is read.
    pub fn losses(self) -> impl Iterator<Item = Missing> {
        let lost = EVIDENCE.iter().filter(move |row| {
            row.namespace == self
                && self != Self::Mount
                && matches!(row.fate, EvidenceFate::Lost | EvidenceFate::Within)
        });
        lost.map(move |row| {
            Missing::skipped(
                row.evidence,
                format!("within a {} namespace: {}", self.name(), row.meaning),
            )
        })
    }
}

impl EvidenceFate {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Translated => "translated",
            Self::Within => "of the namespace",
            Self::Lost => "lost",
            Self::Refused => "not taken",
        }
    }
}

const fn row(
    (namespace, evidence): (Namespace, &'static str),
    fate: EvidenceFate,
    meaning: &'static str,
    reference: &'static str,
    test: &'static str,
) -> NamespacedEvidence {
    NamespacedEvidence { namespace, evidence, fate, meaning, reference, test }
}

/// All kinds of evidence that a namespace changes, and the most important that it does not.
pub const EVIDENCE: &[NamespacedEvidence] = &[
    row(
        (Namespace::Pid, "scheduler trace and waits"),
        EvidenceFate::Translated,
        "tracepoints number tasks as the initial namespace does, headers of perf records as this one does: both numbers \
         of a task together translate the others. A task outside has its name and its number in the initial namespace, \
         and neither process nor cgroup; a cause that rests on it has less confidence",
        "perf_event_pid_type() in kernel/events/core.c; tracing_generic_entry_update() in include/linux/trace_events.h; \
         include/trace/events/sched.h",
        "mw-cli/tests/namespaces.rs::a_command_in_a_pid_namespace_is_explained_as_outside",
    ),
    row(
        (Namespace::Pid, "states, stacks and memory of processes"),
        EvidenceFate::Within,
        "processes outside the container are hidden: holders and culprits stay unknown",
        "pid_namespaces(7); proc_pid_readdir() in fs/proc/base.c",
        "mw-cli/tests/namespaces.rs::doctor_says_what_a_pid_namespace_loses",
    ),
    row(
        (Namespace::Pid, "kernel log"),
        EvidenceFate::Translated,
        "it numbers processes as the initial namespace does: names and cgroups are kept, numbers are dropped",
        "__oom_kill_process() in mm/oom_kill.c (task_pid_nr)",
        "mw-collect/src/kernel_log.rs::numbers_of_another_namespace_are_nobodys_here",
    ),
    row(
        (Namespace::Pid, "trace and processes, with a /proc of another namespace"),
        EvidenceFate::Refused,
        "numbers of /proc are those of other processes: nothing is traced, and the report says so",
        "proc_pid_status(5), NSpid",
        "mw-cli/tests/namespaces.rs::with_the_proc_of_another_namespace_nothing_is_traced",
    ),
    row(
        (Namespace::Pid, "counters of memory, pressure and disks"),
        EvidenceFate::Unchanged,
        "/proc/vmstat, /proc/meminfo, /proc/pressure and /proc/diskstats are the machine's",
        "proc(5)",
        "mw-cli/tests/namespaces.rs::counters_are_the_machines",
    ),
    row(
        (Namespace::Cgroup, "cgroups of tasks, and limits of groups above"),
        EvidenceFate::Within,
        "paths begin at the root of the namespace; a group above it, and its limit, is seen only where the mount shows it, \
         and then the cgroups of tasks within the namespace are not known",
        "cgroup_namespaces(7); cgroup_path_ns() in kernel/cgroup/cgroup.c",
        "mw-cli/tests/namespaces.rs::a_cgroup_namespace_does_not_make_the_root_the_tasks_group",
    ),
    row(
        (Namespace::Mount, "paths of files, free space, and files of /proc and /sys"),
        EvidenceFate::Within,
        "paths are those that a process itself sees; space is that of the file systems that are mounted here; a file \
         that a mount hides counts as not checked",
        "mount_namespaces(7)",
        "mw-cli/tests/masked.rs",
    ),
    row(
        (Namespace::Network, "the service behind a probe"),
        EvidenceFate::Within,
        "sockets of other network namespaces are not seen: a service there is found where `service` names its unit or \
         cgroup",
        "network_namespaces(7); /proc/PID/net in fs/proc/proc_net.c",
        "mw-cli/tests/namespaces.rs::doctor_says_what_a_network_namespace_loses",
    ),
    row(
        (Namespace::User, "scheduler trace, profile, kernel log, kernel stacks"),
        EvidenceFate::Lost,
        "a capability counts in its own user namespace, and the kernel asks for CAP_PERFMON, CAP_SYSLOG and CAP_SYS_ADMIN \
         in the initial one: root here is an ordinary user to it",
        "perfmon_capable() in include/linux/capability.h; user_namespaces(7)",
        "mw-cli/tests/namespaces.rs::in_a_user_namespace_root_is_not_told_to_trace",
    ),
    row(
        (Namespace::Time, "times of the trace and of the kernel log"),
        EvidenceFate::Translated,
        "CLOCK_MONOTONIC of a program has an offset, records of the kernel have none: the offset is subtracted",
        "timens_setup_vdso_clock_data() in kernel/time/namespace.c; perf_event_set_clock() in kernel/events/core.c",
        "mw-cli/tests/namespaces.rs::a_command_in_a_time_namespace_is_explained_as_outside",
    ),
    row(
        (Namespace::Time, "start times of processes, uptime"),
        EvidenceFate::Translated,
        "the kernel adds the offset of the reader to both, so that they agree with each other",
        "timens_add_boottime_ns() in fs/proc/array.c; fs/proc/uptime.c",
        "mw-cli/tests/namespaces.rs::a_command_in_a_time_namespace_is_explained_as_outside",
    ),
];

/// The page of the documentation about them.
#[must_use]
pub fn namespaces_page() -> String {
    let mut page = String::from(
        "# Namespaces and containers\n\nGenerated by `cargo xtask docs`. In a container memwright sees the machine through \
         namespaces (namespaces(7)). This page says\nwhat each kind of evidence means there. `memwright doctor` names those \
         that this machine has, and each report lists what is\nlost under *missing evidence*. The most is seen on the host, or in a \
         container with its PID namespace and its privileges\n(`docker run --privileged --pid=host`).\n",
    );
    for namespace in Namespace::ALL {
        let name = namespace.name();
        page += &format!(
            "\n## In a {name} namespace\n\n| evidence | it is | meaning | source | test |\n|---|---|---|---|---|\n"
        );
        for row in EVIDENCE.iter().filter(|row| row.namespace == namespace) {
            let NamespacedEvidence { evidence, fate, meaning, reference, test, .. } = row;
            let fate = fate.name();
            page += &format!("| {evidence} | {fate} | {meaning} | {reference} | `{test}` |\n");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_has_evidence_with_a_test_that_exists() {
        for namespace in Namespace::ALL {
            assert!(EVIDENCE.iter().any(|row| row.namespace == namespace), "{namespace:?}");
        }
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for row in EVIDENCE {
            let (file, test) = row.test.split_once("::").unwrap_or((row.test, ""));
            let text = std::fs::read_to_string(crates.join(file)).unwrap();
            assert!(text.contains(&format!("fn {test}")), "{}", row.test);
        }
    }

    #[test]
    fn what_is_lost_is_said_with_the_namespace() {
        let lost: Vec<Missing> = Namespace::User.losses().collect();
        assert_eq!(lost.len(), 1);
        assert!(lost[0].why.starts_with("within a user namespace: a capability"), "{}", lost[0]);
        assert_eq!((Namespace::Mount.losses().count(), Namespace::Time.losses().count()), (0, 0));
    }
}
