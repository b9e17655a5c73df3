//! What is injected, into which services, how strongly, and which causes are right then.

use super::boot::TrialService::{self, App, Java, Mysql, Nginx, Postgres, Redis};
use super::boot::{Boot, TrialCgroup, TrialHost};
use mw_model::FailureKind;
use std::ops::RangeInclusive;

/// A cause that the recorder may name, by one of these rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedCause(pub(super) &'static [&'static str]);

/// Right diagnoses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Truth {
    /// One of the first is right, one of the second partly.
    Cause(&'static [ExpectedCause], &'static [ExpectedCause]),
    /// The service failed: one of these kinds of failure, and no cause in the machine.
    Failure(&'static [FailureKind]),
    /// Nothing was done to the service.
    Nothing,
}

#[derive(Debug)]
pub(super) struct TrialCondition {
    /// `begin_NAME` and `end_NAME` of lab/trials/conditions.
    pub(super) name: &'static str,
    services: &'static [TrialService],
    /// The bounds of its arguments.
    pub(super) arguments: &'static [RangeInclusive<u64>],
    pub(super) hold_s: RangeInclusive<u64>,
    needs: Need,
    pub(super) truth: Truth,
    /// True if memory is to blame.
    pub(super) is_memory: bool,
    /// Probe of the service that sees it.
    pub(super) probe: TrialProbe,
    pub(super) culprit: TrialCulprit,
}

/// The one who takes the service's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialCulprit {
    /// One of the groups of lab/trials of these names.
    Groups(&'static [&'static str]),
    /// The group that does the service's work, at a limit of its own.
    Work,
    /// The service's disk.
    Disk,
    /// Nobody who could be named: it is not judged.
    Nobody,
}

/// The probes of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialProbe {
    /// The same request as the client's.
    Request,
    /// One that logs in, and stays logged in.
    Login,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    CgroupV2,
    /// Requests that write and sync.
    Sync,
}

const ALL: &[TrialService] = &[App, Nginx, Postgres, Mysql, Redis, Java];
/// The disk of plays on the host is a FUSE file below a loop device.
const DISK: ExpectedCause = ExpectedCause(&["slow-disk", "fuse-server"]);
const IO_LIMIT: ExpectedCause = ExpectedCause(&["io-limit"]);
pub(super) const CPUS: ExpectedCause = ExpectedCause(&["cpu-contention"]);
const STOPPED: ExpectedCause = ExpectedCause(&["stopped-process"]);
const FROZEN: ExpectedCause = ExpectedCause(&["frozen-cgroup"]);
/// Probes over TCP know of their own losses; without a critical path the others are not told apart.
const NETWORK: ExpectedCause =
    ExpectedCause(&["network-loss", "network-wait", "network-or-service"]);
/// Behind a proxy, the service is the program that the proxy waits for.
const SERVICE: ExpectedCause = ExpectedCause(&[
    "service-itself",
    "slow-dependency",
    "listen-queue-full",
    "network-or-service",
]);
pub(super) const FAILURE: ExpectedCause = ExpectedCause(&["service-failure"]);

const SWAP: &[ExpectedCause] = &[
    ExpectedCause(&["swap-thrash"]),
    ExpectedCause(&["cgroup-limit"]),
    ExpectedCause(&["working-set-thrash"]),
];
/// A journal's commit waits for the same disk.
const DISK_OR_JOURNAL: Truth = Truth::Cause(
    &[DISK, ExpectedCause(&["journal-commit"])],
    &[ExpectedCause(&["dirty-throttle"])],
);

