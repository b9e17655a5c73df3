//! A real Slurm on this machine: slurmctld, two slurmd and munged of Debian, in namespaces of their own. Nothing
//! outside is touched, and everything ends with the test. What is recorded is the memory of the nodes: the health
//! program of each checks a tree of fixtures/.

use mw_collect::text_archive::TextArchive;
use mw_test::{ChildGuard, fixture};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two questions to slurmctld.
const POLL: Duration = Duration::from_millis(200);

const NODES: [&str; 2] = ["n1", "n2"];

pub(super) const SICK: &str = "fragmented-node/firing";
pub(super) const HEALTHY: &str = "fragmented-node/quiet";

pub(super) fn memwright() -> &'static str {
    env!("CARGO_BIN_EXE_memwright")
}

pub(super) struct Cluster {
    pub(super) dir: TempDir,
    /// Process 1 of the namespaces, as it is numbered outside.
    init: i32,
    unshare: ChildGuard,
}

impl Drop for Cluster {
    /// unshare(1) ends when process 1 has, and with that all others: nobody writes to the directory any more.
    fn drop(&mut self) {
        let init = Pid::from_raw(self.init).unwrap();
        let _ = kill_process(init, Signal::KILL);
        let _ = self.unshare.0.wait();
    }
}

/// Writes a captured machine to a file of its own, without a base.
pub(super) fn place(tree: &str, at: &Path) {
    let archive = TextArchive::load(&fixture(tree)).unwrap();
    let text = TextArchive { base: None, ..archive }.to_text().unwrap();
    fs::write(at, text).unwrap();
}

impl Cluster {
    /// Starts it and waits for its nodes, which are drained at once. `health` is added to the command line of `memwright
    /// slurm health`.
    pub(super) fn start(health: &str) -> Self {
        Self::start_with(&format!("--after 0s {health}"), [HEALTHY; 2], ["IDLE"; 2])
    }

    /// The same with what the health programs of n1 and n2 find, and the states that are waited for.
    pub(super) fn start_with(health: &str, trees: [&str; 2], states: [&str; 2]) -> Self {
        let dir = TempDir::with_prefix("mw-slurm-").unwrap();
        let path = dir.path().to_str().unwrap();
        let memwright = memwright();
        for (node, tree) in NODES.into_iter().zip(trees) {
            place(tree, &dir.path().join(node));
        }
        write_script(
            &dir.path().join("health"),
            &format!(
                "#!/bin/sh\nexport SLURM_CONF={path}/slurm.conf\n\
                 echo $$ >>{path}/runs.$SLURMD_NODENAME\n\
                 exec >{path}/run.$$ 2>&1\n\
                 cd {path}\n\
                 exec {memwright} slurm health --root {path}/$SLURMD_NODENAME {health}\n"
            ),
        );
        // What it asks for is never there: a job starts all the same.
        write_script(
            &dir.path().join("prolog"),
            &format!(
                "#!/bin/sh\n{memwright} slurm prolog --make-room 100T,huge=2M\n\
                 code=$?\necho $code >>{path}/prologs\nexit $code\n"
            ),
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/cluster.sh");
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--net",
            "--uts",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        let log = fs::File::create(dir.path().join("out")).unwrap();
        unshare.args(["sh", script, path]).stdin(Stdio::null());
        unshare.stdout(log.try_clone().unwrap()).stderr(log);
        let unshare = ChildGuard(unshare.spawn().unwrap());
        let id = unshare.0.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let init = mw_test::wait_for("process 1", PATIENCE, POLL, || {
            fs::read_to_string(&children).ok()?.trim().parse().ok()
        });
        let cluster = Self { dir, init, unshare };
        cluster.wait("both nodes", || {
            let is_in = |(node, state)| cluster.node(node).is_some_and(|node| node.0 == state);
            NODES.into_iter().zip(states).all(is_in)
        });
        cluster
    }

    /// Waits, and shows the logs where it is in vain.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, condition: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !condition() {
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}\n{}", self.logs());
            std::thread::sleep(POLL);
        }
    }

    pub(super) fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        let logs = ["out", "slurmctld.log", "slurmd.n1.log"].map(read).join("\n==\n");
        format!("{logs}\n==\n{:#?}", self.runs("n1"))
    }

    /// A command in the namespaces of the cluster.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--net", "--uts", "--mount", "--pid"]);
        command.arg(program).env("SLURM_CONF", self.dir.path().join("slurm.conf"));
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Output {
        self.command(words[0]).args(&words[1..]).output().unwrap()
    }

    /// Standard output of a command that has to succeed.
    #[track_caller]
    pub(super) fn output(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}\n{}", self.logs());
        String::from_utf8(output.stdout).unwrap()
    }

    /// The state and the reason of a node.
    pub(super) fn node(&self, name: &str) -> Option<(String, String)> {
        let output = self.run(&["scontrol", "show", "node", name]);
        let text = String::from_utf8(output.stdout).unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name));
        let state = field("State=")?.split(' ').next()?;
        let reason = field("Reason=").and_then(|reason| reason.rsplit_once(" [")).map(|r| r.0);
        Some((state.to_owned(), reason.unwrap_or_default().to_owned()))
    }

    #[track_caller]
    pub(super) fn wait_for_state(&self, name: &str, state: &str) {
        let is_so = || self.node(name).is_some_and(|node| node.0 == state);
        self.wait(&format!("{name} {state}, but {:?}", self.node(name)), is_so);
    }

    /// From now on the health program of the node finds the hazard, or none.
    pub(super) fn set_sick(&self, name: &str, is_sick: bool) {
        let new = self.dir.path().join("new");
        place(if is_sick { SICK } else { HEALTHY }, &new);
        fs::rename(&new, self.dir.path().join(name)).unwrap();
    }

    /// Output of each run of the node's health program so far, in the order in which they were started.
    pub(super) fn runs(&self, name: &str) -> Vec<String> {
        let read = |file: String| fs::read_to_string(self.dir.path().join(file));
        let started = read(format!("runs.{name}")).unwrap_or_default();
        started.lines().map(|process| read(format!("run.{process}")).unwrap_or_default()).collect()
    }

    /// Waits until the health program has run completely since now.
    #[track_caller]
    pub(super) fn wait_for_a_run(&self, name: &str) {
        let now = self.runs(name).len();
        // One may be running: the next but one starts after the next has ended.
        self.wait("the health program", || self.runs(name).len() >= now + 2);
    }
}

pub(super) fn write_script(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}
