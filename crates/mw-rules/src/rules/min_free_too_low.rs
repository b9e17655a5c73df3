//! # min-free-too-low
//!
//! The kernel keeps too little memory free for bursts of allocations.
//!
//! ## What it finds
//! `vm.min_free_kbytes` is less than half of what the kernel would choose for a machine of this size.
//!
//! As the cause of a stall: the value is too low as above, and tasks reclaimed more than kswapd did. The
//! condition existed before the stall, so it scores lower than what happened during it.
//!
//! ## Why it hurts
//! kswapd starts so late that a burst of allocations overtakes it: tasks reclaim directly, network
//! packets are dropped for lack of a page, and the reserve that writeback needs to make progress may be
//! exhausted.
//!
//! ## What it looks like
//! "page allocation failure ... GFP_ATOMIC" in the kernel log; `allocstall` in /proc/vmstat increases
//! while kswapd is mostly idle.
//!
//! ## How to fix it
//! `memwright fix min-free-too-low` sets the kernel's own choice.
//!
//! ## Threshold
//! The kernel's own choice is 4 * sqrt(memory in KiB), between 128 KiB and 256 MiB; distributions and
//! khugepaged only ever raise it. A value below half of it was set by hand.
//!
//! ## References
//! Linux, mm/page_alloc.c, calculate_min_free_kbytes(); Documentation/admin-guide/sysctl/vm.rst.

use crate::cause_score::{CauseScore, LATENT_MOST};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use crate::watermark::{MIN_FREE, kernel_choice_kib};
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Step, Subject, Sysctl, VmActivity, Window,
    format_bytes,
};

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let set_kib = snapshot.sysctl.number(MIN_FREE)?;
    let choice_kib = kernel_choice_kib(snapshot)?;
    if set_kib >= choice_kib / 2 {
        return Ok(Vec::new());
    }
    let bytes = |kib: u64| kib.saturating_mul(1024);
    let headline = format!(
        "{MIN_FREE} keeps {} free; the kernel's own choice is {}",
        format_bytes(bytes(set_kib)),
        format_bytes(bytes(choice_kib))
    );
    Ok(vec![
        Finding::new(Severity::Warning, Subject::Sysctl(MIN_FREE.to_owned()), headline)
            .with_evidence(MIN_FREE, Quantity::Bytes(bytes(set_kib)), Sysctl::path(MIN_FREE))
            .with_evidence(
                "the kernel's choice",
                Quantity::Bytes(bytes(choice_kib)),
                "/proc/zoneinfo",
            )
            .with_impact(
                "Bursts of allocations overtake kswapd: programs stall, packets are dropped.",
            )
            .with_remedy(Remedy::automatic(
                format!("set {MIN_FREE} to {choice_kib}"),
                vec![Step::write(Sysctl::path(MIN_FREE), choice_kib)],
            )),
    ])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let score = CauseScore::for_reclaim(stall).at_most(LATENT_MOST);
    let mut found = hazard(stall.window)?.into_iter().filter(|_| kswapd_is_late(stall));
    let Some(mut finding) = found.next() else { return score.no_cause() };
    finding.headline = format!("{MIN_FREE} was too low for kswapd");
    score.cause(finding)
}

/// True if tasks reclaimed more than kswapd, as far as the kernel counts it.
fn kswapd_is_late(stall: &StallWindow<'_>) -> bool {
    let direct = stall.activity(VmActivity::DirectScans);
    let background = stall.activity(VmActivity::KswapdScans);
    direct.ok().zip(background.ok()).is_none_or(|(direct, background)| direct >= background)
}
