//! # frozen-filesystem
//!
//! A file system was frozen, and every task that wrote to it waited.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. A task waited to write to a file, to create one, or to change a page of a
//! mapped file, until the file system was thawed. Memory was not the cause, and neither was the speed of a disk.
//!
//! ## Why it hurts
//! FIFREEZE (`fsfreeze`, LVM snapshots, the agent of a hypervisor's backup) blocks all writers of the file system until
//! FITHAW. A backup that fails between the two leaves it frozen.
//!
//! ## What it looks like
//! Tasks are in state D in `percpu_rwsem_wait` below `vfs_write` or `mnt_want_write`. The disk is idle, and reads go on.
//!
//! ## How to fix it
//! Thaw it: `fsfreeze --unfreeze MOUNTPOINT`, or with magic SysRq `j`, which thaws all file systems. Let the backup
//! freeze for no longer than the snapshot takes.
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it. Read on 5.10 to 7.3, on ext4. Reads of a frozen file system do not wait.
//!
//! ## References
//! fsfreeze(8); ioctl_fs(2), FIFREEZE; Linux, fs/super.c, `freeze_super()`; Documentation/admin-guide/sysrq.rst.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{
    FILESYSTEM_WRITERS, FunctionSet, PER_CPU_LOCK, is_wait_for_frozen_filesystem,
};
use mw_critical_path::{PathPart, TimeClass, TimeKind, Wait};
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

pub(crate) const FUNCTIONS: &[FunctionSet] = &[FILESYSTEM_WRITERS, PER_CPU_LOCK];

pub(crate) const FROZEN: &[TimeClass] = &[TimeClass::FilesystemFrozen];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(seen) = StackEvidence::find_part(stall, is_wait, is_wait_for_frozen_filesystem) else {
        return Ok(None);
    };
    let headline = format!("a frozen file system blocked {}", seen.task());
    let finding = Finding::new(Severity::Critical, Area::FrozenFilesystem, headline)
        .with_impact("Nobody writes to the file system until it is thawed; reads go on.")
        .with_remedy(Remedy::named(
            "thaw the file system",
            vec![Step::manual("fsfreeze --unfreeze MOUNTPOINT")],
        ));
    seen.cause(finding)
}

/// The wake-up shows it where the trace began later than the wait.
fn is_wait(part: &PathPart) -> bool {
    part.kind == TimeKind::Waiting(Wait::FilesystemFrozen)
        || is_wait_for_frozen_filesystem(&part.stack)
}
