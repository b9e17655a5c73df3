//! The Debian package under a real systemd: a guest installs it and uses it as a stranger does. The steps are in
//! lab/system/steps; each is a shell script whose first line says what holds when it succeeds.

mod debs;
mod image;
mod page;
mod step;

use crate::workspace::{root, target_dir};
use crate::{debian, packages};
use anyhow::Context;
use debs::Debs;
use image::Images;
use mw_lab::vm::guest::GuestRole;
use mw_lab::{Case, GuestKernel, GuestRun, Lab};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use step::Step;

/// Programs that make packages and guests, with a file that tells whether each exists.
const PACKAGES: &[(&str, &str)] = &[
    ("busybox-static", "/bin/busybox"),
    ("debhelper", "/usr/bin/dh"),
    ("kmod", "/sbin/depmod"),
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
];

/// All steps of a kernel, under emulation.
const TIME_LIMIT: Duration = Duration::from_secs(45 * 60);

#[derive(Default)]
pub(crate) struct Choice {
    /// All of the lab's, if there is none.
    pub(crate) kernels: Vec<String>,
    pub(crate) package: Option<PathBuf>,
    /// Version that the package is upgraded from.
    pub(crate) previous: Option<PathBuf>,
    /// The beginnings of names; all, if there is none.
    pub(crate) steps: Vec<String>,
    pub(crate) write: bool,
}

/// Everything, with packages that are built here: for `ci --full`.
///
/// Promise (Fixing): A node that a job has fragmented is drained within an interval, fixed, resumed, and takes the
/// next job.
///
/// Promise (Installation): Under a real systemd, on Linux 6.1 and 6.12: an installation, the first verdict within 10
/// s, an incident, a restart, an upgrade with leased memory, a reboot with persisted settings, bad input, and a purge
/// that leaves nothing.
pub(crate) fn full() -> anyhow::Result<()> {
    run(&Choice::default())
}

pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
    packages::install(&[PACKAGES, debian::PACKAGES].concat())?;
    let work = target_dir().join("system");
    fs::create_dir_all(&work)?;
    let packages = Debs::new(choice.package.as_deref(), choice.previous.as_deref(), &work)?;
    let images = Images::new(&work)?;
    let steps = step::all(&choice.steps)?;
    let mut failed = Vec::new();
    let series: Vec<String> = mw_lab::kernel::series().map(str::to_owned).collect();
    let wanted = |name: &&String| choice.kernels.is_empty() || choice.kernels.contains(name);
    let kernels: Vec<&String> = series.iter().filter(wanted).collect();
    anyhow::ensure!(!kernels.is_empty(), "no such kernel; there are {}", series.join(", "));
    for name in &kernels {
        let kernel = GuestKernel::get(name)?;
        println!("kernel {}", kernel.release);
        let parcel = images.parcel(&kernel, &steps, &packages)?;
        let run = boot(&kernel, &images.root, &parcel)?;
        fs::remove_file(&parcel)?;
        let logs = work.join(format!("logs-{name}"));
        let done = step::judge(&steps, &run, &logs)?;
        failed.extend(
            done.iter().filter(|step| step.failed()).map(|s| format!("{name}: {}", s.name)),
        );
        if choice.write && *name == kernels[0] {
            page::write(&kernel.release, &done)?;
        }
    }
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

const CASE: &str = "description = 'a Debian with systemd'
[machine]
kernel = '6.1'
memory = '1G'
append = 'systemd.journald.forward_to_console=1 systemd.show_status=0'
[[machine.disks]]
size = '1G'
format = 'ext4'
[[machine.disks]]
size = '1G'
format = 'ext4'
[expect]
no_finding = true
[variant.system]
how = 'installed'
";

/// Runs the steps; what a guest writes to the disks is discarded when it ends.
fn boot(kernel: &GuestKernel, root_image: &Path, parcel: &Path) -> anyhow::Result<GuestRun> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("system");
    fs::create_dir(&folder)?;
    fs::copy(root().join("lab/system/make.sh"), folder.join("make.sh"))?;
    fs::write(folder.join("case.toml"), CASE)?;
    let mut variant = Case::read(&folder)?.variants.pop().context("no variant")?;
    for (disk, image) in variant.machine.disks.iter_mut().zip([root_image, parcel]) {
        disk.image = Some(image.to_path_buf());
    }
    variant.machine.time_limit = TIME_LIMIT;
    variant.machine.reboots = true;
    // The initial file system is left at once, and its memwright not used.
    let lab = Lab::new(Path::new("/bin/true"))?;
    let mut told = 0;
    let mut tell = |step: Option<&mw_lab::vm::port::GuestStep>| {
        if let Some(step) = step.filter(|step| step.at.as_millis() != told) {
            told = step.at.as_millis();
            println!("  {:>5.0} s  {}", step.at.as_secs_f64(), step.name);
        }
        true
    };
    let (outcome, run) = lab.run(&variant, kernel, &kernel.release, GuestRole::Play, &mut tell);
    run.with_context(|| outcome.outcome.to_string())
}
