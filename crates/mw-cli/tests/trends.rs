//! `trends` as a user meets it, on simulated recordings of the real writer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_model::{HolderSize, Host, SizedHolder};
use mw_record::{Retention, Writer};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// 2023-11-14T22:14:00Z, a Tuesday.
const START_MS: u64 = 1_700_000_040_000;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Samples of two days, five minutes apart.
const SAMPLES: u64 = 576;
const STEP_MS: u64 = 300_000;

/// A recording of which the disk's speed is of no interest.
fn record(dir: &TempDir, samples: u64, leaks: bool) -> PathBuf {
    record_of(dir, samples, |at| sizes(at, leaks))
}

fn record_of(dir: &TempDir, samples: u64, sizes: impl Fn(u64) -> Vec<HolderSize>) -> PathBuf {
    record_from(START_MS, dir, samples, sizes)
}

fn record_from(
    start_ms: u64,
    dir: &TempDir,
    samples: u64,
    sizes: impl Fn(u64) -> Vec<HolderSize>,
) -> PathBuf {
    let path = dir.path().join("recording.db");
    let writer = Writer::start(&path, &Host::default(), Retention::default()).unwrap();
    for at in 0..samples {
        let sizes = sizes(at);
        mw_test::wait_until("the writer's queue has room", Duration::from_secs(60), || {
            let dropped = writer.dropped();
            writer.keep_sizes(start_ms + at * STEP_MS, sizes.clone());
            writer.dropped() == dropped
        });
    }
    path
}

fn sizes(at: u64, leaks: bool) -> Vec<HolderSize> {
    let size = |holder, bytes, limit_bytes| HolderSize { holder, bytes, limit_bytes };
    let process = |pid: u32, name: &str| SizedHolder::Process {
        pid,
        started_ticks: 5,
        name: name.to_owned(),
    };
    // Less than a noise of 2 MiB, the same in every run.
    let noise = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 43;
    let cache = 3 * GIB * at.min(100) / 100;
    let mut sizes = vec![
        size(SizedHolder::Machine, 20 * GIB + noise, Some(64 * GIB)),
        size(process(7, "saw"), GIB + at % 40 * 10 * MIB + noise, None),
        size(process(8, "steady"), GIB + noise, None),
        size(SizedHolder::Cgroup { path: "/cache".to_owned() }, cache + noise, Some(4 * GIB)),
        size(SizedHolder::Tmpfs { target: "/run".to_owned() }, 9 * MIB, Some(10 * MIB)),
    ];
    if leaks {
        // 48 MiB an hour, from 18:14 of the second day on.
        let grown = at.saturating_sub(240) * 4 * MIB;
        sizes.push(size(
            SizedHolder::Cgroup { path: "/app".to_owned() },
            GIB + grown + noise,
            Some(4 * GIB),
        ));
    }
    sizes
}

fn trends(recording: &Path, more: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.env("TZ", "UTC").args(["trends", "--recording"]).arg(recording).args(more);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Promise (Trends): The first line is the answer; exit code 0 where nothing grows, 1 where something does, 3 where
/// it cannot be said.
#[test]
fn the_first_line_says_who_grows_how_fast_and_when_what_is_full() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let path = record(&dir, SAMPLES, true);
    let (code, out, err) = trends(&path, &[]);
    let first = out.lines().next().unwrap_or_default();
    assert_eq!(code, 1, "{out}{err}");
    assert!(first.starts_with("cgroup /app grows 48 MiB/h ("), "{out}");
    assert!(first.contains(") since "), "{out}");
    assert!(first.contains(": its limit of 4 GiB is reached in "), "{out}");
    assert!(!out.contains("saw") && !out.contains("steady") && !out.contains("/cache"), "{out}");
    let (code, out, _) = trends(&path, &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, json["trends"].as_array().unwrap().len()), (1, 1), "{out}");
    let trend = &json["trends"][0];
    assert_eq!(
        (trend["holder"]["path"].as_str(), trend["full"].as_str()),
        (Some("/app"), Some("own-limit"))
    );
    // 3 GiB of room less what has leaked, at 48 MiB an hour.
    let truth = (3 * GIB / MIB - (SAMPLES - 1 - 240) * 4) as f64 / 48.0;
    let left = trend["hours_left"]["expected"].as_f64().unwrap();
    assert!((left / truth - 1.0).abs() < 0.05, "{left} of {truth}");
    // As of before the leak.
    let (code, out, _) = trends(&path, &["--until", "2023-11-15T18:00:00Z"]);
    assert_eq!(code, 0, "{out}");
    let (code, out, _) = trends(&path, &["--since", "2023-11-15T20:00:00Z"]);
    assert!(code == 1 && out.starts_with("cgroup /app grows 48 MiB/h"), "{out}");
}

