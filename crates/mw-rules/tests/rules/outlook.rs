//! A finding's severity is what a large request would meet: `check` and `check --for` never contradict each other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{
    Answer, OomHistory, OomShortage, OomVictim, PageBlocks, PageSize, Reading, Report, Request,
    Severity, Waiter, Waiters, Window, derived,
};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::vmstat::{Counter, Vmstat};
use mw_rules::preflight;
use proptest::prelude::*;

const HUGE: u64 = 2 << 20;
const DAY_MS: u64 = 86_400_000;

/// Rules whose critical finding says that a large request stalls or fails.
const OF_REQUESTS: [&str; 6] = [
    "fragmented-node",
    "page-cache-flood",
    "reclaim-storm",
    "swap-thrash",
    "thp-compaction",
    "working-set-thrash",
];

fn window(fixture: &str) -> Window {
    let source = input::open(&mw_test::fixture(fixture));
    mw_collect::window(&source.unwrap_or_else(|error| panic!("{error}")))
}

/// A machine of 2 GiB without a hazard, as it is and a second before.
fn healthy() -> Window {
    let window = window("fragmented-node/quiet");
    assert!(window.is_sustained() && mw_rules::check(&window, None).findings.is_empty());
    window
}

fn severity(report: &Report, rule: &str) -> Option<Severity> {
    report.findings.iter().find(|finding| finding.rule == rule).map(|finding| finding.severity)
}

/// The free lists of every machine whose page cache has been full: all that is free is in blocks of 64 KiB at most.
fn scatter(window: &mut Window) {
    let Reading::Value(buddyinfo) = &window.now.sample.buddyinfo else { panic!("buddyinfo") };
    let lines: String = buddyinfo
        .zones
        .iter()
        .map(|zone| {
            let pages: u64 = zone.values().iter().enumerate().map(|(order, n)| n << order).sum();
            format!("Node {}, zone {} 0 0 0 0 {} 0 0 0 0 0 0\n", zone.node, zone.name, pages >> 4)
        })
        .collect();
    let mut scattered = Buddyinfo::default();
    scattered.parse_into(lines.as_bytes()).unwrap();
    window.now.sample.buddyinfo = Reading::Value(scattered);
}

/// Page blocks of node 0, so many of 1,000 of which compaction can empty.
fn blocks(movable: u64) -> Reading<Vec<PageBlocks>> {
    Reading::Value(vec![PageBlocks {
        block_bytes: HUGE,
        blocks: 1000,
        sampled: 1000,
        movable,
        ..PageBlocks::default()
    }])
}

/// Has counters increase by so much a second since the earlier sample.
fn count(window: &mut Window, counters: &[(Counter, u64)]) {
    let span_s = window.span_ms().unwrap() / 1000.0;
    let before = window.earlier[0].vmstat.value().cloned().unwrap();
    let Reading::Value(now) = &mut window.now.sample.vmstat else { panic!("vmstat") };
    for (counter, per_s) in counters {
        let more = (*per_s as f64 * span_s).ceil() as u64;
        now.set(*counter, Some(before.get(*counter).unwrap_or(0) + more));
    }
}

#[test]
fn small_free_blocks_are_a_note_where_compaction_makes_them_whole() {
    let mut full = healthy();
    scatter(&mut full);
    full.now.page_blocks = blocks(900);
    let report = mw_rules::check(&full, None);
    assert_eq!(severity(&report, "fragmented-node"), Some(Severity::Note), "{report:?}");
    assert!(report.verdict.starts_with("ready: "), "{}", report.verdict);
    let headline = &report.findings[0].headline;
    assert!(headline.contains("; reclaim and compaction provide 1"), "{headline}");
    // An ordinary user cannot read the flags of pages; the kernel compacts all the same.
    full.now.page_blocks = Reading::default();
    let report = mw_rules::check(&full, None);
    assert_eq!(severity(&report, "fragmented-node"), Some(Severity::Note), "{report:?}");
}

