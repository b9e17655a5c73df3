//! `memwright lab` as a user meets it: a case that goes as it should, and everything that can be wrong
//! with a machine, a kernel, a guest or a case. Nothing may be left running or lying about.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Requirements of the lab on the host; without them these tests are skipped.
const TOOLS: [&str; 6] = ["qemu-system-x86_64", "busybox", "gcc", "ldd", "strip", "setpriv"];
const BOOT_LIMIT_S: f64 = 8.0;

/// Two guests at once would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A place to run in, where whatever is left behind is seen.
struct Place {
    temp: TempDir,
    cases: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    /// `None`: this host has no lab.
    fn new() -> Option<Place> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let missing = TOOLS.iter().find(|tool| find(tool).is_none());
        if let Some(tool) = missing {
            mw_test::skip(format!("{tool} is not installed"));
            return None;
        }
        let dir = || tempfile::tempdir().unwrap();
        Some(Place { temp: dir(), cases: dir(), _turn: turn })
    }

    fn case(&self, name: &str, machine: &str, make: &str) {
        let dir = self.cases.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        let text = format!(
            "description = 'd'\n[machine]\nkernel = '6.1'\n{machine}\n[expect]\nno_finding = true\n\
             [variant.only]\nhow = 'h'\n"
        );
        fs::write(dir.join("case.toml"), text).unwrap();
        fs::write(dir.join("make.sh"), make).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.args(["lab", "--accel", "tcg"]).args(args).env("TMPDIR", self.temp.path());
        command
    }

    fn own(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.arg("--cases").arg(self.cases.path());
        command
    }

    fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.temp.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "left lying about: {left:?}");
        assert_eq!(guests_of(self.temp.path()), 0, "a guest still runs");
    }
}

fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Virtual machines whose files are in `temp`.
fn guests_of(temp: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let text = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let is_ours =
        |line: &String| line.contains("qemu-system") && line.contains(&temp.display().to_string());
    text.filter(is_ours).count()
}

/// Exit code, standard output, standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Promise (The lab): A failure is created on a real kernel, found, fixed, verified, and reverted byte for byte.
#[test]
fn a_case_is_created_found_fixed_and_reverted() {
    if !mw_test::is_full_run() {
        return;
    }
    let Some(place) = Place::new() else { return };
    let (code, said, error) =
        run(place.command(&["zone-reclaim/firing", "--json"]).stdin(Stdio::null()));
    assert_eq!(code, 0, "{said}{error}");
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["summary"], "1 of 1 cases passed on kernel 6.1");
    let play = &report["runs"][0];
    let rules = |phase: &str| -> Vec<String> {
        let findings = play["checks"][phase]["findings"].as_array().unwrap();
        findings.iter().map(|f| f["rule"].as_str().unwrap().to_owned()).collect()
    };
    let has = |phase: &str| rules(phase).contains(&"zone-reclaim".to_owned());
    assert!(has("during") && !has("fixed") && has("reverted"), "{said}");
    let values = &play["measured"][0]["values"];
    let value = |phase: &str| values[phase].as_f64().unwrap();
    assert!(value("during") > 2.0 * value("fixed"), "{values}");
    place.assert_clean();
}

/// Promise (The lab): `lab` first prints the number of runs, the kernels and the expected time.
#[test]
fn what_is_about_to_be_played_is_said_first() {
    if !mw_test::is_full_run() {
        return;
    }
    let Some(place) = Place::new() else { return };
    place.case("one", "memory = '256M'", "true");
    place.case("other", "memory = '256M'", "true");
    let kernel = ["--kernel", "/nonexistent/vmlinuz"];
    let (_, _, error) = run(&mut place.own(&[&kernel[..], &["--jobs", "2"]].concat()));
    let plan = error.lines().next().unwrap_or_default();
    let want = "2 runs on kernel /nonexistent/vmlinuz, 2 at once: about 20.0 s in software, ";
    assert!(plan.starts_with(want) && plan.contains("at most; --list lists them"), "{error}");
    let (_, said, error) = run(&mut place.own(&["--list"]));
    assert_eq!(said.lines().count(), 2, "{said}{error}");
    assert!(error.is_empty(), "{error}");
}

