//! The Debian packages of the working tree as it is, with any profile of cargo: to try them, not to release them.

use super::{PACKAGES, Release, VERSION, files, replace};
use crate::workspace::{cargo, root, target_dir};
use std::path::{Path, PathBuf};

/// Builds the packages into `out`, or target/packages-PROFILE.
pub(crate) fn run(profile: &str, out: Option<PathBuf>) -> anyhow::Result<()> {
    let out = out.unwrap_or_else(|| target_dir().join(format!("packages-{profile}")));
    debian(profile, &format!("{VERSION}-1"), &out)?
        .iter()
        .for_each(|path| println!("{}", path.display()));
    Ok(())
}

/// The same, with any version; returns the files.
pub fn debian(profile: &str, version: &str, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    crate::packages::install(PACKAGES)?;
    let packages = ["mw-cli", "mw-preload", "mw-capi"].map(|name| ["--package", name]);
    cargo(&[&["build", "--locked", "--profile", profile], packages.as_flattened()].concat())?;
    let mut release = Release::new(&root(), &target_dir())?;
    version.clone_into(&mut release.debian_version);
    release.built = release.target.join(if profile == "dev" { "debug" } else { profile });
    let work = tempfile::tempdir()?;
    let built = work.path().join("packages");
    std::fs::create_dir(&built)?;
    release.debian(&work.path().join("debian"), &built)?;
    for old in out.read_dir().into_iter().flatten().flatten() {
        std::fs::remove_file(old.path())?;
    }
    replace(&built, out)?;
    files(out)
}
