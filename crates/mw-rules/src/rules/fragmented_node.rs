//! # fragmented-node
//!
//! Much memory is free, but in pieces too small for a huge page.
//!
//! ## What it finds
//! A zone half or more of whose free memory is in blocks smaller than a huge page: the kernel's
//! *unusable free space index* at the huge page's order is 0.5 or more.
//!
//! ## Why it hurts
//! Requests for huge pages (transparent or of a pool), for large network buffers and for kernel
//! stacks fail or compact first: the caller waits while the kernel moves pages. A node that has
//! thrashed can stay in this state for days, looks healthy to every monitor ("free memory: 13 GB"),
//! and stalls the next job that asks for memory.
//!
//! ## What it looks like
//! In /proc/buddyinfo the left columns are large and the right ones small. `compact_stall` and
//! `compact_fail` in /proc/vmstat grow when somebody asks.
//!
//! ## Threshold
//! An index of 0.5: half of what is called free cannot be had. In the field report the zone of a
//! node that had thrashed stood at 0.51, its other zones, which served on, at 0.37 and below, and
//! all zones of a fresh node at 0.01 or below. From 0.8 it is critical: in our measurements 1 GiB of
//! huge pages then took 9.7 s instead of 0.6. A zone counts only when its unusable free memory is
//! at least 5% of the zone (64 MiB where the zone's size is unknown): a machine whose memory is
//! in use has little free memory, in small pieces, and that is no hazard, since page cache is moved
//! and reclaimed easily.
//!
//! ## How to fix it
//! `memwright fix fragmented-node` compacts the node once. That moves pages of running programs and
//! costs a core for seconds, so it is done only when asked for by name. Pages that are pinned cannot
//! be moved; when compaction does not help, the programs that hold them have to be restarted. Memory
//! reserved as huge pages at boot cannot be fragmented.
//!
//! ## References
//! Linux, mm/vmstat.c, unusable_free_index(); Documentation/admin-guide/mm/concepts.rst, compaction;
//! M. Gorman, A. Whitcroft, "Supporting the allocation of large contiguous regions of memory", 2007.

use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window, derived, format_bytes,
    fragmentation,
};
use mw_proc::buddyinfo::BuddyZone;

const WARNING_MILLI: u32 = 500;
const CRITICAL_MILLI: u32 = 800;

/// Share of a zone that has to be free and unusable.
const MIN_PERCENT: u64 = 5;

/// The same where the zone's size is unknown, and the least of it.
const MIN_BYTES: u64 = 64 << 20;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let buddyinfo = snapshot.sample.buddyinfo.need()?;
    let huge_bytes = derived::huge_page_bytes(snapshot);
    let order = derived::order_of(huge_bytes, snapshot.origin.page_bytes);
    Ok(buddyinfo
        .zones
        .iter()
        .filter_map(|zone| finding(snapshot, zone, order, huge_bytes))
        .collect())
}

fn finding(
    snapshot: &Snapshot,
    zone: &BuddyZone,
    order: usize,
    huge_bytes: u64,
) -> Option<Finding> {
    let page_bytes = snapshot.origin.page_bytes;
    let index = fragmentation::unusable_milli(zone, order);
    let free_bytes = fragmentation::free_pages(zone).saturating_mul(page_bytes);
    let usable_bytes = fragmentation::free_pages_from_order(zone, order).saturating_mul(page_bytes);
    let unusable_bytes = free_bytes.saturating_sub(usable_bytes);
    if index < WARNING_MILLI || unusable_bytes < floor_bytes(snapshot, zone) {
        return None;
    }
    let severity = if index >= CRITICAL_MILLI { Severity::Critical } else { Severity::Warning };
    let subject = format!("node {} zone {}", zone.node, zone.name);
    let huge = format_bytes(huge_bytes);
    let headline = format!(
        "{:.0}% of the free memory of {subject} cannot serve a {huge} page ({} of {})",
        f64::from(index) / 10.0,
        format_bytes(unusable_bytes),
        format_bytes(free_bytes)
    );
    let ratio = f64::from(index) / 1000.0;
    let compact = format!("/sys/devices/system/node/node{}/compact", zone.node);
    let finding = Finding::new(severity, subject, headline)
        .seen(
            format!("unusable free space index at order {order}"),
            Quantity::Ratio(ratio),
            "/proc/buddyinfo",
        )
        .seen("free", Quantity::Bytes(free_bytes), "/proc/buddyinfo")
        .seen(format!("free in blocks of {huge}"), Quantity::Bytes(usable_bytes), "/proc/buddyinfo")
        .hurts(
            "A request for huge pages compacts first, or fails; the next large job on this \
                 node stalls although memory is free.",
        )
        .mended_by(Remedy::named(
            format!("compact node {} once", zone.node),
            vec![Step::Once { path: compact, value: "1".to_owned() }],
        ));
    Some(match kernels_own(snapshot, zone, order) {
        Some(milli) => finding.seen(
            "the same by the kernel's own count",
            Quantity::Ratio(f64::from(milli) / 1000.0),
            "/sys/kernel/debug/extfrag/unusable_index",
        ),
        None => finding,
    })
}

/// The kernel's own index, where debugfs is mounted.
fn kernels_own(snapshot: &Snapshot, zone: &BuddyZone, order: usize) -> Option<i32> {
    let zones = &snapshot.extfrag_unusable.seen()?.zones;
    let own = zones.iter().find(|own| own.node == zone.node && own.name == zone.name)?;
    own.values().get(order).copied()
}

/// How much of a zone has to be free and unusable for it to count.
fn floor_bytes(snapshot: &Snapshot, zone: &BuddyZone) -> u64 {
    let zones = snapshot.sample.zoneinfo.seen().map_or(&[][..], |z| z.zones.as_slice());
    let known = zones.iter().find(|z| z.node == zone.node && z.name == zone.name);
    let share = known.map_or(0, |z| {
        let bytes = z.managed_or_present_pages().saturating_mul(snapshot.origin.page_bytes);
        (bytes / 100).saturating_mul(MIN_PERCENT)
    });
    share.max(MIN_BYTES)
}
