//! The two nodes: guests of the lab, joined by a cable, that continue with a Debian with corosync and Pacemaker.

use crate::debian;
use crate::workspace::{root, target_dir};
use anyhow::Context;
use mw_lab::vm::guest::Role;
use mw_lab::vm::qemu::RunEnd;
use mw_lab::{Case, GuestRun, Kernel, Lab, Link, Variant};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Increased where the root changes.
const VERSION: u32 = 1;
const INCLUDED: &str = "systemd,systemd-sysv,dbus,udev,kmod,libgcc-s1,procps,iproute2,corosync,\
                        pacemaker,pacemaker-cli-utils,postgresql,resource-agents";
const ROOT_MIB: u64 = 1536;
/// The agent starts the cluster when the network is up, and the cluster starts PostgreSQL.
const NOT_AT_BOOT: &[&str] = &["corosync.service", "pacemaker.service", "postgresql.service"];
const SERIES: &str = "6.12";
/// Boot, start of the cluster, and what is between the phases, at most.
const AROUND_S: u64 = 600;

const CASE: &str = "description = 'two nodes of a cluster'
[machine]
kernel = '6.12'
memory = '768M'
cpus = 1
append = 'psi=1 net.ifnames=0 systemd.show_status=0'
modules = ['failover', 'net_failover', 'virtio_net']
preload = true
[[machine.disks]]
size = '2G'
[expect]
no_finding = true
[variant.n1]
how = 'a slow disk, and the flood'
[[variant.n1.machine.disks]]
size = '2G'
[[variant.n1.machine.disks]]
size = '1G'
format = 'ext4'
write_bytes_per_s = 700000
[variant.n2]
how = 'at rest'
";

/// How much memory is left, and how long each phase takes.
pub(super) struct Length {
    left_mib: u64,
    healthy_s: u64,
    flood_s: u64,
    direct_s: u64,
    limit_s: u64,
}

impl Length {
    pub(super) fn new(left_mib: u64, minutes: Option<u64>) -> Self {
        let direct_s = minutes.map_or(120, |minutes| minutes * 60);
        Self { left_mib, healthy_s: 60, flood_s: 150, direct_s, limit_s: 90 }
    }

    fn all_s(&self) -> u64 {
        self.healthy_s + self.flood_s + self.direct_s + 2 * self.limit_s
    }

    /// For the agent.
    fn plan(&self) -> String {
        let Self { left_mib, healthy_s, flood_s, direct_s, limit_s } = self;
        format!(
            "LEFT_MIB={left_mib}\nHEALTHY_S={healthy_s}\nFLOOD_S={flood_s}\nDIRECT_S={direct_s}\nLIMIT_S={limit_s}\n"
        )
    }
}

pub(super) struct Nodes {
    pub(super) n1: GuestRun,
    pub(super) n2: GuestRun,
    pub(super) release: String,
    /// Load averages of this machine at the steps of n1.
    pub(super) host_loads: Vec<(String, f64)>,
}

/// Plays all phases.
pub(super) fn play(program: &Path, length: &Length) -> anyhow::Result<Nodes> {
    let work = target_dir().join("cluster");
    fs::create_dir_all(&work)?;
    let image = work.join(format!("root-{VERSION}"));
    let image =
        debian::root(&image, ROOT_MIB, INCLUDED, |tree| debian::without_units(tree, NOT_AT_BOOT))?;
    let kernel = Kernel::get(SERIES)?;
    let lab = Lab::new(program)?;
    let dir = tempfile::tempdir()?;
    let variants = variants(dir.path(), &image, length)?;
    let [n1, n2] = &variants;
    let (is_over, mut host_loads) = (AtomicBool::new(false), Vec::new());
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let run = lab.run(n2, &kernel, &kernel.release, Role::Play, &mut |_| {
                !is_over.load(Ordering::Relaxed)
            });
            is_over.fetch_or(!is_done(&run), Ordering::Relaxed);
            run
        });
        let mut told = String::new();
        let first = lab.run(n1, &kernel, &kernel.release, Role::Play, &mut |step| {
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

fn is_done((_, run): &(mw_lab::CaseRun, Option<GuestRun>)) -> bool {
    run.as_ref().is_some_and(|run| run.ended == RunEnd::Done)
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

/// Both nodes, with their files in `dir`.
fn variants(dir: &Path, image: &Path, length: &Length) -> anyhow::Result<[Variant; 2]> {
    let folder = dir.join("cluster");
    fs::create_dir(&folder)?;
    fs::write(folder.join("case.toml"), CASE)?;
    fs::write(folder.join("plan"), length.plan())?;
    let sources = root().join("lab/starved-cluster").read_dir()?;
    let sources: Vec<PathBuf> = sources.flatten().map(|entry| entry.path()).collect();
    let writer = root().join("lab/ram-starved-cluster/tablespace.c");
    for source in sources.iter().chain([&writer]) {
        fs::copy(source, folder.join(source.file_name().context("no name")?))?;
    }
    let mut variants = Case::read(&folder)?.variants;
    anyhow::ensure!(variants.len() == 2, "not two nodes");
    for (number, variant) in variants.iter_mut().enumerate() {
        variant.machine.disks[0].image = Some(image.to_path_buf());
        variant.machine.time_limit = Duration::from_secs(length.all_s() + AROUND_S);
        let end = |number: usize| dir.join(format!("n{}.link", number + 1));
        variant.machine.link = Some(Link {
            local: end(number),
            remote: end(1 - number),
            number: u8::try_from(number + 1)?,
        });
    }
    let [n1, n2] = variants.try_into().map_err(|_| anyhow::anyhow!("not two nodes"))?;
    Ok([n1, n2])
}
