//! # tmpfs-full
//!
//! A tmpfs is nearly full.
//!
//! ## What it finds
//! A writable tmpfs with 95% of its space or of its inodes in use; or with 90% of its space in use and less than 16 MiB left;
//! or, where systemd is process 1, /run with less than 16 MiB left and a quarter in use.
//!
//! As the cause of a stall: the service reported that no space is left under this condition.
//!
//! ## Why it hurts
//! POSIX shared memory (`shm_open`) is in /dev/shm. When it is full, `posix_fallocate` fails with
//! ENOSPC, and a program that maps first and touches later is killed by SIGBUS. In /tmp and /run other
//! services fail. systemd refuses to reload its configuration or to re-execute itself, and with that many updates of packages,
//! while less than 16 MiB are free in /run ("a safety buffer of 16.0M is enforced").
//!
//! ## What it looks like
//! "No space left on device" or "Bus error" from a program with large shared memory while `free` shows
//! plenty.
//!
//! ## How to fix it
//! Remove leftover files (`ls -l /dev/shm`; segments stay when their programs have ended), or enlarge
//! the file system: `mount -o remount,size=16G /dev/shm`. A tmpfs takes its memory from all other
//! programs (see unreclaimable-ramfs); enlarging it is proposed only where memory is available to fill
//! it.
//!
//! ## Threshold
//! 95% is a warning, and 90% where less than 16 MiB are left: programs create shared memory in segments of some MiB, each
//! larger than the one before, so that the next does not fit (a container's /dev/shm has 64 MiB unless it is told otherwise).
//! `shmem_inode_acct_blocks()` (mm/shmem.c) refuses what would exceed the size, and grants nothing in part. It is never critical: any user can fill /dev/shm and /tmp, and only programs that
//! use them fail. A tmpfs below 1 MiB is a marker, not storage, and does not count.
//!
//! ## References
//! Linux, Documentation/filesystems/tmpfs.rst; shm_overview(7); systemd, src/core/dbus-manager.c, `verify_run_space()`.

use crate::cause_score::CauseScore;
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    FailureKind, Finding, MemoryFilesystem, Missing, Process, Quantity, Remedy, Severity, Step,
    Subject, Window, derived, format_bytes, format_count,
};

const WARNING_PERCENT: f64 = 95.0;
const MIN_BYTES: u64 = 1 << 20;

/// A small file system has too little left for one segment before it is as full as that.
const SMALL_WARNING_PERCENT: f64 = 90.0;
const SEGMENT_BYTES: u64 = 16 << 20;

const SERVICE_MANAGER: &str = "systemd";

/// The runtime directory of systemd, which keeps as much free there as [`SEGMENT_BYTES`] (`RELOAD_DISK_SPACE_MIN`).
const RUNTIME_DIRECTORY: &str = "/run";
const RUNTIME_PERCENT: f64 = 25.0;

/// True if systemd refuses to reload, because of what is in use there.
fn is_below_buffer(target: &str, size: u64, used: u64) -> bool {
    target == RUNTIME_DIRECTORY
        && size.saturating_sub(used) < SEGMENT_BYTES
        && percent(used, size) >= RUNTIME_PERCENT
}

/// True if hardly anything more fits.
fn is_full(size: u64, used: u64) -> bool {
    let share = percent(used, size);
    let is_short = size.saturating_sub(used) < SEGMENT_BYTES && share >= SMALL_WARNING_PERCENT;
    share >= WARNING_PERCENT || is_short
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let filesystems = window.now.filesystems.required()?;
    let available = derived::ready_bytes(&window.now).unwrap_or(u64::MAX);
    let processes = window.now.processes.value().map_or(&[][..], |all| all.list.as_slice());
    let is_manager =
        |process: &Process| process.status.pid == Some(1) && process.status.name == SERVICE_MANAGER;
    let has_systemd = processes.iter().any(is_manager);
    Ok(filesystems
        .iter()
        .filter(|f| f.fstype == "tmpfs" && !f.read_only)
        .filter(|f| f.size_bytes.is_some_and(|size| size >= MIN_BYTES))
        .filter_map(|filesystem| {
            finding(filesystem, available)
                .or_else(|| below_buffer(filesystem).filter(|_| has_systemd))
        })
        .collect())
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    CauseScore::refusal_cause(
        stall,
        hazard(stall.window)?,
        |subject| format!("{subject} was full"),
        FailureKind::NoSpace,
        &["no space left on device", "enospc", "bus error"],
    )
}

