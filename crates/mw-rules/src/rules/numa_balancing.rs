//! # numa-balancing
//!
//! A task waited for a page that NUMA balancing was migrating.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request moved pages itself in a NUMA hinting fault, scanned its
//! address space for them, or waited for a page that was being moved while NUMA balancing moved most of the pages.
//!
//! ## Why it hurts
//! Automatic NUMA balancing unmaps pages from time to time to see which node uses them, and moves them to it. Each costs
//! a fault, and a page that is on the move cannot be accessed. For a program whose threads run on all nodes, and
//! for one larger than a node, pages move back and forth without end.
//!
//! ## What it looks like
//! `numa_hint_faults` and `numa_pages_migrated` in /proc/vmstat increase fast. Tasks are in `do_numa_page` or
//! `task_numa_work`, or wait in `migration_entry_wait`.
//!
//! ## How to fix it
//! Bind the program to a node, or interleave its memory (`numactl`). Databases that place their memory themselves
//! recommend disabling it: `sysctl kernel.numa_balancing=0`.
//!
//! ## Threshold
//! That takes at least half of the request. A wait for a page counts where at least half of the pages that were moved
//! (`pgmigrate_success`) were moved by NUMA balancing. Compaction moves pages, too.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/kernel.rst, `numa_balancing`; mm/migrate.c; numa(7).

use crate::path_words::named;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Finding, Missing, Quantity, Remedy, Severity, Step, Subject};
use mw_proc::vmstat::Counter;

const CONFIRMED: u8 = 90;

/// NUMA_BALANCING_NORMAL; 2 is NUMA_BALANCING_MEMORY_TIERING, since Linux 5.18.
const BALANCING: u64 = 1;

const COUNTED: &[(&str, Counter)] = &[
    ("numa_pages_migrated", Counter::NumaPagesMigrated),
    ("numa_hint_faults", Counter::NumaHintFaults),
    ("pgmigrate_success", Counter::PgmigrateSuccess),
];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(part) = request.largest(&[TimeClass::NumaBalancing]) else { return Ok(None) };
    let headline = format!("NUMA balancing moved pages of {}", named(stall, &part.task));
    let subject = Subject::Process(part.task.name.clone());
    let mut finding = Finding::new(Severity::Warning, subject, headline)
        .with_impact(
            "A page that is on the move cannot be accessed, and each hinting fault takes time.",
        )
        .with_remedy(Remedy::named(
            "bind the program to a node, or disable NUMA balancing",
            vec![Step::manual(format!(
                "sysctl kernel.numa_balancing={}",
                without_balancing(stall)
            ))],
        ));
    for (name, counter) in COUNTED {
        if let Ok(rate) = stall.rate(&[*counter]) {
            finding = finding.with_evidence(*name, Quantity::PerSecond(rate), "/proc/vmstat");
        }
    }
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}

/// The setting without balancing between nodes of the same tier, which leaves promotion from slower memory on.
fn without_balancing(stall: &StallWindow<'_>) -> u64 {
    let present = stall.window.now.sysctl.number("kernel.numa_balancing").unwrap_or(0);
    present & !BALANCING
}
