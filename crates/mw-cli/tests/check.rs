//! `check`, `capture` and `explain` as a user meets them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_collect::input;
use mw_test::assert_schema;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn memwright(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_memwright")).args(args).output().unwrap()
}

fn out(args: &[&str]) -> String {
    String::from_utf8(memwright(args).stdout).unwrap()
}

fn fixture(name: &str) -> String {
    mw_test::fixture(name).display().to_string()
}

/// Promise (Findings): The first line of output is the verdict.
#[test]
fn the_first_line_is_the_answer() {
    let text = out(&["check", "--root", &fixture("healthy/debian-6.1")]);
    assert!(text.starts_with("ready: "), "{text}");
    let text = out(&["check", "--root", &fixture("zone-reclaim/firing")]);
    assert!(text.starts_with("large requests stall or fail: 1 critical finding"), "{text}");
    let what_to_do = text.find("memwright fix zone-reclaim: set vm.zone_reclaim_mode to 0");
    let evidence = text.find("/proc/sys/vm/zone_reclaim_mode");
    assert!(what_to_do.unwrap() < evidence.unwrap(), "{text}");
}

/// Promise (Findings): Exit codes are as documented.
#[test]
fn the_exit_code_follows_the_severity() {
    let code = |tree: &str, more: &[&str]| {
        let tree = fixture(tree);
        let mut args = vec!["check", "--root", &tree];
        args.extend_from_slice(more);
        memwright(&args).status.code().unwrap()
    };
    assert_eq!(code("healthy/debian-6.1", &["--fail-on", "note"]), 0);
    assert_eq!(code("dirty-throttle/firing", &[]), 0);
    assert_eq!(code("dirty-throttle/firing", &["--fail-on", "warning"]), 1);
    assert_eq!(code("zone-reclaim/firing", &[]), 1);
    assert_eq!(code("zone-reclaim/firing", &["--fail-on", "never"]), 0);
    assert_eq!(code("healthy/debian-6.1", &["--format", "nagios"]), 0);
    assert_eq!(code("dirty-throttle/firing", &["--format", "nagios"]), 1);
    assert_eq!(code("zone-reclaim/firing", &["--format", "nagios"]), 2);
}

#[test]
fn nagios_output_has_one_bar_and_performance_data() {
    let text = out(&["check", "--format", "nagios", "--root", &fixture("zone-reclaim/firing")]);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("MEMWRIGHT CRITICAL - "), "{first}");
    assert_eq!(text.matches('|').count(), 1, "{text}");
    assert!(first.contains(" | critical=1 warnings="), "{first}");
    assert!(first.contains("ready="), "{first}");
}

/// Promise (Findings): JSON conforms to its published schema.
#[test]
fn json_is_what_the_schema_says() {
    for tree in ["healthy/debian-6.1", "zone-reclaim/firing", "field-report/thrashed"] {
        let text = out(&["check", "--json", "--root", &fixture(tree)]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["schema"], 1);
        assert_schema("report-v1", [&report]);
    }
}

/// Promise (Checking): A captured tree gives the same result elsewhere as on its machine.
#[test]
fn a_capture_is_looked_at_elsewhere_with_the_same_result() {
    let dir = TempDir::new().unwrap();
    let file: PathBuf = dir.path().join("here.tar.zst");
    let file = file.to_str().unwrap();
    let captured = memwright(&["capture", "-o", file]);
    assert!(captured.status.success(), "{}", String::from_utf8_lossy(&captured.stderr));
    assert!(std::fs::metadata(file).unwrap().len() < 4 << 20);
    let rules = |args: &[&str]| -> Vec<String> {
        let report: serde_json::Value = serde_json::from_str(&out(args)).unwrap();
        let findings = report["findings"].as_array().unwrap();
        findings.iter().map(|finding| finding["rule"].to_string()).collect()
    };
    assert_eq!(rules(&["check", "--json", "--root", file]), rules(&["check", "--json"]));
}

