//! The metrics of captured machines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_metrics::{Exposition, allocatable, as_unlimited, machine};
use mw_model::{Answer, PageSize, Request, Window};
use mw_rules::preflight;

fn window(tree: &str) -> Window {
    mw_collect::window(&input::open(&mw_test::fixture(tree)).unwrap())
}

fn text(tree: &str) -> String {
    let window = window(tree);
    machine(&window, &mw_rules::check(&window, None)).write(Exposition::Text)
}

#[test]
fn findings_are_those_of_the_check() {
    let firing = text("zone-reclaim/firing");
    assert!(firing.contains("memwright_finding{rule=\"zone-reclaim\",severity=\"critical\"} 1\n"));
    assert!(firing.contains("memwright_setting{name=\"vm.zone_reclaim_mode\"} 7\n"), "{firing}");
    let quiet = text("healthy/numa-2");
    assert!(!quiet.contains("memwright_finding{"), "{quiet}");
    for node in 0..2 {
        let series =
            format!("memwright_allocatable_bytes{{numa_node=\"{node}\",page_size=\"4k\"}}");
        assert!(quiet.contains(&series), "{quiet}");
    }
}

/// Promise (Metrics): `memwright_allocatable_bytes` is the largest request that `check --for` answers with yes, for a
/// process without limits.
#[test]
fn what_is_allocatable_is_the_largest_request_that_is_answered_with_yes() {
    let window = as_unlimited(&window("healthy/numa-2"));
    for page in [PageSize::Base, PageSize::Thp] {
        let size_bytes = allocatable(&window, 1, page).unwrap();
        let answer = |size_bytes| {
            let request = Request { size_bytes, lock: false, page, node: Some(1) };
            preflight::assess(&window, &request).unwrap().answer()
        };
        assert!(size_bytes > 100 << 20, "{size_bytes}");
        assert_eq!(answer(size_bytes), Answer::Yes);
        assert_ne!(answer(size_bytes + (4 << 20)), Answer::Yes);
    }
}

#[test]
fn available_pages_of_a_pool_are_not_reserved() {
    let window = window("hugepage-hoard/firing");
    let pool = window.now.hugepages.value().unwrap()[0];
    let text = text("hugepage-hoard/firing");
    let line = format!("state=\"available\"}} {}\n", pool.free_pages - pool.reserved_pages);
    assert!(text.contains(&line), "{line}{text}");
}

#[test]
fn a_machine_has_about_eighty_series() {
    let window = window("healthy/numa-2");
    let series = machine(&window, &mw_rules::check(&window, None)).series();
    assert!((40..100).contains(&series), "{series}");
}
