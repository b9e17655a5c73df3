//! `check --for` as a user meets it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::Path;
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(tree);
    check(request, &["--root", root.to_str().unwrap()])
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
        said.contains("blocks hugetlb pool of 2 MiB pages: 64 MiB needed, 0 B available"),
        "{said}"
    );
    assert!(said.contains("to fix: run memwright make-room 64M,huge=2M, or write 32 to"), "{said}");
    let (_, said) = check_tree("300M", "zone-reclaim/firing");
    assert!(said.contains("slows  vm.zone_reclaim_mode is 7"), "{said}");
    assert!(said.contains("tmpfs /mnt, 200 MiB"), "{said}");
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