/// Promise (Checking): A capture contains no environment and no command line of any process.
#[test]
fn a_capture_holds_no_secret_of_a_process() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("here.tar.zst");
    let secret = "correct-horse-battery-staple";
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_memwright"))
        .args(["capture", "--output", file.to_str().unwrap()])
        .env("PGPASSWORD", secret)
        .output()
        .unwrap();
    assert!(output.status.success());
    let tree = mw_collect::capture::read(std::fs::File::open(&file).unwrap(), &file).unwrap();
    let (mut folders, mut files) = (vec![String::new()], 0);
    while let Some(folder) = folders.pop() {
        for name in tree.list(&folder).unwrap() {
            let path = format!("{folder}/{name}");
            let Ok(contents) = tree.read(&path) else {
                folders.push(path);
                continue;
            };
            assert!(name != "environ" && (name != "cmdline" || path == "/proc/cmdline"));
            assert!(!String::from_utf8_lossy(&contents).contains(secret), "{path}");
            files += 1;
        }
    }
    assert!(files > 10, "{files}");
}

#[test]
fn a_sosreport_is_looked_at() {
    let dir = TempDir::new().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let healthy = input::open(&mw_test::fixture("healthy/numa-2")).unwrap();
    let meminfo = healthy.read("/proc/meminfo").unwrap();
    put("proc/meminfo", std::str::from_utf8(&meminfo).unwrap());
    put("sos_commands/kernel/sysctl_-a", "kernel.shmmax = 33554432\nvm.zone_reclaim_mode = 7\n");
    put("proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n");
    put(
        "sos_commands/filesys/df_-al_-x_autofs",
        "Filesystem 1K-blocks Used Available Use% Mounted on\ntmpfs 65536 65536 0 100% /dev/shm\n",
    );
    let text = out(&["check", "--root", dir.path().to_str().unwrap()]);
    for found in ["warning zone-reclaim", "warning tmpfs-full: /dev/shm"] {
        assert!(text.contains(found), "no '{found}' in:\n{text}");
    }
}

/// Promise (Checking): A paste that is a part of a machine is never "ready".
#[test]
fn a_paste_is_looked_at_and_what_it_cannot_tell_is_said_in_a_line() {
    let free = "$ free -m\n        total  used  free  shared  buff/cache  available\n\
                Mem:    64000  21000  1000  10  42000  42500\nSwap:  0 0 0\n";
    let files = "==> /proc/meminfo <==\nMemTotal: 65536000 kB\nMemFree: 1000000 kB\n\
                 MemAvailable: 40000000 kB\n==> /proc/vmstat <==\nnr_free_pages 250000\npgfault 1\n";
    for (paste, input) in
        [(free, "the output of 'free' in MiB"), (files, "/proc/meminfo and /proc/vmstat")]
    {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_memwright"));
        let output = command.args(["check", "--root", "-"]).write_stdin(paste).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(3), "{text}");
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(&format!("not enough to tell: {input} shows ")), "{text}");
        assert!(first.contains(" of 62.5 GiB"), "{text}");
        assert_eq!(text.matches("unchecked").count(), 1, "{text}");
        assert!(!text.contains("ready"), "{text}");
    }
}

#[test]
fn explain_shows_the_page_that_is_in_docs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/rules/zone-reclaim.md")).unwrap();
    let (rule, kernels) = page.split_once("\n## Kernels\n").unwrap();
    assert_eq!(out(&["explain", "zone-reclaim"]), rule);
    assert!(kernels.contains("- Lab: passed on 6.1"), "{kernels}");
    let list = out(&["explain"]);
    assert_eq!(list.lines().count(), mw_rules::RULES.len());
}

