//! `check`, `check --for`, `top`, segments and pools agree on how much memory is available, whatever limits the process
//! has.

#![allow(clippy::unwrap_used, reason = "tests")]

use mw_model::{caller, derived};
use mw_test::TestCgroup;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memwright");
/// Far longer than anything takes.
const LIMIT: Duration = Duration::from_secs(30);

/// Two readings are a moment apart, and `check` leaves out what has to be written first.
const SLACK_SHARE: u64 = 20;
const MIB: u64 = 1 << 20;

#[test]
fn segments_and_check_report_the_same_available_memory() {
    let source = mw_collect::Source::live().unwrap();
    let snapshot = mw_collect::snapshot(&source);
    let machine = derived::available_bytes(&snapshot).unwrap();
    let check = caller::available(&snapshot, machine).bytes;
    let segment = mw_segment::available_bytes().unwrap();
    let unwritten = derived::unwritten_bytes(snapshot.sample.meminfo.value().unwrap());
    let slack = machine / SLACK_SHARE + unwritten;
    assert!(check.abs_diff(segment) <= slack, "check {check}, segments {segment}");
}

/// The program of [`of_segments`].
#[test]
#[ignore = "run by another test"]
fn available_to_a_segment() {
    println!("available {}", mw_segment::available_bytes().unwrap());
}

/// The program of [`Limits::of_top`].
#[test]
#[ignore = "run by another test"]
fn available_in_top() {
    let mut top = mw_top::Live::open(mw_collect::Source::live().unwrap()).unwrap();
    let verdict = mw_top::Feed::screen(&mut top, None).moment.verdict;
    println!("available {}", first_size(&verdict).unwrap());
}

/// The first size of a line, in bytes: `1.5 GiB`.
fn first_size(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let unit = match pair[1] {
            "KiB" => 1 << 10,
            "MiB" => MIB,
            "GiB" => 1 << 30,
            _ => return None,
        };
        Some((pair[0].parse::<f64>().ok()? * unit as f64) as u64)
    })
}

/// Limits of a process: of its cgroup in MiB, and in the words of ulimit(1).
struct Limits {
    cgroup_mib: Option<u64>,
    ulimit: &'static str,
}

fn limits() -> Vec<Limits> {
    let of = |cgroup_mib, ulimit| Limits { cgroup_mib, ulimit };
    let groups = [64, 96, 128, 200, 256, 300, 384, 512, 768, 1024].map(|mib| of(Some(mib), ""));
    let resources = [
        "ulimit -v 400000",
        "ulimit -v 600000",
        "ulimit -v 1000000",
        "ulimit -v 2000000",
        "ulimit -d 200000",
        "ulimit -d 300000",
        "ulimit -d 1000000",
    ];
    let both = [
        of(Some(128), "ulimit -v 1000000"),
        of(Some(512), "ulimit -d 200000"),
        of(Some(256), "ulimit -v 600000; ulimit -d 400000"),
    ];
    let resources = resources.into_iter().map(|ulimit| of(None, ulimit));
    groups.into_iter().chain(resources).chain(both).collect()
}

impl Limits {
    /// A command within the limits.
    fn command(&self, group: Option<&TestCgroup>, command: &[&str]) -> Command {
        let members = group.map_or(String::new(), |group| group.members().display().to_string());
        let script = format!(
            "[ -z \"$GROUP\" ] || echo $$ > \"$GROUP\"; {}; exec \"$@\"",
            match self.ulimit {
                "" => ":",
                ulimit => ulimit,
            }
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).args(command).env("GROUP", members);
        shell
    }

    fn run(&self, group: Option<&TestCgroup>, command: &[&str]) -> String {
        let output = self.command(group, command).stderr(Stdio::inherit()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn of_check(&self, group: Option<&TestCgroup>) -> u64 {
        let report = self.run(group, &[PROGRAM, "check", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        report["ready_bytes"].as_u64().unwrap()
    }

    /// Number that an ignored test of this program prints within the limits.
    fn of_test(&self, group: Option<&TestCgroup>, test: &str) -> u64 {
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        let said = self.run(group, &[program, "--exact", test, "--ignored", "--nocapture"]);
        let number = said.split("available ").nth(1).unwrap().split_whitespace().next().unwrap();
        number.parse().unwrap()
    }

    /// Whether `check --for` promises so much.
    fn promises(&self, group: Option<&TestCgroup>, bytes: u64) -> bool {
        let bytes = bytes.to_string();
        let command = [PROGRAM, "check", "--for", &bytes];
        self.run(group, &command).starts_with("yes")
    }
}

/// A server of pools within the limits, ended when it is dropped.
struct PoolServer {
    dir: tempfile::TempDir,
    child: Child,
}

impl PoolServer {
    fn start(limits: &Limits, group: Option<&TestCgroup>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("pool.sock");
        let socket = socket.to_str().unwrap();
        let serve = [PROGRAM, "pool", "serve", "--budget", "1T", "--socket", socket];
        let child = limits.command(group, &serve).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { dir, child };
        mw_test::wait_until("an answer of the server", LIMIT, || server.does(&["list"]));
        server
    }

    fn does(&self, args: &[&str]) -> bool {
        let socket = self.dir.path().join("pool.sock");
        let mut command = Command::new(PROGRAM);
        let output = command.arg("pool").args(args).arg("--socket").arg(socket).output();
        output.unwrap().status.success()
    }

    fn serves(&self, bytes: u64) -> bool {
        self.does(&["create", "some", "--size", &bytes.to_string()])
            && self.does(&["remove", "some"])
    }
}

impl Drop for PoolServer {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// A limit of mapped memory leaves a program what it has not mapped itself: programs differ by so much.
const OF_PROGRAMS: u64 = 24 * MIB;

#[test]
fn twenty_limits_have_one_number_each() {
    if !mw_test::is_root() {
        return;
    }
    let _turn = mw_test::alone();
    let all = limits();
    assert_eq!(all.len(), 20);
    for limits in all {
        let group =
            match limits.cgroup_mib.map(|mib| TestCgroup::with_memory(mib * MIB)).transpose() {
                Ok(group) => group,
                Err(error) => return mw_test::skip(format!("no memory cgroup: {error}")),
            };
        let what = format!("{:?} MiB, '{}'", limits.cgroup_mib, limits.ulimit);
        let check = limits.of_check(group.as_ref());
        let segment = limits.of_test(group.as_ref(), "available_to_a_segment");
        let top = limits.of_test(group.as_ref(), "available_in_top");
        let slack = OF_PROGRAMS + check / SLACK_SHARE;
        assert!(check.abs_diff(segment) <= slack, "{what}: check {check}, segments {segment}");
        assert!(check.abs_diff(top) <= slack, "{what}: check {check}, top {top}");
        let pools = PoolServer::start(&limits, group.as_ref());
        assert!(pools.serves(check / 4), "{what}: a pool of a quarter of {check}");
        assert!(!pools.serves(check + slack), "{what}: a pool of more than {check}");
        assert!(pools.does(&["list"]), "{what}: the server was killed");
        drop(pools);
        assert!(limits.promises(group.as_ref(), check / 2), "{what}: half of {check}");
        assert!(!limits.promises(group.as_ref(), check + slack), "{what}: more than {check}");
    }
}