#[test]
fn small_free_blocks_are_critical_where_nothing_makes_them_whole() {
    let mut stuck = healthy();
    scatter(&mut stuck);
    stuck.now.page_blocks = blocks(20);
    let of = |window: &Window| severity(&mw_rules::check(window, None), "fragmented-node");
    assert_eq!(of(&stuck), Some(Severity::Critical));
    stuck.now.page_blocks = blocks(190);
    assert_eq!(of(&stuck), Some(Severity::Critical), "a quarter is 512 MiB");
    stuck.now.page_blocks = Reading::default();
    let mut failing = stuck.clone();
    count(
        &mut failing,
        &[
            (Counter::CompactStall, 40),
            (Counter::CompactFail, 30),
            (Counter::CompactSuccess, 10),
            (Counter::CompactMigrateScanned, 40_000),
        ],
    );
    assert_eq!(of(&failing), Some(Severity::Critical), "compaction fails");
    let mut old = stuck.clone();
    old.now.sample.vmstat = Reading::Value(Vmstat::default());
    assert_eq!(of(&old), Some(Severity::Critical), "a kernel without compaction");
    let mut unknown = stuck;
    unknown.now.sample.vmstat = Reading::default();
    assert_eq!(of(&unknown), Some(Severity::Warning), "nobody knows");
}

/// One `cat` of a large file, on a machine whose page cache is full.
#[test]
fn a_reader_of_a_large_file_harms_nobody() {
    let mut reader = healthy();
    scatter(&mut reader);
    reader.now.page_blocks = blocks(900);
    count(
        &mut reader,
        &[
            (Counter::PgscanKswapd, 400_000),
            (Counter::PgscanDirect, 200_000),
            (Counter::PgscanFile, 600_000),
            (Counter::Allocstall, 900),
            (Counter::CompactStall, 200),
            (Counter::CompactFail, 150),
            (Counter::CompactMigrateScanned, 20_000),
        ],
    );
    let report = mw_rules::check(&reader, None);
    assert!(report.worst.is_none_or(|worst| worst == Severity::Note), "{report:?}");
    assert!(report.verdict.starts_with("ready: "), "{}", report.verdict);
    // Page faults that ask for huge pages and do not get them are another matter.
    count(&mut reader, &[(Counter::ThpFaultFallback, 100)]);
    let report = mw_rules::check(&reader, None);
    assert_eq!(severity(&report, "thp-compaction"), Some(Severity::Warning), "{report:?}");
}

/// A storm on a machine with clean page cache: a large request is served, and yet everybody else waits.
#[test]
fn a_storm_is_a_warning_where_others_wait_than_the_reader() {
    let mut storm = healthy();
    count(&mut storm, &[(Counter::PgscanDirect, 400_000), (Counter::Allocstall, 900)]);
    let process =
        |pid, waited_us, cached_pages| Waiter { pid, waited_us, cached_pages, ..Waiter::default() };
    let reader = process(1, 700_000, 300_000);
    let of = |storm: &mut Window, processes| {
        storm.waiters = Reading::Value(Waiters { span_us: 1_000_000, processes });
        severity(&mw_rules::check(storm, None), "reclaim-storm")
    };
    assert_eq!(of(&mut storm, vec![reader.clone()]), Some(Severity::Note));
    let others = vec![reader, process(2, 90_000, 100), process(3, 60_000, 0)];
    assert_eq!(of(&mut storm, others), Some(Severity::Warning));
}

#[test]
fn a_burst_of_some_milliseconds_is_a_note() {
    let mut burst = window("swap-thrash/firing");
    let critical = mw_rules::check(&burst, None);
    assert_eq!(critical.worst, Some(Severity::Critical), "{critical:?}");
    burst.earlier[0].at_ms = burst.now.sample.at_ms - 10.0;
    let report = mw_rules::check(&burst, None);
    let of_rates = report.findings.iter().filter(|f| OF_REQUESTS.contains(&f.rule.as_str()));
    let severities: Vec<Severity> = of_rates.map(|finding| finding.severity).collect();
    assert!(severities.iter().all(|severity| *severity == Severity::Note), "{report:?}");
}

fn killed(days_ago: u64, shortage: OomShortage) -> Option<Severity> {
    let mut window = healthy();
    let now = window.now.origin.taken_unix_ms.unwrap();
    let Reading::Value(before) = &mut window.earlier[0].vmstat else { panic!("vmstat") };
    before.set(Counter::OomKill, Some(2));
    count(&mut window, &[(Counter::OomKill, 0)]);
    let mut history = OomHistory::default();
    history.add(OomVictim {
        last_unix_ms: now - days_ago * DAY_MS,
        shortage,
        ..OomVictim::default()
    });
    window.now.oom_history = Reading::Value(history);
    severity(&mw_rules::check(&window, None), "oom-kill")
}

