//! The root of a running machine in a container: a tree with the kernel's own files in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_collect::{Source, input};
use mw_model::OriginKind;
use mw_proc::vmstat::Counter;
use std::path::Path;
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_millis(200);

#[test]
fn a_tree_with_the_kernels_own_proc_has_rates() {
    let source = Source::tree(Path::new("/")).unwrap();
    assert_eq!((source.kind(), source.is_running()), (OriginKind::Tree, true));
    let started = Instant::now();
    let window = mw_collect::window_of(&source, SPAN);
    assert!(started.elapsed() >= SPAN);
    // The kernel adds up the counters of its CPUs once a second; what is asked for is that there is a rate.
    assert!(window.rate(Counter::Pgfault).unwrap() >= 0.0);
    assert!(window.now.sample.at_ms - window.earlier[0].at_ms >= 199.0);
    assert!(window.now.origin.taken_unix_ms.is_some());
}

#[test]
fn a_captured_tree_has_only_what_was_captured() {
    let source = input::open(&mw_test::fixture("shm-limit/firing")).unwrap();
    assert!(!source.is_running());
    let started = Instant::now();
    drop(mw_collect::window_of(&source, Duration::from_secs(60)));
    assert!(started.elapsed() < Duration::from_secs(30));
}
