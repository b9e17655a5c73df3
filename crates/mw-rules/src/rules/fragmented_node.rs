//! # fragmented-node
//!
//! Much memory is free, but in pieces too small for a huge page.
//!
//! ## What it finds
//! A zone half or more of whose free memory is in blocks smaller than a huge page: the kernel's
//! *unusable free space index* at the huge page's order is 0.5 or more.
//!
//! As the cause of a stall: tasks waited in compaction, and the free memory of a zone is in pieces as
//! above. Where the settings of transparent huge pages let every fault compact, `thp-compaction` is named
//! first, since changing them mends the stall at once and for good; where programs ask for huge pages, or
//! for other large blocks, this is.
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
//! A zone that the kernel still gives memory to (deferred initialisation, a balloon that deflates, a
//! memory block that is being onlined) is not judged: what it will get is in one piece. Memory that a
//! confidential guest has not accepted yet counts as free and in one piece.
//!
//! *Held in place* are pages that no process maps and that something keeps all the same, such as
//! pages in a pipe (vmsplice) or in the hands of a device: what is on the LRU lists of the node, that of
//! locked pages included, less AnonPages and FilePages. The kernel cannot move them, and one of them is
//! enough to spoil a huge page. They are said to be the reason when there is one for every huge page that
//! the unusable free memory would make, and 16 MiB of them, since the kernel's counters lag behind.
//!
//! ## How to fix it
//! `memwright fix fragmented-node` compacts the node once. That moves pages of running programs and
//! costs a core for seconds, so it is done only when asked for by name. It joins free memory between
//! pages that can be moved. Where the finding says that pages are held in place, the programs that
//! hold them have to end as well: in our re-enactment compaction got nothing back then.
//!
//! To prevent it, limit jobs so that they cannot thrash (`memory.max` with `memory.swap.max=0`,
//! `ulimit -v`, or `vm.overcommit_memory=2`), or reserve huge pages: what is reserved cannot be
//! fragmented. In our measurements the next job then got all of its huge pages, and 7% at most with
//! `compaction_proactiveness`, `watermark_scale_factor`, `min_free_kbytes`, or compaction between
//! jobs (docs/evaluations). A pool that was made in time (`memwright pool create NAME --huge 2M`) keeps
//! them populated as well: a program under `memwright run --pool NAME` asks the kernel for nothing when it
//! starts again.
//!
//! ## References
//! Linux, mm/vmstat.c, unusable_free_index(); Documentation/admin-guide/mm/concepts.rst, compaction;
//! M. Gorman, A. Whitcroft, "Supporting the allocation of large contiguous regions of memory", 2007.

use crate::rules::thp_compaction;
use crate::stall::Stall;
use crate::suspicion::Suspicion;
use mw_model::{
    Cause, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, WaitKind, Window, derived,
    format_bytes, fragmentation, zones,
};
use mw_proc::buddyinfo::BuddyZone;
use mw_proc::meminfo::Meminfo;

const WARNING_MILLI: u32 = 500;
const CRITICAL_MILLI: u32 = 800;

/// Share of a zone that has to be free and unusable.
const MIN_PERCENT: u64 = 5;

/// The same where the zone's size is unknown, and the least of it.
const MIN_BYTES: u64 = 64 << 20;

/// The kernel's counters may be off by less than this.
const MIN_HELD_BYTES: u64 = 16 << 20;

/// What it is worth as a cause where a setting makes every fault compact: mending the setting ends the
/// stalls, and memory gets into pieces again.
const SETTING_MENDS_IT: f64 = 0.9;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let buddyinfo = snapshot.sample.buddyinfo.need()?;
    let huge_bytes = derived::huge_page_bytes(snapshot);
    let order = derived::order_of(huge_bytes, snapshot.origin.page_bytes);
    Ok(buddyinfo
        .zones
        .iter()
        .filter(|zone| !zones::is_growing(window, zone))
        .filter_map(|zone| finding(snapshot, zone, order, huge_bytes))
        .collect())
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    let snapshot = &stall.window.now;
    let suspicion = Suspicion::of_compaction(stall);
    let mut zones = hazard(stall.window)?;
    let node = stall.waits(&[WaitKind::Compaction]).find_map(|wait| wait.node);
    let of_node = |f: &Finding| node.is_some_and(|n| f.subject.starts_with(&format!("node {n} ")));
    zones.sort_by_key(|zone| (!of_node(zone), std::cmp::Reverse(zone.severity)));
    let Some(mut finding) = zones.into_iter().next() else { return suspicion.nothing() };
    let thp = snapshot.thp.seen();
    let setting_does_it = thp.is_some_and(thp_compaction::every_fault_compacts);
    let suspicion = suspicion.times(if setting_does_it { SETTING_MENDS_IT } else { 1.0 });
    finding.headline =
        suspicion.said(&format!("memory was in pieces too small to be had: {}", finding.headline));
    suspicion.cause(finding)
}

