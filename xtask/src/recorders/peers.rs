//! The recorders: how each is started.

use super::group::Group;
use super::pcp;
use crate::{cargo, packages, target_dir};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PACKAGES: &[&str] = &["atop", "sysstat", "pcp", "percona-toolkit"];

/// Where libraries lie in a tree of unpacked packages, and in the folders below that are named after the
/// processor.
const LIBRARIES: &[&str] = &["lib", "usr/lib"];

/// Longest time that a recorder may take to end when it is asked to.
const END: Duration = Duration::from_secs(10);

/// What pt-stalk asks once a second: the cheapest thing that can trigger it.
const TRIGGER: &str = "trg_plugin() { read -r load rest < /proc/loadavg; echo \"$load\"; }\n";

/// Stands in for MySQL, which pt-stalk asks once, before it starts to watch.
const MYSQL: &str = "#!/bin/sh\necho 1\n";

/// A recorder that is compared.
pub(super) struct Peer {
    /// For people.
    pub(super) name: &'static str,
    /// Of its group and folder.
    pub(super) key: &'static str,
    /// Whether it writes what it sees.
    pub(super) records: bool,
    /// Starts it in a group; what it keeps goes below the folder.
    pub(super) start: fn(&Programs, Group, &Path) -> anyhow::Result<Recorder>,
}

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "`memwright watch`",
        key: "watch",
        records: true,
        start: |programs, group, folder| memwright(programs, group, folder, &[]),
    },
    Peer {
        name: "`memwright watch --no-canary --no-profile`",
        key: "plain",
        records: true,
        start: |programs, group, folder| {
            memwright(programs, group, folder, &["--no-canary", "--no-profile"])
        },
    },
    Peer { name: "atop", key: "atop", records: true, start: atop },
    Peer { name: "sar (sadc)", key: "sadc", records: true, start: sadc },
    Peer { name: "pmlogger and pmcd", key: "pcp", records: true, start: pcp::start },
    Peer { name: "pt-stalk, not triggered", key: "stalk", records: false, start: pt_stalk },
    Peer { name: "a shell that only sleeps", key: "sleep", records: false, start: sleeper },
];

/// A recorder that runs.
pub(super) struct Recorder {
    pub(super) group: Group,
    /// The folder of what it records.
    pub(super) output: PathBuf,
    pub(super) children: Vec<Child>,
}

impl Recorder {
    /// Whether it still runs, all of it.
    pub(super) fn runs(&mut self) -> anyhow::Result<bool> {
        for child in &mut self.children {
            if child.try_wait()?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Asks it to end, what was started last first.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        for child in self.children.iter_mut().rev() {
            let pid = Pid::from_raw(i32::try_from(child.id())?).context("no process")?;
            kill_process(pid, Signal::TERM)?;
            let until = Instant::now() + END;
            while child.try_wait()?.is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}

/// Where the programs are: our own as it is built here, the others unpacked.
pub(super) struct Programs {
    memwright: PathBuf,
    tree: PathBuf,
    libraries: OsString,
}

impl Programs {
    pub(super) fn get(cache: &Path) -> anyhow::Result<Self> {
        let build = ["build", "--locked", "--release", "--package", "mw-cli"];
        cargo(&[&build[..], &["--features", "lab,watch"]].concat())?;
        let tree = packages::unpacked(PACKAGES, cache)?;
        let libraries = std::env::join_paths(libraries(&tree)?)?;
        Ok(Self { memwright: target_dir().join("release/memwright"), tree, libraries })
    }

    /// A file of the unpacked packages.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.tree.join(file)
    }

    /// Starts a program of the unpacked packages; what it says goes to a file in `folder`.
    pub(super) fn spawn(&self, mut command: Command, folder: &Path) -> anyhow::Result<Child> {
        spawn(command.env("LD_LIBRARY_PATH", &self.libraries), folder)
    }

    /// Runs a program of the unpacked packages to its end.
    pub(super) fn run(&self, mut command: Command) -> anyhow::Result<()> {
        let output = command.env("LD_LIBRARY_PATH", &self.libraries).output();
        let output = output.with_context(|| format!("{command:?}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{command:?} failed: {said}");
        Ok(())
    }
}

fn libraries(tree: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for folder in LIBRARIES.iter().map(|folder| tree.join(folder)).filter(|f| f.is_dir()) {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            folders.extend(path.to_string_lossy().ends_with("-linux-gnu").then_some(path));
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// Where a recorder that runs in `folder` writes what it says.
pub(super) fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn spawn(command: &mut Command, folder: &Path) -> anyhow::Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(log(folder))?;
    command.stdout(log.try_clone()?).stderr(log).env("HOME", folder);
    command.spawn().with_context(|| format!("{command:?}"))
}

fn memwright(
    programs: &Programs,
    group: Group,
    folder: &Path,
    options: &[&str],
) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let mut command = group.enter(&programs.memwright);
    command.arg("watch").arg("--recording").arg(recording(&output)).args(options);
    let child = spawn(&mut command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

/// The recording in a memwright's output.
pub(super) fn recording(output: &Path) -> PathBuf {
    output.join("recording")
}

/// Without process accounting, which is the whole machine's to switch.
fn atop(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let mut command = group.enter(&programs.path("usr/bin/atop"));
    command.env("ATOPACCT", "").arg("-w").arg(output.join("raw")).arg("1");
    let child = programs.spawn(command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

fn sadc(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let mut command = group.enter(&programs.path("usr/lib/sysstat/sadc"));
    command.args(["-S", "ALL", "1"]).arg(output.join("sa"));
    let child = programs.spawn(command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

fn pt_stalk(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let trigger = folder.join("trigger");
    std::fs::write(&trigger, TRIGGER)?;
    for name in ["mysql", "mysqladmin"] {
        let path = folder.join(name);
        std::fs::write(&path, MYSQL)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&inherited));
    let mut command = group.enter(&programs.path("usr/bin/pt-stalk"));
    command.env("PATH", std::env::join_paths(paths)?);
    command.arg("--function").arg(trigger).args(["--variable", "load", "--threshold", "1000000"]);
    command.args(["--interval", "1", "--dest"]).arg(&output).arg("--pid").arg(folder.join("pid"));
    let child = programs.spawn(command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

fn sleeper(_: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let mut command = group.enter(Path::new("sh"));
    command.args(["-c", "while :; do sleep 1; done"]);
    let child = spawn(&mut command, folder)?;
    Ok(Recorder { group, output: folder.join("out"), children: vec![child] })
}
