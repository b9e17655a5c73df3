//! The disks of the guest: a small Debian, made once and kept in target/system, and a parcel with the packages, the
//! steps, and the modules of the kernel.

use super::Step;
use super::debs::Debs;
use crate::debian;
use crate::workspace::{compile_c, output, root};
use anyhow::Context;
use mw_lab::GuestKernel;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Increased where the root changes.
const VERSION: u32 = 2;
/// Packages of a small server, and of a node of a cluster. sqlite3 damages recordings, strace lists system calls.
const INCLUDED: &str = "systemd,systemd-sysv,dbus,udev,kmod,curl,libgcc-s1,procps,sqlite3,strace,\
                        ca-certificates,iproute2,munge,slurmctld,slurmd,slurm-client";
const ROOT_MIB: u64 = 2048;
const PARCEL_MIB: u64 = 512;
/// Programs of the lab that the steps use.
const PROGRAMS: &[&str] =
    &["lab/trials/serve.c", "lab/trials/load.c", "lab/trials/ask.c", "lab/guest/hold.c"];
/// Runs under `memwright run`, which loads a library into it.
const DYNAMIC: &str = "lab/system/lease.c";

pub(super) struct Images {
    work: PathBuf,
    pub(super) root: PathBuf,
}

impl Images {
    pub(super) fn new(work: &Path) -> anyhow::Result<Self> {
        let image = work.join(format!("root-{VERSION}"));
        let root = debian::root(&image, ROOT_MIB, INCLUDED, settle)?;
        Ok(Self { work: work.to_path_buf(), root })
    }

    /// The disk with all that a run brings along.
    pub(super) fn parcel(
        &self,
        kernel: &GuestKernel,
        steps: &[Step],
        packages: &Debs,
    ) -> anyhow::Result<PathBuf> {
        let tree = tempfile::tempdir_in(&self.work)?;
        let at = |name: &str| tree.path().join(name);
        for folder in ["bin", "modules", "packages", "previous", "steps"] {
            fs::create_dir_all(at(folder))?;
        }
        output(Command::new("cp").args(&packages.current).arg(at("packages")))?;
        output(Command::new("cp").args(&packages.previous).arg(at("previous")))?;
        for name in ["agent", "lib.sh", "steps.service"] {
            fs::copy(root().join("lab/system").join(name), at(name)).context(name)?;
        }
        for step in steps {
            fs::copy(&step.path, at("steps").join(format!("{}.sh", step.name)))?;
        }
        for program in PROGRAMS {
            compile_c(&root().join(program), &at("bin"))?;
        }
        let lease = at("bin").join("lease");
        output(Command::new("gcc").arg("-O2").arg("-o").arg(lease).arg(root().join(DYNAMIC)))?;
        modules(kernel, &at("modules"))?;
        let image = self.work.join("parcel");
        debian::ext4(&image, PARCEL_MIB, tree.path())?;
        Ok(image.canonicalize()?)
    }
}

/// As an administrator leaves a machine: with a name.
fn settle(tree: &Path) -> anyhow::Result<()> {
    fs::write(tree.join("etc/hostname"), "db1\n")?;
    Ok(fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n127.0.1.1 db1\n")?)
}

/// The kernel's modules with the index that modprobe reads.
fn modules(kernel: &GuestKernel, to: &Path) -> anyhow::Result<()> {
    let tree = tempfile::tempdir()?;
    let below = tree.path().join("lib/modules");
    fs::create_dir_all(&below)?;
    output(Command::new("cp").arg("-r").arg(&kernel.modules).arg(&below))?;
    output(Command::new("/sbin/depmod").arg("-b").arg(tree.path()).arg(&kernel.release))?;
    output(Command::new("cp").arg("-r").arg(below.join(&kernel.release)).arg(to)).map(drop)
}