#[test]
fn a_kill_fades() {
    assert_eq!(killed(0, OomShortage::Machine), Some(Severity::Warning));
    assert_eq!(killed(2, OomShortage::Machine), Some(Severity::Note));
    assert_eq!(killed(8, OomShortage::Machine), None);
    assert_eq!(killed(0, OomShortage::Cgroup(None)), Some(Severity::Note), "whose group is gone");
}

/// Conditions that any user can bring about.
#[test]
fn a_process_a_cgroup_and_a_mount_are_never_critical_and_change_no_setting() {
    let mut found = 0;
    for fixture in mw_test::fixtures() {
        for finding in mw_rules::check(&window(&fixture), None).findings {
            if finding.subject.is_machine() {
                continue;
            }
            found += 1;
            assert!(finding.severity < Severity::Critical, "{fixture}: {finding:?}");
            let consent = finding.remedy.map(|remedy| remedy.consent);
            assert_ne!(consent, Some(mw_model::Consent::Automatic), "{fixture}");
        }
    }
    assert!(found >= 5, "{found}");
}

/// True if a quarter of memory in huge pages is served at once.
fn is_quarter_served(window: &Window) -> bool {
    let Ok(memory) = derived::memory_bytes(&window.now.sample) else { return false };
    let size_bytes = (memory / 4).max(1);
    let request = Request { size_bytes, lock: false, page: PageSize::Thp, node: None };
    let answer = preflight::assess(window, &request);
    let by_blocks = window
        .now
        .page_blocks
        .value()
        .map_or(0, |blocks| derived::total(blocks.iter().map(PageBlocks::least_bytes)));
    let ready = derived::ready_bytes(&window.now).unwrap_or(0);
    answer.is_ok_and(|assessment| assessment.answer() == Answer::Yes)
        || by_blocks.min(ready / 2) >= size_bytes
}

fn assert_no_contradiction(window: &Window, what: &str) {
    if !is_quarter_served(window) {
        return;
    }
    let report = mw_rules::check(window, None);
    let contradicts = |finding: &&mw_model::Finding| {
        finding.severity == Severity::Critical && OF_REQUESTS.contains(&finding.rule.as_str())
    };
    let found: Vec<_> = report.findings.iter().filter(contradicts).collect();
    assert!(found.is_empty(), "{what}: a quarter of memory is served in huge pages, but {found:?}");
}

#[test]
fn check_and_preflight_agree_on_every_fixture() {
    let mut served = 0;
    for fixture in mw_test::fixtures() {
        let window = window(&fixture);
        served += usize::from(is_quarter_served(&window));
        assert_no_contradiction(&window, &fixture);
    }
    assert!(served >= 10, "{served}");
}

proptest! {
    #[test]
    fn check_and_preflight_agree_on_any_machine(
        movable in 0_u64..=1000,
        is_scattered: bool,
        scan in 0_u64..1_000_000,
        stalls in 0_u64..2000,
        compact in 0_u64..2000,
        failed in 0_u64..2000,
        faults in 0_u64..2000,
        dirty_kib in 0_u64..900_000,
        free_kib in 20_000_u64..1_500_000,
    ) {
        let mut window = healthy();
        if is_scattered {
            scatter(&mut window);
        }
        window.now.page_blocks = blocks(movable);
        if let Reading::Value(meminfo) = &mut window.now.sample.meminfo {
            meminfo.dirty_bytes = Some(dirty_kib << 10);
            meminfo.mem_free_bytes = Some(free_kib << 10);
        }
        count(
            &mut window,
            &[
                (Counter::PgscanKswapd, scan),
                (Counter::PgscanDirect, scan / 2),
                (Counter::PgscanFile, scan),
                (Counter::Allocstall, stalls),
                (Counter::CompactStall, compact),
                (Counter::CompactFail, failed),
                (Counter::ThpFaultFallback, faults),
            ],
        );
        assert_no_contradiction(&window, "made up");
    }
}
