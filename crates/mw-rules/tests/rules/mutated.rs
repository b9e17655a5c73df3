//! A tree that is damaged in any one file, or in which any one file says absurd numbers, is looked
//! at without a panic: by every rule, by preflight and with arithmetic that is checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::text_archive::TextArchive;
use mw_collect::{MemoryTree, Source};
use mw_model::Request;
use mw_rules::room;
use std::path::Path;

/// Makes a damaged file of a whole one.
type Mutation = fn(&[u8]) -> Vec<u8>;

/// Changes to a file.
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

const CONSENT: room::RoomConsent = room::RoomConsent { swap: true, migrate: true };
const ALL: room::Capabilities =
    room::Capabilities { reclaim: true, compact: true, consent: CONSENT, has_swap: true };

fn look(tree: MemoryTree, requests: &[Request]) {
    let window = mw_collect::window(&Source::in_memory(tree, Path::new("damaged")).unwrap());
    let report = mw_rules::check(&window, None);
    assert!(!report.verdict.is_empty());
    for request in requests {
        // Whether it can be answered depends on the file; that it returns is the test.
        if let Ok(assessment) = mw_rules::preflight::assess(&window, request) {
            mw_render::preflight_words::describe(&assessment);
        }
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
    let whole = TextArchive::load(&mw_test::fixture(fixture)).unwrap().tree;
    for (path, contents) in whole.files() {
        for (what, mutate) in MUTATIONS {
            let mut damaged = whole.clone();
            damaged.insert(path, mutate(contents)).unwrap();
            let looked = std::panic::catch_unwind(|| look(damaged, &requests));
            assert!(looked.is_ok(), "{fixture}: {path} {what}");
        }
    }
}

/// Promise (Checking): A tree with any damaged file, or with absurd numbers, is checked without a panic.
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
