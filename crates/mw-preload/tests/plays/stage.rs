//! Where a program is played: its folder, the library or none, and what is noted of it.

use super::RunOption;
use crate::common::{self, calls, run, text};
use mw_segment::{Kind, Options, PageSize};
use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a service may take to start or to come back on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// Debian's user without a name, for programs that refuse to be root.
pub(crate) const NOBODY: u32 = 65534;

/// More than a program holds beside what it is told to.
const BESIDE_MIB: usize = 1024;

/// How large it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// For a test: nearly everything is large for the library.
    Small,
    /// With so many MiB of what the program holds in memory, and the library as it comes.
    Large(usize),
}

/// What came of a play.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// What the program said: the same with and without the library.
    pub(crate) said: Vec<String>,
    /// How long its parts took.
    pub(crate) times: Vec<(&'static str, Duration)>,
    /// How many calls the library did in parallel.
    pub(crate) calls: u64,
    /// What was played.
    pub(crate) version: String,
}

pub(crate) struct Stage {
    dir: TempDir,
    scale: Scale,
    with: Option<&'static [RunOption]>,
    /// The name of a pool, and where its server is.
    pool: Option<(&'static str, PathBuf)>,
    outcome: RefCell<Outcome>,
}

impl Stage {
    /// With the library where options are given.
    pub(crate) fn new(scale: Scale, with: Option<&'static [RunOption]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let owner = Some(rustix::fs::Uid::from_raw(NOBODY));
            rustix::fs::chown(dir.path(), owner, None).unwrap();
        }
        // The library may lie where others may not look.
        let library = dir.path().join("library.so");
        fs::copy(common::library(), &library).unwrap();
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
        let stage = Self { dir, scale, with, pool: None, outcome: RefCell::default() };
        let errors = File::create(stage.errors()).unwrap();
        errors.set_permissions(fs::Permissions::from_mode(0o666)).unwrap();
        stage
    }

    /// With large shared memory from a pool or not at all.
    pub(crate) fn pooled(self, pool: &'static str, socket: &Path) -> Self {
        Self { pool: Some((pool, socket.to_owned())), ..self }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// The smaller number in a test, the other in a table.
    pub(crate) fn sized(&self, small: usize, large: impl Fn(usize) -> usize) -> usize {
        match self.scale {
            Scale::Small => small,
            Scale::Large(mib) => large(mib),
        }
    }

    /// Before something large starts that is timed: touches as much memory and gives it back, so that
    /// it meets none that a hypervisor has to find first.
    pub(crate) fn warm_up(&self) {
        if let Scale::Large(mib) = self.scale {
            // Small pages are taken from other blocks of memory than large ones.
            for page in [PageSize::Base, PageSize::Thp] {
                let all = Options::new((mib + BESIDE_MIB) << 20).kind(Kind::Anon).page_size(page);
                drop(all.create());
            }
        }
    }

    /// What runs `program` as it is.
    pub(crate) fn plain(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("LC_ALL", "C").current_dir(self.dir());
        command
    }

    /// What runs the program that is played: with the library where that is wanted, and with what it
    /// says on standard error kept.
    pub(crate) fn played(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.plain(program);
        let errors = File::options().append(true).open(self.errors()).unwrap();
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

    fn errors(&self) -> PathBuf {
        self.path("errors")
    }

    /// What was said on standard error but for the library's own.
    pub(crate) fn complaints(&self) -> String {
        let text = String::from_utf8_lossy(&fs::read(self.errors()).unwrap()).into_owned();
        text.lines().filter(|line| !line.starts_with("memwright[")).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn say(&self, what: &str, said: impl std::fmt::Display) {
        self.outcome.borrow_mut().said.push(format!("{what}: {}", said.to_string().trim()));
    }

    /// Notes which version it is, by the first line of what the program prints of it.
    pub(crate) fn version(&self, program: impl AsRef<Path>, argument: &str) {
        let output = run(self.plain(program).arg(argument));
        let said = text(output.clone()) + &String::from_utf8_lossy(&output.stderr);
        self.outcome.borrow_mut().version = said.lines().next().unwrap_or_default().to_owned();
    }

    pub(crate) fn timed<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.outcome.borrow_mut().times.push((what, start.elapsed()));
        done
    }

    pub(crate) fn outcome(self) -> Outcome {
        let calls = calls(&fs::read(self.errors()).unwrap());
        Outcome { calls, ..self.outcome.into_inner() }
    }
}

/// Has a command run as who is not root.
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
        assert!(start.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A service; what is left of it when a play fails is ended.
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

    /// Ends it and its children at once, as the OOM killer would.
    pub(crate) fn kill(mut self) {
        let children = self.children();
        self.0.kill().unwrap();
        for child in children {
            // One that has ended meanwhile is no matter.
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

    /// Waits for one that was asked to stop.
    pub(crate) fn ended(mut self) -> ExitStatus {
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
