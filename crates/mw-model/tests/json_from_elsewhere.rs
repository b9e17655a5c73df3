//! JSON from elsewhere is read by `bounded_json`, which limits what becomes of it: the sources say so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// What reads bytes without a limit.
const UNBOUNDED: [&str; 2] = ["serde_json::from_slice", "serde_json::from_reader"];

/// Where that is right, and why.
const ALLOWED: [(&str, &str); 4] = [
    ("mw-model/src/bounded_json.rs", "it has a limit"),
    ("mw-cluster/src/k8s/api.rs", "three conditions are kept of whatever is read"),
    ("mw-ship/src/state.rs", "a file of root's own"),
    ("mw-lab/src/judge/stall.rs", "a limited text of which names are kept"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn nothing_else_reads_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 300, "{} files", files.len());
    for file in files {
        let name = file.strip_prefix(crates).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_unbounded = UNBOUNDED.iter().any(|call| program.contains(call));
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == name);
        assert!(!is_unbounded || is_allowed || name.ends_with("tests.rs"), "{name}");
    }
}
