//! `check --for` as a user meets it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_segment::{Options, PageSize, SegmentKind};
use mw_test::{FolioSwitchGuard, alone, skip};
use std::process::Command;

fn check(request: &str, more: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memwright"))
        .args(["check", "--for", request])
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code().unwrap_or(-1), said)
}

fn check_tree(request: &str, tree: &str) -> (i32, String) {
    check(request, &["--root", mw_test::fixture(tree).to_str().unwrap()])
}

#[test]
fn the_answer_comes_first() {
    for (request, tree, code, first) in [
        ("100M", "healthy/numa-2", 0, "yes: 100 MiB"),
        ("100M,node=1", "healthy/numa-2", 0, "yes: 100 MiB from node 1"),
        ("10G", "healthy/numa-2", 1, "no: 10 GiB"),
        ("100M,node=7", "healthy/numa-2", 1, "no: 100 MiB from node 7"),
        (
            "64M,huge=2M",
            "healthy/numa-2",
            1,
            "no: 64 MiB on 2 MiB huge pages: no pages are reserved",
        ),
        ("300M", "zone-reclaim/firing", 1, "slowly: 300 MiB"),
    ] {
        let (got, said) = check_tree(request, tree);
        assert!(said.starts_with(first), "{request} {tree}: {said}");
        assert_eq!(got, code, "{request} {tree}: {said}");
    }
}

#[test]
fn an_obstacle_is_named_with_its_remedy() {
    let (_, said) = check_tree("64M,huge=2M", "healthy/numa-2");
    assert!(
        said.contains("blocked by hugetlb pool of 2 MiB pages: 64 MiB needed, 0 B available"),
        "{said}"
    );
    assert!(said.contains("fix: run memwright make-room 64M,huge=2M, or write 32 to"), "{said}");
    let (_, said) = check_tree("300M", "zone-reclaim/firing");
    assert!(said.contains("slowed by  vm.zone_reclaim_mode is 7"), "{said}");
    assert!(said.contains("tmpfs /mnt, 200 MiB"), "{said}");
}

#[test]
fn folios_are_judged_by_the_switches_of_the_tree() {
    for (request, tree, first, more) in [
        (
            "64M,page=64k",
            "healthy/debian-6.1",
            "slowly: 64 MiB on folios of 64 KiB; obstacle: folios of 64k are not allowed",
            "needs Linux 6.8",
        ),
        (
            "64M,page=64k",
            "fragmented-node/firing",
            "slowly: 64 MiB on folios of 64 KiB; obstacle: folios of 64k are not allowed",
            "hugepages-64kB/enabled is never (write madvise to it",
        ),
        (
            "64M,page=best",
            "fragmented-node/firing",
            "yes: 64 MiB on the largest pages that are free: 64 MiB in 2 MiB",
            "in blocks of 64 KiB and more, above the watermarks; private memory not allowed, memfd not allowed",
        ),
    ] {
        let (_, said) = check_tree(request, tree);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.starts_with(first), "{request} {tree}: {said}");
        assert!(said.contains(more), "{request} {tree}: {said}");
    }
    let (code, said) = check_tree("64M,page=2G", "healthy/debian-6.1");
    assert_eq!(code, 2, "{said}");
}

/// What is asked is made by the library at once, of each kind of memory.
#[test]
fn folios_that_are_promised_can_be_made() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&[16, 64, 256, 1024]) else {
        return skip("needs root and switches for folio sizes (Linux 6.11)");
    };
    let mut made = 0;
    for page in ["16k", "64k", "256k", "1M"] {
        let request = format!("64M,page={page}");
        let (_, said) = check(&request, &["--json", "--fail-on", "never"]);
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        let preflight = &report["preflight"];
        if preflight["answer"] != "yes" {
            continue;
        }
        assert!(preflight["time"]["likely_ms"].as_f64().unwrap() > 0.0, "{said}");
        for (kind, share) in [(SegmentKind::Anon, "private"), (SegmentKind::Memfd, "shared")] {
            let promised = preflight["folios"][0][share]["bytes"].as_u64();
            assert_eq!(promised, Some(64 << 20), "{said}");
            let options =
                Options::new(64 << 20).kind(kind).page_size(page.parse::<PageSize>().unwrap());
            match options.create() {
                Ok(segment) => assert_eq!(segment.folio_bytes().len(), 1, "{kind} {page}"),
                Err(error) => panic!("{kind} {page}: {error}"),
            }
        }
        made += 1;
    }
    if made == 0 {
        skip("free memory is too fragmented for folios");
    }
    let (_, said) = check("1000T,page=64k", &[]);
    assert!(said.starts_with("no: "), "{said}");
}

#[test]
fn on_the_running_machine_the_time_is_predicted_from_a_measurement() {
    let (code, said) = check("64M", &["--json", "--fail-on", "never"]);
    assert_eq!(code, 0, "{said}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let preflight = &report["preflight"];
    assert_eq!(preflight["answer"], "yes", "{said}");
    let time = &preflight["time"];
    let number = |name: &str| time[name].as_f64().unwrap();
    assert!(number("low_ms") > 0.0, "{said}");
    assert!(number("low_ms") <= number("likely_ms") && number("likely_ms") <= number("high_ms"));
}

#[test]
fn a_tree_without_meminfo_cannot_be_asked() {
    let (code, said) = check_tree("1G", "field-report/fresh");
    assert_eq!(code, 3, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("/proc/meminfo: not in this tree"), "{said}");
}
