//! # fuse-server
//!
//! The service waited for the server of a FUSE file system.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request a task waited for the answer of a FUSE server, and
//! what that server did is not on the critical path. Memory was not the cause.
//!
//! ## Why it hurts
//! Every access to files of a FUSE file system waits for a program: s3fs, sshfs, glusterfs, lxcfs. If it hangs, so does
//! each task that opens or stats a file below its mount point.
//!
//! ## What it looks like
//! Tasks are in state D or S in `request_wait_answer`; /sys/fs/fuse/connections/N/waiting is above zero.
//!
//! ## How to fix it
//! Find the server of the file system (`findmnt -t fuse`) and what it waits for (`memwright why --pid PID`). A server
//! that is gone is cut off by a write to /sys/fs/fuse/connections/N/abort.
//!
//! ## Threshold
//! The wait takes at least half of the request. Without a critical path, this rule finds nothing.
//!
//! ## References
//! Linux, Documentation/filesystems/fuse.rst; fuse(4).

use crate::path_words::{manual, named};
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Area, Finding, Missing, Severity};

pub(crate) const ANSWER: &[TimeClass] = &[TimeClass::Fuse];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(time) = SpentTime::on(request, ANSWER) else { return Ok(None) };
    let headline = format!("{} waited for a FUSE server", named(stall, &time.part.task));
    let finding = Finding::new(Severity::Warning, Area::FuseServer, headline)
        .with_impact("Every access to files of this file system waits for its server.")
        .with_remedy(manual("find the server of the file system", "findmnt -t fuse"));
    Ok(Some(time.cause(finding, CONFIRMED)))
}
