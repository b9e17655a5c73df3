//! What is injected, into which services, how strongly, and which causes are right then.

use super::boot::TrialService::{self, App, Java, Mysql, Nginx, Postgres, Redis};
use super::boot::{Boot, TrialCgroup, TrialHost};
use mw_model::FailureKind;
use std::ops::RangeInclusive;

/// A cause that the recorder may name: the rule, and words of which its subject has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedCause {
    pub(super) rule: &'static str,
    /// Lower case; none: any subject.
    pub(super) words: &'static [&'static str],
}

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

const fn rule(rule: &'static str) -> ExpectedCause {
    ExpectedCause { rule, words: &[] }
}

const fn about(rule: &'static str, words: &'static [&'static str]) -> ExpectedCause {
    ExpectedCause { rule, words }
}

const ALL: &[TrialService] = &[App, Nginx, Postgres, Mysql, Redis, Java];
/// The disk of plays on the host is a FUSE file below a loop device.
const DISK: ExpectedCause = about("not-memory", &["disk", "fuse server"]);
const IO_LIMIT: ExpectedCause = about("not-memory", &["i/o limit"]);
pub(super) const CPUS: ExpectedCause = about("not-memory", &["cpus"]);
const STOPPED: ExpectedCause = about("not-memory", &["stopped process"]);
const FROZEN: ExpectedCause = about("not-memory", &["frozen cgroup"]);
const NETWORK: ExpectedCause = about("not-memory", &["network"]);
pub(super) const SERVICE: ExpectedCause = about("not-memory", &["service"]);

const SWAP: &[ExpectedCause] =
    &[rule("swap-thrash"), rule("cgroup-limit"), rule("working-set-thrash")];
/// A journal's commit waits for the same disk.
const DISK_OR_JOURNAL: Truth =
    Truth::Cause(&[DISK, rule("journal-commit")], &[rule("dirty-throttle")]);

pub(super) const CONDITIONS: &[TrialCondition] = &[
    TrialCondition {
        name: "file-limit",
        services: &[App, Nginx, Postgres],
        arguments: &[5..=35],
        hold_s: 4..=8,
        needs: Need::Nothing,
        truth: Truth::Cause(
            &[rule("working-set-thrash"), rule("cgroup-limit")],
            &[rule("swap-thrash")],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
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
    },
    TrialCondition {
        name: "memory-high",
        services: &[App, Nginx, Redis, Postgres],
        arguments: &[2..=15],
        hold_s: 5..=9,
        needs: Need::CgroupV2,
        truth: Truth::Cause(&[rule("cgroup-throttled")], SWAP),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "allocator",
        services: ALL,
        arguments: &[110..=135],
        hold_s: 8..=12,
        needs: Need::Nothing,
        truth: Truth::Cause(
            &[rule("reclaim-storm"), rule("swap-thrash"), rule("working-set-thrash")],
            &[rule("min-free-too-low"), rule("page-cache-flood")],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "flood",
        services: ALL,
        arguments: &[1..=3, 0..=2000],
        hold_s: 6..=10,
        needs: Need::Sync,
        truth: Truth::Cause(
            &[rule("page-cache-flood"), rule("dirty-throttle"), rule("dirty-limit-too-high")],
            &[DISK, rule("journal-commit")],
        ),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "cpu-quota",
        services: ALL,
        arguments: &[2..=5],
        hold_s: 4..=7,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("cpu-throttled")], &[CPUS]),
        is_memory: false,
        probe: TrialProbe::Request,
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
    },
    TrialCondition {
        name: "disk-hang",
        services: ALL,
        arguments: &[],
        hold_s: 2..=5,
        needs: Need::Sync,
        truth: DISK_OR_JOURNAL,
        is_memory: false,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "io-limit",
        services: ALL,
        arguments: &[2..=4],
        hold_s: 4..=8,
        needs: Need::Sync,
        truth: Truth::Cause(&[IO_LIMIT, DISK], &[rule("journal-commit")]),
        is_memory: false,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "fsync-storm",
        services: ALL,
        arguments: &[2..=4, 4..=12],
        hold_s: 5..=8,
        needs: Need::Sync,
        truth: Truth::Cause(
            &[DISK, rule("journal-commit")],
            &[rule("dirty-throttle"), rule("page-cache-flood")],
        ),
        is_memory: false,
        probe: TrialProbe::Request,
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
    },
    TrialCondition {
        name: "table-lock",
        services: &[Postgres, Mysql],
        arguments: &[],
        hold_s: 2..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("lock-wait")], &[SERVICE]),
        is_memory: false,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "row-lock",
        services: &[Postgres, Mysql],
        arguments: &[],
        hold_s: 2..=6,
        needs: Need::Sync,
        truth: Truth::Cause(&[rule("lock-wait")], &[SERVICE]),
        is_memory: false,
        probe: TrialProbe::Request,
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
    },
    TrialCondition {
        name: "mmap-lock",
        services: &[App, Nginx],
        arguments: &[1200..=4000, 1..=2, 0..=1],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("mmap-lock")], &[SERVICE]),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "slow-population",
        services: &[App, Nginx],
        arguments: &[1200..=4000, 0..=1],
        hold_s: 4..=6,
        needs: Need::Nothing,
        // Requests take memory beside each other.
        truth: Truth::Cause(&[rule("slow-population")], &[rule("mmap-lock"), CPUS]),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "fork-copy",
        services: &[App, Nginx],
        arguments: &[512..=1536, 1000..=3000],
        hold_s: 4..=6,
        needs: Need::Nothing,
        // Requests fork beside each other.
        truth: Truth::Cause(&[rule("fork-copy")], &[rule("mmap-lock"), SERVICE]),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "exit-teardown",
        services: &[App, Nginx],
        arguments: &[4000..=8000],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("exit-teardown")], &[SERVICE]),
        is_memory: true,
        probe: TrialProbe::Request,
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
    },
    TrialCondition {
        name: "oom",
        services: &[App],
        arguments: &[64..=128],
        hold_s: 3..=5,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("oom-kill")], &[rule("cgroup-limit")]),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "oom-restart",
        services: &[App],
        arguments: &[64..=128],
        hold_s: 4..=6,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("oom-kill")], &[rule("cgroup-limit")]),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "drop-caches",
        services: &[App, Nginx, Postgres, Mysql],
        arguments: &[2..=4, 20..=60],
        hold_s: 5..=8,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("drop-caches")], &[DISK]),
        is_memory: true,
        probe: TrialProbe::Request,
    },
    TrialCondition {
        name: "compact-loop",
        services: ALL,
        arguments: &[3..=8],
        hold_s: 5..=8,
        needs: Need::Nothing,
        truth: Truth::Cause(&[rule("proactive-compaction")], &[CPUS]),
        is_memory: true,
        probe: TrialProbe::Request,
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

/// Conditions that would reach beyond the trials' own cgroups there, or need swap.
const NOT_ON_HOST: &[&str] = &[
    "anon-limit",
    "allocator",
    "cpu-hogs",
    "net-delay",
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
