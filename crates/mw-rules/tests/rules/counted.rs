//! Counters whose meaning differs between kernels, or that count more than their name says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{Finding, Reading, Severity, Window};
use mw_proc::pressure::{Pressure, PressureLine};
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Counter;

/// An idle machine over two seconds.
fn idle(fixture: &str) -> Window {
    let source = input::open(&mw_test::fixture(fixture));
    let mut window = mw_collect::window(&source.unwrap_or_else(|error| panic!("{error}")));
    let mut before = window.now.sample.clone();
    before.at_ms -= 2000.0;
    window.earlier = vec![before];
    window
}

fn counted(mut window: Window, rates_per_s: &[(Counter, u64)]) -> Window {
    let before = &mut window.earlier[0].vmstat;
    let (Reading::Value(before), Reading::Value(vmstat)) = (before, &mut window.now.sample.vmstat)
    else {
        panic!("no vmstat")
    };
    for (counter, per_s) in rates_per_s {
        let was = before.get(*counter).unwrap_or(0);
        before.set(*counter, Some(was));
        vmstat.set(*counter, Some(was + per_s * 2));
    }
    window
}

/// Pressure of the last 10 s, which the kernel counted between the samples as well.
fn pressed(mut window: Window, percent: u64) -> Window {
    let some = PressureLine {
        avg10_percent: percent as f64,
        total_us: percent * 20_000,
        ..PressureLine::default()
    };
    let rest = Pressure { some: PressureLine::default(), full: None };
    window.earlier[0].pressure.memory = Reading::Value(rest);
    window.now.sample.pressure.memory = Reading::Value(Pressure { some, ..rest });
    window
}

/// Most of memory is page cache, and as much is free as the kernel keeps.
fn full(mut window: Window) -> Window {
    for sample in window.earlier.iter_mut().chain([&mut window.now.sample]) {
        let Reading::Value(meminfo) = &mut sample.meminfo else { panic!("no meminfo") };
        let free = meminfo.mem_free_bytes.unwrap();
        meminfo.cached_bytes = Some(meminfo.cached_bytes.unwrap() + free);
        meminfo.inactive_file_bytes = Some(meminfo.inactive_file_bytes.unwrap() + free);
        meminfo.mem_free_bytes = Some(4 << 20);
    }
    window
}

fn found(window: &Window, rule: &str) -> Option<Finding> {
    let report = mw_rules::check(window, None);
    report.findings.into_iter().find(|finding| finding.rule == rule)
}

const IDLE: &str = "healthy/debian-6.12";

/// 40,000 pages of files a second in a container that reads more than its limit.
const AT_LIMIT: &[(Counter, u64)] = &[
    (Counter::PgscanFile, 40_000),
    (Counter::PgstealFile, 40_000),
    (Counter::WorkingsetRefaultFile, 200),
];

/// Promise (Findings): A container that reclaims at its own limit is no reclaim storm and no flood of the machine,
/// whichever kernel counts its pages.
#[test]
fn a_container_at_its_limit_is_no_storm_and_no_flood() {
    let old = counted(idle(IDLE), AT_LIMIT);
    assert_eq!(found(&old, "page-cache-flood"), None);
    assert_eq!(found(&old, "reclaim-storm"), None);
    let direct = [(Counter::PgscanDirect, 40_000), (Counter::PgstealDirect, 40_000)];
    let mut new = counted(counted(idle(IDLE), AT_LIMIT), &direct);
    assert!(found(&new, "reclaim-storm").is_some(), "of the machine, before 7.1");
    new.now.origin.kernel = Some(KernelVersion::new(7, 3, 4));
    assert_eq!(found(&new, "reclaim-storm"), None);
    assert_eq!(found(&full(new.clone()), "page-cache-flood"), None);
    new.now.origin.kernel = Some(KernelVersion::new(6, 12, 0));
    let Reading::Value(zoneinfo) = &mut new.now.sample.zoneinfo else { panic!("no zoneinfo") };
    zoneinfo.counts_scans_by_node = true;
    assert_eq!(found(&new, "reclaim-storm"), None, "an older kernel with the same change");
}

