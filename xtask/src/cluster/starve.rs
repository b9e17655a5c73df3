//! A real cluster (corosync, Pacemaker, PostgreSQL) of two guests, one of which writes more than its slow disk takes, while
//! a database has locked most of its memory: without a remedy, and with each of memwright's.

mod figures;
mod guests;
mod judge;
mod lines;
mod page;
mod phase;
mod played;

use crate::workspace::target_dir;
use crate::{debian, packages};
use guests::{Length, Nodes};
use mw_lab::GuestRun;
use mw_lab::vm::qemu::RunEnd;
use played::Played;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const PACKAGES: &[(&str, &str)] = &[
    ("busybox-static", "/bin/busybox"),
    ("gcc", "/usr/bin/gcc"),
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
];

pub(crate) struct Choice {
    /// How long the flood goes on under `memwright run --direct-io`.
    pub(crate) minutes: Option<u64>,
    /// What is available when the database has locked its memory, in MiB.
    pub(crate) left: u64,
    pub(crate) program: Option<PathBuf>,
    /// Judge and write what was played last.
    pub(crate) again: bool,
    pub(crate) write: bool,
}

/// What is available when the database has locked its memory.
pub(crate) const LEFT_MIB: u64 = 22;

/// For `ci --full`.
pub(crate) fn full() -> anyhow::Result<()> {
    run(&Choice { minutes: None, left: LEFT_MIB, program: None, again: false, write: false })
}

pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
    packages::install(&[PACKAGES, debian::PACKAGES].concat())?;
    let program = choice.program.clone();
    let program = program.unwrap_or_else(|| target_dir().join("debug/memwright")).canonicalize()?;
    let kept = target_dir().join("cluster/logs");
    if !choice.again {
        let nodes = {
            let _weight = Weight::raised();
            guests::play(&program, &Length::new(choice.left, choice.minutes))?
        };
        keep(&nodes, &kept)?;
        for (name, run) in [("n1", &nodes.n1), ("n2", &nodes.n2)] {
            let said =
                ["failed", "outcome"].map(|frame| run.frames.text(frame).unwrap_or_default());
            let said = said.concat();
            anyhow::ensure!(
                run.ended == RunEnd::Done && said.is_empty(),
                "{name}: {:?}, {said}; its logs are in {}",
                run.ended,
                kept.display()
            );
        }
    }
    let played = Played::read(&program, &kept)?;
    println!("{}", page::table(&played));
    let wrong = judge::wrong(&played);
    wrong.iter().for_each(|wrong| println!("FAILED: {wrong}"));
    if choice.write {
        page::write(&played, &wrong)?;
    }
    anyhow::ensure!(wrong.is_empty(), "{} of the cluster's promises do not hold", wrong.len());
    Ok(())
}

/// QEMU competes with this machine's other sessions; a guest that does not run loses its token for no reason of its own.
pub(super) struct Weight(String);

const AUTOGROUP: &str = "/proc/self/autogroup";

impl Weight {
    /// Of this session, until it is dropped. Where there are no groups of sessions, nothing is changed.
    pub(super) fn raised() -> Self {
        let before = fs::read_to_string(AUTOGROUP).unwrap_or_default();
        let nice = before.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        let _ = fs::write(AUTOGROUP, "-15");
        Self(nice)
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        let _ = fs::write(AUTOGROUP, &self.0);
    }
}

/// Keeps what a guest sent and said in a new folder.
pub(super) fn keep_run(run: &GuestRun, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("console"), &run.console)?;
    for (file, contents) in &run.frames.files {
        fs::write(dir.join(file), contents)?;
    }
    Ok(())
}

/// Keeps what the nodes sent in a folder for each.
fn keep(nodes: &Nodes, kept: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(kept);
    for (name, run) in [("n1", &nodes.n1), ("n2", &nodes.n2)] {
        keep_run(run, &kept.join(name))?;
    }
    let loads: String =
        nodes.host_loads.iter().map(|(step, load)| format!("{step} {load}\n")).collect();
    fs::write(kept.join("loads"), loads)?;
    Ok(fs::write(kept.join("release"), &nodes.release)?)
}
