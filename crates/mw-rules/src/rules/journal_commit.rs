//! # journal-commit
//!
//! The service waited for fsync or a journal commit.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request waited in fsync(2), in a synchronous write, or for the
//! journal of the file system. Memory was not the cause.
//!
//! ## Why it hurts
//! A database answers a commit after fsync(2). A slow disk, a full queue or a journal that is being written
//! delays every commit, and with it every client.
//!
//! ## What it looks like
//! Tasks of the service are in `jbd2_log_wait_commit`, `folio_wait_writeback` below fsync, or
//! `submit_bio_wait`; the disk is busy.
//!
//! ## How to fix it
//! Put the log of the database on a disk of its own; give other writers a smaller I/O weight; look at the
//! latency of the disk (`iostat -x 1`).
//!
//! ## Threshold
//! These waits take at least half of the request, and no flood of other writers explains them.
//!
//! ## References
//! Linux, Documentation/filesystems/ext4/journal.rst; fsync(2).

use crate::busy_disk::disk_of;
use crate::path_words::named;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const CONFIRMED: u8 = 85;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const OWN: &[TimeClass] = &[TimeClass::Journal, TimeClass::FileWrite];
    let Some(request) = stall.request else { return Ok(None) };
    let Some(part) = request.largest(OWN) else { return Ok(None) };
    let disk = disk_of(stall, &part.task);
    let headline = format!("{} waited for a sync to {disk}", named(stall, &part.task));
    let finding = Finding::new(Severity::Critical, Area::Disk, headline)
        .with_impact("Every commit waited for the disk, and the clients for the commit.")
        .with_remedy(Remedy::named(
            "put the log on a disk of its own, or give other writers a smaller I/O weight",
            vec![Step::manual("iostat -x 1")],
        ));
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}