pub(super) const CONDITIONS: &[TrialCondition] = &[
    TrialCondition {
        name: "file-limit",
        services: &[App, Nginx, Postgres],
        arguments: &[5..=35],
        hold_s: 4..=8,
        needs: Need::Nothing,
        truth: Truth::Cause(
            &[ExpectedCause(&["working-set-thrash"]), ExpectedCause(&["cgroup-limit"])],
            &[ExpectedCause(&["swap-thrash"])],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Work,
    },
    TrialCondition {
        name: "anon-limit",
        services: &[App, Nginx, Redis],
        arguments: &[8..=25],
        hold_s: 5..=9,
        needs: Need::Nothing,
        truth: Truth::Cause(SWAP, &[]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Work,
    },
    TrialCondition {
        name: "memory-high",
        services: &[App, Nginx, Redis, Postgres],
        arguments: &[2..=15],
        hold_s: 5..=9,
        needs: Need::CgroupV2,
        truth: Truth::Cause(&[ExpectedCause(&["cgroup-throttled"])], SWAP),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Work,
    },
    TrialCondition {
        name: "allocator",
        services: ALL,
        arguments: &[110..=135],
        hold_s: 8..=12,
        needs: Need::Nothing,
        truth: Truth::Cause(
            &[
                ExpectedCause(&["reclaim-storm"]),
                ExpectedCause(&["swap-thrash"]),
                ExpectedCause(&["working-set-thrash"]),
            ],
            &[ExpectedCause(&["min-free-too-low"]), ExpectedCause(&["page-cache-flood"])],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["batch"]),
    },
    TrialCondition {
        name: "flood",
        services: ALL,
        arguments: &[1..=3, 0..=2000],
        hold_s: 6..=10,
        needs: Need::Sync,
        truth: Truth::Cause(
            &[
                ExpectedCause(&["page-cache-flood"]),
                ExpectedCause(&["dirty-throttle"]),
                ExpectedCause(&["dirty-limit-too-high"]),
            ],
            &[DISK, ExpectedCause(&["journal-commit"])],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["writer"]),
    },
    TrialCondition {
        name: "cpu-quota",
        services: ALL,
        arguments: &[2..=5],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["cpu-throttled"])], &[CPUS]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Work,
    },
    TrialCondition {
        name: "cpu-hogs",
        services: ALL,
        arguments: &[4..=10, 20..=100],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[CPUS], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["hogs"]),
    },
    TrialCondition {
        name: "slow-read",
        services: &[App, Nginx, Postgres, Mysql],
        arguments: &[30..=120],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[DISK], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Disk,
    },
    TrialCondition {
        name: "slow-write",
        services: ALL,
        arguments: &[400..=1500],
        hold_s: 4..=8,
        needs: Need::Sync,
        truth: DISK_OR_JOURNAL,
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Disk,
    },
    TrialCondition {
        name: "disk-hang",
        services: ALL,
        arguments: &[],
        hold_s: 2..=5,
        needs: Need::Sync,
        truth: Truth::Cause(
            &[ExpectedCause(&["hung-device"]), DISK, ExpectedCause(&["journal-commit"])],
            &[ExpectedCause(&["dirty-throttle"])],
        ),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Disk,
    },
    TrialCondition {
        name: "io-limit",
        services: ALL,
        arguments: &[2..=4],
        hold_s: 4..=8,
        needs: Need::Sync,
        truth: Truth::Cause(&[IO_LIMIT, DISK], &[ExpectedCause(&["journal-commit"])]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Work,
    },
    TrialCondition {
        name: "fsync-storm",
        services: ALL,
        arguments: &[2..=4, 4..=12],
        hold_s: 5..=8,
        needs: Need::Sync,
        truth: Truth::Cause(
            &[DISK, ExpectedCause(&["journal-commit"])],
            &[ExpectedCause(&["dirty-throttle"]), ExpectedCause(&["page-cache-flood"])],
        ),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["writer"]),
    },
    TrialCondition {
        name: "stop",
        services: ALL,
        arguments: &[],
        hold_s: 2..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[STOPPED], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "freeze",
        services: ALL,
        arguments: &[],
        hold_s: 2..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[FROZEN], &[STOPPED]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "table-lock",
        services: &[Postgres, Mysql],
        arguments: &[],
        hold_s: 2..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["lock-wait"])], &[SERVICE]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "row-lock",
        services: &[Postgres, Mysql],
        arguments: &[],
        hold_s: 2..=6,
        needs: Need::Sync,
        truth: Truth::Cause(&[ExpectedCause(&["lock-wait"])], &[SERVICE]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "busy-script",
        services: &[Redis],
        arguments: &[1200..=3500],
        hold_s: 3..=4,
        needs: Need::Nothing,
        truth: Truth::Cause(&[SERVICE], &[CPUS]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "upstream-sleep",
        services: &[Nginx],
        arguments: &[1500..=5000],
        hold_s: 3..=5,
        needs: Need::Nothing,
        truth: Truth::Cause(&[SERVICE], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "mmap-lock",
        services: &[App, Nginx],
        arguments: &[1200..=4000, 1..=2, 0..=1],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["mmap-lock"])], &[SERVICE]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "slow-population",
        services: &[App, Nginx],
        arguments: &[1200..=4000, 0..=1],
        hold_s: 4..=6,
        needs: Need::Nothing,
        // Requests take memory beside each other.
        truth: Truth::Cause(
            &[ExpectedCause(&["slow-population"])],
            &[ExpectedCause(&["mmap-lock"]), CPUS],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "fork-copy",
        services: &[App, Nginx],
        arguments: &[512..=1536, 1000..=3000],
        hold_s: 4..=6,
        needs: Need::Nothing,
        // Requests fork beside each other.
        truth: Truth::Cause(
            &[ExpectedCause(&["fork-copy"])],
            &[ExpectedCause(&["mmap-lock"]), SERVICE],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "exit-teardown",
        services: &[App, Nginx],
        arguments: &[4000..=8000],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["exit-teardown"])], &[SERVICE]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "kill",
        services: ALL,
        arguments: &[],
        hold_s: 2..=4,
        needs: Need::Nothing,
        truth: Truth::Failure(&[
            FailureKind::Refused,
            FailureKind::Reset,
            FailureKind::Closed,
            // The proxy's answer, and the command's.
            FailureKind::HttpStatus,
            FailureKind::ExitCode,
        ]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "fail",
        services: &[App, Nginx],
        arguments: &[],
        hold_s: 2..=4,
        needs: Need::Nothing,
        truth: Truth::Failure(&[FailureKind::HttpStatus]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "wrong-password",
        services: &[Postgres, Mysql, Redis],
        arguments: &[],
        hold_s: 3..=5,
        needs: Need::Nothing,
        truth: Truth::Failure(&[FailureKind::Authentication]),
        is_memory: false,
        probe: TrialProbe::Login,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "oom",
        services: &[App],
        arguments: &[64..=128],
        hold_s: 3..=5,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["oom-kill"])], &[ExpectedCause(&["cgroup-limit"])]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "oom-restart",
        services: &[App],
        arguments: &[64..=128],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["oom-kill"])], &[ExpectedCause(&["cgroup-limit"])]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "drop-caches",
        services: &[App, Nginx, Postgres, Mysql],
        arguments: &[2..=4, 20..=60],
        hold_s: 5..=8,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["drop-caches"])], &[DISK]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["batch"]),
    },
    TrialCondition {
        name: "compact-loop",
        services: ALL,
        arguments: &[3..=8],
        hold_s: 5..=8,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["proactive-compaction"])], &[CPUS]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["batch"]),
    },
    TrialCondition {
        name: "net-delay",
        services: ALL,
        arguments: &[400..=1200],
        hold_s: 3..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[NETWORK], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "realtime-hogs",
        services: ALL,
        arguments: &[3..=6],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[CPUS], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["hogs"]),
    },
    TrialCondition {
        name: "crowded-cpu",
        services: ALL,
        arguments: &[3..=8, 20..=100],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[CPUS], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["hogs"]),
    },
    TrialCondition {
        name: "folder-limit",
        services: &[App, Nginx, Redis, Postgres],
        arguments: &[64..=160, 4..=24],
        hold_s: 6..=9,
        needs: Need::Nothing,
        truth: Truth::Cause(SWAP, &[]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Groups(&["batch", "services"]),
    },
    TrialCondition {
        name: "frozen-filesystem",
        services: ALL,
        arguments: &[],
        hold_s: 3..=6,
        needs: Need::Sync,
        truth: Truth::Cause(&[ExpectedCause(&["frozen-filesystem"])], &[]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "disk-full",
        services: &[Postgres],
        arguments: &[],
        hold_s: 3..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["disk-full"])], &[FAILURE]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "open-files",
        services: &[App, Nginx, Java],
        arguments: &[],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(
            &[ExpectedCause(&["file-limit"])],
            &[FAILURE, ExpectedCause(&["listen-queue-full"])],
        ),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "task-limit",
        services: &[Postgres],
        arguments: &[],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["task-limit"])], &[FAILURE]),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "full-heap",
        services: &[Java],
        arguments: &[46..=54],
        hold_s: 6..=9,
        needs: Need::Nothing,
        truth: Truth::Cause(&[ExpectedCause(&["garbage-collection"])], &[SERVICE]),
        is_memory: true,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "net-loss",
        services: ALL,
        arguments: &[40..=90],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(
            &[ExpectedCause(&["network-loss"])],
            &[ExpectedCause(&["network-wait", "network-or-service"])],
        ),
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
    TrialCondition {
        name: "none",
        services: ALL,
        arguments: &[],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Nothing,
        is_memory: false,
        probe: TrialProbe::Request,
        culprit: TrialCulprit::Nobody,
    },
];

