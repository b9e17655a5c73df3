//! Real servers, each with data and port of its own, gone with the test.

use crate::{answers, start, taken, wait};
use mw_probe::Prober;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to end when it is asked to.
const END: Duration = Duration::from_secs(10);

/// A server that runs.
pub(crate) struct Server {
    process: Child,
    pub(crate) folder: TempDir,
    end: Signal,
}

/// The program, or what to install.
pub(crate) fn program(paths: &[&str], package: &str) -> PathBuf {
    let found = paths.iter().map(PathBuf::from).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{paths:?} is not here: apt-get install {package}"))
}

/// The numbers of a user and its group, when this is root and servers refuse to run as such.
fn ids(user: &str) -> Option<[u32; 2]> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with(&format!("{user}:"))).unwrap();
    let mut fields = line.split(':').skip(2).map(|id| id.parse().unwrap());
    Some([fields.next().unwrap(), fields.next().unwrap()])
}

/// A directory that `user` owns.
pub(crate) fn folder(user: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    if let Some([user, group]) = ids(user) {
        std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
    }
    folder
}

/// A command as `user`, and one that does not outlive this process.
pub(crate) fn command(user: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if let Some([user, group]) = ids(user) {
        let as_user = [format!("--reuid={user}"), format!("--regid={group}")];
        command.args(as_user).arg("--clear-groups");
    }
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).current_dir("/");
    command
}

pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs a command to its end.
pub(crate) fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said} {complained}");
    said
}

impl Server {
    pub(crate) fn start(command: &mut Command, folder: TempDir, end: Signal) -> Self {
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self { process: command.spawn().unwrap(), folder, end }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A probe of it that answers: the server is up.
    pub(crate) fn probe(&self, target: &str) -> Prober {
        let prober = start(target, 2_000);
        let begun = Instant::now();
        while prober.last().is_none_or(|last| last.failed) {
            let said = prober.last_failure();
            assert!(begun.elapsed() < Duration::from_secs(60), "{said:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        taken(&prober);
        prober
    }

    /// The server's process and its children.
    fn processes(&self) -> Vec<Pid> {
        let own = i32::try_from(self.process.id()).unwrap();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let children = all.filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent: i32 = stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?;
            (parent == own).then(|| entry.file_name().to_str()?.parse().ok()).flatten()
        });
        children.chain([own]).filter_map(Pid::from_raw).collect()
    }

    #[cfg(feature = "postgres")]
    /// Signals its children whose command line says `what`.
    pub(crate) fn signal_children(&self, what: &str, signal: Signal) -> usize {
        let says = |pid: &Pid| {
            let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            String::from_utf8_lossy(&line.unwrap_or_default()).contains(what)
        };
        let children: Vec<Pid> = self.processes().into_iter().filter(says).collect();
        children.iter().filter(|pid| kill_process(**pid, signal).is_ok()).count()
    }

    fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops the server: the probe says so while it waits, then that the time was up; and it
    /// recovers when the server goes on.
    pub(crate) fn stall(&self, prober: &Prober) {
        answers(prober);
        self.signal(Signal::STOP);
        let limit = prober.spec().limit;
        let under_way = wait("the limit to be passed", || {
            prober.under_way().filter(|probe| probe.elapsed > 4 * limit)
        });
        assert!(under_way.began_unix_ms > 0);
        assert!(taken(prober).worst_us > 1_000 * 50);
        let last = wait("a time-out", || prober.last().filter(|last| last.failed));
        assert!(last.elapsed >= prober.spec().timeout);
        let said = prober.last_failure().unwrap().text;
        assert!(said.starts_with("timed out while"), "{said}");
        self.signal(Signal::CONT);
        wait("an answer", || prober.last().filter(|last| !last.failed));
        answers(prober);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        let _ = kill_process(Pid::from_child(&self.process), self.end);
        let begun = Instant::now();
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < END {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
