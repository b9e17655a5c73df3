//! # fragmented-node
//!
//! Much memory is free, but in blocks too small for a huge page.
//!
//! ## What it finds
//! A zone in which at least half of the free memory is in blocks smaller than a huge page: the kernel's
//! *unusable free space index* at the order of a huge page is 0.5 or more.
//!
//! As the cause of a stall: tasks waited in compaction, and a zone is fragmented as above. Where the
//! settings of transparent huge pages let every fault compact, `thp-compaction` ranks first, because
//! changing them ends the stalls at once and for good. Where programs request huge pages or other large
//! blocks, this rule ranks first.
//!
//! ## Why it hurts
//! Requests for huge pages (transparent or from a pool) and for other large blocks fail, or compact first: the caller
//! waits while the kernel moves pages. Network buffers fall back to single pages without compaction (`skb_page_frag_refill`,
//! net/core/sock.c), and kernel stacks need no large block with CONFIG_VMAP_STACK. A node that has thrashed can stay
//! fragmented for days. It looks healthy to every monitor ("free memory: 13 GB") and stalls the next job
//! that allocates much memory.
//!
//! ## What it looks like
//! In /proc/buddyinfo the left columns are large and the right ones small. `compact_stall` and
//! `compact_fail` in /proc/vmstat increase with each large request.
//!
//! ## How to fix it
//! `memwright fix fragmented-node` compacts the node, up to three times while it remains fragmented.
//! That moves pages of running programs and keeps a CPU busy for seconds, so it is done only if you
//! name the rule. Compaction joins free memory between movable pages. Where the finding names pinned
//! pages, the programs that pin them have to end as well: in our reproduction compaction recovered
//! nothing until then.
//!
//! To prevent fragmentation, limit jobs so that they cannot thrash (`memory.max` with
//! `memory.swap.max=0`, `ulimit -v`, or `vm.overcommit_memory=2`), or reserve huge pages: reserved
//! memory cannot become fragmented. In our measurements the next job then got all of its huge pages. With
//! `compaction_proactiveness`, `watermark_scale_factor`, `min_free_kbytes`, or compaction between jobs it
//! got at most 7% of them on Linux 6.1, and about three quarters on 6.18. `vm.defrag_mode` (6.15) made
//! the programs beside it wait for twice as long (docs/evaluations). A pool that is created in time
//! (`memwright pool create NAME --huge 2M`) also keeps them populated: a program under
//! `memwright run --pool NAME` allocates no new memory when it restarts.
//!
//! ## Threshold
//! An index of 0.5: half of the free memory is unusable. In the field report the zone of a node that had
//! thrashed stood at 0.51, its other zones, which still worked, at 0.37 and below, and all zones of a
//! freshly booted node at 0.01 or below. A zone counts only if its unusable free memory is at least 5% of
//! the zone (64 MiB where the zone's size is unknown).
//!
//! The severity is what a request for huge pages would meet. On every machine whose page cache is full,
//! the little free memory is in small blocks, and reclaim and compaction make it whole in seconds. So
//! `check` samples what the blocks of a huge page's size consist of (/proc/kpageflags, as root, 10 ms):
//!
//! | a quarter of the node in huge pages | severity |
//! |---|---|
//! | reclaim and compaction certainly provide it | note |
//! | they may | warning |
//! | they cannot, because too many blocks hold a page that cannot be moved | warning, critical from an index of 0.8 on |
//!
//! With an index of 0.8, allocating 1 GiB of huge pages took 9.7 s instead of 0.6 s in our measurements.
//! Where the blocks are unknown (an ordinary user, a tree of another program), it is a note unless the
//! kernel has no compaction, pages are pinned as below, or direct compaction mostly fails at the moment;
//! where even the kernel is unknown, it is a warning.
//!
//! A zone that the kernel is still adding memory to (deferred initialization, a balloon that deflates, a
//! memory block being onlined) is not judged: the memory to come is contiguous. Memory that a
//! confidential guest has not accepted yet counts as free and contiguous.
//!
//! *Pinned* pages are pages that no process maps but something references, such as pages in a pipe
//! (vmsplice) or in use by a device: all pages on the node's LRU lists, including the unevictable list,
//! less AnonPages and FilePages. The kernel cannot move them, and one is enough to prevent a huge page.
//! The finding names them as the reason if there is one for every huge page that the unusable free
//! memory would make, and at least 16 MiB of them, because the kernel's counters lag behind. The same difference has the
//! freed parts of transparent huge pages that programs unmapped in part (`madvise(2)` MADV_DONTNEED of allocators): they
//! remain whole until memory is short (`deferred_split_folio`, mm/huge_memory.c), and the kernel can move them. If
//! `thp_deferred_split_page` counted any, pages count as pinned only where `nr_foll_pin_acquired` less
//! `nr_foll_pin_released` has as many, or direct compaction mostly fails.
//!
//! ## References
//! Linux, mm/vmstat.c, unusable_free_index(); Documentation/admin-guide/mm/concepts.rst, compaction;
//! M. Gorman, A. Whitcroft, "Supporting the allocation of large contiguous regions of memory", 2007.