/// The best of three: a host that does something else as well is no slow lab.
///
/// Promise (The lab): A case's first step begins at most 8 s after power-on.
#[test]
fn a_case_begins_soon_after_power_on() {
    if !mw_test::is_full_run() {
        return;
    }
    let Some(place) = Place::new() else { return };
    place.case("quick", "memory = '256M'", "true");
    let first_step = || {
        let (_, said, error) = run(&mut place.own(&["--json"]));
        let report: Value = serde_json::from_str(&said).unwrap();
        report["runs"][0]["first_step_s"].as_f64().unwrap_or_else(|| panic!("{said}{error}"))
    };
    let tries: Vec<f64> = (0..3).map(|_| first_step()).collect();
    assert!(tries.iter().any(|seconds| *seconds <= BOOT_LIMIT_S), "{tries:?}");
}

/// Rules whose condition no case creates, of which each has a tree that was made by hand: defects of the kernel, a module that
/// no guest has, and memory of drivers.
const MADE_UP: [&str; 5] = [
    "contradictory-counters",
    "kernel-zone-exhausted",
    "offline-memory",
    "unowned-memory",
    "zfs-arc",
];

/// True if the fixture that has to be found is there; the tests of the catalogue judge it.
fn fixture_is_found(rule: &str) -> bool {
    mw_test::fixture(&format!("{rule}/firing")).exists()
}

/// What only explains stalls finds nothing: its cases are the decoys, in which no rule may find
/// anything either.
///
/// Promise (The lab): Every rule of the catalogue has a case that it must find; where no case creates the
/// condition, a tree made by hand.
#[test]
fn every_rule_has_a_case_that_finds_it() {
    let folder = mw_lab::catalogue::unpack().unwrap();
    let variants = mw_lab::catalogue::select(folder.path(), &[], &[]).unwrap();
    let decoys: Vec<_> = variants.iter().filter(|v| v.kind == mw_lab::CaseKind::Decoy).collect();
    assert!(decoys.iter().all(|v| v.expect.no_finding && v.expect.found.is_empty()));
    for rule in mw_rules::RULES {
        let finds = |v: &mw_lab::Variant| v.expect.found.iter().any(|name| name == rule.id);
        let finders = variants.iter().filter(|v| finds(v)).count();
        let is_made_up = || MADE_UP.contains(&rule.id) && fixture_is_found(rule.id);
        let finders = if finders == 0 && is_made_up() { 1 } else { finders };
        let cases = if rule.has_hazard() { finders } else { decoys.len() };
        assert!(cases > 0, "no case for {}", rule.id);
        assert!(rule.has_hazard() || finders == 0, "{} is found, and only explains", rule.id);
    }
    for variant in &variants {
        for name in variant.expect.found.iter().chain(&variant.expect.absent) {
            assert!(mw_rules::find(name).is_some(), "{}: no rule {name}", variant.full_name());
        }
    }
}

fn check_bad_guest(machine: &str, make: &str, code: i32, want: &str) {
    let Some(place) = Place::new() else { return };
    place.case("bad", machine, make);
    let (got, said, error) = run(&mut place.own(&[]));
    assert_eq!(got, code, "{said}{error}");
    assert!(said.contains(want), "{said}");
    place.assert_clean();
}

/// Promise (The lab): A guest that hangs, panics or floods the console is killed with a clear outcome, and no process
/// or file is left behind.
#[test]
fn a_guest_that_hangs_is_ended_and_says_where() {
    let limits = "memory = '256M'\ntimeout_s = 20";
    check_bad_guest(limits, "sleep 1000", 1, "the time limit was reached; the guest was at ");
}

#[test]
fn a_guest_that_panics_is_told_from_one_that_fails() {
    let panics = "echo c >/proc/sysrq-trigger";
    check_bad_guest("memory = '256M'", panics, 1, "the guest's kernel broke: ");
    let fails = "echo no such thing >/run/why; exit 1";
    check_bad_guest("memory = '256M'", fails, 1, "make.sh only exited with 1: no such thing");
}

#[test]
fn a_guest_that_floods_the_console_is_ended() {
    if !mw_test::is_full_run() {
        return;
    }
    let flood = "while :; do cat /bin/busybox; done >/dev/ttyS1";
    let limits = "memory = '256M'\ntimeout_s = 15";
    check_bad_guest(limits, flood, 1, "bad/only on 6.1 failed: ");
}

