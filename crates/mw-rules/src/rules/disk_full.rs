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
//! The service said so itself; or a local file system has no space for users other than root, or no inode, while the
//! service fails or waits for nothing that the machine lacks. Where a tmpfs is nearly full, that is the cause (`tmpfs-full`).
//!
//! ## References
//! errno(3), ENOSPC; PostgreSQL, "PostgreSQL Error Codes", class 53; df(1).

use crate::named_limit::{self, NamedLimit};
use crate::path_words::manual;
use crate::reached_limit;
use crate::rules::{service_failure, tmpfs_full};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Quantity, ReachedLimitKind, Severity};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let said_so = named_limit::named(stall) == Some(NamedLimit::Space);
    let is_failure = said_so && service_failure::kind(stall).is_some();
    if matches!(tmpfs_full::cause(stall), Ok(Some(_))) {
        return Ok(None);
    }
    if !is_failure {
        return Ok(without_space(stall));
    }
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let headline = "a file system of the service was full";
    let finding =
        finding(headline).with_evidence("error of the service", Quantity::Text(said), "probe");
    Ok(Some(Suspect::new(finding, service_failure::CERTAIN)))
}

/// By the file systems themselves: a service that stopped because of it, or waits and tries again, does not say so.
fn without_space(stall: &StallWindow<'_>) -> Option<Suspect> {
    let reached =
        reached_limit::find(stall, &[ReachedLimitKind::DiskSpace, ReachedLimitKind::Inodes])?;
    let (state, what, quantity) = match reached.kind {
        ReachedLimitKind::Inodes => ("has no inode left", "inodes", Quantity::Count(reached.used)),
        _ => ("is full", "bytes in use", Quantity::Bytes(reached.used)),
    };
    let headline = format!("file system {} {state}", reached.holder);
    let finding = finding(&headline).with_evidence(what, quantity, "statfs");
    Some(reached_limit::suspect(stall, finding))
}

fn finding(headline: &str) -> Finding {
    Finding::new(Severity::Critical, Area::Disk, headline)
        .with_impact("Writes fail until space is free.")
        .with_remedy(manual("free space, or enlarge the file system", "df -h; df -i; lsof +L1"))
}