use crate::cause_score::CauseScore;
use crate::outlook::{self, HugeOutlook};
use crate::rules::thp_compaction;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::zones::FreeBySize;
use mw_model::{
    Finding, Missing, PoolGrowth, Quantity, Remedy, Severity, Snapshot, Step, Subject, WaitKind,
    Window, derived, format_bytes, zones,
};
use mw_proc::buddyinfo::BuddyZone;
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::Counter;

const CRITICAL_MILLI: u32 = 800;

/// The kernel's counters may be off by less than this.
const MIN_PINNED_BYTES: u64 = 16 << 20;

/// The score's factor where a setting makes every fault compact: changing the setting ends the stalls,
/// while memory becomes fragmented again.
const IF_SETTING_IS_THE_CAUSE: f64 = 0.9;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let buddyinfo = snapshot.sample.buddyinfo.required()?;
    let huge_bytes = derived::huge_page_bytes(snapshot);
    let order = derived::order_of(huge_bytes, snapshot.origin.page_bytes);
    Ok(buddyinfo
        .zones
        .iter()
        .filter(|zone| !zones::is_growing(window, zone))
        .filter_map(|zone| {
            let free = zones::fragmented(snapshot, zone, order)?;
            Some(finding(window, zone, free, order))
        })
        .collect())
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let snapshot = &stall.window.now;
    let score = CauseScore::for_compaction(stall);
    let mut zones = hazard(stall.window)?;
    let node = stall.waits(&[WaitKind::Compaction]).find_map(|wait| wait.node);
    let of_node = |found: &Finding| match &found.subject {
        Subject::Zone { node: found, .. } => node == Some(*found),
        _ => false,
    };
    zones.sort_by_key(|zone| (!of_node(zone), std::cmp::Reverse(zone.severity)));
    let Some(mut finding) = zones.into_iter().next() else { return score.no_cause() };
    let thp = snapshot.thp.value();
    let setting_is_the_cause = thp.is_some_and(thp_compaction::every_fault_compacts);
    let score = score.scaled(if setting_is_the_cause { IF_SETTING_IS_THE_CAUSE } else { 1.0 });
    let huge = format_bytes(derived::huge_page_bytes(snapshot));
    let place = match &finding.subject {
        Subject::Zone { node, .. } => format!("node {node}"),
        subject => subject.to_string(),
    };
    finding.headline = format!("{place} was too fragmented for {huge} pages");
    score.cause(finding)
}

fn finding(window: &Window, zone: &BuddyZone, free: FreeBySize, order: usize) -> Finding {
    let snapshot = &window.now;
    let huge_bytes = derived::huge_page_bytes(snapshot);
    let pinned_bytes = pinned_bytes(snapshot, zone.node);
    let is_pinned = is_kept_fragmented(window, free, pinned_bytes);
    let outlook = outlook::for_huge_pages(snapshot, huge_bytes, zone.node);
    let subject = Subject::Zone { node: zone.node, zone: zone.name.to_string() };
    let huge = format_bytes(huge_bytes);
    let and_then = match outlook {
        HugeOutlook::Served(growth) => after_compaction(growth, zone.node),
        _ if is_pinned => ", and pinned pages keep it fragmented".to_owned(),
        _ => String::new(),
    };
    let headline = format!(
        "{:.0}% of the free memory of {subject} cannot serve a {huge} page ({} of {}){and_then}",
        f64::from(free.unusable_milli) / 10.0,
        format_bytes(free.unusable_bytes()),
        format_bytes(free.free_bytes),
    );
    let severity = severity(window, free, outlook, is_pinned);
    let impact = match severity {
        Severity::Note => "A request for huge pages waits while the kernel compacts.",
        _ => {
            "A request for huge pages compacts first, or fails; the next large job on this node stalls \
             although memory is free."
        }
    };
    let index = Quantity::Ratio(f64::from(free.unusable_milli) / 1000.0);
    let mut finding = Finding::new(severity, subject, headline)
        .with_evidence(
            format!("unusable free space index at order {order}"),
            index,
            "/proc/buddyinfo",
        )
        .with_evidence("free", Quantity::Bytes(free.free_bytes), "/proc/buddyinfo")
        .with_evidence(
            format!("free in blocks of {huge}"),
            Quantity::Bytes(free.usable_bytes),
            "/proc/buddyinfo",
        )
        .with_impact(impact)
        .with_remedy(remedy(zone.node, is_pinned));
    if is_pinned {
        let file = format!("/sys/devices/system/node/node{}/meminfo", zone.node);
        finding = finding.with_evidence("pinned", Quantity::Bytes(pinned_bytes), file);
    }
    match kernel_index(snapshot, zone, order) {
        Some(milli) => finding.with_evidence(
            "the kernel's own value of the index",
            Quantity::Ratio(f64::from(milli) / 1000.0),
            "/sys/kernel/debug/extfrag/unusable_index",
        ),
        None => finding,
    }
}