/// In a mount namespace of its own the directory for temporary files is a small one.
#[test]
fn a_guest_that_fills_the_hosts_disk_is_ended() {
    let Some(place) = Place::new() else { return };
    let disk = "memory = '256M'\ntimeout_s = 300\ndisks = [{ size = '1G', format = 'ext4' }]";
    let fill = "mount -t ext4 /dev/disk0 /mnt && dd if=/dev/zero of=/mnt/data bs=1M conv=fsync";
    place.case("bad", disk, fill);
    let small = "mount -t tmpfs -o size=560M tmpfs \"$TMPDIR\" 2>/dev/null || exit 99; exec \"$@\"";
    let inner = place.own(&[]);
    let mut outer = Command::new("unshare");
    outer
        .args(["--mount", "sh", "-c", small, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    outer.env("TMPDIR", place.temp.path());
    let (code, said, error) = run(&mut outer);
    if code == 99 || error.starts_with("unshare") {
        mw_test::skip("mounting is not permitted");
        return;
    }
    assert_eq!(code, 3, "{said}{error}");
    assert!(said.contains("the guest's disks nearly filled the host's"), "{said}");
    place.assert_clean();
}

fn report_of(command: &mut Command, code: i32) -> (Value, String) {
    let (got, said, error) = run(command);
    assert_eq!(got, code, "{said}{error}");
    (serde_json::from_str(&said).unwrap(), error)
}

/// Promise (The lab): `lab --rounds` reports how often each case passed; no failed run is omitted.
#[test]
fn rounds_are_played_in_turn_and_some_at_once() {
    if !mw_test::is_full_run() {
        return;
    }
    let Some(place) = Place::new() else { return };
    place.case("quick", "memory = '256M'", "true");
    let (report, said) = report_of(&mut place.own(&["--rounds=3", "--jobs=2", "--json"]), 0);
    assert_eq!(report["summary"], "3 of 3 runs passed on kernel 6.1");
    assert_eq!(report["runs"].as_array().unwrap().len(), 3);
    assert!(said.contains("3 of 3: quick/only on 6.1: passed"), "{said}");
    place.assert_clean();
}

#[test]
fn what_fails_is_played_once_more_and_that_is_said() {
    let Some(place) = Place::new() else { return };
    place.case("bad", "memory = '256M'", "echo no luck >/run/why; exit 1");
    let (report, said) = report_of(&mut place.own(&["--retries=1", "--json"]), 1);
    assert_eq!(
        (&report["runs"][0]["outcome"], &report["runs"][0]["tries"]),
        (&"failed".into(), &2.into())
    );
    assert_eq!(said.matches("failed, once more: make.sh only exited with 1: no luck").count(), 1);
    place.assert_clean();
}

#[test]
fn a_case_that_does_not_suit_this_machine_is_skipped_with_the_reason() {
    check_bad_guest("memory = '9999G'", "", 3, "MiB of memory");
    let why = "echo no such driver >/run/why; exit 77";
    check_bad_guest("memory = '256M'", why, 3, "bad/only on 6.1 skipped: no such driver");
    let missing = "memory = '256M'\nprograms = ['no-such-program']";
    check_bad_guest(missing, "", 3, "`no-such-program` is not installed");
    let module = "memory = '256M'\nmodules = ['no_such_module']";
    check_bad_guest(module, "", 3, "has no module no_such_module");
}

/// Promise (The lab): Without QEMU, a kernel, memory, disk space, a program or a module the lab reports what is
/// missing, and never that a case passed.
#[test]
fn a_host_without_qemu_says_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let (code, said, error) = run(command.args(["lab", "zone-reclaim"]).env("PATH", empty.path()));
    assert_eq!((code, said.as_str()), (3, ""), "{error}");
    assert!(error.contains("apt-get install qemu-system-x86 busybox-static"), "{error}");
}

#[test]
fn a_kernel_of_ones_own_is_played_on_by_its_release() {
    if !mw_test::is_full_run() {
        return;
    }
    let Some(place) = Place::new() else { return };
    let disk = "memory = '256M'\ndisks = [{ size = '64M', format = 'ext4' }]";
    place.case("quick", disk, "mount -t ext4 /dev/disk0 /mnt");
    let kernel = mw_lab::GuestKernel::get("6.1").unwrap();
    let image = kernel.image.display().to_string();
    let (code, said, error) = run(&mut place.own(&["--kernel", &image]));
    assert_eq!(code, 0, "{said}{error}");
    let answer = format!("1 of 1 cases passed on kernel {}\n", kernel.release);
    assert!(said.starts_with(&answer), "{said}");
    place.assert_clean();
}

#[test]
fn a_kernel_that_cannot_be_had_is_said_with_what_to_do() {
    let Some(place) = Place::new() else { return };
    let check = |command: &mut Command, want: &str| {
        let (code, said, error) = run(command);
        assert_eq!(code, 3, "{said}{error}");
        assert!(said.starts_with("no case could be run"), "{said}");
        assert!(said.contains(want), "{said}");
    };
    let with = |kernel: &str| place.command(&["zone-reclaim/firing", "--kernel", kernel]);
    check(&mut with("/nowhere/vmlinuz"), "/nowhere/vmlinuz: No such file");
    check(&mut with("/bin/busybox"), "/bin/busybox is not an x86 kernel image");
    check(&mut with("5.99"), "unknown kernel \"5.99\" (use one of 6.1, 6.12, 6.18, 7.3)");

    let (tools, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for tool in TOOLS.iter().chain(&["sh", "as", "ld", "bash"]) {
        let Some(program) = find(tool) else { continue };
        std::os::unix::fs::symlink(program, tools.path().join(tool)).unwrap();
    }
    let mut offline = with("6.1");
    offline.env("PATH", tools.path()).env("MEMWRIGHT_KERNELS", cache.path());
    check(&mut offline, "name a kernel image with --kernel");
    place.assert_clean();
}

#[test]
fn mistakes_on_the_command_line_and_in_cases_are_usage() {
    let Some(place) = Place::new() else { return };
    let (code, _, error) = run(&mut place.command(&["no-such-case"]));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("unknown case or variant \"no-such-case\""), "{error}");
    place.case("bad", "memory = 'much'", "");
    let (code, _, error) = run(&mut place.own(&[]));
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("bad/case.toml: invalid size \"much\""), "{error}");
    for wrong in ["--jobs=0", "--jobs=1000", "--rounds=0"] {
        assert_eq!(run(&mut place.command(&[wrong])).0, 2, "{wrong}");
    }
    let (code, said, _) = run(&mut place.command(&["--list", "--kind", "decoy,rule"]));
    assert_eq!(code, 0);
    assert!(said.contains("zone-reclaim/firing"), "{said}");
    place.assert_clean();
}

