//! Another user puts links and FIFOs where root's commands write and read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_model::{Host, INCIDENT_SCHEMA, Incident};
use mw_record::{Retention, Writer};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

#[path = "common/recording.rs"]
mod common;

const MALLORY: u32 = 65_534;

const PATIENCE: Duration = Duration::from_secs(60);

/// A directory like /tmp, and a start file of root's.
struct Place {
    dir: TempDir,
    sticky: PathBuf,
    victim: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let (sticky, victim) = (dir.path().join("tmp"), dir.path().join("profile"));
        fs::create_dir(&sticky).unwrap();
        fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
        fs::write(&victim, "precious").unwrap();
        Self { dir, sticky, victim }
    }

    fn link(&self, name: &str) -> PathBuf {
        let link = self.sticky.join(name);
        symlink(&self.victim, &link).unwrap();
        lchown(&link, Some(MALLORY), Some(MALLORY)).unwrap();
        link
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let fifo = self.sticky.join(name);
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        chown(&fifo, Some(MALLORY), Some(MALLORY)).unwrap();
        fifo
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = memwright(args).current_dir(&self.sticky).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{args:?}: {said}");
        assert_eq!(fs::read_to_string(&self.victim).unwrap(), "precious", "{args:?}");
        said
    }
}

fn memwright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.env("TZ", "UTC").args(args).stdin(Stdio::null());
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn links_and_fifos_of_another_user_receive_nothing_of_roots() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let recording = text(common::recording());
    let (html, fifo) = (place.link("report.html"), place.fifo("fifo.html"));
    let (start, rows) = (place.link("profile.collapsed"), place.link("rows.csv"));
    for target in [&html, &fifo] {
        let said = place.refused(&["report", "last", "--recording", recording, "-o", text(target)]);
        assert!(said.contains("of user 65534 and is not"), "{said}");
        assert!(said.contains("choose another file with --output"), "{said}");
        place.refused(&["capture", "-o", text(target)]);
    }
    for target in [&start, &rows] {
        place.refused(&[
            "export",
            "--recording",
            recording,
            "--incident",
            "1",
            "--to",
            text(target),
        ]);
    }
    place.refused(&["bench", "--size", "1M", "--svg", text(&place.link("chart.svg"))]);
    // Its own name, of the next minute.
    let now = jiff::Timestamp::now();
    for second in 0..60 {
        let at = (now + jiff::SignedDuration::from_secs(second)).to_zoned(jiff::tz::TimeZone::UTC);
        place.link(&at.strftime("memwright-%Y%m%dT%H%M%S.tar.zst").to_string());
    }
    let said = place.refused(&["capture"]);
    assert!(said.contains("is a symbolic link of user 65534"), "{said}");
}

/// An incident of this machine, whose configured logs are read for its report.
fn recorded(dir: &Path) -> PathBuf {
    let path = dir.join("recording.db");
    common::record(&path);
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let incident = Incident {
        schema: INCIDENT_SCHEMA,
        started_unix_ms: common::START_MS + 5000,
        ended_unix_ms: common::START_MS + 10_000,
        verdict: "tasks waited".to_owned(),
        host: Host { name, ..Host::default() },
        ..Incident::default()
    };
    let writer = Writer::start(&path, &Host::default(), Retention::default()).unwrap();
    writer.keep_incident(incident).unwrap();
    assert!(writer.finish(PATIENCE));
    path
}

const COROSYNC: &str = "2023-11-14T22:14:11.5Z node2 corosync[38932]: [MAIN ] Corosync main process was not scheduled (@1700000051500) for 4417.4 ms (threshold is 800.0 ms). Consider token timeout increase.\n";

#[test]
fn what_replaces_a_configured_log_is_no_log_and_the_others_are_read() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let recording = recorded(place.dir.path());
    let (fifo, secret) = (place.fifo("fifo.log"), place.link("link.log"));
    let (sparse, log) =
        (place.dir.path().join("sparse.log"), place.dir.path().join("corosync.log"));
    fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    fs::write(&log, COROSYNC).unwrap();
    let config = place.dir.path().join("memwright.toml");
    let logs = [&fifo, &secret, &sparse, &log].map(|path| format!("'{}'", path.display()));
    fs::write(&config, format!("[heartbeats]\nlog = [{}]\n", logs.join(", "))).unwrap();
    // There is no journal: no journalctl.
    let args =
        ["--config", text(&config), "report", "last", "--json", "--recording", text(&recording)];
    let mut command = memwright(&args);
    command.env("PATH", "/nowhere").stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["heartbeats"][0]["software"], "corosync", "{report}");
    let unseen = report["unseen"].to_string();
    for (path, why) in [
        (&fifo, "not a regular file"),
        (&secret, "a symbolic link of user 65534"),
        (&sparse, "sparse"),
    ] {
        assert!(unseen.contains(text(path)) && unseen.contains(why), "{unseen}");
    }
    // It has more time for a log.
    fs::remove_file(&sparse).unwrap();
    let args = ["--config", text(&config), "heartbeats", "--since", "2023-11-14T22:00:00Z"];
    let output = memwright(&args).env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("1 report of a late heartbeat"), "{said}");
    assert!(said.contains("; not read: ") && said.contains("journalctl"), "{said}");
}
