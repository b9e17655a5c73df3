//! # device-memory-fault
//!
//! A task touched memory that a device held, and waited until it was back in RAM.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request faulted on pages that a driver had moved to the memory of a
//! GPU (heterogeneous memory management), and waited for the driver to move them back.
//!
//! ## Why it hurts
//! A page in a device's memory cannot be read by the CPU. The fault enters `do_swap_page`, as one on swapped memory
//! does, and calls the driver's `migrate_to_ram` (mm/memory.c, Linux 5.10 to 7.3): `svm_migrate_to_ram` of amdgpu,
//! `drm_pagemap_migrate_to_ram` of xe, `nouveau_dmem_migrate_to_ram`. Each fault waits for a copy over the bus, of one
//! page or of a small range. Data that CPU and GPU use in turns moves back and forth.
//!
//! ## What it looks like
//! `pgmigrate_success` in /proc/vmstat increases while neither compaction nor NUMA balancing moves pages; tasks are in
//! a driver's `migrate_to_ram` below `do_swap_page`. No swap device is read.
//!
//! ## How to fix it
//! Move the range back before the CPU reads it, in one call (`hipMemPrefetchAsync` to the CPU and the like), or tell
//! the driver that the range stays in RAM, where the GPU can read it (preferred location). More RAM or swap changes
//! nothing.
//!
//! ## Threshold
//! The faults take at least half of the request; without a critical path, it is scored by how often a task was found in
//! one. Read on 5.10 to 7.3. A driver that is not in the kernel's sources is not recognized.
//!
//! ## References
//! Linux, Documentation/mm/hmm.rst; mm/memory.c, `do_swap_page()`; drivers/gpu/drm/amd/amdkfd/kfd_migrate.c;
//! drivers/gpu/drm/drm_pagemap.c.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::DEVICE_PAGES;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(seen) = StackEvidence::find(stall, |stack| DEVICE_PAGES.are_in(stack)) else {
        return Ok(None);
    };
    let headline = format!("a device held pages of {}", seen.task());
    let finding = Finding::new(Severity::Warning, Area::PinnedPages, headline)
        .with_impact("Each access by the CPU waits for a copy from the device's memory.")
        .with_remedy(Remedy::named(
            "move the memory back in one call before the CPU reads it, or keep it in RAM",
            vec![Step::manual("grep pgmigrate_success /proc/vmstat")],
        ));
    seen.cause(finding)
}
