//! Evidence within namespaces, as eval/results/namespaces.md has it: a command and a service are explained as outside, or the
//! report says what is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test panics")]

use mw_test::{ChildGuard, LoggedChild};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memwright");
const PATIENCE: Duration = Duration::from_secs(60);
/// A PID namespace with its own /proc.
const PID: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// memwright within the namespaces that these options of unshare(1) make.
fn within(namespaces: &[&str], args: &[&str]) -> Output {
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).arg(PROGRAM).args(args).output().unwrap()
}

fn report(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn slept(report: &str) {
    let first = report.lines().next().unwrap();
    assert!(first.contains("slept on a timer"), "{report}");
    let percent = first.split_once('%').unwrap().0.rsplit(' ').next().unwrap();
    assert!(percent.parse::<f64>().unwrap() > 90.0, "{report}");
}

fn whole_machine(namespaces: &[&str]) -> (Option<i32>, String) {
    let output = within(namespaces, &["doctor", "--json"]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = diagnosis["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "whole-machine").unwrap();
    (output.status.code(), format!("{}: {}", check["state"], check["detail"]))
}

/// Promise (The recorder): In a PID or time namespace `why` and `watch` explain a command and a service as outside of
/// it; a task outside is named as one, and the cause has less confidence.
#[test]
fn a_command_in_a_pid_namespace_is_explained_as_outside() {
    if !mw_test::is_root() {
        return;
    }
    let alone = report(&within(&PID, &["why", "--", "sleep", "1"]));
    slept(&alone);
    // A task that had the CPU meanwhile may be outside.
    assert!(!alone.lines().next().unwrap().contains("PID namespace"), "{alone}");
    let piped = report(&within(&PID, &["why", "--", "sh", "-c", "sleep 0.7 | cat; true"]));
    assert!(piped.lines().next().unwrap().contains("sleep ("), "{piped}");
    assert!(piped.contains("slept on a timer") && piped.contains("a child process"), "{piped}");
}

/// A task outside is named with its number there, and the report says what is not known of it.
#[test]
fn a_task_outside_of_the_pid_namespace_is_named() {
    if !mw_test::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let script = format!("read line < {}", fifo.display());
    let why = Command::new("unshare")
        .args(PID)
        .args([PROGRAM, "why", "--", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let writer = std::thread::Builder::new().name("far-away".to_owned());
    let writer = writer.spawn(move || {
        // Opening it waits for the reader.
        let mut fifo = std::fs::OpenOptions::new().write(true).open(fifo).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        fifo.write_all(b"line\n").unwrap();
        rustix::thread::gettid().as_raw_nonzero()
    });
    let number = writer.unwrap().join().unwrap();
    let output = why.wait_with_output().unwrap();
    let report = report(&output);
    let named = format!("far-away ({number} in the initial PID namespace)");
    // Lines are folded between words.
    let unfolded = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unfolded.contains(&named) && unfolded.contains("slept on a timer"), "{report}");
    assert!(unfolded.contains("tasks outside this PID namespace are traced, but"), "{report}");
}

/// Promise (The recorder): With the /proc of another PID namespace nothing is traced, and the report says so.
#[test]
fn with_the_proc_of_another_namespace_nothing_is_traced() {
    if !mw_test::is_root() {
        return;
    }
    let output = within(&["--pid", "--fork", "--kill-child"], &["why", "--", "sh", "-c", "exit 3"]);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert!(
        report.contains("was not traced") && report.contains("mount -t proc proc /proc"),
        "{report}"
    );
    let (code, detail) = whole_machine(&["--pid", "--fork", "--kill-child"]);
    assert!(
        code == Some(1) && detail.contains("/proc belongs to another PID namespace"),
        "{detail}"
    );
}

#[test]
fn a_command_in_a_time_namespace_is_explained_as_outside() {
    if !mw_test::is_root() {
        return;
    }
    let namespaces = ["--time", "--monotonic", "5000", "--boottime", "5000", "--fork"];
    slept(&report(&within(&namespaces, &["why", "--", "sleep", "1"])));
    let negative = ["--time", "--monotonic", "-100", "--fork"];
    slept(&report(&within(&negative, &["why", "--", "sleep", "1"])));
}

#[test]
fn doctor_says_what_a_pid_namespace_loses() {
    if !mw_test::is_root() {
        return;
    }
    let (code, detail) = whole_machine(&PID);
    assert!(
        code == Some(1) && detail.contains("processes outside the container are hidden"),
        "{detail}"
    );
}

#[test]
fn doctor_says_what_a_network_namespace_loses() {
    if !mw_test::is_root() {
        return;
    }
    let (code, detail) = whole_machine(&["--net"]);
    assert!(code == Some(1) && detail.contains("sockets of other network namespaces"), "{detail}");
    slept(&report(&within(&["--net"], &["why", "--", "sleep", "1"])));
}

#[test]
fn a_cgroup_namespace_does_not_make_the_root_the_tasks_group() {
    if !mw_test::is_root() {
        return;
    }
    let (code, detail) = whole_machine(&["--cgroup"]);
    assert!(
        code == Some(1) && detail.contains("paths begin at the root of the namespace"),
        "{detail}"
    );
    let report = report(&within(&["--cgroup"], &["why", "--", "sleep", "1"]));
    slept(&report);
    assert!(!report.contains(", /)"), "{report}");
}

#[test]
fn in_a_user_namespace_root_is_not_told_to_trace() {
    if !mw_test::is_root() {
        return;
    }
    let namespaces = ["--user", "--map-root-user"];
    let output = within(&namespaces, &["why", "--", "sh", "-c", "exit 3"]);
    let report = report(&output);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert!(report.contains("was not traced"), "{report}");
    assert!(report.contains("root of a user namespace is an ordinary user"), "{report}");
    let (code, detail) = whole_machine(&namespaces);
    assert!(
        code == Some(1) && detail.contains("a capability counts in its own user namespace"),
        "{detail}"
    );
}

#[test]
fn counters_are_the_machines() {
    if !mw_test::is_root() {
        return;
    }
    let total = |output: Output| {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["total_bytes"].clone()
    };
    let args = ["explain", "--all-memory", "--json"];
    let outside = total(Command::new(PROGRAM).args(args).output().unwrap());
    assert!(outside.as_u64().is_some(), "{outside}");
    assert_eq!(total(within(&PID, &args)), outside);
}

/// A PID namespace that lives until it is dropped.
struct Namespace(ChildGuard);

impl Namespace {
    fn new() -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(PID).args(["sh", "-c", "echo; exec sleep 1000"]).stdout(Stdio::piped());
        let mut child = unshare.spawn().unwrap();
        // Its /proc is mounted when the shell says something.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Self(ChildGuard(child))
    }

    fn command(&self, program: &str) -> Command {
        let unshare = self.0.0.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--pid", "--mount", "--target", children.unwrap().trim(), program]);
        nsenter
    }
}

/// Recorder and service in one container.
#[test]
fn a_stopped_service_beside_a_recorder_in_a_pid_namespace_is_what_it_is() {
    if !mw_test::is_root() {
        return;
    }
    let namespace = Namespace::new();
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // apt-get install redis-server
    let server = namespace
        .command("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir.path())
        .arg("--pidfile")
        .arg(dir.path().join("pid"))
        .stdout(Stdio::null())
        .spawn();
    let _server = ChildGuard(server.unwrap());
    let pid = || std::fs::read_to_string(dir.path().join("pid")).ok().filter(|pid| !pid.is_empty());
    mw_test::wait_until("redis-server", PATIENCE, || {
        pid().is_some() && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let recording = dir.path().join("recording.db");
    let probe = format!("cache=redis://127.0.0.1:{port}");
    let watch = LoggedChild::spawn(
        namespace
            .command(PROGRAM)
            .args(["watch", "--probe", &probe, "--limit", "400ms", "--recording"])
            .arg(&recording),
    );
    watch.line("recording to ", PATIENCE);
    std::thread::sleep(Duration::from_secs(3));
    let pid = pid().unwrap();
    let signal = |name: &str| {
        let sent = namespace.command("kill").args(["-s", name, pid.trim()]).status();
        assert!(sent.unwrap().success());
    };
    signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    signal("CONT");
    watch.line("stall: cache exceeded its limit of 400 ms", PATIENCE);
    watch.line(", open: cache stalled for", PATIENCE);
    let said = watch.line(": cache stalled for", PATIENCE);
    assert!(said.contains("redis-server (") && said.contains("was stopped"), "{said}");
    let id = said.trim_start_matches("incident ").split(':').next().unwrap();
    let report =
        Command::new(PROGRAM).args(["report", id, "--recording"]).arg(&recording).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("within a PID namespace"), "{report}");
}
