//! Guards the catalogue: every rule is named well, registered and documented.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_model::{Cgroups, Processes, Reading, Snapshot, Window};
use mw_rules::RULES;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The headings of a rule's page, in their order.
const HEADINGS: [&str; 6] = [
    "## What it finds",
    "## Why it hurts",
    "## What it looks like",
    "## How to fix it",
    "## Threshold",
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
    assert!(!looked.contains("slow-disk"));
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

/// Promise (Findings): Every rule's page states what the rule finds, why it hurts, its threshold and source, and how
/// to fix it.
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

/// Promise (Checking): A rule that saw only some of the processes or cgroups does not count as passed.
#[test]
fn nothing_found_in_a_part_is_not_nothing_found() {
    let snapshot = Snapshot {
        processes: Reading::Value(Processes { present: 9, unseen: 3, list: Vec::new() }),
        cgroups: Reading::Value(Cgroups { truncated: true, ..Cgroups::default() }),
        ..Snapshot::default()
    };
    let report = mw_rules::check(&Window::new(snapshot), None);
    for rule in ["memlock-limit", "cgroup-limit", "protected-memory"] {
        let skipped = report.skipped.iter().find(|skipped| skipped.rule == rule).unwrap();
        assert!(skipped.missing.why.contains("could not be checked"), "{skipped:?}");
    }
}

/// Every source of a directory, with what comes before its unit tests.
fn sources(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            found.push((path.display().to_string(), code));
        }
    }
}

/// Code that matches on the id of a rule has to be found when a rule is added: the rule's row says it.
#[test]
fn no_code_but_the_registry_names_a_rule() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for name in ["mw-cli", "mw-model", "mw-remedy", "mw-render", "mw-rules", "mw-watch"] {
        sources(&crates.join(name).join("src"), &mut found);
    }
    assert!(found.len() > 100, "{} sources", found.len());
    for (path, code) in found.iter().filter(|(path, _)| !path.ends_with("src/registry.rs")) {
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.filter(|line| !path.ends_with("tests.rs") && line.contains('"')) {
            let named = RULES.iter().find(|rule| line.contains(&format!("\"{}\"", rule.id)));
            assert!(named.is_none(), "{path}: {line}");
        }
    }
}
