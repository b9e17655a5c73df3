//! `memwright why`: the command runs unchanged, and the report names what it waited for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test panics")]

use mw_test::ChildGuard;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn why(arguments: &[&str]) -> Output {
    let memwright = assert_cmd::cargo::cargo_bin!("memwright");
    Command::new(memwright).arg("why").args(arguments).output().unwrap()
}

fn report(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The report of a shell script.
fn of_script(script: &str) -> String {
    report(&why(&["--", "sh", "-c", script]))
}

/// Share of the time that the first line is about, in percent.
fn share_of_first_line(report: &str) -> f64 {
    let line = report.lines().next().unwrap();
    let (before, _) = line.split_once('%').unwrap_or_else(|| panic!("{report}"));
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Promise (Tracing: why): A command's output and exit code are its own.
#[test]
fn output_and_exit_code_are_the_commands() {
    let output = why(&["--", "sh", "-c", "echo out; exit 7"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"out\n"[..]));
    assert_eq!(why(&["--", "sh", "-c", "kill -9 $$"]).status.code(), Some(128 + 9));
    assert_eq!(why(&["--", "/nonexistent/command"]).status.code(), Some(127));
    assert_eq!(why(&["--", "/etc/passwd"]).status.code(), Some(126));
    assert_eq!(why(&[]).status.code(), Some(2));
}

#[test]
fn a_sleep_slept() {
    if !mw_test::is_root() {
        return;
    }
    let report = report(&why(&["--", "sleep", "1"]));
    assert!(report.lines().next().unwrap().contains("slept on a timer"), "{report}");
    assert!(share_of_first_line(&report) > 90.0, "{report}");
}

#[test]
fn a_wait_for_another_program_is_what_that_program_did() {
    if !mw_test::is_root() {
        return;
    }
    let report = of_script("sleep 0.7 | cat; true");
    let first = report.lines().next().unwrap();
    assert!(first.contains("sleep (") && first.contains("slept on a timer"), "{report}");
    assert!(share_of_first_line(&report) > 85.0, "{report}");
    assert!(report.contains("chain of waits") && report.contains("a child process"), "{report}");
}

#[test]
fn a_program_that_computes_ran() {
    if !mw_test::is_root() {
        return;
    }
    let report = of_script("i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done");
    assert!(report.contains("running in user mode"), "{report}");
}

#[test]
fn a_stopped_program_is_not_explained_by_who_continues_it() {
    if !mw_test::is_root() {
        return;
    }
    // The one that continues it is no child of the shell, which its end would wake as well.
    let stops = "sh -c 'kill -STOP $$' & stopped=$!
        (sh -c \"sleep 0.7; kill -CONT $stopped\" &)
        wait $stopped";
    let report = of_script(stops);
    assert!(report.lines().next().unwrap().contains("was stopped by a signal"), "{report}");
}

/// Promise (Tracing: why): Without the privilege the command runs, and the report says what is missing.
#[test]
fn without_the_privilege_the_command_runs_and_the_report_says_what_is_missing() {
    if !mw_test::is_root() {
        return;
    }
    let memwright = assert_cmd::cargo::cargo_bin!("memwright");
    let unprivileged = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let output = Command::new("setpriv")
        .args(unprivileged)
        .arg(memwright)
        .args(["why", "--", "sh", "-c", "exit 3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(report(&output).contains("was not traced"), "{}", report(&output));
}

#[test]
fn the_path_is_written_for_a_trace_viewer() {
    if !mw_test::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("path.json");
    why(&["-o", file.to_str().unwrap(), "--", "sleep", "0.2"]);
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let parts: Vec<_> = document["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .collect();
    let end =
        |part: &serde_json::Value| part["ts"].as_f64().unwrap() + part["dur"].as_f64().unwrap();
    for pair in parts.windows(2) {
        assert!((end(pair[0]) - pair[1]["ts"].as_f64().unwrap()).abs() < 1e-3, "{pair:?}");
    }
    assert!(end(parts.last().unwrap()) >= 200_000.0, "the whole command");
}

/// A process that says nothing, and is killed at the end.
fn silent(command: &mut Command) -> ChildGuard {
    ChildGuard(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn pid(process: &ChildGuard) -> String {
    process.0.id().to_string()
}

/// The report of a running process.
fn of_pid(pid: &str, time: &str) -> String {
    let output = why(&["--pid", pid, "--for", time]);
    assert_eq!(output.status.code(), Some(0), "{}", report(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Address of the server.
const SOCKET: &str = "MW_WHY_SOCKET";

/// Answers each request after 300 ms.
#[test]
#[ignore = "run by another test"]
fn server() {
    let listener = UnixListener::bind(std::env::var_os(SOCKET).unwrap()).unwrap();
    for connection in listener.incoming() {
        let (mut connection, mut byte) = (connection.unwrap(), [0]);
        while connection.read(&mut byte).unwrap() == 1 {
            std::thread::sleep(Duration::from_millis(300));
            connection.write_all(&byte).unwrap();
        }
    }
}

/// Promise (Tracing: why): `why` names the slowest request of a running program and what it waited for; idle threads
/// are not reported as a problem.
#[test]
fn the_slowest_request_of_a_server_is_explained_and_its_idle_time_is_not() {
    if !mw_test::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let server = silent(
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "server"])
            .env(SOCKET, &socket),
    );
    let mut client = connected(&socket);
    let is_over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = [0];
            while !is_over.load(Ordering::Relaxed) {
                client.write_all(&byte).unwrap();
                client.read_exact(&mut byte).unwrap();
                std::thread::sleep(Duration::from_millis(400));
            }
        });
        let report = of_pid(&pid(&server), "3s");
        is_over.store(true, Ordering::Relaxed);
        report
    });
    let first = report.lines().next().unwrap();
    assert!(first.starts_with("slowest request of "), "{report}");
    assert!(report.contains("slept on a timer"), "{report}");
    assert!(report.contains(" requests, idle ") && report.contains("slow request 2"), "{report}");
}

fn connected(socket: &Path) -> UnixStream {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_only_waits_is_idle() {
    if !mw_test::is_root() {
        return;
    }
    let sleep = silent(Command::new("sleep").arg("100"));
    let report = of_pid(&pid(&sleep), "500ms");
    let expected = format!("sleep ({}) was idle for ", pid(&sleep));
    assert!(report.starts_with(&expected), "{report}");
}

#[test]
fn a_program_that_ends_ends_the_trace() {
    if !mw_test::is_root() {
        return;
    }
    let mut shell = silent(Command::new("sh").args(["-c", "sleep 1; exit 0"]));
    let pid = pid(&shell);
    let waiting = std::thread::spawn(move || shell.0.wait().unwrap());
    let report = of_pid(&pid, "60s");
    waiting.join().unwrap();
    assert!(report.contains("; it ended: "), "{report}");
}

/// Promise (Tracing: why): Ctrl-C or the end of the program ends the trace of a running program early, with a report;
/// what cannot be traced is reported in one line.
#[test]
fn an_interrupt_ends_the_trace_early_with_a_report() {
    if !mw_test::is_root() {
        return;
    }
    let sleep = silent(Command::new("sleep").arg("100"));
    let memwright = assert_cmd::cargo::cargo_bin!("memwright");
    let tracing = Command::new(memwright)
        .args(["why", "--pid", &pid(&sleep), "--for", "90s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", tracing.id());
    // The mask of signals that it catches: SIGINT is bit 1.
    let catches = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & 2 != 0
    };
    let begun = Instant::now();
    while !catches() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&tracing), Signal::INT).unwrap();
    let output = tracing.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("was idle for"));
}

#[test]
fn what_cannot_be_traced_is_said_in_one_line() {
    for (arguments, why_not) in [
        (&["--pid", "4194999"][..], "no process 4194999"),
        (&["--unit", "no-such"], "no process in a unit 'no-such.service'"),
        (&["--cgroup", "/no/such"], "no cgroup '/no/such'"),
        (&["--pid", "1", "--", "true"], "cannot be used with"),
    ] {
        let output = why(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(report(&output).contains(why_not), "{}", report(&output));
    }
    if !mw_test::is_root() {
        return;
    }
    let memwright = assert_cmd::cargo::cargo_bin!("memwright");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(memwright)
        .args(["why", "--pid", &std::process::id().to_string()])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), report(&output).lines().count()), (Some(4), 1));
    assert!(report(&output).contains("run: sudo memwright why --pid "), "{}", report(&output));
}

/// A thread puts into a table that grows; the main thread waits for it.
const RESIZING: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
enum { TABLE_BYTES = 64 << 20, ROUNDS = 12 };
__attribute__((noinline)) int reserve_rehash(int number) {
    char *table = mmap(0, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) return 1;
    number += table[number];
    munmap(table, TABLE_BYTES);
    return number + 1;
}
__attribute__((noinline)) int insert(int number) { return reserve_rehash(number) + 1; }
__attribute__((noinline)) int handle_put(int number) { return insert(number) + 1; }
static volatile int total;
static void *serve(void *unused) {
    for (int round = 0; round < ROUNDS; round++) total += handle_put(round);
    return unused;
}
int main(void) {
    pthread_t thread;
    return pthread_create(&thread, 0, serve, 0) || pthread_join(thread, 0);
}
"#;

/// Promise (Tracing: why): Tasks on the path are reported with the functions of their program, unless `--no-user-stacks`
/// is given.
#[test]
fn the_functions_of_the_program_are_named() {
    if !mw_test::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("serve.c"), dir.path().join("serve"));
    std::fs::write(&source, RESIZING).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(cc.status().unwrap().success());
    let program = program.to_str().unwrap();
    let json = dir.path().join("path.json");
    let output = why(&["-o", json.to_str().unwrap(), "--", program]);
    let report = report(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("< reserve_rehash < insert < handle_put"), "{report}");
    assert!(report.contains("was in") && report.contains("< main"), "{report}");
    let json = std::fs::read_to_string(&json).unwrap();
    assert!(json.contains("\"reserve_rehash\",\"insert\",\"handle_put\""), "{json}");
    let without = self::report(&why(&["--no-user-stacks", "--", program]));
    assert!(!without.contains("was in") && !without.contains("handle_put"), "{without}");
}
