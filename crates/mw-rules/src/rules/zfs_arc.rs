//! # zfs-arc
//!
//! The ZFS ARC takes a large part of memory, which the kernel counts as used.
//!
//! ## What it finds
//! An ARC (the page cache of ZFS) of at least a tenth of memory.
//!
//! ## Why it hurts
//! Neither `Cached` nor MemAvailable counts the ARC: `free` shows its memory as used, and it looks like a leak of kernel
//! memory. It is a cache that shrinks when memory is short, but later and more slowly than page cache: a large request may
//! stall, or meet the OOM killer, before it has. An ARC above its largest size is held by metadata in use, which does not
//! shrink. Each block on a cache device (L2ARC) has a header in the ARC, which stays as long as the block does.
//!
//! ## What it looks like
//! Much slab memory in caches named `zio_buf`, or much memory that no counter has; `size` of
//! /proc/spl/kstat/zfs/arcstats.
//!
//! ## How to fix it
//! Limit it to what programs leave: `echo BYTES > /sys/module/zfs/parameters/zfs_arc_max`, and `options zfs
//! zfs_arc_max=BYTES` in /etc/modprobe.d. Where metadata exceeds its limit, raise `zfs_arc_meta_limit`, or reduce the
//! open files and cached dentries that hold it.
//!
//! ## Threshold
//! A tenth of memory is a note: the module's default lets the ARC have half of it. It is a warning if it is larger than its
//! largest size, or its metadata than their limit, by 5%, which evicting in steps does not explain; or if less memory is
//! available than a tenth of what the ARC has. Headers of the second-level cache are told from a fifth of the ARC on.
//!
//! ## References
//! OpenZFS, zfs(4), zfs_arc_max and zfs_arc_meta_limit; arcstats.

use crate::share::percent;
use mw_model::{
    Absence, Area, Finding, Missing, Quantity, Remedy, Severity, Step, Window, derived,
    format_bytes,
};
use mw_proc::arcstats::Arcstats;

const NOTE_PERCENT: f64 = 10.0;

/// Share of a limit, as a divisor, by which the ARC may exceed it while it evicts.
const ABOVE: u64 = 20;

/// Share of the ARC, as a divisor, below which available memory is little.
const LITTLE: u64 = 10;

/// Share of the ARC from which headers of the second-level cache are told.
const HEADERS_PERCENT: f64 = 20.0;

const SOURCE: &str = "/proc/spl/kstat/zfs/arcstats";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let arc = match snapshot.arc.required() {
        Ok(arc) => arc,
        // A machine without ZFS.
        Err(missing) if missing.absence == Absence::Absent => return Ok(Vec::new()),
        Err(missing) => return Err(missing),
    };
    let total = derived::memory_bytes(&snapshot.sample)?;
    let share = percent(arc.size_bytes, total);
    if share < NOTE_PERCENT {
        return Ok(Vec::new());
    }
    let available = derived::available_bytes(snapshot)?;
    Ok(vec![finding(arc, share, available)])
}

fn finding(arc: &Arcstats, share: f64, available: u64) -> Finding {
    let is_above = |bytes: Option<u64>, limit: Option<u64>| {
        let limit = limit.filter(|limit| *limit > 0);
        bytes.zip(limit).is_some_and(|(bytes, limit)| bytes > limit.saturating_add(limit / ABOVE))
    };
    let is_large = is_above(Some(arc.size_bytes), arc.max_bytes);
    let has_metadata = is_above(arc.metadata_bytes, arc.metadata_limit_bytes);
    let is_little = available < arc.size_bytes / LITTLE;
    let severity =
        if is_large || has_metadata || is_little { Severity::Warning } else { Severity::Note };
    let mut headline = format!(
        "the ZFS ARC takes {} ({share:.0}% of memory), a cache that the kernel counts as used",
        format_bytes(arc.size_bytes)
    );
    if is_large {
        let most = format_bytes(arc.max_bytes.unwrap_or(0));
        headline.push_str(&format!("; its limit zfs_arc_max is {most}"));
    }
    if has_metadata {
        let [used, limit] =
            [arc.metadata_bytes, arc.metadata_limit_bytes].map(Option::unwrap_or_default);
        let words = format!("; metadata has {} of {}", format_bytes(used), format_bytes(limit));
        headline.push_str(&words);
    }
    let headers =
        arc.second_level_bytes.filter(|bytes| percent(*bytes, arc.size_bytes) >= HEADERS_PERCENT);
    if let Some(headers) = headers {
        headline.push_str(&format!(
            "; {} are headers of the second-level cache (L2ARC), which it cannot evict",
            format_bytes(headers)
        ));
    }
    let mut finding = Finding::new(severity, Area::Arc, headline).with_evidence(
        "size",
        Quantity::Bytes(arc.size_bytes),
        SOURCE,
    );
    let rows = [
        ("c (target)", arc.target_bytes),
        ("c_min", arc.min_bytes),
        ("c_max (zfs_arc_max)", arc.max_bytes),
        ("arc_meta_used", arc.metadata_bytes),
        ("arc_meta_limit", arc.metadata_limit_bytes),
        ("l2_hdr_size", headers),
    ];
    for (name, bytes) in rows.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))) {
        finding = finding.with_evidence(name, Quantity::Bytes(bytes), SOURCE);
    }
    let impact = match headers {
        None => {
            "It shrinks when memory is short, but slowly: a large request may stall before it has."
        }
        Some(_) => {
            "The headers stay as long as their blocks are on the cache device; the rest shrinks, but slowly."
        }
    };
    let remedy = if headers.is_some() { fewer_headers() } else { remedy(arc, has_metadata) };
    finding.with_impact(impact).with_remedy(remedy)
}

/// Each block on the cache device has a header of 70 to 100 bytes, whatever its size.
fn fewer_headers() -> Remedy {
    let steps =
        vec![Step::manual("zpool iostat -v"), Step::manual("zpool remove POOL CACHE_DEVICE")];
    let summary = "remove the cache device or use a smaller one, or larger blocks (recordsize, volblocksize); before, look at \
                   what it is used for";
    Remedy::named(summary, steps)
}

fn remedy(arc: &Arcstats, has_metadata: bool) -> Remedy {
    if has_metadata {
        let limit = arc.metadata_bytes.unwrap_or(0);
        return Remedy::named(
            "let metadata have what it holds (zfs_arc_meta_limit), or have programs use fewer files: metadata in \
             use stays, whatever zfs_arc_max is",
            vec![Step::manual(format!(
                "echo {limit} > /sys/module/zfs/parameters/zfs_arc_meta_limit"
            ))],
        );
    }
    let half = arc.size_bytes / 2;
    let least = arc.min_bytes.unwrap_or(0);
    let (summary, to) = if least < half {
        (format!("limit the ARC, for example to {}, half of what it has", format_bytes(half)), half)
    } else {
        let summary = format!("limit the ARC: it keeps {} (zfs_arc_min)", format_bytes(least));
        (summary, least)
    };
    let step = format!("echo {to} > /sys/module/zfs/parameters/zfs_arc_max");
    Remedy::named(summary, vec![Step::manual(step)])
}
