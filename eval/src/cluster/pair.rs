//! The two nodes of a cluster: guests of the lab, joined by a cable, that continue with a Debian.

use super::guest::{SERIES, keep_run};
use crate::workspace::root;
use anyhow::Context;
use mw_lab::vm::guest::GuestRole;
use mw_lab::vm::qemu::RunEnd;
use mw_lab::{Case, GuestKernel, GuestRun, Lab, NetworkLink, Variant};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Boot, start of the cluster, and what is between the phases, at most.
const AROUND: Duration = Duration::from_secs(900);

/// The frame in which an agent says what has failed.
const FAILED: &str = "failed";

/// Line of a kernel that restarts for a reason of its own.
const PANIC: &str = "Kernel panic";

/// Settings of the two guests, and their script.
pub(super) struct Setup<'a> {
    /// case.toml, with the variants n1 and n2.
    pub(super) case: &'a str,
    /// Directories of the lab, whose files the guests have in /lab; the later ones come first.
    pub(super) folders: &'a [&'a str],
    /// For the agents: the file `plan`.
    pub(super) plan: String,
    /// The first disk of both.
    pub(super) image: PathBuf,
    /// Durations of the phases.
    pub(super) takes: Duration,
    /// A disk that both nodes have, by its number and size.
    pub(super) shared: Option<(usize, u64)>,
    /// True if the nodes have a watchdog, and continue after a reset.
    pub(super) are_fenced: bool,
}

pub(super) struct Nodes {
    pub(super) n1: GuestRun,
    pub(super) n2: GuestRun,
    release: String,
    /// Load averages of this machine at the steps of n1.
    host_loads: Vec<(String, f64)>,
}

/// Plays all phases; ends when both nodes are done.
pub(super) fn play(program: &Path, setup: &Setup) -> anyhow::Result<Nodes> {
    let kernel = GuestKernel::get(SERIES)?;
    let lab = Lab::new(program)?;
    let dir = tempfile::tempdir()?;
    let [n1, n2] = &variants(dir.path(), setup)?;
    let (is_over, mut host_loads) = (AtomicBool::new(false), Vec::new());
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let run = lab.run(n2, &kernel, &kernel.release, GuestRole::Play, &mut |_| {
                !is_over.load(Ordering::Relaxed)
            });
            is_over.fetch_or(!is_done(&run), Ordering::Relaxed);
            run
        });
        let mut told = String::new();
        let first = lab.run(n1, &kernel, &kernel.release, GuestRole::Play, &mut |step| {
            if let Some(step) = step.filter(|step| step.name != told) {
                told.clone_from(&step.name);
                let load = load();
                println!("  {:>5.0} s  {} (load {load:.1})", step.at.as_secs_f64(), step.name);
                host_loads.push((step.name.clone(), load));
            }
            !is_over.load(Ordering::Relaxed)
        });
        is_over.fetch_or(!is_done(&first), Ordering::Relaxed);
        (first, other.join())
    });
    let second = second.map_err(|_| anyhow::anyhow!("the thread of n2 panicked"))?;
    let ran = |name, (outcome, run): (mw_lab::CaseRun, Option<GuestRun>)| {
        run.with_context(|| format!("{name}: {}", outcome.outcome))
    };
    let (n1, n2) = (ran("n1", first)?, ran("n2", second)?);
    Ok(Nodes { n1, n2, release: kernel.release, host_loads })
}

/// True if the node has played its part; what it says otherwise is in its frames.
fn is_done((_, run): &(mw_lab::CaseRun, Option<GuestRun>)) -> bool {
    let is_done =
        |run: &GuestRun| run.ended == RunEnd::Done && !run.frames.files.contains_key(FAILED);
    run.as_ref().is_some_and(is_done)
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

/// Both nodes, with their files in `dir`.
fn variants(dir: &Path, setup: &Setup) -> anyhow::Result<[Variant; 2]> {
    let folder = dir.join("cluster");
    fs::create_dir(&folder)?;
    fs::write(folder.join("case.toml"), setup.case)?;
    fs::write(folder.join("plan"), &setup.plan)?;
    let writer = root().join("lab/ram-starved-cluster/tablespace.c");
    fs::copy(&writer, folder.join("tablespace.c"))?;
    for source in setup.folders {
        for file in root().join("lab").join(source).read_dir()?.flatten() {
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
    }
    let shared = dir.join("shared");
    if let Some((_, bytes)) = setup.shared {
        fs::File::create(&shared)?.set_len(bytes)?;
    }
    let mut variants = Case::read(&folder)?.variants;
    anyhow::ensure!(variants.len() == 2, "not two nodes");
    for (number, variant) in variants.iter_mut().enumerate() {
        let machine = &mut variant.machine;
        machine.disks[0].image = Some(setup.image.clone());
        if let Some((disk, _)) = setup.shared {
            machine.disks[disk].image = Some(shared.clone());
            machine.disks[disk].is_shared = true;
        }
        machine.time_limit = setup.takes + AROUND;
        (machine.reboots, machine.has_watchdog) = (setup.are_fenced, setup.are_fenced);
        let end = |number: usize| dir.join(format!("n{}.link", number + 1));
        machine.link = Some(NetworkLink {
            local: end(number),
            remote: end(1 - number),
            number: u8::try_from(number + 1)?,
        });
    }
    let [n1, n2] = variants.try_into().map_err(|_| anyhow::anyhow!("not two nodes"))?;
    Ok([n1, n2])
}

impl Nodes {
    /// Keeps what the nodes sent in a directory for each; fails where an agent has failed.
    pub(super) fn keep(&self, kept: &Path) -> anyhow::Result<()> {
        let _ = fs::remove_dir_all(kept);
        let nodes = [("n1", &self.n1), ("n2", &self.n2)];
        for (name, run) in nodes {
            keep_run(run, &kept.join(name))?;
        }
        let loads = self.host_loads.iter().map(|(step, load)| format!("{step} {load}\n"));
        fs::write(kept.join("loads"), loads.collect::<String>())?;
        fs::write(kept.join("release"), &self.release)?;
        for (name, run) in nodes {
            anyhow::ensure!(
                !run.console.contains(PANIC),
                "{name}: its kernel panicked; its logs are in {}",
                kept.display()
            );
            let said = [FAILED, "outcome"].map(|frame| run.frames.text(frame).unwrap_or_default());
            let said = said.concat();
            anyhow::ensure!(
                run.ended == RunEnd::Done && said.is_empty(),
                "{name}: {:?}, {said}; its logs are in {}",
                run.ended,
                kept.display()
            );
        }
        Ok(())
    }
}
