//! A tree that is damaged in any one file, or in which any one file says absurd numbers, is looked
//! at without a panic: by every rule, by preflight and with arithmetic that is checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::Source;
use mw_model::Request;
use mw_rules::room;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a damaged file of a whole one.
type Mutation = fn(&[u8]) -> Vec<u8>;

/// What is done to a file.
const MUTATIONS: &[(&str, Mutation)] = &[
    ("emptied", |_| Vec::new()),
    ("cut in half", |text| text[..text.len() / 2].to_vec()),
    ("all digits 9", |text| digits(text, |_| b'9')),
    ("all digits 0", |text| digits(text, |_| b'0')),
    ("every number the largest", largest),
    ("every byte turned round", |text| text.iter().map(|byte| !byte).collect()),
    ("said twice", |text| [text, text].concat()),
];

fn digits(text: &[u8], change: impl Fn(u8) -> u8) -> Vec<u8> {
    text.iter().map(|byte| if byte.is_ascii_digit() { change(*byte) } else { *byte }).collect()
}

/// Every number becomes 2^64 - 1.
fn largest(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut within = false;
    for byte in text {
        if !byte.is_ascii_digit() {
            out.push(*byte);
        } else if !within {
            out.extend_from_slice(u64::MAX.to_string().as_bytes());
        }
        within = byte.is_ascii_digit();
    }
    out
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn copy(from: &Path, to: &Path) {
    let mut all = Vec::new();
    files(from, &mut all);
    for file in all {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

const CONSENT: room::Consent = room::Consent { swap: true, migrate: true };
const ALL: room::Capabilities =
    room::Capabilities { reclaim: true, compact: true, consent: CONSENT, has_swap: true };

fn look(tree: &Path, requests: &[Request]) {
    let source = Source::tree(tree).unwrap();
    let window = mw_collect::window(&source);
    let report = mw_rules::check(&window, None);
    assert!(!report.verdict.is_empty());
    for request in requests {
        // Whether it can be answered depends on the file; that it returns is the test.
        let _ = mw_rules::preflight::answer(&window, request, None);
        if let Ok(states) = room::node_states(&window.now, request, 1 << 30, CONSENT) {
            let parts = room::split(&states, request);
            room::plan(&states, &parts, room::Capabilities::default());
            room::plan(&states, &parts, ALL);
        }
    }
}

fn check(fixture: &str) {
    let requests: Vec<Request> = ["1G,lock", "16P", "64M,huge=2M,node=0", "1G,huge=thp,node=1"]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(fixture);
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture, dir.path());
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    for file in all {
        let whole = fs::read(&file).unwrap();
        for (what, mutate) in MUTATIONS {
            fs::write(&file, mutate(&whole)).unwrap();
            let looked = std::panic::catch_unwind(|| look(dir.path(), &requests));
            assert!(looked.is_ok(), "{} {what}", file.display());
        }
        fs::write(&file, whole).unwrap();
    }
}

#[test]
fn a_healthy_tree_may_be_damaged_anywhere() {
    check("healthy/numa-2");
}

#[test]
fn a_tree_in_trouble_may_be_damaged_anywhere() {
    check("zone-reclaim/firing");
    check("cgroup-limit/firing-v1");
    check("hugepage-shortage/firing-node");
}
