//! # file-server
//!
//! The service waited for a file server, such as one of NFS, SMB or Ceph.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request a task waited in the client of a file system over
//! the network (NFS, SMB, Ceph, 9p, Lustre), or for a lock of a cluster file system. A slow server and a lossy network look the same from here. Memory was not the cause.
//!
//! ## Why it hurts
//! Every access to files of the mount waits for the server. With the option `hard` an NFS client waits forever for a
//! server that is gone, and the task cannot be killed by most signals.
//!
//! ## What it looks like
//! Tasks are in state D in `rpc_wait_bit_killable`, `wait_for_response` or `ceph_mdsc_wait_request`; the kernel's log has
//! `nfs: server NAME not responding`.
//!
//! ## How to fix it
//! Look at the latency of the mount (`nfsiostat 1`, `cat /proc/self/mountstats`), then at the server and at the network.
//!
//! ## Threshold
//! The wait takes at least half of the request. Without a critical path, this rule finds nothing.
//!
//! ## References
//! nfs(5); nfsiostat(8); mount.cifs(8); Linux, Documentation/filesystems/ceph.rst.

use crate::path_words::{manual, named};
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{RunMode, TimeClass, TimeKind, Wait};
use mw_model::{Area, Finding, Missing, Severity};

pub(crate) const ANSWER: &[TimeClass] = &[TimeClass::Nfs];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(time) = SpentTime::on(request, ANSWER) else { return Ok(None) };
    let is_nfs = matches!(
        time.part.kind,
        TimeKind::Waiting(Wait::Nfs) | TimeKind::Running(RunMode::In(Wait::Nfs))
    );
    let (area, server, command) = match is_nfs {
        true => (Area::NfsServer, "an NFS server", "nfsiostat 1"),
        false => {
            (Area::FileServer, "a file server", "findmnt -t cifs,smb3,ceph,9p,gfs2,ocfs2,lustre")
        }
    };
    let headline = format!("{} waited for {server}", named(stall, &time.part.task));
    let finding = Finding::new(Severity::Warning, area, headline)
        .with_impact("Every access to files of this mount waits for the server or the network.")
        .with_remedy(manual("look at the latency of the mount", command));
    Ok(Some(time.cause(finding, CONFIRMED)))
}
