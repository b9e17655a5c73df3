//! `export` and `check --recording` as a user meets them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_model::{
    Cause, FailureKind, Finding, Host, Incident, IncidentState, Severity, Subject, Trigger,
};
use mw_record::{Retention, Writer};
use recording::{START_MS, record, recording};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use tempfile::TempDir;

#[path = "common/recording.rs"]
mod recording;

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let output = command.env("TZ", "UTC").args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap();
    Said { code, out: text(&output.stdout), err: text(&output.stderr) }
}

#[test]
fn json_is_asked_for_in_the_same_way_everywhere() {
    let file = recording().to_str().unwrap();
    for command in [&["report", "last"][..], &["incidents"], &["check"]] {
        let args = [command, &["--recording", file]].concat();
        let [short, long] = [&["--json"][..], &["--format", "json"]].map(|how| {
            let said = run(&[&args[..], how].concat());
            serde_json::from_str::<serde_json::Value>(&said.out).unwrap()
        });
        assert_eq!(short, long, "{command:?}");
        assert_eq!(run(&[&args[..], &["--json", "--format", "text"]].concat()).code, 2);
    }
    let state = TempDir::new().unwrap();
    let state_dir = state.path().to_str().unwrap();
    for command in ["changes", "undo"] {
        let said = run(&[command, "--state-dir", state_dir, "--format", "json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap();
    }
}

/// Promise (The recorder): A report is readable to no more users than its recording; a device or pipe is written to,
/// not replaced.
#[test]
fn a_report_is_readable_to_no_more_than_the_recording() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    record(&path);
    let page = dir.path().join("page.html");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    // The recorder's own mode, and one that its administrator chose; a former page was open to all.
    for recorded in [0o640, 0o600] {
        fs::set_permissions(&path, fs::Permissions::from_mode(recorded)).unwrap();
        fs::write(&page, "").unwrap();
        fs::set_permissions(&page, fs::Permissions::from_mode(0o666)).unwrap();
        let args = ["report", "last", "--recording", path.to_str().unwrap()];
        let said = run(&[&args[..], &["-o", page.to_str().unwrap()]].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(mode(&page) & !recorded, 0, "{:o}", mode(&page));
        assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    }
}

#[test]
fn a_recording_without_incidents_says_so() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    drop(Writer::start(&path, &Host::default(), Retention::default()).unwrap());
    let path = path.to_str().unwrap();
    for id in ["last", "worst", "3"] {
        let said = run(&["report", id, "--recording", path]);
        let line =
            format!("memwright: {path}: no incidents: nothing stalled while it was recorded\n");
        assert_eq!((said.code, said.err), (3, line), "{id}");
    }
    let said = run(&["report", "9", "--recording", recording().to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("incident 9 is not in the recording; it has incidents 1 to 1"));
}

/// Runs it as another user, who may look at `dir`; with a copy of the program, since others may not look where it was
/// built.
fn as_nobody(dir: &Path, args: &[&str]) -> Said {
    let program = dir.join("memwright");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_memwright"), &program).unwrap();
    }
    let mut command = std::process::Command::new(program);
    command.uid(65_534).gid(65_534).current_dir("/").args(args);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// Promise (The recorder): An ordinary user who may not read a file gets exit code 4 and the command that works.
#[test]
fn who_may_not_read_is_told_the_command_that_works() {
    if !mw_test::is_root() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    // In a directory that others may look into, in one that they may not, and beside a recorder.
    let (open, closed) = (dir.path().join("open"), dir.path().join("a closed one"));
    for dir in [&open, &closed] {
        fs::create_dir(dir).unwrap();
        record(&dir.join("recording.db"));
        mode(&dir.join("recording.db"), 0o640);
    }
    mode(&open, 0o755);
    mode(&closed, 0o700);
    let recorded = dir.path().join("recorded.db");
    let writer = stalls(&recorded);
    mode(&recorded, 0o640);
    let [capture, log, config] = ["capture", "log", "config"].map(|name| {
        let file = dir.path().join(name);
        fs::write(&file, "").unwrap();
        mode(&file, 0o600);
        file
    });
    let (page, csv) = (dir.path().join("page.html"), dir.path().join("rows.csv"));
    let of_recordings = [
        &["incidents"][..],
        &["report", "last"],
        &["trends"],
        &["check"],
        &["export", "--to", "/tmp/x.csv"],
    ];
    let recordings = [open.join("recording.db"), closed.join("recording.db"), recorded];
    let of_recordings = recordings.iter().flat_map(|recording| {
        let file = ["--recording", recording.to_str().unwrap()];
        of_recordings.iter().map(move |args| [args, &file[..]].concat())
    });
    let tree = closed.to_str().unwrap();
    let [capture, log, config] = [&capture, &log, &config].map(|file| file.to_str().unwrap());
    let others = [
        vec!["check", "--root", capture],
        vec!["check", "--root", tree],
        vec!["explain", "--all-memory", "--root", capture],
        vec!["heartbeats", "--log", log],
        vec!["check", "--config", config],
    ];
    for args in of_recordings.chain(others) {
        let said = as_nobody(dir.path(), &args);
        let words = args.iter().map(|word| match word.contains(' ') {
            true => format!("'{word}'"),
            false => (*word).to_owned(),
        });
        let command = format!("; run: sudo memwright {}\n", words.collect::<Vec<_>>().join(" "));
        assert_eq!(said.code, 4, "{args:?}: {}", said.err);
        assert!(said.err.ends_with(&command), "{args:?}: {}", said.err);
        assert!(said.err.contains("Permission denied"), "{args:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
    let said = as_nobody(dir.path(), &["check", "--root", capture, "--format", "nagios"]);
    assert_eq!(said.code, 3, "{}", said.out);
    assert!(
        said.out.starts_with("MEMWRIGHT UNKNOWN") && said.out.contains("Permission denied"),
        "{}",
        said.out
    );
    // A file that they may not write is another one's choice, not root's.
    let recording = dir.path().join("readable.db");
    record(&recording);
    mode(&recording, 0o644);
    let recording = recording.to_str().unwrap();
    let (page, csv) = (page.to_str().unwrap(), csv.to_str().unwrap());
    for args in [
        &["report", "last", "-o", page, "--recording", recording][..],
        &["export", "--to", csv, "--recording", recording],
    ] {
        let said = as_nobody(dir.path(), args);
        assert_eq!(said.code, 4, "{args:?}: {}", said.err);
        assert!(said.err.contains("; choose another file with --"), "{}", said.err);
    }
    drop(writer);
}

#[test]
fn a_pipe_is_written_to_and_not_replaced() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open both ways, so that nobody waits for anybody.
    let mut end = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let args = ["report", "last", "--recording", recording().to_str().unwrap(), "--format", "text"];
    let said = run(&[&args[..], &["-o", pipe.to_str().unwrap()]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
    let mut byte = [0];
    end.read_exact(&mut byte).unwrap();
}

/// Exports into a file of this ending, and gives what is in it.
fn exported(ending: &str, args: &[&str]) -> Vec<u8> {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join(format!("out{ending}"));
    let (recording, to) = (recording().to_str().unwrap(), to.to_str().unwrap());
    let said = run(&[&["export", "--recording", recording, "--to", to], args].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.starts_with(to), "{}", said.out);
    fs::read(to).unwrap()
}

/// Incidents of two probes: slow answers, an outage of failures that were fast, and one that is open.
fn stalls(path: &Path) -> Writer {
    let writer = Writer::start(path, &Host::default(), Retention::default()).unwrap();
    let stall = |verdict: &str, probe: &str, at_ms: u64, lasted_ms: u64, worst_ms: f64| {
        let trigger = Trigger { name: probe.to_owned(), worst_ms, ..Trigger::default() };
        let (verdict, started_unix_ms) = (verdict.to_owned(), START_MS + at_ms);
        let ended_unix_ms = started_unix_ms + lasted_ms;
        Incident { verdict, trigger, started_unix_ms, ended_unix_ms, ..Incident::default() }
    };
    let mut finding = Finding::new(Severity::Warning, Subject::Cgroup(Some("/db".into())), "");
    finding.rule = "cgroup-limit".to_owned();
    let causes = vec![Cause::new(finding, 90)];
    let slow = Incident { causes: causes.clone(), ..stall("slow", "db", 0, 900, 900.0) };
    let slower = Incident { causes, ..stall("slower", "db", 60_000, 5_100, 5_100.0) };
    let mut outage = stall("refused", "web", 120_000, 70_000, 3.0);
    outage.trigger.failure_kind = Some(FailureKind::Refused);
    let long = stall("many slow answers", "db", 200_000, 600_000, 2_000.0);
    let open = Incident { state: IncidentState::Open, ..stall("late", "web", 900_000, 500, 500.0) };
    for incident in [slow, slower, outage, long, open] {
        writer.keep_incident(incident).unwrap();
    }
    writer
}

#[test]
fn the_latest_and_the_slowest_stall_are_found_by_word() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    drop(stalls(&path));
    let path = path.to_str().unwrap();
    for (id, verdict) in [("last", "late"), ("worst", "refused"), ("2", "slower")] {
        for command in ["report", "incidents"] {
            let said = run(&[command, id, "--recording", path]);
            assert_eq!(said.out.lines().next(), Some(verdict), "{command} {id}");
        }
    }
    let json = run(&["incidents", "2", "--json", "--recording", path]).out;
    let incident: Incident = serde_json::from_str(&json).unwrap();
    assert_eq!((incident.id, incident.verdict.as_str()), (2, "slower"));
}

#[test]
fn incidents_are_grouped_and_selected() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = stalls(&path);
    let list = |args: &[&str]| {
        let said = run(&[&["incidents", "--recording", path.to_str().unwrap()], args].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        said.out
    };
    let all = list(&[]);
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[0].starts_with("5 incidents, 1 open;"), "{all}");
    assert!(lines[1].starts_with("   5  open for ") && all.contains("late, provisional"), "{all}");
    assert!(all.contains("cgroup-limit on /db, probe db: 2 times since 2023-11-1"), "{all}");
    assert!(all.contains("worst 5.1 s (2), last 2023-11-1"), "{all}");
    let each = list(&["--all"]);
    assert!(each.contains("\n   1  2023") && each.contains("\n   2  2023"), "{each}");

    let ids = |args: &[&str]| -> Vec<u64> {
        let rows: serde_json::Value =
            serde_json::from_str(&list(&[args, &["--json"]].concat())).unwrap();
        rows.as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&[]), [1, 2, 3, 4, 5]);
    assert_eq!(ids(&["--cause", "cgroup-limit"]), [1, 2]);
    assert_eq!(ids(&["--cause", "unknown"]), [3, 4, 5]);
    assert_eq!(ids(&["--probe", "web"]), [3, 5]);
    // The end of the outage.
    assert_eq!(ids(&["--since", "2023-11-14T22:17:10Z"]), [3, 4, 5]);
    assert_eq!(ids(&["--since", "2023-11-14T22:17:11Z", "--probe", "db"]), [4]);
    assert_eq!(list(&["--probe", "other"]), "no such incidents (5 others)\n");
    let wrong =
        run(&["incidents", "--recording", path.to_str().unwrap(), "--cause", "cgroup-limits"]);
    assert!(wrong.code == 2 && wrong.err.contains("did you mean 'cgroup-limit'?"), "{}", wrong.err);

    drop(writer);
    let stopped = list(&["--all"]);
    assert!(stopped.contains("500 ms, then the recorder ended  late"), "{stopped}");
}

#[test]
fn rows_between_two_times_are_exported() {
    let args = ["--since", "2023-11-14T22:14:05Z", "--until", "1700000049"];
    let text = String::from_utf8(exported(".csv", &args)).unwrap();
    assert_eq!(text.lines().count(), 1 + 5, "{text}");
    assert!(text.starts_with("at,meminfo.MemTotal,"));
    assert!(text.lines().nth(1).unwrap().starts_with("2023-11-14T22:14:05.000Z,"));
    let json: serde_json::Value = serde_json::from_slice(&exported(".json", &[])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 20);
    let of_day = ["--since", "22:14:05", "--until", "22:14:09"];
    assert_eq!(
        exported(".csv", &of_day),
        exported(".csv", &args),
        "times of day are the last such"
    );
    let none = exported(".json", &["--since", "2 h ago"]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&none).unwrap(), serde_json::json!([]));
}
#[test]
fn parquet_begins_and_ends_as_parquet_does() {
    let bytes = exported(".parquet", &[]);
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn an_incident_is_exported_in_every_form() {
    let incident = |ending: &str| exported(ending, &["--incident", "1"]);
    for name in ["last", "worst"] {
        assert_eq!(exported(".json", &["--incident", name]), incident(".json"), "{name}");
    }
    let text = |ending: &str| String::from_utf8(incident(ending)).unwrap();
    assert_eq!(text(".collapsed"), "mysqld;do_syscall_64;compaction_alloc 40\n");
    assert!(text(".speedscope.json").contains("compaction_alloc"));
    assert_eq!(incident(".pprof")[..2], [0x1f, 0x8b], "compressed");
    assert_eq!(text(".csv").lines().count(), 31);
    let json: Incident = serde_json::from_str(&text(".json")).unwrap();
    assert_eq!(json.table.rows(), 30);
}

#[test]
fn a_moment_of_a_recording_is_checked_as_the_machine_is() {
    let file = recording().to_str().unwrap();
    let said = run(&["check", "--recording", file, "--verbose"]);
    assert!(said.code <= 1, "{}", said.err);
    assert!(said.out.contains("zone-reclaim"), "the capture's settings: {}", said.out);
    assert!(said.err.contains("settings and mounts as of 2023-11-14 22:14:10"));
    let json = |args: &[&str]| -> serde_json::Value {
        let said = run(&[&["check", "--recording", file, "--json"], args].concat());
        serde_json::from_str(&said.out).unwrap()
    };
    let skipped = |report: &serde_json::Value| report["skipped"].as_array().unwrap().len();
    let (late, early) = (json(&[]), json(&["--at", "2023-11-14 22:14:05"]));
    assert_eq!(json(&["--at", "22:14:05"]), early);
    assert_eq!(late["root"], file);
    assert!(skipped(&early) > skipped(&late), "before the capture no settings are known");
}

#[test]
fn what_cannot_be_read_is_said_in_a_line() {
    let file = recording().to_str().unwrap();
    for (args, code, words) in [
        (&["export", "--to", "x.csv", "--recording", "/nowhere/x.db"][..], 3, "no such file"),
        (&["export", "--to", "x.xls"], 2, ".parquet"),
        (&["export", "--to", "x.pprof", "--recording", file], 2, "--incident"),
        (
            &["export", "--to", "x.csv", "--recording", file, "--incident", "9"],
            2,
            "incident 9 is not in the recording",
        ),
        (&["export", "--to", "/nowhere/x.csv", "--recording", file], 3, "/nowhere/x.csv"),
        (&["export", "--to", "x.csv", "--since", "soon"], 2, "2 h ago"),
        (&["check", "--recording", "/etc/passwd"], 3, "not a memwright recording"),
        (
            &["check", "--recording", file, "--at", "2023-11-14"],
            3,
            "the recording covers 2023-11-14 22:14:00",
        ),
    ] {
        let said = run(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.err);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
        assert!(said.out.is_empty());
    }
}
