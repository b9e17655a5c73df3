//! Debian packages: installed for the tests, or unpacked beside the system for what is only compared.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest wait for another apt-get, in seconds.
const LOCK_WAIT: &str = "DPkg::Lock::Timeout=300";

/// Installs packages whose file is not there, or says exactly what to install.
pub(crate) fn install(packages: &[(&str, &str)]) -> anyhow::Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "the tests need packages that are not installed; run: sudo apt-get install {list}"
    );
    println!("== installing {list}");
    let by_hand = || format!("install by hand: {list}");
    apt(&["update"]).with_context(by_hand)?;
    apt(&[&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat())
        .with_context(by_hand)
}

/// The tree that packages are in, unpacked with the packages that they need and that are not
/// installed: nothing is configured, no service is started. It is made once, in `cache`.
pub(crate) fn unpacked(packages: &[&str], cache: &Path) -> anyhow::Result<PathBuf> {
    let tree = cache.join("tree");
    if tree.exists() {
        return Ok(tree);
    }
    println!("== downloading {}", packages.join(" "));
    std::fs::create_dir_all(cache).with_context(|| cache.display().to_string())?;
    let work = tempfile::tempdir_in(cache)?;
    let archives = work.path().join("archives");
    std::fs::create_dir_all(archives.join("partial"))?;
    let into = format!("Dir::Cache::archives={}", archives.display());
    apt(&["update"])?;
    let download = ["-y", "-o", &into, "-o", "APT::Sandbox::User=root", "install"];
    let options = ["--download-only", "--reinstall", "--no-install-recommends"];
    apt(&[&download[..], &options, packages].concat())?;
    let half = work.path().join("tree");
    for entry in archives.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            unpack(&path, &half)?;
        }
    }
    std::fs::rename(&half, &tree).with_context(|| tree.display().to_string())?;
    Ok(tree)
}

fn unpack(deb: &Path, tree: &Path) -> anyhow::Result<()> {
    let status = Command::new("dpkg").arg("-x").arg(deb).arg(tree).status().context("dpkg")?;
    anyhow::ensure!(status.success(), "dpkg -x {} failed", deb.display());
    Ok(())
}

fn apt(args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("apt-get")
        .args(["-o", LOCK_WAIT])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status()
        .context("apt-get")?;
    anyhow::ensure!(status.success(), "apt-get {} failed", args.join(" "));
    Ok(())
}
