//! The lab's quick list: each field report once, what the recorder names, and a decoy in which memory is not the cause.
//! A run of `cargo xtask ci` plays one part of it, `cargo xtask ci --whole` all, `--full` every case of the lab.

/// One run of the quick list.
pub(super) struct QuickRun {
    /// `CASE/VARIANT`.
    pub(super) name: &'static str,
    /// Claim that it proves and no other run of this list proves.
    pub(super) reason: &'static str,
}

/// Runs that are played together.
pub(super) struct QuickPart {
    pub(super) title: &'static str,
    pub(super) runs: &'static [QuickRun],
    /// True if the recorder's cause of a stall is judged; the finding of `check` and the changes of `fix` and `undo`,
    /// if not.
    pub(super) watched: bool,
    /// Number of guests at once: what some measure changes with another guest on the same CPUs.
    pub(super) guests: u16,
}

pub(super) const PARTS: &[QuickPart] = &[
    QuickPart {
        title: "lab: a starved cluster, and room",
        runs: &[
            QuickRun {
                name: "ram-starved-cluster/128k",
                reason: "field report 4: dirty limits, heartbeats missed, fixed and reverted",
            },
            QuickRun {
                name: "make-room/copy",
                reason: "make-room drops what a copy has read, and not what a database uses",
            },
        ],
        watched: false,
        guests: 2,
    },
    QuickPart {
        title: "lab: compaction, and segments",
        runs: &[
            QuickRun {
                name: "mysql-stall/redis",
                reason: "field report 3: compaction in page faults, fixed and reverted",
            },
            QuickRun {
                name: "vmtasks/cpus-4",
                reason: "field report 5: segments of every kind, by all CPUs of two nodes",
            },
        ],
        watched: false,
        guests: 2,
    },
    QuickPart {
        title: "lab: fragmentation, and zone reclaim",
        runs: &[
            QuickRun {
                name: "fragmented-node/pinned",
                reason: "field report 1: no huge pages after a job that thrashed; a fix that says it has not helped",
            },
            QuickRun {
                name: "slow-shared-memory/ramfs",
                reason: "field report 2: zone reclaim on a node that a ramdisk fills",
            },
        ],
        watched: false,
        guests: 1,
    },
    QuickPart {
        title: "lab: what the recorder names",
        runs: &[
            QuickRun {
                name: "forced-reclaim/firing",
                reason: "the cause, and who makes the kernel reclaim",
            },
            QuickRun {
                name: "decoy-stopped-process/stopped",
                reason: "the recorder does not blame memory for a stopped server",
            },
        ],
        watched: true,
        guests: 2,
    },
];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    #[test]
    fn each_quick_run_exists_and_has_a_reason() {
        let folder = crate::workspace::root().join("lab");
        for run in PARTS.iter().flat_map(|part| part.runs) {
            let chosen = mw_lab::catalogue::select(&folder, &[run.name.to_owned()], &[]).unwrap();
            assert_eq!(chosen.len(), 1, "{}", run.name);
            assert!(!run.reason.is_empty(), "{}", run.name);
        }
    }

    #[test]
    fn every_field_report_has_a_quick_run() {
        let folder = crate::workspace::root().join("lab");
        let reports =
            mw_lab::catalogue::select(&folder, &[], &[mw_lab::CaseKind::FieldReport]).unwrap();
        for report in reports {
            let is_of = |run: &QuickRun| run.name.starts_with(&format!("{}/", report.case));
            let is_checked = |part: &QuickPart| !part.watched && part.runs.iter().any(is_of);
            assert!(PARTS.iter().any(is_checked), "{}", report.case);
        }
    }
}