/// Starts a case that never ends, and waits until its guest runs.
fn start_endless(place: &Place) -> std::process::Child {
    place.case("endless", "memory = '256M'", "sleep 1000");
    let child = place.own(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the guest to run", || guests_of(place.temp.path()) > 0);
    child
}

fn wait_for(what: &str, condition: impl FnMut() -> bool) {
    mw_test::wait_until(what, Duration::from_secs(120), condition);
}

fn signal(child: &std::process::Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    let Some(place) = Place::new() else { return };
    let mut child = start_endless(&place);
    signal(&child, "INT");
    let status = child.wait().unwrap();
    assert!(!status.success());
    place.assert_clean();
}

#[test]
fn told_to_end_at_any_moment_it_leaves_nothing_behind() {
    let Some(place) = Place::new() else { return };
    place.case("endless", "memory = '256M'", "sleep 1000");
    // It unpacks, compiles, strips and packs before the guest starts.
    for after_ms in [5, 50, 200, 500, 1000, 2000, 4000] {
        let mut child = place.own(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        signal(&child, "TERM");
        let told = Instant::now();
        wait_for("the end", || child.try_wait().unwrap().is_some());
        assert!(!child.wait().unwrap().success(), "after {after_ms} ms");
        assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
        place.assert_clean();
    }
}

#[test]
fn nobody_who_reads_its_progress_changes_nothing() {
    if !mw_test::is_full_run() {
        return;
    }
    let Some(place) = Place::new() else { return };
    place.case("first", "memory = '256M'", "exit 1");
    place.case("second", "memory = '256M'", "exit 1");
    let nobody = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let mut child =
        place.own(&["--retries", "1"]).stdout(nobody()).stderr(nobody()).spawn().unwrap();
    wait_for("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    place.assert_clean();
}

#[test]
fn killed_it_takes_its_guest_along_and_the_next_one_cleans_up() {
    let Some(place) = Place::new() else { return };
    let mut child = start_endless(&place);
    signal(&child, "KILL");
    child.wait().unwrap();
    wait_for("the guest to die", || guests_of(place.temp.path()) == 0);
    place.case("endless", "memory = '9999G'", "");
    run(&mut place.own(&[]));
    place.assert_clean();
}
