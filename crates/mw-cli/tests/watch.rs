//! `memwright watch` with a real service, and what shows its recordings.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use mw_test::{ChildGuard, LoggedChild};
use rustix::process::Signal;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A recorder, and what it says line by line.
struct Watch {
    spoken: LoggedChild,
    recording: PathBuf,
}

impl Watch {
    fn start(dir: &Path, args: &[&str]) -> Self {
        Self::start_with(dir, args, &[])
    }

    fn start_with(dir: &Path, args: &[&str], environment: &[(&str, &Path)]) -> Self {
        let recording = dir.join("recording.db");
        let mut command = memwright();
        command.args(["watch", "--recording"]).arg(&recording).args(args);
        command.envs(environment.iter().copied());
        let watch = Self { spoken: LoggedChild::spawn(&mut command), recording };
        watch.line("recording to ");
        watch
    }

    /// The next line that has this in it.
    #[track_caller]
    fn line(&self, part: &str) -> String {
        self.spoken.line(part, PATIENCE)
    }

    /// Ends it as a service manager does; its exit code.
    fn end(mut self) -> Option<i32> {
        self.spoken.child.signal(Signal::TERM);
        self.spoken.child.0.wait().unwrap().code()
    }
}

fn memwright() -> Command {
    Command::new(env!("CARGO_BIN_EXE_memwright"))
}

fn show(args: &[&str], recording: &Path) -> Output {
    memwright().args(args).arg("--recording").arg(recording).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A Redis of our own that keeps nothing.
fn redis(dir: &Path) -> (ChildGuard, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // apt-get install redis-server
    let server = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    mw_test::wait_until("redis-server", PATIENCE, is_up);
    (ChildGuard(server), port)
}

fn seconds(count: u64) {
    std::thread::sleep(Duration::from_secs(count));
}

/// Promise (The recorder): A stopped service is an incident that is not attributed to memory, and names the stopped
/// process.
#[test]
fn a_stopped_service_is_an_incident_and_memory_is_not_to_blame() {
    let dir = TempDir::new().unwrap();
    let (server, port) = redis(dir.path());
    let probe = format!("cache=redis://127.0.0.1:{port}");
    let watch = Watch::start(dir.path(), &["--probe", &probe, "--limit", "400ms"]);
    seconds(3);
    server.signal(Signal::STOP);
    seconds(3);
    server.signal(Signal::CONT);
    watch.line("stall: cache exceeded its limit of 400 ms");
    // Other tests may have the machine short of memory meanwhile, which is an incident of its own.
    let provisional = watch.line(", open: cache stalled for");
    assert!(provisional.ends_with("(provisional)"), "{provisional}");
    let said = watch.line(": cache stalled for");
    let id = said.trim_start_matches("incident ").split(':').next().unwrap();
    assert!(said.contains("was stopped"), "{said}");
    assert!(said.contains("redis-server") && said.ends_with(&format!("memwright report {id}")));

    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&text(&show(&["incidents", "--json"], &watch.recording))).unwrap();
    let row = rows.iter().find(|row| row["id"].as_u64() == id.parse().ok()).unwrap();
    assert_eq!(row["cause"].as_str(), Some("stopped-process"));
    let lasted = row["ended_unix_ms"].as_u64().unwrap() - row["started_unix_ms"].as_u64().unwrap();
    assert!((1900..20_000).contains(&lasted), "{lasted} ms");
    let shown = text(&show(&["report", id], &watch.recording));
    assert_eq!(shown.lines().next(), row["verdict"].as_str());
    let page = dir.path().join("incident.html");
    let output = show(&["report", id, "-o", page.to_str().unwrap()], &watch.recording);
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read_to_string(page).unwrap().contains("redis-server"));
    let last = text(&show(&["report", "last"], &watch.recording));
    let missing = show(&["report", "700"], &watch.recording);
    assert_eq!(missing.status.code(), Some(2));
    let missing = String::from_utf8_lossy(&missing.stderr).into_owned();
    // All that there were by then.
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&text(&show(&["incidents", "--json"], &watch.recording))).unwrap();
    assert!(rows.iter().any(|row| row["verdict"].as_str() == last.lines().next()), "{last}");
    let says =
        |row: &serde_json::Value| missing.contains(&format!("it has incidents 1 to {}", row["id"]));
    assert!(rows.iter().any(says), "{missing}");
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_service_that_is_refused_is_an_incident_at_once() {
    let dir = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let probe = format!("db=tcp://127.0.0.1:{port}");
    let watch = Watch::start(dir.path(), &["--probe", &probe, "--interval", "200ms"]);
    seconds(2);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let said = watch.line("incident 1: ");
    assert!(said.contains("db") && said.contains("refused"), "{said}");
    drop(listener);
    watch.line("stall: db failed");
}