impl TrialCondition {
    pub(super) fn named(name: &str) -> Option<&'static TrialCondition> {
        CONDITIONS.iter().find(|condition| condition.name == name)
    }

    /// True if it does anything to this service in this boot.
    pub(super) fn suits(&self, service: TrialService, boot: &Boot) -> bool {
        self.services.contains(&service)
            && is_possible(self.name, boot.place)
            && match self.needs {
                Need::Nothing => true,
                Need::CgroupV2 => boot.cgroup == TrialCgroup::V2,
                Need::Sync => boot.syncs(service),
            }
    }
}

/// Conditions that would reach beyond the trials' own cgroups there, need swap, or need a machine whose limit of dirty
/// memory is near.
const NOT_ON_HOST: &[&str] = &[
    "anon-limit",
    "allocator",
    "flood",
    "net-delay",
    "net-loss",
    "realtime-hogs",
    "folder-limit",
    "other-flood",
    "other-swap",
    "other-sync",
    "compaction",
    "drop-caches",
    "compact-loop",
];

pub(super) fn is_possible(name: &str, place: TrialHost) -> bool {
    place == TrialHost::Guest || !NOT_ON_HOST.contains(&name)
}

/// Decoys, and the bounds of their arguments.
pub(super) const DECOYS: &[(&str, &[RangeInclusive<u64>])] = &[
    ("other-flood", &[0..=2000]),
    ("other-swap", &[48..=96]),
    ("other-sync", &[0..=200_000]),
    ("nice-hog", &[]),
    ("compaction", &[3..=6]),
    ("other-oom", &[16..=48]),
];