#[test]
fn a_flood_is_found_by_the_machines_own_scans() {
    let own = [(Counter::PgscanKswapd, 40_000), (Counter::PgstealKswapd, 40_000)];
    let flood = full(counted(counted(idle(IDLE), AT_LIMIT), &own));
    assert!(found(&flood, "page-cache-flood").is_some());
    assert_eq!(
        found(&counted(counted(idle(IDLE), AT_LIMIT), &own), "page-cache-flood"),
        None,
        "free"
    );
}

/// Promise (Findings): Reclaim that kswapd does alone is a note at most, at any rate.
#[test]
fn kswapd_alone_is_a_note() {
    let rates = |steals, stalls| {
        [
            (Counter::PgscanKswapd, 200_000),
            (Counter::PgstealKswapd, steals),
            (Counter::PgscanFile, 200_000),
            (Counter::Allocstall, stalls),
        ]
    };
    // A large request does not get memory there.
    let short = |rates: &[(Counter, u64)]| {
        let window = counted(idle("swap-thrash/firing"), rates);
        found(&window, "reclaim-storm").unwrap().severity
    };
    assert_eq!(short(&rates(199_000, 0)), Severity::Note);
    assert_eq!(short(&rates(20_000, 0)), Severity::Warning, "little of it is reclaimed");
    assert_eq!(short(&rates(199_000, 50)), Severity::Critical, "tasks reclaim as well");
}

/// Promise (Findings): Memory pressure, which contains kswapd's own time, is never the only sign of a condition.
#[test]
fn pressure_alone_is_nothing() {
    let scans = [(Counter::PgscanKswapd, 9000), (Counter::PgstealKswapd, 9000)];
    assert_eq!(found(&pressed(counted(idle(IDLE), &scans), 40), "reclaim-storm"), None);
    let direct = pressed(counted(idle(IDLE), &[(Counter::Allocstall, 3)]), 40);
    let headline = found(&direct, "reclaim-storm").unwrap().headline;
    assert!(headline.starts_with("some task, kswapd included, waited"), "{headline}");
}

/// Promise (Findings): An allocation whose compaction was deferred is no compaction.
#[test]
fn only_faults_that_compact_are_compaction() {
    let rates = |scanned, faults| {
        [
            (Counter::CompactStall, 100),
            (Counter::CompactFail, 100),
            (Counter::CompactMigrateScanned, scanned),
            (Counter::ThpFaultFallback, faults),
        ]
    };
    let is_found = |thp: &str, scanned, faults| {
        let mut window = counted(idle("thp-compaction/firing"), &rates(scanned, faults));
        let Reading::Value(settings) = &mut window.now.thp else { panic!("no settings") };
        settings.enabled = mw_proc::choice::Choice::parse(thp.as_bytes()).unwrap();
        found(&window, "thp-compaction").is_some()
    };
    assert!(is_found("always [madvise] never\n", 90_000, 100));
    assert!(!is_found("always [madvise] never\n", 0, 100), "deferred");
    assert!(!is_found("always [madvise] never\n", 90_000, 0), "of slab or the page cache");
    assert!(!is_found("always madvise [never]\n", 90_000, 100), "no huge pages");
}

/// Promise (Findings): Watermarks that the kernel increases for a while are no setting to write.
#[test]
fn boosted_watermarks_are_no_setting() {
    let boosted = |is_printed: bool| {
        let mut window = idle(IDLE);
        let page_bytes = window.now.origin.page_bytes;
        let Reading::Value(zoneinfo) = &mut window.now.sample.zoneinfo else { panic!("none") };
        let pages: u64 = zoneinfo.zones.iter().map(|zone| zone.present_pages).sum();
        let zone = zoneinfo.zones.iter_mut().max_by_key(|zone| zone.present_pages).unwrap();
        zone.high_pages += pages / 4;
        zone.boost_pages = is_printed.then_some(pages / 4);
        assert!(page_bytes > 0);
        found(&window, "min-free-too-high")
    };
    assert_eq!(boosted(true), None);
    let note = boosted(false).unwrap();
    assert_eq!(note.severity, Severity::Note);
    assert_eq!(note.subject.to_string(), "vm.watermark_boost_factor");
    assert_ne!(note.remedy.unwrap().consent, mw_model::Consent::Automatic);
}

