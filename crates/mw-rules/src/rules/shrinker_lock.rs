//! # shrinker-lock
//!
//! A mount or unmount waited for a shrinker that was freeing objects.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request mounted or unmounted a file system, and waited for the lock
//! that every reclaim of kernel objects holds (shrinker_rwsem; read on Linux 5.10).
//!
//! ## Why it hurts
//! Reclaim calls all shrinkers under shrinker_rwsem, which it takes for reading (`shrink_slab`, mm/vmscan.c). A
//! shrinker that is slow, because it has millions of dentries or waits for a server, keeps it; after each shrinker
//! `shrink_slab` gives the lock up if somebody waits for it. Registering and unregistering one takes it for writing:
//! each mount, unmount (`unregister_shrinker` below `deactivate_locked_super`) and container exit. Linux 6.12 and 7.3
//! run shrinkers under RCU and have a mutex for registrations alone (mm/shrinker.c), so that nobody waits for a
//! shrinker there.
//!
//! ## What it looks like
//! Tasks in state D in `unregister_shrinker` or `register_shrinker_prepared`; another one in `do_shrink_slab`.
//!
//! ## How to fix it
//! Find the shrinker by the stack of the task in `do_shrink_slab` and reduce what it has to free:
//! [slab-bloat](slab-bloat.md). A newer kernel does not have the lock.
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it.
//!
//! ## References
//! Linux 5.10, mm/vmscan.c, `shrink_slab()`, `unregister_shrinker()`; Linux 6.12, mm/shrinker.c.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::FunctionSet;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

/// Functions that take shrinker_rwsem for writing, of kernels that have it.
const REGISTER: FunctionSet = FunctionSet::new(&[
    "unregister_shrinker",
    "register_shrinker",
    "prealloc_shrinker",
    "free_prealloced_shrinker",
]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[REGISTER];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(seen) = StackEvidence::find_lock(stall, REGISTER) else { return Ok(None) };
    let headline = match seen.other() {
        Some(other) => format!("{other} shrank kernel objects"),
        None => format!("a shrinker blocked {}", seen.task()),
    };
    let finding = Finding::new(Severity::Warning, Area::Slab, headline)
        .with_impact("Mounts, unmounts and container exits wait until a shrinker has finished.")
        .with_remedy(Remedy::named(
            "find the slow shrinker, and reduce what it has to free",
            vec![Step::manual("grep -l do_shrink_slab /proc/[0-9]*/stack")],
        ));
    seen.cause(finding)
}
