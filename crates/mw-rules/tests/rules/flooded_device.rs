//! What is proposed for the device that a flood is written to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::Source;
use mw_collect::text_archive::TextArchive;
use mw_model::{Consent, Remedy, Step};

/// The remedy of a flood on a machine that says so of its device's share.
fn remedy(max_ratio_fine: Option<&str>, strict_limit: Option<&str>) -> Remedy {
    let archive = mw_test::fixture("page-cache-flood/firing");
    let mut tree = TextArchive::load(&archive).unwrap_or_else(|error| panic!("{error}")).tree;
    if let Some(parts) = max_ratio_fine {
        tree.insert("sys/class/bdi/259:0/max_ratio_fine", parts.into()).unwrap();
    }
    if let Some(strict) = strict_limit {
        tree.insert("sys/class/bdi/259:0/strict_limit", strict.into()).unwrap();
    }
    let source = Source::in_memory(tree, &archive).unwrap();
    let report = mw_rules::check(&mw_collect::window(&source), None);
    let finding = report.findings.into_iter().find(|finding| finding.rule == "page-cache-flood");
    finding.unwrap().remedy.unwrap()
}

fn written(remedy: &Remedy) -> Vec<(&str, u64)> {
    let write = |step| match step {
        Step::Write { path, value } => Some((path, value.parse().unwrap())),
        _ => None,
    };
    let writes = remedy.steps.iter().filter_map(|step| write(step.clone()));
    let name = |path: String| {
        let names = ["/sys/class/bdi/259:0/strict_limit", "/sys/class/bdi/259:0/max_ratio_fine"];
        names.into_iter().find(|name| **name == path).unwrap()
    };
    writes.map(|(path, value)| (name(path), value)).collect()
}

/// Promise (Fixing): A flooded device is limited individually, to what it writes in two seconds, if the kernel
/// supports it.
#[test]
fn the_device_gets_what_it_writes_in_two_seconds() {
    let remedy = remedy(Some("1000000"), Some("0"));
    assert_eq!(remedy.consent, Consent::Named);
    let writes = written(&remedy);
    assert_eq!(writes[0], ("/sys/class/bdi/259:0/strict_limit", 1));
    assert!((1..1_000_000).contains(&writes[1].1), "{writes:?}");
    let direct_io =
        |step: &Step| matches!(step, Step::Manual { command } if command.contains("--direct-io"));
    assert!(remedy.steps.iter().any(direct_io), "{remedy:?}");
}

#[test]
fn where_the_kernel_cannot_or_it_has_less_already_nothing_is_written() {
    for known in [None, Some("10")] {
        assert_eq!(written(&remedy(known, Some("1"))), [], "{known:?}");
    }
}

/// Without `strict_limit` the kernel lets the device have all of what may be dirty before it throttles anybody.
#[test]
fn a_share_that_is_no_strict_limit_becomes_one() {
    let strict = ("/sys/class/bdi/259:0/strict_limit", 1);
    let share = ("/sys/class/bdi/259:0/max_ratio_fine", 10);
    assert_eq!(written(&remedy(Some("10"), Some("0"))), [strict, share]);
}
