//! The programs that record, and how they are started and ended.

use super::crates;
use super::group::Group;
use crate::packages;
use crate::workspace::{self, cargo, target_dir};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const PACKAGES: &[&str] = &["atop", "sysstat", "pcp", "percona-toolkit"];

/// Directories of libraries in a tree of unpacked packages, and in those below that are named after the
/// CPU.
const LIBRARIES: &[&str] = &["lib", "usr/lib"];

/// Longest time that a recorder may take to end when it is asked to.
const END: Duration = Duration::from_secs(10);

pub(super) struct Recorder {
    pub(super) group: Group,
    /// The directory of what it records.
    pub(super) output: PathBuf,
    pub(super) children: Vec<Child>,
}

impl Recorder {
    /// True if it still runs, all of it.
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
            mw_test::exit_within(child, END)?;
        }
        Ok(())
    }
}

/// Paths of the programs: our own and those of crates as they are built here, the others unpacked.
pub(super) struct Programs {
    pub(super) memwright: PathBuf,
    /// The directory of those that are crates.
    pub(super) crates: PathBuf,
    tree: PathBuf,
    libraries: OsString,
}

impl Programs {
    pub(super) fn get(cache: &Path) -> anyhow::Result<Self> {
        cargo(&["build", "--locked", "--release", "--package", "mw-cli"])?;
        let tree = packages::unpacked(PACKAGES, cache)?;
        let libraries = std::env::join_paths(libraries(&tree)?)?;
        let crates = crates::build(cache)?;
        Ok(Self { memwright: target_dir().join("release/memwright"), crates, tree, libraries })
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
        workspace::output(command.env("LD_LIBRARY_PATH", &self.libraries)).map(drop)
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

/// Log of a recorder that runs in `folder`.
pub(super) fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

pub(super) fn spawn(command: &mut Command, folder: &Path) -> anyhow::Result<Child> {
    let log = OpenOptions::new().create(true).append(true).open(log(folder))?;
    command.stdout(log.try_clone()?).stderr(log).env("HOME", folder);
    command.spawn().with_context(|| format!("{command:?}"))
}
