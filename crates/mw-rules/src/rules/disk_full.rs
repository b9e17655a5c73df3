//! # disk-full
//!
//! A file system of the service had no space left.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The service failed at once and said that no space was left: by its own code
//! (SQLSTATE 53100, error 1021 of MySQL), by ENOSPC, or in words. Memory was not the cause.
//!
//! ## Why it hurts
//! Writes fail until space is free. PostgreSQL stops if it cannot write its log; MySQL waits and tries again.
//!
//! ## What it looks like
//! `df -h` shows 100%, or `df -i` if it is inodes that ran out; the log has `No space left on device`.
//!
//! ## How to fix it
//! Remove what is not needed, first files that are deleted and still open (`lsof +L1`), or enlarge the file system.
//!
//! ## Threshold
//! The service said so itself. Where a tmpfs is nearly full, that is the cause (`tmpfs-full`).
//!
//! ## References
//! errno(3), ENOSPC; PostgreSQL, "PostgreSQL Error Codes", class 53; df(1).

use crate::path_words::manual;
use crate::rules::{service_failure, tmpfs_full};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, FailureKind, Finding, Missing, Quantity, Severity};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let said_so = stall.failed_by(FailureKind::NoSpace, &["no space left on device", "enospc"]);
    let is_failure = said_so && service_failure::kind(stall).is_some();
    if !is_failure || matches!(tmpfs_full::cause(stall), Ok(Some(_))) {
        return Ok(None);
    }
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let headline = "a file system of the service was full";
    let finding = Finding::new(Severity::Critical, Area::Disk, headline)
        .with_evidence("error of the service", Quantity::Text(said), "probe")
        .with_impact("Writes fail until space is free.")
        .with_remedy(manual("free space, or enlarge the file system", "df -h; df -i; lsof +L1"));
    Ok(Some(Suspect::new(finding, service_failure::CERTAIN)))
}
