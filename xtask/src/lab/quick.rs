//! The runs of `cargo xtask ci`: each field report once, and a decoy in which memory is not
//! the cause. `cargo xtask ci --full` runs every case.

/// One run of the quick list.
pub(super) struct QuickRun {
    /// `CASE/VARIANT`.
    pub(super) name: &'static str,
    /// Claim that it proves and no other run of this list proves.
    pub(super) reason: &'static str,
    /// What it measures changes with another guest on the same CPUs.
    pub(super) alone: bool,
}

/// Finding of `check`, and changes of `fix` and `undo`.
pub(super) const CHECKED: &[QuickRun] = &[
    QuickRun {
        name: "ram-starved-cluster/128k",
        reason: "field report 4: dirty limits, heartbeats missed, fixed and reverted",
        alone: false,
    },
    QuickRun {
        name: "fragmented-node/pinned",
        reason: "field report 1: no huge pages after a job that thrashed; a fix that says it has not helped",
        alone: true,
    },
    QuickRun {
        name: "mysql-stall/redis",
        reason: "field report 3: compaction in page faults, fixed and reverted",
        alone: false,
    },
    QuickRun {
        name: "vmtasks/cpus-4",
        reason: "field report 5: segments of every kind, by all CPUs of two nodes",
        alone: false,
    },
    QuickRun {
        name: "slow-shared-memory/ramfs",
        reason: "field report 2: zone reclaim on a node that a ramdisk fills",
        alone: true,
    },
    QuickRun {
        name: "make-room/copy",
        reason: "make-room drops what a copy has read, and not what a database uses",
        alone: false,
    },
];

/// Cause of a stall that the recorder names.
pub(super) const WATCHED: &[QuickRun] = &[
    QuickRun {
        name: "forced-reclaim/firing",
        reason: "the cause, and who makes the kernel reclaim",
        alone: false,
    },
    QuickRun {
        name: "decoy-stopped-process/stopped",
        reason: "the recorder does not blame memory for a stopped server",
        alone: false,
    },
];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    #[test]
    fn each_quick_run_exists_and_has_a_reason() {
        let folder = crate::workspace::root().join("lab");
        for run in CHECKED.iter().chain(WATCHED) {
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
            assert!(CHECKED.iter().any(is_of), "{}", report.case);
        }
    }
}
