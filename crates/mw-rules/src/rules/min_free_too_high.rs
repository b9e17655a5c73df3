//! # min-free-too-high
//!
//! The watermarks keep so much memory free that programs run out of it.
//!
//! ## What it finds
//! `vm.min_free_kbytes` is at least a tenth of memory, or the high watermarks (with
//! `vm.watermark_scale_factor`) add up to a fifth. After fragmentation the kernel increases the watermarks until
//! kswapd has reclaimed once (`vm.watermark_boost_factor`); /proc/zoneinfo prints the sum, and the increase as
//! `boost`, which does not count. Linux 5.10 prints no such line: there a fifth that the settings do not explain is
//! a note.
//!
//! As the cause of a stall: tasks reclaimed while at least half of the memory below the watermarks was
//! free.
//!
//! ## Why it hurts
//! Programs cannot allocate memory below the watermarks. They reclaim, are swapped out and are killed
//! while `free` shows gigabytes free.
//!
//! ## What it looks like
//! kswapd is busy and swap fills although MemFree is large; an OOM report shows a zone's `free` just
//! above its `min`.
//!
//! ## How to fix it
//! `memwright fix min-free-too-high` sets `vm.min_free_kbytes` to the kernel's own choice (including
//! khugepaged's share where transparent huge pages are enabled), or `vm.watermark_scale_factor` to its
//! default of 10.
//!
//! ## Threshold
//! khugepaged raises the value to at most 5% of memory. 10% is more than the kernel sets by itself in
//! any configuration, and is a warning. 25% is critical: the kernel's documentation warns that such a
//! machine runs out of memory at once.
//!
//! Shares are of the memory that is present, including what a balloon of the host has taken: the kernel
//! chose the value for that size, and it is right again when the balloon deflates.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, min_free_kbytes and watermark_scale_factor;
//! mm/khugepaged.c, set_recommended_min_free_kbytes(); mm/page_alloc.c, boost_watermark();
//! include/linux/mmzone.h, high_wmark_pages().

use crate::cause_score::CauseScore;
use crate::share::{counter, high_watermark_bytes, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use crate::watermark::{MIN_FREE, recommended_kib};
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Step, Subject, Sysctl, Window, format_bytes,
    zones,
};
use mw_proc::vmstat::Counter;

const WARNING_PERCENT: f64 = 10.0;
const CRITICAL_PERCENT: f64 = 25.0;
const HIGH_WARNING_PERCENT: f64 = 20.0;
const SCALE_FACTOR: &str = "vm.watermark_scale_factor";
const DEFAULT_SCALE_FACTOR: u64 = 10;
const BOOST_FACTOR: &str = "vm.watermark_boost_factor";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let sysctl = &snapshot.sysctl;
    let total = zones::present_bytes(snapshot)?;
    let min_free = sysctl.number(MIN_FREE)?.saturating_mul(1024);
    let high = high_watermark_bytes(snapshot).unwrap_or(min_free);
    let share = percent(min_free, total);
    let high_share = percent(high, total);
    let scaled = share < WARNING_PERCENT;
    if scaled && high_share < HIGH_WARNING_PERCENT {
        return Ok(Vec::new());
    }
    if scaled && sysctl.number(SCALE_FACTOR).is_ok_and(|factor| factor <= DEFAULT_SCALE_FACTOR) {
        return Ok(vec![boosted(high, total)]);
    }
    let (setting, target) = if scaled {
        (SCALE_FACTOR, DEFAULT_SCALE_FACTOR)
    } else {
        (MIN_FREE, recommended_kib(snapshot)?)
    };
    let kept = if scaled { high } else { min_free };
    let kept_share = if scaled { high_share } else { share };
    let severity =
        if kept_share >= CRITICAL_PERCENT { Severity::Critical } else { Severity::Warning };
    let headline = format!(
        "{setting} keeps {} of {} free ({kept_share:.0}%), which programs cannot allocate",
        format_bytes(kept),
        format_bytes(total)
    );
    Ok(vec![
        Finding::new(severity, Subject::Sysctl(setting.to_owned()), headline)
            .with_evidence(MIN_FREE, Quantity::Bytes(min_free), Sysctl::path(MIN_FREE))
            .with_evidence("high watermarks", Quantity::Bytes(high), "/proc/zoneinfo")
            .with_evidence("present memory", Quantity::Bytes(total), "/proc/zoneinfo present")
            .with_impact("Programs reclaim, are swapped out and are killed while memory is free.")
            .with_remedy(Remedy::automatic(
                format!("set {setting} to {target}"),
                vec![Step::write(Sysctl::path(setting), target)],
            )),
    ])
}

/// The settings keep at most 1.5 times `vm.min_free_kbytes`; more is an increase after fragmentation.
fn boosted(high: u64, total: u64) -> Finding {
    let headline = format!(
        "the high watermarks are {} of {} for now, because memory is fragmented",
        format_bytes(high),
        format_bytes(total)
    );
    Finding::new(Severity::Note, Subject::Sysctl(BOOST_FACTOR.to_owned()), headline)
        .with_evidence("high watermarks", Quantity::Bytes(high), "/proc/zoneinfo")
        .with_evidence("present memory", Quantity::Bytes(total), "/proc/zoneinfo present")
        .with_impact("kswapd drops page cache although memory is free.")
        .with_remedy(Remedy::named(
            "reduce the fragmentation, or have the kernel increase the watermarks less",
            vec![Step::manual(format!("sysctl {BOOST_FACTOR}=0"))],
        ))
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const MOST: f64 = 85.0;
    let snapshot = &stall.window.now;
    let score = CauseScore::for_reclaim(stall).at_most(MOST);
    let vmstat = snapshot.sample.vmstat.required()?;
    let free_pages = counter(vmstat, Counter::NrFreePages)?;
    let free = free_pages.saturating_mul(snapshot.origin.page_bytes);
    let kept = high_watermark_bytes(snapshot)?;
    let found = hazard(stall.window)?.pop();
    let Some(mut finding) = found.filter(|_| free >= kept / 2) else { return score.no_cause() };
    finding.headline = format!("{} kept {} free", finding.subject, format_bytes(kept));
    let score = score.with_evidence("free", Quantity::Bytes(free), "/proc/vmstat");
    score.cause(finding)
}
