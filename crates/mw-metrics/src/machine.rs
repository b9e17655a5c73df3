//! The metrics of a window and of its report.

use crate::allocatable::{allocatable, as_unlimited, page_sizes};
use crate::family;
use crate::page::MetricsPage;
use mw_model::{
    PageSize, Report, Request, Snapshot, Supply, TimeEstimate, Window, caller, derived,
    fragmentation,
};
use std::collections::BTreeMap;

/// Orders of which fragmentation is exported: the largest that the kernel serves at almost any price
/// (PAGE_ALLOC_COSTLY_ORDER is 3), that of a huge page on x86, and one between.
const ORDERS: [usize; 3] = [4, 6, 9];

/// Settings that are exported: numbers that rules judge or remedies set.
pub const SETTINGS: &[&str] = &[
    "vm.compaction_proactiveness",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.min_free_kbytes",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.swappiness",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
];

/// The program itself.
pub fn with_build(page: &mut MetricsPage, version: &str) {
    page.add(family::BUILD, [version], 1.0);
}

/// Metrics of the machine, from a window and its report.
#[must_use]
pub fn machine(window: &Window, report: &Report) -> MetricsPage {
    let mut page = MetricsPage::default();
    outcome(report, &mut page);
    let snapshot = &window.now;
    let unlimited = as_unlimited(window);
    let ready = derived::ready_bytes(&unlimited.now).ok();
    let ready = ready.map(|bytes| caller::available(&unlimited.now, bytes).bytes);
    for (family, bytes) in [(family::MEMORY, report.memory_bytes), (family::READY, ready)] {
        if let Some(bytes) = bytes {
            page.add(family, [], bytes as f64);
        }
    }
    requests(&unlimited, &mut page);
    fragmented(snapshot, &mut page);
    held(snapshot, &mut page);
    huge_pages(snapshot, &mut page);
    exhaustion(report, &mut page);
    for name in SETTINGS {
        if let Ok(value) = snapshot.sysctl.number(name) {
            page.add(family::SETTING, [name], value as f64);
        }
    }
    page
}

/// Speed at which a request is served, where its time was measured.
pub fn with_preflight(page: &mut MetricsPage, request: &Request, time: Option<&TimeEstimate>) {
    let (Some(time), bytes) = (time, request.size_bytes) else { return };
    if bytes > 0 {
        let per_gib = time.likely_ms / 1000.0 * (1_u64 << 30) as f64 / bytes as f64;
        page.add(family::SECONDS_PER_GIB, [&request.page.name()], per_gib);
    }
}

fn outcome(report: &Report, page: &mut MetricsPage) {
    page.add(family::CHECKED, [], f64::from(u8::from(!report.is_unknown())));
    if let Some(taken) = report.taken_unix_ms {
        page.add(family::CHECK_TIME, [], taken as f64 / 1000.0);
    }
    let mut findings: BTreeMap<(&str, String), u32> = BTreeMap::new();
    for finding in &report.findings {
        *findings.entry((&finding.rule, finding.severity.to_string())).or_default() += 1;
    }
    for ((rule, severity), count) in &findings {
        page.add(family::FINDING, [rule, severity], f64::from(*count));
    }
    let mut found: Vec<&str> = findings.keys().map(|(rule, _)| *rule).collect();
    found.dedup();
    for (state, rules) in [
        ("found", found.len()),
        ("passed", report.quiet.len()),
        ("unchecked", report.skipped.len()),
    ] {
        page.add(family::RULES, [state], rules as f64);
    }
}

fn requests(unlimited: &Window, page: &mut MetricsPage) {
    let nodes = unlimited.now.nodes.value().map_or(&[][..], Vec::as_slice);
    for node in nodes {
        for size in page_sizes(&unlimited.now) {
            if let Some(bytes) = allocatable(unlimited, node.id, size) {
                let labels = [&*node.id.to_string(), &*size.name()];
                page.add(family::ALLOCATABLE, labels, bytes as f64);
            }
        }
    }
}

