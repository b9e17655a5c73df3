//! Disks of guests with a small Debian, of the release that this machine runs. They are made once.

use crate::workspace::output;
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that make them, with a file that tells whether each exists.
pub(crate) const PACKAGES: &[(&str, &str)] =
    &[("e2fsprogs", "/sbin/mke2fs"), ("mmdebstrap", "/usr/bin/mmdebstrap")];

/// Units that a guest of the lab has no use for.
const MASKED: &[&str] = &[
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
];

/// A disk with `packages`, under the name of `image`; `settle` changes the tree before.
pub(crate) fn root(
    image: &Path,
    mib: u64,
    packages: &str,
    settle: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    if !image.exists() {
        println!("making {}", image.display());
        let tree = tempfile::tempdir_in(image.parent().context("an image in no folder")?)?;
        let release = ". /etc/os-release && echo $VERSION_CODENAME";
        let release = output(Command::new("sh").args(["-c", release]))?;
        let include = format!("--include={packages}");
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=minbase", &include, release.trim()]);
        output(mmdebstrap.arg(tree.path()).arg("http://deb.debian.org/debian"))?;
        fs::write(tree.path().join("etc/machine-id"), "5f4dcc3b5aa765d61d8327deb882cf99\n")?;
        for unit in MASKED {
            let masked = tree.path().join("etc/systemd/system").join(unit);
            std::os::unix::fs::symlink("/dev/null", masked)?;
        }
        settle(tree.path())?;
        ext4(image, mib, tree.path())?;
    }
    Ok(image.canonicalize()?)
}

/// Has systemd not start these units.
pub(crate) fn without_units(tree: &Path, units: &[&str]) -> anyhow::Result<()> {
    for unit in units {
        fs::remove_file(tree.join("etc/systemd/system/multi-user.target.wants").join(unit))?;
    }
    Ok(())
}

/// An ext4 image of the tree, under its name when it is complete.
pub(crate) fn ext4(image: &Path, mib: u64, tree: &Path) -> anyhow::Result<()> {
    let half = image.with_extension("half");
    let _ = fs::remove_file(&half);
    fs::File::create(&half)?.set_len(mib << 20)?;
    let options = ["-q", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d"];
    output(Command::new("/sbin/mke2fs").args(options).arg(tree).arg(&half))?;
    Ok(fs::rename(half, image)?)
}
