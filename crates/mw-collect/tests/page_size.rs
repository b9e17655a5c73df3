//! The size of a base page, which only captures of memwright say, is found by what the kernel counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_collect::text_archive::TextArchive;
use mw_collect::{MemoryTree, Source};
use std::path::Path;

const MEMINFO: &str = "proc/meminfo";
const VMSTAT: &str = "proc/vmstat";

fn page_bytes(source: &Source) -> u64 {
    mw_collect::snapshot(source).origin.page_bytes
}

/// The two files of a tree with pages of this size instead: meminfo reports more bytes for the same pages.
fn with_pages(tree: &MemoryTree, factor: u64) -> Option<Source> {
    let meminfo = String::from_utf8_lossy(tree.file(MEMINFO).ok()?);
    let line = |line: &str| match line.strip_prefix("Mapped:") {
        Some(rest) => {
            let kib: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap();
            format!("Mapped: {} kB\n", kib * factor)
        }
        None => format!("{line}\n"),
    };
    let meminfo: String = meminfo.lines().map(line).collect();
    let mut counts = MemoryTree::default();
    counts.insert(MEMINFO, meminfo.into_bytes()).unwrap();
    counts.insert(VMSTAT, tree.file(VMSTAT).ok()?.to_vec()).unwrap();
    Some(Source::in_memory(counts, Path::new("counts")).unwrap())
}

/// Promise (Checking): A tree that does not say its page size, such as a sosreport, is read with that of its kernel.
#[test]
fn the_page_size_of_any_kernel_is_found_in_a_tree_that_does_not_say() {
    let mut found = 0;
    for fixture in mw_test::fixtures() {
        let tree = TextArchive::load(&mw_test::fixture(&fixture)).unwrap().tree;
        for (factor, bytes) in [(1, 4 << 10), (4, 16 << 10), (16, 64 << 10)] {
            let Some(source) = with_pages(&tree, factor) else { continue };
            assert_eq!(page_bytes(&source), bytes, "{fixture}");
            found += 1;
        }
    }
    assert!(found > 150, "{found}");
}

#[test]
fn a_tree_without_counts_has_the_usual_page() {
    let mut tree = MemoryTree::default();
    tree.insert(MEMINFO, b"MemTotal: 1024 kB\nMapped: 64 kB\n".to_vec()).unwrap();
    assert_eq!(page_bytes(&Source::in_memory(tree, Path::new("counts")).unwrap()), 4096);
}