fn finding(filesystem: &MemoryFilesystem, available_bytes: u64) -> Option<Finding> {
    let (size, used) = (filesystem.size_bytes?, filesystem.used_bytes?);
    let space = percent(used, size);
    let inodes =
        filesystem.inodes.zip(filesystem.inodes_used).map_or(0.0, |(all, used)| percent(used, all));
    let target = &filesystem.target;
    let (headline, grow) = if is_full(size, used) {
        let headline = format!("{target} is nearly full: {}", used_words(filesystem, size, used));
        // Memory must be available for what the file system may grow by.
        let grow =
            (size <= available_bytes).then(|| format!("size={}M", size.saturating_mul(2) >> 20));
        (headline, grow)
    } else if inodes >= WARNING_PERCENT {
        let all = filesystem.inodes.unwrap_or(0);
        let headline = format!("{target} uses {inodes:.0}% of its {all} inodes");
        (headline, Some(format!("nr_inodes={}", all.saturating_mul(2))))
    } else {
        return None;
    };
    let mut steps = vec![Step::manual_on("ls -lS", target)];
    let summary = match grow {
        Some(grow) => {
            steps.push(Step::manual_on(&format!("mount -o remount,{grow}"), target));
            "remove leftover files, or enlarge the file system"
        }
        None => "remove leftover files: too little memory is available to enlarge the file system",
    };
    Some(
        Finding::new(Severity::Warning, Subject::Mount(target.clone()), headline)
            .with_evidence("space used", Quantity::Percent(space), "statfs")
            .with_evidence("inodes used", Quantity::Percent(inodes), "statfs")
            .with_impact(
                "Creating shared memory there fails with ENOSPC, or its program is killed by SIGBUS. Files of ended programs \
                 stay until they are removed.",
            )
            .with_remedy(Remedy::named(summary, steps)),
    )
}

/// Space in use, and by how many files.
fn used_words(filesystem: &MemoryFilesystem, size: u64, used: u64) -> String {
    let files = filesystem.inodes_used.map(|files| format!(" by {}", format_count(files, "file")));
    format!("{} of {} used{}", format_bytes(used), format_bytes(size), files.unwrap_or_default())
}

/// A finding of the runtime directory, where systemd refuses to reload.
fn below_buffer(filesystem: &MemoryFilesystem) -> Option<Finding> {
    let (size, used) = (filesystem.size_bytes?, filesystem.used_bytes?);
    let target = &filesystem.target;
    if !is_below_buffer(target, size, used) {
        return None;
    }
    let headline = format!(
        "{target} has less than 16 MiB free, and systemd refuses to reload: {}",
        used_words(filesystem, size, used)
    );
    let steps = vec![
        Step::manual_on("ls -lS", target),
        Step::manual_on(
            &format!("mount -o remount,size={}M", size.saturating_mul(2) >> 20),
            target,
        ),
    ];
    Some(
        Finding::new(Severity::Warning, Subject::Mount(target.clone()), headline)
            .with_evidence("space used", Quantity::Percent(percent(used, size)), "statfs")
            .with_impact(
                "systemctl daemon-reload and updates of packages fail, although memory is free.",
            )
            .with_remedy(Remedy::named("enlarge it, or keep the files elsewhere", steps)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_one_is_full_before_a_large_one() {
        const MIB: u64 = 1 << 20;
        assert!(is_full(64 * MIB, 60 * MIB));
        assert!(!is_full(64 * MIB, 56 * MIB), "87%");
        assert!(!is_full(1000 * MIB, 930 * MIB), "70 MiB are left");
        assert!(is_full(1000 * MIB, 950 * MIB));
        assert!(is_below_buffer("/run", 24 * MIB, 11 * MIB));
        assert!(!is_below_buffer("/run", 24 * MIB, 7 * MIB), "17 MiB are left");
        assert!(!is_below_buffer("/run", 12 * MIB, 2 * MIB), "it is small from the start");
        assert!(!is_below_buffer("/run/lock", 24 * MIB, 11 * MIB));
    }
}