/// Promise (The recorder): A recorder that is killed loses at most three seconds, and the next one continues in the
/// same file.
#[test]
fn killed_it_loses_at_most_three_seconds() {
    let dir = TempDir::new().unwrap();
    let mut watch = Watch::start(dir.path(), &[]);
    seconds(6);
    let killed_unix_ms = jiff::Timestamp::now().as_millisecond() as u64;
    watch.spoken.child.0.kill().unwrap();
    watch.spoken.child.0.wait().unwrap();
    let recording = mw_record::Recording::open(&watch.recording).unwrap();
    let (first, last) = recording.range().unwrap().unwrap();
    assert!(last + 3000 >= killed_unix_ms, "{} ms lost", killed_unix_ms - last);
    let ticks = recording.ticks(first, last).unwrap();
    assert!(ticks.len() >= 3, "{}", ticks.len());
    let own = ticks.last().unwrap().recorder;
    assert!(own.cpu_us > 0 && own.resident_bytes > 0, "{own:?}");
    assert!(ticks.last().unwrap().canary.is_some());
    // The next one goes on in the same file.
    let watch = Watch::start(dir.path(), &[]);
    seconds(3);
    assert!(recording.range().unwrap().unwrap().1 > last);
    let second = memwright().args(["watch", "--recording"]).arg(&watch.recording).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && said.contains(&watch.spoken.child.0.id().to_string()),
        "{said}"
    );
    assert_eq!(watch.end(), Some(0));
}

/// Promise (The recorder): An invalid configuration leaves the recorder as it was, also one with which it cannot
/// start; a reload fails before and logs what has changed; the service manager is notified of its state.
#[test]
fn the_service_manager_is_told() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let config = dir.path().join("memwright.toml");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let write = |name: &str| {
        let probe =
            format!("[[watch.probe]]\nname = '{name}'\ntarget = 'tcp://127.0.0.1:{port}'\n");
        std::fs::write(&config, probe).unwrap();
    };
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    write("first");
    let told = |what: &str| {
        let mut buffer = [0; 1024];
        loop {
            let length = manager.recv(&mut buffer).unwrap();
            if String::from_utf8_lossy(&buffer[..length]).contains(what) {
                return;
            }
        }
    };
    let args = ["--config", config.to_str().unwrap()];
    let watch = Watch::start_with(dir.path(), &args, &[("NOTIFY_SOCKET", &socket)]);
    told("READY=1");
    told("WATCHDOG=1");
    write("second");
    watch.spoken.child.signal(Signal::HUP);
    told("RELOADING=1");
    let said = watch.line("configuration reloaded; recording to ");
    assert!(said.ends_with(&format!("watching second (tcp://127.0.0.1:{port})")), "{said}");
    told("STATUS=recording to ");
    // What was said before is not said again.
    watch.spoken.child.signal(Signal::HUP);
    let said = watch.spoken.lines_to("configuration reloaded", PATIENCE);
    let is_repeated =
        |line: &String| ["not available", "recording to"].iter().any(|part| line.contains(part));
    assert!(!said.iter().any(is_repeated), "{said:#?}");
    told("READY=1");
    std::fs::write(&config, "[watch]\nlimit = 'soon'\n").unwrap();
    watch.spoken.child.signal(Signal::HUP);
    let said = watch.line("configuration not reloaded");
    assert!(said.contains("line 2") && said.contains("invalid duration 'soon'"), "{said}");
    told("STATUS=configuration not reloaded: ");
    watch.spoken.child.signal(Signal::TERM);
    told("STOPPING=1");
}

