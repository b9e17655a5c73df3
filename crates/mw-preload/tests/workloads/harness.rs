//! The environment of a workload: its directory, the library if any, and what is recorded.

use super::RunOption;
use crate::common::{self, calls, run, text};
use mw_segment::{Options, PageSize, SegmentKind};
use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit of a service's start or recovery on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Debian's user nobody, for programs that refuse to run as root.
pub(crate) const NOBODY: u32 = 65534;

/// More than a program uses in addition to the configured size.
const EXTRA_MIB: usize = 1024;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// For a test, with the smallest threshold.
    Small,
    /// With so many MiB of data in the program's memory, and the default threshold.
    Large(usize),
}

/// The outcome of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// The recorded output: the same with and without the library.
    pub(crate) results: Vec<String>,
    /// The durations of its parts.
    pub(crate) times: Vec<(&'static str, Duration)>,
    /// Number of calls that the library reported as done in parallel.
    pub(crate) calls: u64,
    /// The version of the program.
    pub(crate) version: String,
}

pub(crate) struct Harness {
    dir: TempDir,
    scale: Scale,
    with: Option<&'static [RunOption]>,
    /// The name of a pool, and the socket of its server.
    pool: Option<(&'static str, PathBuf)>,
    outcome: RefCell<Outcome>,
}

impl Harness {
    /// With the library if options are given.
    pub(crate) fn new(scale: Scale, with: Option<&'static [RunOption]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let owner = Some(rustix::fs::Uid::from_raw(NOBODY));
            rustix::fs::chown(dir.path(), owner, None).unwrap();
        }
        // Other users may not have access to the directory of the library.
        let library = dir.path().join("library.so");
        fs::copy(common::library(), &library).unwrap();
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
        let harness = Self { dir, scale, with, pool: None, outcome: RefCell::default() };
        let errors = File::create(harness.errors_path()).unwrap();
        errors.set_permissions(fs::Permissions::from_mode(0o666)).unwrap();
        harness
    }

    /// With large shared memory only from a pool.
    pub(crate) fn pooled(self, pool: &'static str, socket: &Path) -> Self {
        Self { pool: Some((pool, socket.to_owned())), ..self }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// `small` in a test; `large`, by the configured MiB, in a benchmark.
    pub(crate) fn scaled(&self, small: usize, large: impl Fn(usize) -> usize) -> usize {
        match self.scale {
            Scale::Small => small,
            Scale::Large(mib) => large(mib),
        }
    }

    /// Before a large program starts that is timed: touches and frees as much memory, so that the
    /// hypervisor has backed it.
    pub(crate) fn touch_memory(&self) {
        if let Scale::Large(mib) = self.scale {
            // The kernel takes base pages and huge pages from different blocks.
            for page in [PageSize::Base, PageSize::Thp] {
                let all =
                    Options::new((mib + EXTRA_MIB) << 20).kind(SegmentKind::Anon).page_size(page);
                drop(all.create());
            }
        }
    }

    /// Runs a program without the library.
    pub(crate) fn plain_command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("LC_ALL", "C").current_dir(self.dir());
        command
    }

    /// Runs the program under test, with the library if requested; its standard error is recorded.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.plain_command(program);
        let errors = File::options().append(true).open(self.errors_path()).unwrap();
        command.stderr(errors);
        if let Some(options) = self.with {
            if self.scale == Scale::Small {
                common::preload(&mut command);
            }
            command.env("LD_PRELOAD", self.path("library.so")).env("MEMWRIGHT_STATS", "1");
            command.envs(options.iter().map(|option| option.variable));
            if let Some((pool, socket)) = &self.pool {
                command.env("MEMWRIGHT_POOL", pool).env("MEMWRIGHT_POOL_SOCKET", socket);
                command.env("MEMWRIGHT_POOL_STRICT", "1");
            }
        }
        command
    }

    fn errors_path(&self) -> PathBuf {
        self.path("errors")
    }

    /// Standard error without the library's own lines.
    pub(crate) fn errors(&self) -> String {
        let text = String::from_utf8_lossy(&fs::read(self.errors_path()).unwrap()).into_owned();
        text.lines().filter(|line| !line.starts_with("memwright[")).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn record(&self, name: &str, result: impl std::fmt::Display) {
        let line = format!("{name}: {}", result.to_string().trim());
        self.outcome.borrow_mut().results.push(line);
    }

    /// Records the first line of the program's version output.
    pub(crate) fn version(&self, program: impl AsRef<Path>, argument: &str) {
        let output = run(self.plain_command(program).arg(argument));
        let printed = text(output.clone()) + &String::from_utf8_lossy(&output.stderr);
        self.outcome.borrow_mut().version = printed.lines().next().unwrap_or_default().to_owned();
    }

    pub(crate) fn time<T>(&self, part: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.outcome.borrow_mut().times.push((part, start.elapsed()));
        done
    }

    pub(crate) fn outcome(self) -> Outcome {
        let calls = calls(&fs::read(self.errors_path()).unwrap());
        Outcome { calls, ..self.outcome.into_inner() }
    }
}

/// Makes a command run as an unprivileged user.
pub(crate) fn unprivileged(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting for {what}");
        // Other programs and the kernel offer no event for these conditions.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A service; it is killed if the workload fails.
pub(crate) struct Service(Child);

impl Service {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Kills it and its children, as the OOM killer does.
    pub(crate) fn kill(mut self) {
        let children = self.children();
        self.0.kill().unwrap();
        for child in children {
            // It may have ended in the meantime.
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
            wait_until("the end of a child", || rustix::process::test_kill_process(child).is_err());
        }
        self.0.wait().unwrap();
    }

    pub(crate) fn children(&self) -> Vec<rustix::process::Pid> {
        let id = self.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let numbers = children.split_whitespace().flat_map(str::parse);
        numbers.filter_map(rustix::process::Pid::from_raw).collect()
    }

    /// Waits for its end after it was told to stop.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for child in self.children() {
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