/// The outcome of a request for huge pages decides, where that is known. Where the page blocks are not, a kernel that
/// compacts is given the benefit of the doubt unless something shows that it cannot.
fn severity(window: &Window, free: FreeBySize, outlook: HugeOutlook, is_pinned: bool) -> Severity {
    let by_lists =
        if free.unusable_milli >= CRITICAL_MILLI { Severity::Critical } else { Severity::Warning };
    match outlook {
        HugeOutlook::Served(_) => Severity::Note,
        HugeOutlook::Refused => by_lists,
        HugeOutlook::Uncertain => Severity::Warning,
        HugeOutlook::Unknown => match outlook::has_compaction(&window.now) {
            None => Severity::Warning,
            Some(false) => by_lists,
            Some(true) if is_pinned || outlook::compaction_fails(window) => by_lists,
            Some(true) => Severity::Note,
        },
    }
}

fn after_compaction(growth: PoolGrowth, node: u32) -> String {
    let provided = growth.least_bytes.unwrap_or(growth.now_bytes);
    format!("; reclaim and compaction provide {} on node {node}", format_bytes(provided))
}

/// True if there is a pinned page for every huge page that the unusable free memory would make.
fn is_kept_fragmented(window: &Window, free: FreeBySize, pinned_bytes: u64) -> bool {
    let snapshot = &window.now;
    let pinned_pages = pinned_bytes.checked_div(snapshot.origin.page_bytes).unwrap_or(0);
    let huge_bytes = derived::huge_page_bytes(snapshot);
    let unusable_huge_pages = free.unusable_bytes().checked_div(huge_bytes).unwrap_or(0);
    pinned_bytes >= MIN_PINNED_BYTES
        && pinned_pages >= unusable_huge_pages
        && (!may_be_split(snapshot)
            || counted_pins(snapshot) >= unusable_huge_pages.max(1)
            || outlook::compaction_fails(window))
}

/// True if the pages may be parts of huge pages that were unmapped in part: the kernel can move those.
fn may_be_split(snapshot: &Snapshot) -> bool {
    let vmstat = snapshot.sample.vmstat.value();
    vmstat.and_then(|v| v.get(Counter::ThpDeferredSplitPage)).unwrap_or(0) > 0
}

/// Pages of the machine that the kernel counts as pinned for I/O.
fn counted_pins(snapshot: &Snapshot) -> u64 {
    let count = |counter| snapshot.sample.vmstat.value().and_then(|v| v.get(counter)).unwrap_or(0);
    count(Counter::NrFollPinAcquired).saturating_sub(count(Counter::NrFollPinReleased))
}

fn remedy(node: u32, is_pinned: bool) -> Remedy {
    let path = format!("/sys/devices/system/node/node{node}/compact");
    let compact = Step::Once { path, value: "1".to_owned() };
    if !is_pinned {
        return Remedy::named(format!("compact node {node} once"), vec![compact]);
    }
    Remedy::named(
        format!("compact node {node} once (pinned pages will not move)"),
        vec![
            compact,
            Step::manual(
                "end the programs that pin pages in pipes (vmsplice), sockets or devices, then run: \
                 memwright fix fragmented-node",
            ),
        ],
    )
}

/// Pages of a node that are on the LRU lists although no process maps them and they belong to no file,
/// shared memory or swap: something else references them, and the kernel cannot move them. Locked pages
/// are on a list of their own, and belong to a process or file as any other.
fn pinned_bytes(snapshot: &Snapshot, node: u32) -> u64 {
    let pinned = |meminfo: &Meminfo| {
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
    nodes.find(|(number, _)| *number == node).and_then(|(_, meminfo)| pinned(&meminfo)).unwrap_or(0)
}

/// The kernel's own index, where debugfs is mounted.
fn kernel_index(snapshot: &Snapshot, zone: &BuddyZone, order: usize) -> Option<i32> {
    let zones = &snapshot.extfrag_unusable.value()?.zones;
    let own = zones.iter().find(|own| own.node == zone.node && own.name == zone.name)?;
    own.values().get(order).copied()
}
