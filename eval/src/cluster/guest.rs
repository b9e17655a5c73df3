//! What the campaigns with guests share.

use crate::debian;
use crate::workspace::target_dir;
use mw_lab::GuestRun;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const PACKAGES: &[(&str, &str)] = &[
    ("busybox-static", "/bin/busybox"),
    ("gcc", "/usr/bin/gcc"),
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
];

pub(super) const SERIES: &str = "6.12";

/// The program that is tried: the one that is named, or the one that the workspace has built.
pub(super) fn program(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let built = target_dir().join("debug/memwright");
    Ok(named.unwrap_or(&built).canonicalize()?)
}

/// The first disk of a guest: a Debian with `packages`, which starts none of the units by itself.
pub(super) fn image(
    name: &str,
    mib: u64,
    packages: &str,
    not_at_boot: &[&str],
) -> anyhow::Result<PathBuf> {
    let work = target_dir().join("cluster");
    fs::create_dir_all(&work)?;
    let without_units = |tree: &Path| debian::without_units(tree, not_at_boot);
    debian::root(&work.join(name), mib, packages, without_units)
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

/// Keeps what a guest sent and said in a new directory.
pub(super) fn keep_run(run: &GuestRun, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("console"), &run.console)?;
    for (file, contents) in &run.frames.files {
        fs::write(dir.join(file), contents)?;
    }
    Ok(())
}
