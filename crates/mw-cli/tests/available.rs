//! `check` and the segments agree on how much memory is available.

#![allow(clippy::unwrap_used, reason = "tests")]

use mw_model::{caller, derived};

/// Two readings are a moment apart, and `check` leaves out what has to be written first.
const SLACK_SHARE: u64 = 20;

#[test]
fn segments_and_check_report_the_same_available_memory() {
    let source = mw_collect::Source::live().unwrap();
    let snapshot = mw_collect::snapshot(&source);
    let machine = derived::available_bytes(&snapshot).unwrap();
    let check = caller::available(&snapshot, machine).bytes;
    let segment = mw_segment::available_bytes().unwrap();
    let unwritten = derived::unwritten_bytes(snapshot.sample.meminfo.value().unwrap());
    let slack = machine / SLACK_SHARE + unwritten;
    assert!(check.abs_diff(segment) <= slack, "check {check}, segments {segment}");
}
