//! `memwright bench`: small runs, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use serde_json::Value;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.arg("bench").args(args);
    command
}

fn report(args: &[&str]) -> Value {
    let output = bench(args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_kind_is_measured() {
    for kind in ["memfd", "anon", "ism", "dism"] {
        let report = report(&["--kind", kind, "--size", "64M", "--rounds", "1", "--page", "4k"]);
        assert_eq!(report["kind"], kind);
        let rows = report["rows"].as_array().unwrap();
        let has = |way: &str| rows.iter().any(|row| row["way"].as_str() == Some(way));
        assert!(has("plain calls 4k") && has("memwright 4k"), "{rows:?}");
        for row in rows {
            assert!(row["total_ms_per_gib"]["median"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["speedup"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert!(report["ceiling_ms_per_gib"]["median"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_verdict_comes_first() {
    let output = bench(&["--size", "64M", "--rounds", "1", "--page", "4k"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("64 MiB of memfd: "), "{text}");
    assert!(text.contains("plain calls 4k") && text.contains("ms/GiB"), "{text}");
}

#[test]
fn more_than_the_machine_can_spare_is_refused() {
    let output = bench(&["--size", "1000T"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        line.contains("more than this machine can spare") && line.lines().count() == 1,
        "{line}"
    );
}

#[test]
fn wrong_words_are_usage() {
    for args in [["--kind", "shmem"], ["--page", "3M"], ["--threads", "0"], ["--rounds", "x"]] {
        assert_eq!(bench(&args).output().unwrap().status.code(), Some(2), "{args:?}");
    }
}
