//! Every rule runs on every fixture. What its `expect.txt` does not name must stay silent.
//!
//! `MW_BLESS=1 cargo test -p mw-rules --test fixtures` writes what is found into the `expect.txt` of each archive; read
//! the difference before you commit it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_collect::text_archive::TextArchive;
use mw_model::{Reading, Report, Window};
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_rules::{ConditionState, NodeCondition, RULES};
use std::collections::BTreeMap;
use std::fs;

const EXPECT: &str = "expect.txt";

fn archive(fixture: &str) -> TextArchive {
    let archive = TextArchive::load(&mw_test::fixture(fixture));
    archive.unwrap_or_else(|error| panic!("{error}"))
}

fn window(fixture: &str) -> Window {
    let source = input::open(&mw_test::fixture(fixture));
    mw_collect::window(&source.unwrap_or_else(|error| panic!("{error}")))
}

fn look(fixture: &str) -> Report {
    mw_rules::check(&window(fixture), None)
}

/// Lines of a report, one a finding or skipped rule.
fn said(report: &Report) -> String {
    let findings = report
        .findings
        .iter()
        .map(|finding| format!("{} {}: {}\n", finding.severity, finding.rule, finding.subject));
    let skipped = report.skipped.iter().map(|s| format!("skipped {}: {}\n", s.rule, s.missing));
    findings.chain(skipped).collect()
}

/// Looks at one fixture and compares.
fn check(fixture: &str, failures: &mut Vec<String>) -> Report {
    let report = look(fixture);
    let said = said(&report);
    let mut archive = archive(fixture);
    if std::env::var_os("MW_BLESS").is_some() {
        archive.tree.insert(EXPECT, said.clone().into_bytes()).unwrap();
        fs::write(mw_test::fixture(fixture), archive.to_text().unwrap()).unwrap();
    }
    let wanted = String::from_utf8_lossy(archive.tree.file(EXPECT).unwrap_or_default());
    if said != wanted {
        failures.push(format!("{fixture}\n  expected:\n{wanted}  found:\n{said}"));
    }
    report
}

/// Settings, and counters since boot, would keep the condition true for ever.
///
/// Promise (Fixing): `MemoryStalling` rests on rates and pressure, also of a node whose /proc is mounted in a
/// container, and ends with the stall.
#[test]
fn a_node_stalls_only_by_rates_and_pressure() {
    let mut stalling = 0;
    for fixture in mw_test::fixtures() {
        let mut window = window(&fixture);
        let is_stalling = |window: &Window| {
            let report = mw_rules::check(window, None);
            matches!(NodeCondition::MemoryStalling.state(&report), ConditionState::True(_))
        };
        stalling += usize::from(is_stalling(&window));
        // The same state, in which nothing happens any more.
        window.earlier = vec![window.now.sample.clone()];
        window.now.sample.at_ms += 1000.0;
        window.now.sample.pressure.memory = Reading::Value(Pressure::default());
        assert!(!is_stalling(&window), "{fixture}");
    }
    assert!(stalling >= 1, "a machine that swaps in both directions");
}

/// Promise (Findings): Every rule reports a finding on a real kernel in its condition, and none on one that is not.
///
/// Promise (Findings): Page tables are reported by program, and neither on huge pages nor of few processes.
///
/// Promise (Findings): Every rule passes on healthy machines.
#[test]
fn every_rule_runs_on_every_fixture() {
    let mut failures = Vec::new();
    let mut fired: BTreeMap<String, usize> = BTreeMap::new();
    let mut stayed_quiet: BTreeMap<String, usize> = BTreeMap::new();
    for fixture in mw_test::fixtures() {
        let report = check(&fixture, &mut failures);
        let (case, kind) = fixture.split_once('/').unwrap();
        let fires = report.findings.iter().any(|finding| finding.rule == case);
        if kind.starts_with("firing") {
            *fired.entry(case.to_owned()).or_default() += usize::from(fires);
            if !fires {
                failures.push(format!("{fixture}: the rule does not fire"));
            }
        } else if kind.starts_with("quiet") {
            let looked = report.quiet.iter().any(|rule| rule == case);
            *stayed_quiet.entry(case.to_owned()).or_default() += usize::from(looked);
            if !looked {
                failures.push(format!("{fixture}: the rule fires or cannot look"));
            }
        } else if case == "healthy" && !report.findings.is_empty() {
            failures.push(format!("{fixture}: not silent:\n{}", said(&report)));
        }
    }
    for rule in RULES.iter().filter(|rule| rule.has_hazard()) {
        for (kind, seen) in [("firing", &fired), ("quiet", &stayed_quiet)] {
            if !seen.contains_key(rule.id) {
                failures.push(format!("fixtures/{}/{kind}.txt is missing", rule.id));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Promise (Findings): The thrashed node of the field report is found, the fresh one is not.
#[test]
fn the_field_report_is_found_where_it_was() {
    let before = look("field-report/fresh");
    assert_eq!(before.findings, [], "{}", said(&before));
    let after = look("field-report/thrashed");
    let found: Vec<String> =
        after.findings.iter().map(|f| format!("{}: {}", f.rule, f.subject)).collect();
    assert_eq!(found, ["fragmented-node: node 0 zone Normal"]);
    assert!(after.findings[0].headline.starts_with("51% of the free memory"));
}

#[test]
fn pinned_pages_are_named_in_the_finding() {
    let says = |fixture: &str| {
        let report = look(fixture);
        let headlines = report.findings.iter().filter(|f| f.rule == "fragmented-node");
        let all: Vec<bool> = headlines.map(|f| f.headline.contains("pinned pages")).collect();
        assert!(!all.is_empty(), "{fixture}: {}", said(&report));
        all.contains(&true)
    };
    assert!(says("fragmented-node/firing"), "pages in pipes");
    assert!(!says("field-report/thrashed"), "left behind by swap thrash");
}

#[test]
fn pinned_pages_are_told_from_locked_ones() {
    fn node(window: &mut Window) -> &mut Meminfo {
        let Reading::Value(meminfo) = &mut window.now.sample.nodes[0].meminfo else {
            panic!("node 0")
        };
        meminfo
    }
    fn add(field: &mut Option<u64>, mib: u64) {
        *field = field.map(|bytes| bytes + (mib << 20));
    }
    let has_pinned = |window: &Window| {
        let findings = mw_rules::check(window, None).findings;
        findings.iter().any(|f| f.rule == "fragmented-node" && f.headline.contains("pinned pages"))
    };
    let mut window = window("fragmented-node/firing");
    // Shared memory, as a pool has it, and as much of files.
    add(&mut node(&mut window).shmem_bytes, 128);
    add(&mut node(&mut window).file_pages_bytes, 256);
    add(&mut node(&mut window).unevictable_bytes, 256);
    assert!(has_pinned(&window), "pages in pipes beside it");
    // A process has mapped the pages in pipes.
    add(&mut node(&mut window).anon_pages_bytes, 68);
    assert!(!has_pinned(&window), "locked pages are not pinned by others");
}