/// Promise (Metrics): `check --format prometheus --output` replaces the file as a whole, in the format that the
/// textfile collector reads.
#[test]
fn metrics_for_a_textfile_collector_replace_the_file_as_a_whole() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("memwright.prom");
    let tree = fixture("zone-reclaim/firing");
    let path = file.display().to_string();
    let args = ["check", "--format", "prometheus", "--root", &tree];
    let ended = memwright(&[&args[..], &["--output", &path]].concat());
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0));
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, out(&args));
    assert!(text.contains("memwright_finding{rule=\"zone-reclaim\",severity=\"critical\"} 1\n"));
    // The textfile collector knows neither info nor units.
    assert!(!text.contains(" info\n") && !text.contains("# UNIT") && !text.contains("# EOF"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let nowhere = dir.path().join("absent/memwright.prom").display().to_string();
    let ended = memwright(&[&args[..], &["-o", &nowhere]].concat());
    assert_eq!(ended.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("choose another file"));
}

/// Promise (Metrics): `check --format npd` prints one line of at most 80 bytes; exit code 0 fine, 1 a problem, 3
/// could not be checked, which node-problem-detector takes as unknown.
#[test]
fn node_problem_detector_gets_one_short_line_and_its_exit_codes() {
    let npd = |tree: &str| {
        let ended = memwright(&["check", "--format", "npd", "--root", &fixture(tree)]);
        let text = String::from_utf8(ended.stdout).unwrap();
        assert!(text.len() <= 81 && text.matches('\n').count() == 1, "{text}");
        (ended.status.code().unwrap(), text)
    };
    assert_eq!(npd("healthy/debian-6.1").0, 0);
    let (code, text) = npd("zone-reclaim/firing");
    assert_eq!(code, 1);
    assert!(text.starts_with("zone-reclaim: "), "{text}");
    // A condition of the node is decided by some rules alone.
    let one = |rules: &str| {
        let tree = fixture("zone-reclaim/firing");
        memwright(&["check", "--format", "npd", "--only", rules, "--root", &tree])
    };
    assert_eq!(one("fragmented-node,hugepage-shortage").status.code(), Some(0));
    assert_eq!(one("fragmented-node,zone-reclaim").status.code(), Some(1));
    for (rules, why) in
        [("zone-reclam", "did you mean 'zone-reclaim'"), ("lock-wait", "only explains")]
    {
        let ended = one(rules);
        assert_eq!(ended.status.code(), Some(2), "{rules}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains(why), "{ended:?}");
    }
    // Anything but 0 and 1 is "unknown" there, as is a machine that could not be checked.
    let empty = TempDir::new().unwrap();
    std::fs::create_dir_all(empty.path().join("proc")).unwrap();
    std::fs::create_dir_all(empty.path().join("sys")).unwrap();
    let root = empty.path().display().to_string();
    let ended = memwright(&["check", "--format", "npd", "--root", &root]);
    assert_eq!(ended.status.code(), Some(3));
    assert!(ended.stdout.len() <= 81, "{}", String::from_utf8_lossy(&ended.stdout));
}

/// A recorder's forecast of so many hours ago: 31 GiB left, 1 GiB an hour less.
fn with_forecast(dir: &TempDir, hours_ago: u64) -> String {
    use mw_model::{Decline, Supply, SupplyTrend};
    let until_unix_ms = mw_sys::unix_ms() - hours_ago * 3_600_000;
    let gib = f64::from(1 << 30);
    let decline = Decline {
        since_unix_ms: until_unix_ms - 24 * 3_600_000,
        high: 31.0 * gib,
        per_s: gib / 3600.0,
        least_per_s: 0.5 * gib / 3600.0,
        most_per_s: 2.0 * gib / 3600.0,
    };
    let supply = SupplyTrend {
        supply: Supply::HugePages,
        page_bytes: Some(2 << 20),
        node: None,
        bytes: 31 << 30,
        until_unix_ms,
        line: Some(decline),
        decay: None,
        is_memory_in_use: false,
    };
    let recording = dir.path().join("recording.db");
    mw_record::keep_supplies(&recording, &[supply]).unwrap();
    let config = dir.path().join("memwright.toml");
    std::fs::write(&config, format!("[watch]\nrecording = {:?}\n", recording)).unwrap();
    config.display().to_string()
}

#[test]
fn what_the_recorder_forecasts_is_said() {
    let dir = TempDir::new().unwrap();
    let config = with_forecast(&dir, 0);
    let text = out(&["check", "--config", &config]);
    let line = "forecast: 2 MiB pages run out in 31 h (15 to 62) (31 GiB left, 1.0 GiB/h (0.5 to 2.0) less)";
    assert!(text.contains(line), "{text}");
    let text = out(&["check", "--config", &config, "--for", "23G,huge=2M"]);
    assert!(
        text.contains("forecast: 2 MiB pages for 23 GiB run out in 8.0 h (4.0 to 16)"),
        "{text}"
    );
    let json = out(&["check", "--config", &config, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let left = json["exhaustion"][0]["hours_left"]["expected"].as_f64().unwrap();
    assert!((30.9..=31.0).contains(&left), "{left}");
    let metrics = out(&["check", "--config", &config, "--format", "prometheus"]);
    let name = "memwright_exhaustion_seconds{supply=\"huge-pages\",page_size=\"2M\"} 1115";
    assert!(metrics.contains(name), "{metrics}");
    let config = with_forecast(&dir, 5);
    assert!(!out(&["check", "--config", &config]).contains("forecast"));
    std::fs::write(dir.path().join("recording.db-forecast"), "{").unwrap();
    assert!(!out(&["check", "--config", &config]).contains("forecast"));
}
