//! `memwright killed`: real signals while a recorder runs, and what logs tell without one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use mw_test::{ChildGuard, LoggedChild};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65534;

fn memwright() -> Command {
    Command::new(env!("CARGO_BIN_EXE_memwright"))
}

/// A recorder of kills; none where this machine does not let it see signals.
struct Recorder {
    child: LoggedChild,
    recording: PathBuf,
}

impl Recorder {
    #[track_caller]
    fn start(dir: &Path, args: &[&str]) -> Option<Self> {
        if !mw_test::is_root() {
            mw_test::skip("needs root");
            return None;
        }
        let recording = dir.join("recording.db");
        let mut command = memwright();
        command.args(["watch", "--no-canary", "--no-profile", "--recording"]).arg(&recording);
        let child = LoggedChild::spawn(command.args(args));
        child.line("recording to ", PATIENCE);
        // The thread of kills comes after that line.
        std::thread::sleep(Duration::from_secs(1));
        Some(Self { child, recording })
    }

    fn killed(&self, process: &str) -> Value {
        let mut command = memwright();
        command.args(["killed", process, "--json", "--recording"]).arg(&self.recording);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The last kill of a process, once it is recorded.
    #[track_caller]
    fn kill_of(&self, pid: u32) -> (String, Value) {
        let found = || {
            let list = self.killed(&pid.to_string());
            let last = list["kills"].as_array().unwrap().last()?.clone();
            Some((list["summary"].as_str().unwrap().to_owned(), last))
        };
        mw_test::wait_until("the kill is recorded", PATIENCE, || found().is_some());
        found().unwrap()
    }

    fn end(mut self) {
        self.child.child.signal(Signal::TERM);
        assert!(self.child.child.0.wait().unwrap().success());
    }
}

/// A process that does nothing, in a session of its own.
fn idle(user: u32) -> ChildGuard {
    let mut command = Command::new("sleep");
    ChildGuard(command.arg("1000").uid(user).stdout(Stdio::null()).spawn().unwrap())
}

/// On busy CPUs a sender may end before the recorder runs; then it says so.
fn is_gone(summary: &str, kill: &Value) -> bool {
    println!("the sender had ended: {summary}");
    let is_said = kill["unseen"].to_string().contains("the sender");
    summary.contains(", which ended before it could be read") && is_said
}

#[track_caller]
fn assert_told(summary: &str, begin: &str, end: &str) {
    assert!(summary.starts_with(begin) && summary.ends_with(end), "{summary}");
}

/// Promise (Kills): Processes that are killed have their killer: another user, kill(1), a timeout, the limit of CPU time,
/// the end of a PID namespace.
#[test]
fn killers_are_named() {
    let dir = TempDir::new().unwrap();
    let Some(recorder) = Recorder::start(dir.path(), &[]) else { return };
    // By this test, which goes on.
    let target = idle(NOBODY);
    kill_process(Pid::from_child(&target.0), Signal::KILL).unwrap();
    let pid = target.0.id();
    let (summary, kill) = recorder.kill_of(pid);
    assert_told(&summary, &format!("sleep (pid {pid}) was killed by killed-"), "");
    assert_eq!((&kill["killer"], &kill["victim"]["uid"]), (&"process".into(), &NOBODY.into()));
    assert_eq!((&kill["sender"]["uid"], &kill["signal"]), (&0.into(), &"kill".into()), "{kill}");
    // kill(1) of procps, which ends at once, and of a shell, which does not.
    let target = idle(NOBODY);
    let pid = target.0.id();
    assert!(Command::new("/bin/kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    let (summary, kill) = recorder.kill_of(pid);
    let is_known = summary.contains(" was killed by kill (pid ");
    assert!(is_known || is_gone(&summary, &kill), "{summary}");
    let target = idle(NOBODY);
    let pid = target.0.id();
    let line = format!("kill -9 {pid}; sleep 1");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    assert_told(&recorder.kill_of(pid).0, &format!("sleep (pid {pid}) was killed by sh (pid "), "");
    // timeout(1)
    let mut timeout = Command::new("timeout");
    let child = timeout.args(["-s", "KILL", "0.3", "sh", "-c", "echo $$; exec sleep 1000"]);
    let output = child.stdout(Stdio::piped()).output().unwrap();
    let pid: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let (summary, kill) = recorder.kill_of(pid);
    let is_known = summary.contains(" was killed by timeout (pid ");
    assert!(is_known || is_gone(&summary, &kill), "{summary}");
    // RLIMIT_CPU
    let line = "ulimit -t 1; exec sh -c 'while :; do :; done'";
    let mut busy = ChildGuard(Command::new("sh").args(["-c", line]).spawn().unwrap());
    let (summary, kill) = recorder.kill_of(busy.0.id());
    assert_told(
        &summary,
        "sh (pid ",
        ": it had used 1 s of CPU time, as much as it may (RLIMIT_CPU)",
    );
    assert_eq!(kill["killer"], "kernel");
    busy.0.wait().unwrap();
    recorder.end();
}

/// Promise (Kills): A process that ends with its PID namespace was killed for that, and not by the OOM killer.
#[test]
fn the_end_of_a_namespace_is_no_oom() {
    let dir = TempDir::new().unwrap();
    let Some(recorder) = Recorder::start(dir.path(), &[]) else { return };
    let line = "sleep 1000 & readlink /proc/self >/dev/null; sleep 1";
    let mut unshare = Command::new("unshare");
    let child =
        unshare.args(["--pid", "--fork", "--kill-child", "sh", "-c", line]).spawn().unwrap();
    let mut child = ChildGuard(child);
    child.0.wait().unwrap();
    let found = || {
        let list = recorder.killed("sleep");
        let kills = list["kills"].as_array().unwrap().clone();
        kills.into_iter().find(|kill| kill["killer"] == "kernel")
    };
    mw_test::wait_until("the kill is recorded", PATIENCE, || found().is_some());
    let kill = found().unwrap();
    // On busy CPUs the first process may be gone before the recorder runs.
    let is_unread =
        kill["unseen"].to_string().contains("the sender") && kill["reason"] == "unknown";
    assert!(kill["reason"] == "namespace-ended" || is_unread, "{kill}");
    recorder.end();
}

/// A memory cgroup of version 1 or 2 with a limit.
fn limited_group(bytes: u64) -> Option<PathBuf> {
    let (dir, file) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
        true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        false => ("/sys/fs/cgroup", "memory.max"),
    };
    let group = Path::new(dir).join(format!("memwright-killed-{}", std::process::id()));
    std::fs::create_dir(&group).ok()?;
    std::fs::write(group.join(file), bytes.to_string()).ok().map(|()| group)
}

/// Promise (Kills): A kill of the kernel's OOM killer has the limit that was met.
#[test]
fn the_oom_killer_is_named_with_the_limit() {
    let dir = TempDir::new().unwrap();
    let Some(recorder) = Recorder::start(dir.path(), &[]) else { return };
    let Some(group) = limited_group(32 << 20) else {
        return mw_test::skip("no memory cgroup can be made");
    };
    let line = format!("echo $$ > {}/cgroup.procs; exec tail /dev/zero", group.display());
    let mut child = ChildGuard(Command::new("sh").args(["-c", &line]).spawn().unwrap());
    child.0.wait().unwrap();
    let (summary, kill) = recorder.kill_of(child.0.id());
    std::fs::remove_dir(&group).unwrap();
    let name = group.file_name().unwrap().to_str().unwrap();
    let begin = format!("tail (pid {}) was killed by the kernel's OOM killer at ", child.0.id());
    assert_told(&summary, &begin, &format!(": cgroup /{name} was at its memory limit"));
    assert_eq!(kill["killer"], "oom-killer");
    recorder.end();
}

/// Promise (Kills): A flood of a user's own kills is not recorded, and a kill by root meanwhile is.
#[test]
fn a_flood_of_a_user_hides_nothing() {
    let dir = TempDir::new().unwrap();
    let Some(recorder) = Recorder::start(dir.path(), &[]) else { return };
    let line = "while :; do sleep 100 & kill -9 $!; wait $! 2>/dev/null; done";
    let mut flood = Command::new("sh");
    let flood = flood.args(["-c", line]).uid(NOBODY).stderr(Stdio::null()).spawn().unwrap();
    let flood = ChildGuard(flood);
    std::thread::sleep(Duration::from_secs(2));
    let target = idle(NOBODY);
    kill_process(Pid::from_child(&target.0), Signal::KILL).unwrap();
    let pid = target.0.id();
    let (_, kill) = recorder.kill_of(pid);
    assert_eq!(kill["sender"]["uid"], 0, "{kill}");
    drop(flood);
    let list = recorder.killed("sleep");
    let kills = list["kills"].as_array().unwrap();
    let of_flood = kills.iter().filter(|kill| kill["sender"]["uid"] == NOBODY).count();
    assert_eq!(of_flood, 0, "{list}");
    recorder.end();
}

/// Promise (Kills): Without a recorder, the journal tells who killed a process and why.
#[test]
fn without_a_recorder_logs_tell() {
    let dir = TempDir::new().unwrap();
    let journalctl = dir.path().join("journalctl");
    let entry = |seconds: u32, unit: &str, pid: u32, message: &str| {
        let message = serde_json::Value::from(message);
        format!(
            "{{\"__REALTIME_TIMESTAMP\":\"17000000{seconds:02}000000\",\"MESSAGE\":{message},\
             \"_PID\":\"{pid}\",\"_SYSTEMD_UNIT\":\"{unit}\",\"_TRANSPORT\":\"journal\"}}\n"
        )
    };
    let pressure = "Killed /user.slice/a.scope due to memory pressure for /user.slice being 70.24% > 50.00% for > 20s \
                    with reclaim activity";
    let forged = "sending SIGKILL to process 99 uid 0 \"db\": badness 1, VmRSS 1 MiB";
    let lines = [
        entry(
            9,
            "init.scope",
            1,
            "db.service: Killing process 812 (postgres) with signal SIGKILL.",
        ),
        entry(8, "init.scope", 1, "db.service: State 'stop-sigterm' timed out. Killing."),
        entry(5, "systemd-oomd.service", 70, pressure),
        // The unit is what journald says, not the text.
        entry(4, "evil.service", 71, forged),
    ];
    std::fs::write(dir.path().join("lines"), lines.concat()).unwrap();
    std::fs::write(&journalctl, format!("#!/bin/sh\ncat {}/lines\n", dir.path().display()))
        .unwrap();
    std::fs::set_permissions(&journalctl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = dir.path().join("memwright.toml");
    std::fs::write(&config, format!("state-dir = '{}'\n", dir.path().display())).unwrap();
    let killed = |args: &[&str]| {
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let mut command = memwright();
        command.arg("--config").arg(&config).args(["killed", "--since", "2023-11-14"]).args(args);
        let output = command.env("PATH", path).env("TZ", "UTC").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = killed(&["812"]);
    let first = "postgres (pid 812) was killed by systemd at 2023-11-14 22:13:29: db.service did not stop in time\n";
    assert!(text.starts_with(first), "{text}");
    let text = killed(&["a.scope"]);
    let first = "a.scope was killed by systemd-oomd at 2023-11-14 22:13:25: memory pressure of user.slice was above its limit\n";
    assert!(text.starts_with(first), "{text}");
    assert!(killed(&["99"]).starts_with("no kill of 99 is known since 2023-11-14 00:00:00\n"));
}