/// Promise (Findings): zswap that serves what it holds is no thrashing; one that spills to the device is.
#[test]
fn zswap_thrashes_when_it_spills_or_takes_a_cpu() {
    let rates = |both_ways, written_back| {
        let rates = [
            (Counter::Zswpin, both_ways),
            (Counter::Zswpout, both_ways),
            (Counter::Zswpwb, written_back),
            (Counter::Pswpout, written_back),
        ];
        let finding = found(&counted(idle("swap-thrash/firing"), &rates), "swap-thrash");
        finding.map(|finding| (finding.severity, finding.headline))
    };
    assert_eq!(rates(5000, 0), None);
    let (severity, headline) = rates(60_000, 0).unwrap();
    assert_eq!(severity, Severity::Warning);
    assert!(headline.starts_with("zswap compresses 60000 pages a second"), "{headline}");
    let (_, headline) = rates(5000, 900).unwrap();
    assert!(headline.starts_with("900 pages a second are swapped out"), "{headline}");
}

/// Promise (Findings): A program in swap is named where pages are swapped out and in while the page cache is large; not on zram.
#[test]
fn a_program_that_is_swapped_beside_the_page_cache_is_named() {
    let check = |kswapd, swapped_mib: u64, path: &str| {
        let rates =
            [(Counter::Pswpin, 120), (Counter::Pswpout, 300), (Counter::PgscanKswapd, kswapd)];
        let mut window = counted(idle("swap-thrash/firing"), &rates);
        let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("no meminfo") };
        meminfo.inactive_file_bytes = meminfo.mem_total_bytes.map(|total| total / 4);
        let Reading::Value(swaps) = &mut window.now.swaps else { panic!("no swap") };
        path.clone_into(&mut swaps[0].path);
        let Reading::Value(processes) = &mut window.now.processes else { panic!("no processes") };
        processes.list[0].status.vm_swap_bytes = Some(swapped_mib << 20);
        found(&window, "swap-thrash").map(|finding| (finding.severity, finding.headline))
    };
    let (severity, headline) = check(3000, 800, "/dev/sda2").unwrap();
    assert_eq!(severity, Severity::Note, "over two seconds");
    assert!(
        headline.contains("has 800 MiB in swap and pages are swapped out and in"),
        "{headline}"
    );
    assert_eq!(check(0, 800, "/dev/sda2"), None, "kswapd has no part in it");
    assert_eq!(check(3000, 200, "/dev/sda2"), None, "little");
    assert_eq!(check(3000, 800, "/dev/zram0"), None, "in memory");
}

/// Promise (Findings): Reclaimable kernel objects that reclaim never looks at are named.
#[test]
fn kernel_objects_that_are_never_scanned_are_named() {
    let check = |slabs, pages, share: u64| {
        let mut window = idle("slab-bloat/quiet-unused");
        let sample = &mut window.now.sample;
        let (Reading::Value(vmstat), Reading::Value(meminfo)) =
            (&mut sample.vmstat, &mut sample.meminfo)
        else {
            panic!("no counters")
        };
        vmstat.set(Counter::SlabsScanned, Some(slabs));
        vmstat.set(Counter::PgscanKswapd, Some(pages));
        meminfo.sreclaimable_bytes = Some(meminfo.mem_total_bytes.unwrap() / 100 * share);
        found(&window, "slab-bloat").map(|finding| finding.headline)
    };
    assert!(check(0, 2_000_000, 25).unwrap().starts_with("reclaim has looked at none of "));
    assert_eq!(check(1, 2_000_000, 25), None);
    assert_eq!(check(0, 2_000, 25), None, "nothing was reclaimed");
    assert_eq!(check(0, 2_000_000, 8), None, "little");
}
