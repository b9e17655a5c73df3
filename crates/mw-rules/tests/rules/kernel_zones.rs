//! Memory as the kernel's own requests see it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{Finding, Reading, Severity, Step, Window};
use mw_proc::zoneinfo::{Zone, ZoneName};

const RULE: &str = "kernel-zone-exhausted";

fn window(fixture: &str) -> Window {
    mw_collect::window(&input::open(&mw_test::fixture(fixture)).unwrap())
}

fn found(window: &Window) -> Option<Finding> {
    let report = mw_rules::check(window, None);
    report.findings.into_iter().find(|finding| finding.rule == RULE)
}

fn zone<'a>(window: &'a mut Window, name: &str) -> &'a mut Zone {
    let Reading::Value(zoneinfo) = &mut window.now.sample.zoneinfo else { panic!("zoneinfo") };
    zoneinfo.zones.iter_mut().find(|zone| zone.name.as_str() == name).unwrap()
}

/// Promise (Findings): Free memory that is kept for contiguous allocation is not free for the kernel.
#[test]
fn what_is_kept_for_cma_is_not_free_for_the_kernel() {
    let mut window = window("kernel-zone-exhausted/firing-cma");
    let finding = found(&window).unwrap();
    assert!(finding.headline.contains("398.4 MiB more are CMA"), "{}", finding.headline);
    assert!(finding.remedy.unwrap().summary.starts_with("reserve less for CMA"));
    zone(&mut window, "DMA32").free_cma_pages = Some(0);
    assert_eq!(found(&window), None);
}

#[test]
fn high_memory_serves_no_request_of_the_kernel() {
    let mut window = window("kernel-zone-exhausted/firing");
    assert!(found(&window).is_some());
    let Reading::Value(zoneinfo) = &mut window.now.sample.zoneinfo else { panic!("zoneinfo") };
    let mut high = *zoneinfo.zones.iter().find(|zone| zone.name.as_str() == "DMA32").unwrap();
    (high.name, high.free_pages) = (ZoneName::new(b"HighMem").unwrap(), 1 << 20);
    let mut normal = high;
    zoneinfo.zones.push(high);
    assert!(found(&window).is_some(), "with gigabytes of it free");
    normal.name = ZoneName::new(b"Normal").unwrap();
    zoneinfo_push(&mut window, normal);
    assert_eq!(found(&window), None);
}

fn zoneinfo_push(window: &mut Window, zone: Zone) {
    let Reading::Value(zoneinfo) = &mut window.now.sample.zoneinfo else { panic!("zoneinfo") };
    zoneinfo.zones.push(zone);
}

/// Requests in interrupts may use the reserve down to 3/8 of the min watermark.
#[test]
fn interrupts_fail_only_below_their_part_of_the_reserve() {
    let mut window = window("kernel-zone-exhausted/firing");
    assert_eq!(found(&window).unwrap().severity, Severity::Critical);
    let zone = zone(&mut window, "DMA32");
    zone.free_pages = zone.min_pages / 2;
    let finding = found(&window).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert!(!finding.impact.contains("packets"), "{}", finding.impact);
}

/// Promise (Fixing): A larger distance between the watermarks is proposed only where it becomes larger.
#[test]
fn a_watermark_that_takes_the_zone_is_lowered_and_any_other_raised() {
    let mut window = window("kernel-zone-exhausted/firing");
    let summary = |window: &Window| found(window).unwrap().remedy.unwrap().summary;
    assert!(summary(&window).starts_with("raise vm.min_free_kbytes"), "{}", summary(&window));
    let dma32 = zone(&mut window, "DMA32");
    (dma32.min_pages, dma32.low_pages) = (2400, 3000);
    dma32.free_pages = 600;
    assert!(summary(&window).starts_with("set vm.watermark_scale_factor to 100"));
    let dma32 = zone(&mut window, "DMA32");
    (dma32.min_pages, dma32.free_pages) = (80_000, 79_000);
    window.now.sysctl.values.insert("vm.min_free_kbytes".to_owned(), Ok("320000".to_owned()));
    assert!(summary(&window).contains("to the kernel's own choice"), "{}", summary(&window));
    let Step::Write { value, .. } = &found(&window).unwrap().remedy.unwrap().steps[0] else {
        panic!("a setting")
    };
    let dma32 = zone(&mut window, "DMA32");
    dma32.min_pages = dma32.min_pages * value.parse::<u64>().unwrap() / 320_000;
    assert_eq!(found(&window), None, "with the setting that it names");
}

#[test]
fn one_block_is_enough_and_so_is_a_zone_that_is_still_filled() {
    let mut window = window("kernel-zone-exhausted/firing-blocks");
    let finding = found(&window).unwrap();
    assert!(finding.headline.ends_with("(the largest has 64 KiB)"), "{}", finding.headline);
    let Reading::Value(buddyinfo) = &mut window.now.sample.buddyinfo else { panic!("buddyinfo") };
    let zone = buddyinfo.zones.iter_mut().find(|zone| zone.name.as_str() == "DMA32").unwrap();
    zone.set(5, 1);
    assert_eq!(found(&window), None);
}
