//! # tmpfs-full
//!
//! A filesystem in memory has no room left.
//!
//! ## What it finds
//! A writable tmpfs of which 95% of the space or of the inodes are used.
//!
//! As the cause of a stall: the service answered that there is no space left while this was so.
//!
//! ## Why it hurts
//! POSIX shared memory (`shm_open`) lives in /dev/shm: when it is full, `posix_fallocate` fails with
//! ENOSPC, and a program that maps first and touches later is killed by SIGBUS. In /tmp and /run
//! other services fail.
//!
//! ## What it looks like
//! "No space left on device" or "Bus error" from a program that handles large shared memory while
//! `free` shows plenty.
//!
//! ## Threshold
//! 95% is a warning. For /dev/shm 99% is critical: shared segments are created there in large
//! pieces. A tmpfs below 1 MiB is somebody's marker, not storage.
//!
//! ## How to fix it
//! Remove what is left over (`ls -l /dev/shm`; segments of programs that are gone stay), or enlarge
//! it: `mount -o remount,size=16G /dev/shm`. Note that a tmpfs takes its memory from everybody (see
//! unreclaimable-ramfs); enlarging it is proposed only where there is memory available to fill it.
//!
//! ## References
//! Linux, Documentation/filesystems/tmpfs.rst; shm_overview(7).

use crate::share::percent;
use crate::stall::Stall;
use crate::suspicion::Suspicion;
use mw_model::{
    Cause, Finding, MemoryFilesystem, Missing, Quantity, Remedy, Severity, Step, Window, derived,
    format_bytes,
};

const WARNING_PERCENT: f64 = 95.0;
const CRITICAL_PERCENT: f64 = 99.0;
const MIN_BYTES: u64 = 1 << 20;
const SHARED_MEMORY: &str = "/dev/shm";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let filesystems = window.now.filesystems.need()?;
    let available = derived::ready_bytes(&window.now).unwrap_or(u64::MAX);
    Ok(filesystems
        .iter()
        .filter(|f| f.fstype == "tmpfs" && !f.read_only)
        .filter(|f| f.size_bytes.is_some_and(|size| size >= MIN_BYTES))
        .filter_map(|filesystem| finding(filesystem, available))
        .collect())
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    Suspicion::of_refusal(
        stall,
        hazard(stall.window)?,
        &["no space left on device", "enospc", "bus error"],
    )
}

fn finding(filesystem: &MemoryFilesystem, available_bytes: u64) -> Option<Finding> {
    let (size, used) = (filesystem.size_bytes?, filesystem.used_bytes?);
    let space = percent(used, size);
    let inodes =
        filesystem.inodes.zip(filesystem.inodes_used).map_or(0.0, |(all, used)| percent(used, all));
    let target = &filesystem.target;
    let (share, headline, grow) = if space >= WARNING_PERCENT {
        let headline = format!("{target} holds {} of {}", format_bytes(used), format_bytes(size));
        // There must be memory for what the filesystem may grow by.
        let grow =
            (size <= available_bytes).then(|| format!("size={}M", size.saturating_mul(2) >> 20));
        (space, headline, grow)
    } else if inodes >= WARNING_PERCENT {
        let all = filesystem.inodes.unwrap_or(0);
        let headline = format!("{target} has used {inodes:.0}% of its {all} inodes");
        (inodes, headline, Some(format!("nr_inodes={}", all.saturating_mul(2))))
    } else {
        return None;
    };
    let severity = if target == SHARED_MEMORY && share >= CRITICAL_PERCENT {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let mut steps = vec![Step::manual_on("ls -lS", target)];
    let summary = match grow {
        Some(grow) => {
            steps.push(Step::manual_on(&format!("mount -o remount,{grow}"), target));
            "remove leftover files, or enlarge the filesystem"
        }
        None => "remove leftover files: there is no memory to enlarge the filesystem by",
    };
    Some(
        Finding::new(severity, target.clone(), headline)
            .seen("space used", Quantity::Percent(space), "statfs")
            .seen("inodes used", Quantity::Percent(inodes), "statfs")
            .hurts("Shared memory created there fails with ENOSPC, or kills its program by SIGBUS.")
            .mended_by(Remedy::named(summary, steps)),
    )
}
