//! The size of a base page, which only captures of memwright say, is found by what the kernel counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_collect::Source;
use std::path::{Path, PathBuf};

const COUNTS: &[&str] = &["proc/meminfo", "proc/vmstat"];

fn page_bytes(root: &Path) -> u64 {
    mw_collect::snapshot(&Source::tree(root).unwrap()).origin.page_bytes
}

/// Trees with the two files, of kernels for x86.
fn trees() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folders = |dir: &Path| {
        let entries = dir.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut trees: Vec<PathBuf> = folders(&fixtures).iter().flat_map(|dir| folders(dir)).collect();
    trees.retain(|tree| COUNTS.iter().all(|file| tree.join(file).is_file()));
    trees
}

/// The two files with pages of this size instead: meminfo reports more bytes for the same pages.
fn with_pages(tree: &Path, factor: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    std::fs::create_dir(dir.path().join("sys")).unwrap();
    std::fs::copy(tree.join(COUNTS[1]), dir.path().join(COUNTS[1])).unwrap();
    let meminfo = std::fs::read_to_string(tree.join(COUNTS[0])).unwrap();
    let line = |line: &str| match line.strip_prefix("Mapped:") {
        Some(rest) => {
            let kib: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap();
            format!("Mapped: {} kB\n", kib * factor)
        }
        None => format!("{line}\n"),
    };
    let meminfo: String = meminfo.lines().map(line).collect();
    std::fs::write(dir.path().join(COUNTS[0]), meminfo).unwrap();
    dir
}

#[test]
fn the_page_size_of_any_kernel_is_found_in_a_tree_that_does_not_say() {
    let trees = trees();
    assert!(trees.len() > 50, "{}", trees.len());
    for tree in &trees {
        for (factor, bytes) in [(1, 4 << 10), (4, 16 << 10), (16, 64 << 10)] {
            let counted = page_bytes(with_pages(tree, factor).path());
            assert_eq!(counted, bytes, "{}", tree.display());
        }
    }
}

#[test]
fn a_tree_without_counts_has_the_usual_page() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("proc")).unwrap();
    std::fs::write(dir.path().join("proc/meminfo"), "MemTotal: 1024 kB\nMapped: 64 kB\n").unwrap();
    assert_eq!(page_bytes(dir.path()), 4096);
}