fn finding(
    snapshot: &Snapshot,
    zone: &BuddyZone,
    order: usize,
    huge_bytes: u64,
) -> Option<Finding> {
    let page_bytes = snapshot.origin.page_bytes;
    let sample = &snapshot.sample;
    let index = zones::unusable_milli(sample, page_bytes, zone, order);
    let unlisted = zones::unlisted_bytes(sample, page_bytes, zone);
    let bytes = |pages: u64| pages.saturating_mul(page_bytes).saturating_add(unlisted);
    let free_bytes = bytes(fragmentation::free_pages(zone));
    let usable_bytes = bytes(fragmentation::free_pages_from_order(zone, order));
    let unusable_bytes = free_bytes.saturating_sub(usable_bytes);
    if index < WARNING_MILLI || unusable_bytes < floor_bytes(snapshot, zone) {
        return None;
    }
    let severity = if index >= CRITICAL_MILLI { Severity::Critical } else { Severity::Warning };
    let subject = format!("node {} zone {}", zone.node, zone.name);
    let huge = format_bytes(huge_bytes);
    let held_bytes = held_bytes(snapshot, zone.node);
    let held_pages = held_bytes.checked_div(page_bytes).unwrap_or(0);
    let spoilable = unusable_bytes.checked_div(huge_bytes).unwrap_or(0);
    let is_held = held_bytes >= MIN_HELD_BYTES && held_pages >= spoilable;
    let headline = format!(
        "{:.0}% of the free memory of {subject} cannot serve a {huge} page ({} of {}){}",
        f64::from(index) / 10.0,
        format_bytes(unusable_bytes),
        format_bytes(free_bytes),
        if is_held { ", and pages that are held in place keep it so" } else { "" },
    );
    let ratio = f64::from(index) / 1000.0;
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
        .mended_by(remedy(zone.node, is_held));
    let finding = if is_held {
        finding.seen(
            "held in place",
            Quantity::Bytes(held_bytes),
            format!("/sys/devices/system/node/node{}/meminfo", zone.node),
        )
    } else {
        finding
    };
    Some(match kernels_own(snapshot, zone, order) {
        Some(milli) => finding.seen(
            "the same by the kernel's own count",
            Quantity::Ratio(f64::from(milli) / 1000.0),
            "/sys/kernel/debug/extfrag/unusable_index",
        ),
        None => finding,
    })
}

fn remedy(node: u32, is_held: bool) -> Remedy {
    let path = format!("/sys/devices/system/node/node{node}/compact");
    let compact = Step::Once { path, value: "1".to_owned() };
    if !is_held {
        return Remedy::named(format!("compact node {node} once"), vec![compact]);
    }
    Remedy::named(
        format!("compact node {node} once; it cannot move the pages that are held in place"),
        vec![
            compact,
            Step::manual(
                "end the programs that keep pages in pipes (vmsplice), sockets or devices; then \
                 memwright fix fragmented-node",
            ),
        ],
    )
}

/// Pages of a node that are on the LRU lists although no process maps them, and no file, shared memory
/// or swap has them: something else holds them, and the kernel cannot move them. What is locked is on a
/// list of its own, and has its process or file as any other.
fn held_bytes(snapshot: &Snapshot, node: u32) -> u64 {
    let held = |meminfo: &Meminfo| {
        let lists = [meminfo.active_bytes?, meminfo.inactive_bytes?, meminfo.unevictable_bytes?];
        let cached = [meminfo.buffers_bytes, meminfo.cached_bytes, meminfo.swap_cached_bytes];
        // Nodes have one number for it, the machine three.
        let file_pages = meminfo
            .file_pages_bytes
            .unwrap_or_else(|| derived::total(cached.into_iter().flatten()));
        let known = meminfo.anon_pages_bytes?.saturating_add(file_pages);
        Some(derived::total(lists).saturating_sub(known))
    };
    let mut nodes = zones::node_meminfos(snapshot).into_iter();
    nodes.find(|(number, _)| *number == node).and_then(|(_, meminfo)| held(&meminfo)).unwrap_or(0)
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