#[test]
fn a_recorder_that_does_not_start_again_keeps_its_settings() {
    let dir = TempDir::new().unwrap();
    let (config, recording) = (dir.path().join("memwright.toml"), dir.path().join("recording.db"));
    let write = |recording: &Path| {
        let text = format!("[watch]\nrecording = '{}'\n", recording.display());
        std::fs::write(&config, text).unwrap();
    };
    write(&recording);
    let mut spoken = LoggedChild::spawn(memwright().args(["watch", "--config"]).arg(&config));
    let started = format!("recording to {}", recording.display());
    spoken.line(&started, PATIENCE);
    // Valid, but nothing can be written there.
    write(Path::new("/proc/nowhere/recording.db"));
    spoken.child.signal(Signal::HUP);
    let said = spoken.lines_to("configuration not reloaded: /proc/nowhere/", PATIENCE);
    assert!(said.iter().any(|line| line.contains(&started)), "{said:#?}");
    spoken.child.signal(Signal::TERM);
    assert_eq!(spoken.child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_configuration_is_checked_before_a_reload() {
    let dir = TempDir::new().unwrap();
    let config = dir.path().join("memwright.toml");
    let check = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let output =
            memwright().args(["watch", "--check-config", "--config"]).arg(&config).output();
        let output = output.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let probe = "[[watch.probe]]\nname = 'web'\ntarget = 'tcp://127.0.0.1:9'\n";
    let (code, said) = check(probe);
    assert_eq!(code, Some(0), "{said}");
    let valid =
        "valid: recording to /var/lib/memwright/recording.db; watching web (tcp://127.0.0.1:9)\n";
    assert_eq!(said, valid);
    for (text, why) in [
        ("[watch]\nlimit = 'soon'\n", "invalid duration 'soon'"),
        (&probe.repeat(2), "duplicate probe name 'web'"),
        ("[[notify]]\njournal = true\ncause = ['x']\n", "no cause 'x'"),
        (
            "[watch]\nlisten = '127.0.0.1:0'\nweb-config-file = '/nowhere/web.yml'\n",
            "/nowhere/web.yml",
        ),
    ] {
        let (code, said) = check(text);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn who_may_not_write_the_usual_recording_is_told_what_to_do() {
    const NOBODY: u32 = 65_534;
    // Where the program was built others may not look.
    let dir = TempDir::new().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("memwright");
    std::fs::copy(env!("CARGO_BIN_EXE_memwright"), &program).unwrap();
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.arg("watch").current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("choose another file with --recording; run: sudo memwright watch"),
        "{said}"
    );
}

/// Promise (The recorder): Evidence is taken on request of root or the recorder's user, beside stalls and without
/// hiding one; without a recorder the command says how to start one.
#[test]
fn evidence_is_taken_on_request() {
    let dir = TempDir::new().unwrap();
    let unrecorded = show(&["watch", "--now"], &dir.path().join("recording.db"));
    assert_eq!(unrecorded.status.code(), Some(3));
    let said = String::from_utf8_lossy(&unrecorded.stderr).into_owned();
    assert!(said.contains("no recorder") && said.contains("systemctl start memwright"), "{said}");

    let watch = Watch::start(dir.path(), &["--no-canary"]);
    let socket = dir.path().join("recording.db-control");
    mw_test::wait_until("the control socket", PATIENCE, || socket.exists());
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let asked = show(&["watch", "--now"], &watch.recording);
    let line = text(&asked);
    let id = line.trim_start_matches("incident ").split(':').next().unwrap().to_owned();
    assert!(line.contains("evidence on request"), "{line}");
    assert!(line.trim_end().ends_with(&format!("memwright report {id}")), "{line}");
    let report = text(&show(&["report", &id, "--json"], &watch.recording));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["trigger"]["kind"], "requested");
    assert_eq!(watch.end(), Some(0));
    assert!(!socket.exists(), "it is removed at the end");
}

#[test]
fn what_cannot_be_watched_is_said() {
    let check = |args: &[&str], code: i32, part: &str| {
        let output = memwright().arg("watch").args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    };
    check(&["--probe", "gopher://old"], 2, "gopher");
    check(&["--probe", "a=tcp://h:1", "--probe", "a=tcp://h:2"], 2, "duplicate probe name 'a'");
    check(&["--limit", "soon"], 2, "invalid duration 'soon'");
    check(&["--recording", "/proc/recording.db"], 3, "/proc/recording.db");
    let missing = show(&["incidents"], Path::new("/nonexistent/recording.db"));
    assert_eq!(missing.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent/recording.db"));
}
