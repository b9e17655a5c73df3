//! # hardware-corrupted
//!
//! The kernel has taken memory out of use because of hardware errors.
//!
//! ## What it finds
//! `HardwareCorrupted` of /proc/meminfo is not 0: pages in which the hardware reported an error that it could not
//! correct, and pages that were taken out of use because errors in them had to be corrected too often
//! (soft-offlined, by rasdaemon or mcelog).
//!
//! ## Why it hurts
//! The pages are lost until the next boot, which is the smaller part. A module with one uncorrectable error has
//! more of them later: the program that reads such a page is killed by SIGBUS, and an error in the kernel's own
//! memory ends in a panic. Each page that is taken out of use is unmapped from all processes while they wait.
//!
//! ## What it looks like
//! A service is killed by SIGBUS, with "Memory failure" or "Hardware Error" in the kernel log. A guest sees it
//! where its host passes errors on.
//!
//! ## How to fix it
//! `ras-mc-ctl --errors` (rasdaemon) or the kernel log name the memory module. Replace it, or move the guest to
//! another host. The pages come back at the next boot; a test that was done on purpose (hwpoison) is undone by
//! a reboot as well.
//!
//! ## Threshold
//! One page is a warning: without an error the counter stays at 0 for the life of a machine. A kernel that is built
//! without CONFIG_MEMORY_FAILURE has no such counter and takes no memory out of use.
//!
//! ## References
//! Linux, Documentation/mm/hwpoison.rst; Documentation/filesystems/proc.rst, HardwareCorrupted.

use mw_model::{Area, Finding, Missing, Quantity, Remedy, Severity, Step, Window, format_bytes};

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let meminfo = window.now.sample.meminfo.required()?;
    let corrupted = meminfo.hardware_corrupted_bytes.unwrap_or(0);
    if corrupted == 0 {
        return Ok(Vec::new());
    }
    let headline =
        format!("{} of memory are out of use because of hardware errors", format_bytes(corrupted));
    let remedy = Remedy::named(
        "find the memory module in the log of errors, and replace it",
        vec![
            Step::manual("ras-mc-ctl --errors"),
            Step::manual("dmesg | grep -iE 'memory failure|hardware error|EDAC'"),
        ],
    );
    Ok(vec![
        Finding::new(Severity::Warning, Area::MemoryErrors, headline)
            .with_evidence("HardwareCorrupted", Quantity::Bytes(corrupted), "/proc/meminfo")
            .with_impact(
                "Further errors kill the programs whose memory they are in, or the kernel.",
            )
            .with_remedy(remedy),
    ])
}
