//! Guards the catalogue: every rule is named well, registered and documented.

use mw_model::{Cgroups, Look, Processes, Snapshot, Window};
use mw_rules::RULES;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The headings of a rule's page, in their order.
const HEADINGS: [&str; 6] = [
    "## What it finds",
    "## Why it hurts",
    "## What it looks like",
    "## Threshold",
    "## How to fix it",
    "## References",
];

#[test]
fn ids_are_kebab_case_and_in_order() {
    let ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    for id in ids {
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{id}");
    }
}

#[test]
fn every_rule_knows_a_hazard_or_a_cause() {
    for rule in RULES {
        assert!(rule.has_hazard() || rule.has_cause(), "{}", rule.id);
        let page = rule.page();
        let (finds, _) = page.split_once("## Why it hurts").unwrap();
        let says = finds.contains("As the cause of a stall") || !rule.has_hazard();
        assert_eq!(says, rule.has_cause(), "{}: its page and its cause", rule.id);
    }
}

#[test]
fn what_only_explains_stalls_is_no_finding_and_not_among_what_was_quiet() {
    let report = mw_rules::check(&Window::default(), None);
    let said = report.quiet.iter().chain(report.skipped.iter().map(|skipped| &skipped.rule));
    let looked: BTreeSet<&str> = said.map(String::as_str).collect();
    let hazards = RULES.iter().filter(|rule| rule.has_hazard()).map(|rule| rule.id).collect();
    assert_eq!(looked, hazards);
    assert!(!looked.contains("not-memory"));
}

#[test]
fn every_file_is_registered_under_its_own_name() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules");
    let files: BTreeSet<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().replace(".rs", ""))
        .filter(|name| name != "mod")
        .collect();
    let rules: BTreeSet<String> = RULES.iter().map(|rule| rule.id.replace('-', "_")).collect();
    assert_eq!(files, rules);
}

#[test]
fn every_page_has_its_headings() {
    for rule in RULES {
        let page = rule.page();
        assert!(page.starts_with(&format!("# {}\n", rule.id)), "{}", rule.id);
        let headings: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(headings, HEADINGS, "{}", rule.id);
        for heading in HEADINGS {
            let body = page.split(heading).nth(1).unwrap_or("").trim_start();
            assert!(!body.is_empty() && !body.starts_with("## "), "{}: {heading}", rule.id);
        }
    }
}

#[test]
fn every_summary_is_one_short_sentence() {
    for rule in RULES {
        let summary = rule.summary();
        assert!(summary.ends_with('.') && summary.matches(". ").count() == 0, "{summary}");
        assert!(summary.len() <= 100, "{}: {summary}", rule.id);
    }
}

/// A rule without a hazard has the decoys, in which nothing may be found.
#[test]
fn every_hazard_has_a_lab_case() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab");
    for kind in ["cpu-hog", "network", "slow-disk", "stopped-process"] {
        assert!(lab.join(format!("decoy-{kind}/case.toml")).is_file(), "{kind}");
    }
    for rule in RULES.iter().filter(|rule| rule.has_hazard()) {
        let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab").join(rule.id);
        assert!(case.join("case.toml").is_file(), "{}", case.display());
        assert!(case.join("make.sh").is_file(), "{}", case.display());
    }
}

#[test]
fn nothing_found_in_a_part_is_not_nothing_found() {
    let snapshot = Snapshot {
        processes: Look::Seen(Processes { present: 9, unseen: 3, list: Vec::new() }),
        cgroups: Look::Seen(Cgroups { truncated: true, ..Cgroups::default() }),
        ..Snapshot::default()
    };
    let report = mw_rules::check(&Window::of(snapshot), None);
    for rule in ["memlock-limit", "cgroup-limit"] {
        let skipped = report.skipped.iter().find(|skipped| skipped.rule == rule).unwrap();
        assert!(skipped.missing.why.contains("could not be checked"), "{skipped:?}");
    }
}
