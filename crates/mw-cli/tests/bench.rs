//! `memwright bench`: small runs, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_test::assert_schema;
use serde_json::Value;

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.arg("bench").args(args);
    command
}

/// Output of `--json`, as its schema has it.
fn report(args: &[&str]) -> Value {
    let output = bench(args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_schema("bench-v1", [&report]);
    report
}

/// Promise (Segments): `bench --json` conforms to its published schema.
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
fn the_size_is_limited_by_what_the_process_can_get() {
    let script = "ulimit -v 3407872 && exec \"$0\" bench --size 2G";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_memwright")]).output();
    let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
    let line = "2 GiB is too much: 3.2 GiB are available to this process";
    assert!(stderr.contains(line), "{stderr}");
}

#[test]
fn the_verdict_comes_first() {
    let output = bench(&["--size", "64M", "--rounds", "1", "--page", "4k"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("64 MiB of memfd: "), "{text}");
    assert!(text.contains("plain calls 4k") && text.contains("ms/GiB"), "{text}");
}

#[test]
fn pages_come_from_where_they_are_wanted() {
    for place in ["bind:0", "interleave:0", "split:0"] {
        let report = report(&["--place", place, "--size", "64M", "--rounds", "1", "--page", "4k"]);
        let rows = report["rows"].as_array().unwrap();
        let ours = rows.iter().find(|row| row["way"] == "memwright 4k");
        // A kernel without NUMA places nothing, and says so.
        match ours {
            Some(ours) => assert!(ours["node_shares"]["0"].as_f64().unwrap() > 0.99, "{ours}"),
            None => assert!(report["absent"].to_string().contains("Bind"), "{report}"),
        }
    }
    let report = report(&["--place", "bind:900", "--size", "64M", "--rounds", "1"]);
    assert!(report["absent"].to_string().contains("/sys/devices/system/node"), "{report}");
}

/// Promise (Segments): Huge pages that `bench` reserves are released, by `undo` if it was killed.
#[test]
fn what_a_killed_bench_has_reserved_undo_gives_back() {
    const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    let pages = || std::fs::read_to_string(POOL).ok()?.trim().parse::<u64>().ok();
    if !rustix::process::geteuid().is_root() || pages().is_none() {
        mw_test::skip("needs root and huge pages");
        return;
    }
    let _alone = [mw_test::alone(), mw_test::huge_pages_alone()];
    let before = pages();
    let state = tempfile::tempdir().unwrap();
    let state_dir = ["--state-dir", state.path().to_str().unwrap()];
    let args = ["bench", "--size", "64M", "--page", "2M", "--reserve", "--rounds", "1000"];
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_memwright"))
        .args(args)
        .args(state_dir)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    mw_test::wait_until("reserved pages", std::time::Duration::from_secs(60), || pages() > before);
    let reserved = pages();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut undo = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let undone = undo.arg("undo").args(state_dir).output().unwrap();
    assert!(reserved > before, "nothing was reserved");
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(pages(), before);
    // One that comes to its end gives it back by itself.
    let args = ["--size", "64M", "--page", "2M", "--reserve", "--rounds", "1"];
    assert!(bench(&[&args[..], &state_dir].concat()).output().unwrap().status.success());
    assert_eq!(pages(), before);
}

#[test]
fn the_table_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bench.svg");
    let path = file.to_str().unwrap();
    let args = ["--size", "64M", "--rounds", "1", "--page", "4k,1G", "--svg", path];
    assert!(bench(&args).output().unwrap().status.success());
    let drawn = std::fs::read_to_string(&file).unwrap();
    for text in
        ["<svg", "64 MiB of memfd", "plain calls 4k, 1 thread", "memwright 1G", "zeroing bandwidth"]
    {
        assert!(drawn.contains(text), "{text} in {drawn}");
    }
    let nowhere = bench(&["--size", "64M", "--rounds", "1", "--svg", "/no/such/dir.svg"]);
    let output = { nowhere }.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/no/such/dir.svg"));
}

#[test]
fn more_than_the_machine_can_spare_is_refused() {
    let output = bench(&["--size", "1000T"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.contains("1000 TiB is too much") && line.lines().count() == 1, "{line}");
}

#[test]
fn wrong_words_are_usage() {
    for args in [
        ["--kind", "shmem"],
        ["--place", "split"],
        ["--place", "bind:x"],
        ["--page", "3M"],
        ["--threads", "0"],
        ["--rounds", "x"],
    ] {
        assert_eq!(bench(&args).output().unwrap().status.code(), Some(2), "{args:?}");
    }
}
