//! Beside a file system that does not respond: nothing waits for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use mw_record::Recording;
use mw_test::{ChildGuard, HUNG_FILE, HungMount, LoggedChild, own_mounts};
use rustix::mount::{MountFlags, mount};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer; far less than the file system hangs.
const PATIENCE: Duration = Duration::from_secs(55);

/// The longest that a recorder may take to end, beside builds.
const END: Duration = Duration::from_secs(8);

/// Waits for the end of a child; whether it came in time.
fn ends_within(child: &mut ChildGuard, at_most: Duration) -> bool {
    mw_test::exit_within(&mut child.0, at_most).unwrap().is_some()
}

fn memwright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.args(args).stdout(Stdio::null());
    command
}

/// A child of one test would have the other's open files, and hang in closing them.
static ALONE: Mutex<()> = Mutex::new(());

/// A tmpfs that is covered by what hangs, and one that is not. The file system is dropped first: what
/// hangs is let go.
struct Machine {
    hung: HungMount,
    covered: PathBuf,
    seen: PathBuf,
    dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = TempDir::new().unwrap();
        own_mounts();
        let [covered, seen] = ["covered", "seen"].map(|name| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let size = Some(c"size=1m");
            mount("none", &path, "tmpfs", MountFlags::empty(), size).unwrap();
            path
        });
        Self { hung: HungMount::at(&covered), covered, seen, dir, _alone: alone }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self) -> File {
        File::open(self.covered.join(HUNG_FILE)).unwrap()
    }
}

/// Nor for a process that waits for it.
///
/// Promise (Checking): Nothing waits for a file system that does not respond, or for a process that waits for one;
/// the recorder continues, names the process and stops on SIGTERM.
#[test]
fn check_and_capture_do_not_wait_for_a_hung_file_system() {
    let machine = Machine::new();
    let capture = machine.path("capture.tar.zst");
    let commands = [
        vec!["check"],
        vec!["capture", "-o", capture.to_str().unwrap()],
        vec!["explain", "--all-memory"],
    ];
    // Started before: what is started later has the file open, and hangs in closing it.
    let mut waiting = commands.map(|args| (waiting(&args), args));
    let hanging = Hanging::new(machine);
    for (child, args) in &mut waiting {
        child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(ends_within(child, PATIENCE), "{args:?}");
    }
    let machine = &hanging.machine;
    let tree = mw_collect::capture::read(std::fs::File::open(&capture).unwrap(), &capture);
    let usage = String::from_utf8(tree.unwrap().read("/memwright/statfs").unwrap()).unwrap();
    let of = |path: &Path| usage.lines().find(|line| line.starts_with(path.to_str().unwrap()));
    assert!(of(&machine.seen).unwrap().contains(" 1048576 "), "{usage}");
    assert!(of(&machine.covered).unwrap().contains(" 0 0 "), "{usage}");
}

/// As lxcfs that has hung, in a container.
#[test]
fn a_kernel_file_that_does_not_respond_could_not_be_checked() {
    let machine = Machine::new();
    let meminfo = Path::new("/proc/meminfo");
    rustix::mount::mount_bind(machine.covered.join(HUNG_FILE), meminfo).unwrap();
    let commands = ["exec \"$0\" check", "exec \"$0\" check --format nagios", "exec \"$0\" fix"];
    let program = env!("CARGO_BIN_EXE_memwright");
    let mut children = commands.map(|script| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("read go; {script}"), program]).stdin(Stdio::piped());
        ChildGuard(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    machine.hung.hang();
    for child in &mut children {
        child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    for (child, script) in children.iter_mut().zip(commands) {
        assert!(ends_within(child, PATIENCE), "{script}");
        assert_eq!(child.0.wait().unwrap().code(), Some(3), "{script}");
        let mut said = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let (start, why) = said.split_once("could not be checked: ").expect(&said);
        assert!(why.starts_with("no response from /proc/meminfo within 5 s"), "{said}");
        let nagios = script.contains("nagios");
        assert_eq!(start, if nagios { "MEMWRIGHT UNKNOWN - " } else { "memwright: " }, "{said}");
    }
    drop(machine);
    rustix::mount::unmount(meminfo, rustix::mount::UnmountFlags::DETACH).unwrap();
}

/// A command that begins when it is told to.
fn waiting(args: &[&str]) -> ChildGuard {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read go; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_memwright")]).args(args);
    ChildGuard(shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
}

/// Writes to a file, so that the recorder wants to know which.
struct Flood(Arc<AtomicBool>);

impl Flood {
    fn start(path: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let block = vec![0; 1 << 20];
            while !stopped.load(Ordering::Relaxed) {
                let mut file = File::create(&path).unwrap();
                (0..32).for_each(|_| file.write_all(&block).unwrap());
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Self(stop)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A process with a file of the hung file system, and one that is stuck in closing such a file. What
/// hangs is let go first: closing would wait for it.
struct Hanging {
    machine: Machine,
    _open: File,
    stuck: ChildGuard,
}

impl Hanging {
    fn new(machine: Machine) -> Self {
        let open = machine.file();
        machine.hung.hang();
        // Its execve(2) closes the file, and has a lock meanwhile that reading some files of /proc wants.
        let stuck = ChildGuard(Command::new("sleep").arg("1000").spawn().unwrap());
        Self { machine, _open: open, stuck }
    }
}

/// It samples, looks at tasks whose files in /proc do not answer, names the files of a process that
/// has one of the hung file system open, explains, and ends.
#[test]
fn a_recorder_continues_beside_a_hung_file_system() {
    let machine = Machine::new();
    let (recording, slow) = (machine.path("recording.db"), machine.path("slow"));
    let probe = format!("s=exec:sh -c '[ ! -e {} ] || sleep 4'", slow.display());
    let args = ["watch", "--no-canary", "--limit", "2s", "--probe", &probe, "--recording"];
    let mut recorder = LoggedChild::spawn(memwright(&args).arg(&recording));
    recorder.line("recording to ", PATIENCE);
    let mut hanging = Hanging::new(machine);
    let flood = Flood::start(hanging.machine.path("flood"));
    std::thread::sleep(Duration::from_secs(3));
    File::create(&slow).unwrap();
    recorder.line("stall: ", PATIENCE);
    std::fs::remove_file(&slow).unwrap();
    let begun = now_ms();
    let line = recorder.line("incident 1: ", PATIENCE);
    drop(flood);
    recorder.child.signal(Signal::TERM);
    assert!(ends_within(&mut recorder.child, END), "after {line:?}");
    assert!(hanging.stuck.0.try_wait().unwrap().is_none());
    let recorded = Recording::open(&recording).unwrap();
    let incident = recorded.incident(1).unwrap().unwrap();
    let unseen = format!("{:?}", incident.unseen);
    let process = format!("/proc/PID of process {}", hanging.stuck.0.id());
    assert!(unseen.contains(&process), "{unseen}");
    let rows = recorded.table(begun - 3000, begun + 3000).unwrap().at_unix_ms.len();
    assert!(rows >= 4, "{rows} rows of 6 seconds");
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}
