//! A remedy suffices: with the settings that it writes, and what the kernel computes from them, the finding is gone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{Finding, Reading, Remedy, Step, Window, zones};
use mw_proc::choice::Choice;
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::Zone;
use std::collections::BTreeSet;

fn window(fixture: &str) -> Window {
    let source = input::open(&mw_test::fixture(fixture));
    mw_collect::window(&source.unwrap_or_else(|error| panic!("{fixture}: {error}")))
}

/// Rules whose finding is a rate, or state of a moment, which a captured tree keeps whatever the settings are.
const OF_THE_MOMENT: [&str; 7] = [
    "dirty-throttle",
    "drop-caches",
    "kernel-zone-exhausted",
    "khugepaged-churn",
    "reclaim-storm",
    "thp-compaction",
    "working-set-thrash",
];

fn choice(selected: &str) -> Choice {
    Choice::parse(format!("[{selected}]\n").as_bytes()).unwrap()
}

fn number(value: &str) -> u64 {
    value.parse().unwrap()
}

/// The settings of the kernel, and what it computes from them at once.
fn apply(window: &mut Window, path: &str, value: &str) {
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        set(window, &name.replace('/', "."), value);
    } else if path.ends_with("/nr_hugepages") {
        resize_pool(window, path, number(value));
    } else if let Some(name) = path.strip_prefix("/sys/kernel/mm/transparent_hugepage/") {
        let Reading::Value(thp) = &mut window.now.thp else { panic!("thp") };
        match name {
            "defrag" => thp.defrag = choice(value),
            "enabled" => thp.enabled = choice(value),
            other => panic!("{other}"),
        }
    }
}

fn set(window: &mut Window, name: &str, value: &str) {
    let before = window.now.sysctl.number(name).unwrap_or(0);
    window.now.sysctl.values.insert(name.to_owned(), Ok(value.to_owned()));
    match name {
        "vm.min_free_kbytes" => {
            let scale = |pages: u64| pages * number(value) / before.max(1);
            for zone in zones_of(window) {
                zone.min_pages = scale(zone.min_pages);
                zone.low_pages = scale(zone.low_pages);
                zone.high_pages = scale(zone.high_pages);
            }
        }
        "vm.watermark_scale_factor" => {
            for zone in zones_of(window) {
                let of_zone = zone.managed_or_present_pages() * number(value) / 10_000;
                let distance = of_zone.max(zone.min_pages / 4);
                zone.low_pages = zone.min_pages + distance;
                zone.high_pages = zone.low_pages + distance;
            }
        }
        "vm.overcommit_ratio" => {
            let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
            let pools = meminfo.hugetlb_bytes.unwrap_or(0);
            let memory = (meminfo.mem_total_bytes.unwrap() - pools) / 100 * number(value);
            meminfo.commit_limit_bytes = Some(memory + meminfo.swap_total_bytes.unwrap_or(0));
        }
        "vm.dirty_bytes"
        | "vm.dirty_background_bytes"
        | "vm.dirty_ratio"
        | "vm.dirty_background_ratio" => set_threshold(window, name, number(value)),
        _ => {}
    }
}

fn zones_of(window: &mut Window) -> &mut [Zone] {
    match &mut window.now.sample.zoneinfo {
        Reading::Value(zoneinfo) => &mut zoneinfo.zones,
        Reading::Missing(_) => &mut [],
    }
}

fn set_threshold(window: &mut Window, name: &str, value: u64) {
    let dirtyable = zones::dirtyable_bytes(&window.now).unwrap();
    let bytes = if name.ends_with("bytes") { value } else { dirtyable / 100 * value };
    let counter = match name.contains("background") {
        true => Counter::NrDirtyBackgroundThreshold,
        false => Counter::NrDirtyThreshold,
    };
    let page_bytes = window.now.origin.page_bytes;
    let Reading::Value(vmstat) = &mut window.now.sample.vmstat else { panic!("vmstat") };
    vmstat.set(counter, Some(bytes / page_bytes));
}

fn resize_pool(window: &mut Window, path: &str, pages: u64) {
    let Reading::Value(pools) = &mut window.now.hugepages else { panic!("pools") };
    let pool = pools
        .iter_mut()
        .find(|pool| path.contains(&format!("hugepages-{}kB/", pool.page_bytes >> 10)))
        .unwrap_or_else(|| panic!("{path}"));
    let used = pool.total_pages - pool.free_pages;
    pool.total_pages = pages.max(used);
    pool.free_pages = pool.total_pages - used;
}

