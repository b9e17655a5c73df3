//! Stalls and failures of which the recorder named a wrong cause before it followed the request's critical path,
//! played again with what is said now.

use super::boot::{Boot, TrialCgroup, TrialHost, TrialService};
use super::play::{Injection, Play};

/// One that strangers met.
pub(super) struct Former {
    pub(super) what: &'static str,
    /// Diagnosis at the time.
    pub(super) said: &'static str,
    service: TrialService,
    condition: (&'static str, &'static [u64]),
    decoy: Option<(&'static str, &'static [u64])>,
    hold_s: u64,
}

/// No seed has this number.
const SEED: u64 = 0;

const fn on(
    service: TrialService,
    condition: (&'static str, &'static [u64]),
    hold_s: u64,
    what: &'static str,
    said: &'static str,
) -> Former {
    Former { what, said, service, condition, decoy: None, hold_s }
}

/// In the order of the plays.
pub(super) const FORMER: &[Former] = &[
    on(
        TrialService::Postgres,
        ("wrong-password", &[]),
        3,
        "the database's password has changed",
        "CPU load (63 to 75%)",
    ),
    on(
        TrialService::Postgres,
        ("kill", &[]),
        3,
        "nothing listens any more",
        "CPU load (63 to 75%)",
    ),
    on(
        TrialService::Postgres,
        ("table-lock", &[]),
        5,
        "LOCK TABLE for 5 s",
        "processors busy (75%)",
    ),
    Former {
        decoy: Some(("other-sync", &[0])),
        ..on(
            TrialService::Postgres,
            ("row-lock", &[]),
            5,
            "a row lock, beside another program that syncs",
            "the other program's sync",
        )
    },
    Former {
        decoy: Some(("compaction", &[4])),
        ..on(
            TrialService::Postgres,
            ("table-lock", &[]),
            4,
            "a table lock, beside another program's compaction",
            "the other program's compaction",
        )
    },
    on(
        TrialService::App,
        ("file-limit", &[10]),
        7,
        "a file-backed working set in a cgroup that is too small",
        "not memory",
    ),
    on(
        TrialService::App,
        ("fork-copy", &[1024, 1500]),
        5,
        "forks of a large process",
        "the network or the service itself; the machine was calm",
    ),
    on(
        TrialService::App,
        ("mmap-lock", &[3000, 2]),
        6,
        "a thread that holds the lock of its own address space",
        "the network or the service itself",
    ),
    on(
        TrialService::App,
        ("cpu-quota", &[3]),
        6,
        "a CPU quota of its cgroup",
        "memwright itself (75%)",
    ),
    on(
        TrialService::App,
        ("flood", &[2, 0]),
        9,
        "a flood of the page cache on a slow disk",
        "an unrelated shell",
    ),
    on(
        TrialService::App,
        ("oom", &[96]),
        4,
        "an OOM kill by the limit of its cgroup",
        "an OOM kill; neither cgroup nor limit was named",
    ),
    on(TrialService::Postgres, ("kill", &[]), 90, "an outage of 90 s", "an outage of 1 min 0 s"),
];

/// All of them are of one boot.
pub(super) fn boot() -> Boot {
    Boot {
        kernel: "6.12".to_owned(),
        cgroup: TrialCgroup::V2,
        memory_mib: 1536,
        services: vec![TrialService::Postgres, TrialService::App],
        app_syncs: 1,
        ..Boot::of(TrialHost::Guest, SEED, 0)
    }
}

pub(super) fn plays() -> Vec<Play> {
    let injection = |(name, arguments): (&str, &[u64])| Injection {
        name: name.to_owned(),
        arguments: arguments.to_vec(),
    };
    let play = |(index, former): (u32, &Former)| Play {
        seed: SEED,
        index,
        service: former.service,
        quiet_s: 4,
        hold_s: former.hold_s,
        conditions: vec![injection(former.condition)],
        decoys: former.decoy.map(injection).into_iter().collect(),
    };
    (0..).zip(FORMER).map(play).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suits_the_boot() {
        let boot = boot();
        for play in plays() {
            let conditions: Vec<_> = play.conditions().collect();
            assert_eq!(conditions.len(), 1, "{}", play.label());
            assert!(conditions.iter().all(|c| c.suits(play.service, &boot)), "{}", play.label());
        }
    }
}
