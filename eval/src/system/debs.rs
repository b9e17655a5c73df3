//! The packages of a run.

use crate::dist;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// The Debian packages that are installed, and those that are upgraded: those that are named, or built here.
pub(super) struct Debs {
    pub(super) current: Vec<PathBuf>,
    pub(super) previous: Vec<PathBuf>,
}

impl Debs {
    pub(super) fn new(
        package: Option<&Path>,
        previous: Option<&Path>,
        work: &Path,
    ) -> anyhow::Result<Self> {
        let get = |named: Option<&Path>, version: &str, out: &str| match named {
            Some(package) => {
                Ok(vec![package.canonicalize().context(package.display().to_string())?])
            }
            None => dist::plain_debian("dev", version, &work.join(out)),
        };
        let version = dist::VERSION;
        let current = get(package, &format!("{version}-1"), "packages")?;
        // The same sources: for dpkg the upgrade is one all the same.
        let previous = get(previous, &format!("{version}~previous-1"), "previous")?;
        Ok(Self { current, previous })
    }
}