fn write_of(step: &Step) -> Option<(&str, &str)> {
    match step {
        Step::Write { path, value } => Some((path, value)),
        _ => None,
    }
}

/// Settings alone: an action of the kernel, or of a person, cannot be applied to a tree.
fn writes(remedy: &Remedy) -> Option<Vec<(&str, &str)>> {
    let steps = remedy.steps.iter().map(write_of);
    steps.collect::<Option<Vec<_>>>().filter(|writes| !writes.is_empty())
}

fn same(window: &Window, of: &Finding) -> Option<Finding> {
    let report = mw_rules::check(window, None);
    report.findings.into_iter().find(|found| found.rule == of.rule && found.subject == of.subject)
}

/// Promise (Fixing): Every setting that a remedy writes removes its finding, on every captured tree.
#[test]
fn settings_of_remedies_remove_their_findings() {
    let (mut rules, mut failures) = (BTreeSet::new(), Vec::new());
    for fixture in mw_test::fixtures() {
        let before = window(&fixture);
        for finding in mw_rules::check(&before, None).findings {
            let Some(writes) = finding.remedy.as_ref().and_then(writes) else { continue };
            if OF_THE_MOMENT.contains(&finding.rule.as_str()) {
                continue;
            }
            let mut after = before.clone();
            for (path, value) in writes {
                apply(&mut after, path, value);
            }
            rules.insert(finding.rule.clone());
            if let Some(left) = same(&after, &finding) {
                failures.push(format!("{fixture}: {}: {}", finding.rule, left.headline));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(rules.len() >= 6, "{rules:?}");
}

/// A remedy that would not remove the finding is not one of the settings: it says what is left.
#[test]
fn what_a_setting_cannot_remove_is_said() {
    let remedy = |fixture: &str, rule: &str| {
        let report = mw_rules::check(&window(fixture), None);
        let mut found = report.findings.into_iter().filter(|finding| finding.rule == rule);
        found.next().unwrap().remedy.unwrap()
    };
    let beyond = remedy("overcommit-refusal/firing-beyond", "overcommit-refusal");
    assert!(!beyond.is_ours(), "{beyond:?}");
    assert!(beyond.summary.contains("157% of it is committed"), "{}", beyond.summary);
    let segment = remedy("hugepage-hoard/firing-segment", "hugepage-hoard");
    assert!(!segment.is_ours(), "{segment:?}");
    assert!(segment.summary.starts_with("enlarge the pool to 215 pages"), "{}", segment.summary);
}

/// With the swap that the remedy names the commit limit is no finding any more.
#[test]
fn the_swap_that_is_missing_is_enough() {
    let mut window = window("overcommit-refusal/firing-beyond");
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    meminfo.swap_total_bytes = Some(952 << 20);
    set(&mut window, "vm.overcommit_ratio", "90");
    let report = mw_rules::check(&window, None);
    let found = report.findings.iter().find(|finding| finding.rule == "overcommit-refusal");
    assert_eq!(found, None);
}

#[test]
fn a_pool_that_is_configured_is_given_away_only_knowingly() {
    let mut window = window("hugepage-hoard/firing");
    let summary = |window: &Window| {
        let report = mw_rules::check(window, None);
        let found = report.findings.into_iter().find(|finding| finding.rule == "hugepage-hoard");
        found.unwrap().remedy.unwrap().summary
    };
    let Reading::Value(wanted) = &mut window.now.hugepages_wanted else { panic!("wanted") };
    wanted.clear();
    assert!(!summary(&window).contains("still to start"), "{}", summary(&window));
    let Reading::Value(wanted) = &mut window.now.hugepages_wanted else { panic!("wanted") };
    wanted.push(mw_model::HugepagesWanted {
        source: "/etc/sysctl.d/20-warehouse.conf".to_owned(),
        page_bytes: 2 << 20,
        pages: 180,
    });
    let summary = summary(&window);
    assert!(summary.contains("/etc/sysctl.d/20-warehouse.conf reserves 180 pages"), "{summary}");
}
