//! # sync-of-all
//!
//! A task called sync(2) and waited for the data of every file system.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request waited in sync(2), which includes what others wrote to other
//! devices.
//!
//! ## Why it hurts
//! sync(2) writes back all dirty data of all mounted file systems, one after the other, and waits (`ksys_sync`,
//! fs/sync.c, Linux 5.10 to 7.3). A USB stick or a network mount to which somebody copies holds up a program that meant
//! its own few files. Unmounting waits for its own file system only (`sync_inodes_sb`, fs/fs-writeback.c), but also for
//! a sync(2) that is at it: both hold `s_umount`.
//!
//! ## What it looks like
//! A task in state D in `wb_wait_for_completion` or `folio_wait_writeback` below `ksys_sync`; `Dirty` and `Writeback`
//! in /proc/meminfo are large, and one device writes at its limit.
//!
//! ## How to fix it
//! Use fsync(2) for the files that matter, or syncfs(2) for one file system (`sync -f FILE`). Limit what a slow device
//! may have dirty: [dirty-limit-too-high](dirty-limit-too-high.md).
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it. The stacks do not show which file system sync(2) waited for.
//!
//! ## References
//! Linux, fs/sync.c, `ksys_sync()`; sync(2), syncfs(2).

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::FunctionSet;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

/// Functions of sync(2) alone; syncfs(2), fsync(2) and umount(2) have others.
const SYNC: FunctionSet =
    FunctionSet::new(&["ksys_sync$", "sync_inodes_one_sb", "sync_fs_one_sb", "__do_sys_sync$"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[SYNC];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(seen) = StackEvidence::find(stall, |stack| SYNC.are_in(stack)) else {
        return Ok(None);
    };
    let headline = format!("{} synced every file system", seen.task());
    let finding = Finding::new(Severity::Warning, Area::Disk, headline)
        .with_impact("sync(2) waits for what all programs wrote to all devices.")
        .with_remedy(Remedy::named(
            "use fsync(2) or syncfs(2) for the files that matter",
            vec![Step::manual("grep -E '^(Dirty|Writeback):' /proc/meminfo")],
        ));
    seen.cause(finding)
}