#[test]
fn where_nothing_leaks_it_is_silent() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (code, out, err) = trends(&record(&dir, SAMPLES, false), &[]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("nothing grows steadily towards a limit (48 h recorded)\n"), "{out}");
}

/// Half of each hour a job takes 20 GiB of pages; what it releases declines by 512 MiB an hour. The pool is in use.
fn fragmented(at: u64) -> Vec<HolderSize> {
    let size = |holder, bytes| HolderSize { holder, bytes, limit_bytes: None };
    let job = if at % 12 < 6 { 20 * GIB } else { 0 };
    let (page_bytes, node) = (2 * MIB, None);
    let mut sizes = sizes(at, false);
    let left = 48 * GIB - at * STEP_MS * 512 * MIB / 3_600_000 - job;
    sizes.push(size(SizedHolder::Contiguous { page_bytes, node }, left));
    sizes.push(size(SizedHolder::PoolPages { page_bytes, node }, 2 * GIB));
    sizes
}

/// Promise (Trends): `trends --for` says when a request can no longer be served, by the pages that it asks for.
#[test]
fn it_says_when_a_request_for_huge_pages_can_no_longer_be_served() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let path = record_of(&dir, SAMPLES, fragmented);
    // 48 GiB less 24 GiB in two days, with the pool's 2 GiB.
    let (code, out, err) = trends(&path, &["--for", "23G,huse=2M"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let (code, out, err) = trends(&path, &["--for", "23G,huge=2M"]);
    assert!(code == 1 && out.starts_with("2 MiB pages for 23 GiB run out in 6."), "{out}{err}");
    assert!(out.contains(" GiB left, 512 MiB/h ("), "{out}");
    let hours = |more: &[&str]| {
        let (code, out, err) = trends(&path, &[more, &["--json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, json["exhaustion"].as_array().unwrap().len()), (1, 1), "{out}{err}");
        json["exhaustion"][0]["hours_left"]["expected"].as_f64().unwrap()
    };
    for (request, truth) in [("23G,huge=2M", 6.0), ("16G,huge=2M", 20.0), ("16G,huge=thp", 16.0)] {
        let found = hours(&["--for", request]);
        assert!((found / truth - 1.0).abs() < 0.1, "{request}: {found} of {truth}");
    }
    let all = hours(&[]);
    assert!((all / 52.0 - 1.0).abs() < 0.1, "{all}");
    let (code, out, _) = trends(&path, &["--for", "30G,huge=2M"]);
    assert!(code == 1 && out.starts_with("2 MiB pages for 30 GiB have run out"), "{out}");
    let (code, out, _) = trends(&path, &["--for", "23G"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("no steady decline of available memory for 23 GiB: 44.0 GiB"), "{out}");
    for request in ["1G,huge=1G", "1G,huge=2M,node=1"] {
        let (code, out, err) = trends(&path, &["--for", request]);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        assert!(err.contains("how many huge pages are left"), "{err}");
    }
}

/// Promise (Trends): `check` and its metrics say what runs out by the recorder's last forecast, counted from now, and
/// nothing by one of more than two hours ago.
#[test]
fn check_says_what_the_recorder_has_forecast() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let start_ms = mw_sys::unix_ms() - SAMPLES * STEP_MS;
    let path = record_from(start_ms, &dir, SAMPLES, fragmented);
    let memwright = || std::process::Command::new(env!("CARGO_BIN_EXE_memwright"));
    let mut recorder = memwright();
    recorder.args(["watch", "--no-canary", "--no-profile", "--recording"]).arg(&path);
    let _recorder = mw_test::ChildGuard(recorder.stderr(Stdio::null()).spawn().unwrap());
    let kept = dir.path().join("recording.db-forecast");
    mw_test::wait_until("a forecast", Duration::from_secs(120), || kept.exists());
    let config = dir.path().join("memwright.toml");
    std::fs::write(&config, format!("[watch]\nrecording = {path:?}\n")).unwrap();
    let mut check = memwright();
    let output = check.args(["check", "--for", "23G,huge=2M", "--config"]).arg(&config).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("forecast: 2 MiB pages for 23 GiB run out in 6."), "{text}");
}

#[test]
fn what_cannot_be_judged_is_said() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let (code, out, err) = trends(&record(&dir, 12, true), &[]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("too few sizes for a trend in this time: 12 samples"), "{err}");
    let empty = TempDir::new_in("/dev/shm").unwrap();
    let without = record(&empty, 0, true);
    let (code, _, err) = trends(&without, &[]);
    assert_eq!(code, 3);
    assert!(err.contains("no sizes of processes and cgroups"), "{err}");
    let (code, _, err) = trends(&dir.path().join("none.db"), &[]);
    assert!(code == 3 && err.contains("no such file"), "{err}");
    assert_eq!(trends(&without, &["--since", "noon"]).0, 2);
}