fn fragmented(snapshot: &Snapshot, page: &mut MetricsPage) {
    let Some(info) = snapshot.sample.buddyinfo.value() else { return };
    for zone in info.zones.iter().filter(|zone| fragmentation::free_pages(zone) > 0) {
        for order in ORDERS.into_iter().filter(|order| *order < zone.orders) {
            let ratio = f64::from(fragmentation::unusable_milli(zone, order)) / 1000.0;
            let labels = [&*zone.node.to_string(), &*zone.name.to_string(), &*order.to_string()];
            page.add(family::UNUSABLE, labels, ratio);
        }
    }
}

/// Of the machine; that of a request is no series.
fn exhaustion(report: &Report, page: &mut MetricsPage) {
    for found in report.exhaustion.iter().filter(|found| found.request_bytes == 0) {
        let supply = match found.supply {
            Supply::Memory => "memory",
            Supply::Pool => "pool",
            Supply::Contiguous => "contiguous",
            Supply::HugePages => "huge-pages",
        };
        let size = found.page_bytes.map_or(PageSize::Base, PageSize::Hugetlb).name();
        let seconds = found.hours_left.expected * 3600.0;
        page.add(family::EXHAUSTION, [supply, &size], seconds);
    }
}

fn held(snapshot: &Snapshot, page: &mut MetricsPage) {
    let page_bytes = snapshot.origin.page_bytes;
    let nodes = snapshot.nodes.value().map_or(&[][..], Vec::as_slice);
    for node in nodes {
        let id = node.id.to_string();
        let mut add = |by, bytes: Option<u64>| {
            if let Some(bytes) = bytes {
                page.add(family::HELD, [&id, by], bytes as f64);
            }
        };
        let sample = snapshot.sample.nodes.iter().find(|sample| sample.node == node.id);
        let meminfo = sample.and_then(|sample| sample.meminfo.value());
        add("shared", meminfo.and_then(|meminfo| meminfo.shmem_bytes));
        let zones = snapshot.sample.zoneinfo.value().map_or(&[][..], |info| &info.zones);
        let of_node = zones.iter().filter(|zone| zone.node == node.id);
        let locked: Vec<u64> = of_node.filter_map(|zone| zone.mlock_pages).collect();
        let locked =
            (!locked.is_empty()).then(|| derived::total(locked).saturating_mul(page_bytes));
        add("mlock", locked);
        let pools = node.hugepages.iter();
        let huge = pools.map(|pool| pool.total_pages.saturating_mul(pool.page_bytes));
        add("hugetlb", Some(derived::total(huge)));
    }
}

fn huge_pages(snapshot: &Snapshot, page: &mut MetricsPage) {
    for pool in snapshot.hugepages.value().into_iter().flatten() {
        let size = mw_memory::PageSize::Hugetlb(pool.page_bytes).name();
        for (state, pages) in [
            ("available", pool.available_pages()),
            ("reserved", pool.reserved_pages),
            ("used", pool.total_pages.saturating_sub(pool.free_pages)),
            ("surplus", pool.surplus_pages),
        ] {
            page.add(family::HUGE_PAGES, [&size, state], pages as f64);
        }
    }
}

/// The machine did not respond.
pub fn unseen(page: &mut MetricsPage) {
    page.add(family::CHECKED, [], 0.0);
}

/// Metrics of the recorder itself.
pub fn with_recorder(page: &mut MetricsPage, is_recording: bool, sampled_unix_ms: u64) {
    page.add(family::RECORDING, [], f64::from(u8::from(is_recording)));
    page.add(family::SAMPLE_TIME, [], sampled_unix_ms as f64 / 1000.0);
}

/// A pool, in bytes by state.
pub fn with_pool(page: &mut MetricsPage, name: &str, states: &[(&str, u64)]) {
    for (state, bytes) in states {
        page.add(family::POOL, [name, state], *bytes as f64);
    }
}
