//! How a suite is got and run.

use super::outcome::Outcomes;
use crate::workspace::target_dir;
use anyhow::Context;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Options of `memwright run` that a suite is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionSet {
    pub(super) name: &'static str,
    pub(super) options: &'static [&'static str],
}

/// The suites map little at once: only the first set keeps the default threshold.
pub(super) const OPTION_SETS: &[OptionSet] = &[
    OptionSet { name: "default", options: &[] },
    OptionSet { name: "prefault", options: &["--threshold", "1M", "--prefault"] },
    OptionSet { name: "lock", options: &["--threshold", "1M", "--lock"] },
    OptionSet { name: "huge", options: &["--threshold", "1M", "--prefault", "--huge", "auto"] },
    OptionSet {
        name: "direct-io",
        options: &["--threshold", "1M", "--direct-io", "64k", "--direct-io-reads"],
    },
];

/// Directory in which suites are kept and run.
pub(super) struct Directories {
    /// Kept from run to run.
    pub(super) cache: PathBuf,
    /// Removed at the end; any user may enter it. Not below /tmp, which may be a tmpfs, where direct
    /// I/O means nothing.
    pub(super) work: TempDir,
    pub(super) ltp: PathBuf,
}

impl Directories {
    pub(super) fn new(ltp: PathBuf) -> anyhow::Result<Self> {
        let work = tempfile::Builder::new().prefix("memwright-suites-").tempdir_in("/var/tmp")?;
        std::fs::set_permissions(work.path(), std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { cache: target_dir().join("suites"), work, ltp })
    }

    /// The program and its library, where every user can start them.
    pub(super) fn program(&self) -> anyhow::Result<PathBuf> {
        let built = target_dir().join("debug");
        for name in ["memwright", "libmemwright_preload.so"] {
            let from = built.join(name);
            std::fs::copy(&from, self.work.path().join(name))
                .with_context(|| from.display().to_string())?;
        }
        Ok(self.work.path().join("memwright"))
    }
}

/// A suite, or why this machine cannot run it.
pub(super) enum OpenedSuite {
    Ready { version: String, runner: Box<dyn Runner> },
    Missing(String),
}

pub(super) trait Runner {
    /// The outcome of every test, or at least of those in `only`; each command is started by what
    /// `launcher` says.
    fn run(&self, launcher: &Launcher, only: Option<&BTreeSet<String>>)
    -> anyhow::Result<Outcomes>;
}

/// Prefix of a command: nothing, or `memwright run` and its options.
#[derive(Debug, Default)]
pub(super) struct Launcher(Vec<String>);

impl Launcher {
    pub(super) fn new(program: &Path, set: OptionSet) -> Self {
        let run = [program.display().to_string(), "run".to_owned()];
        let options = set.options.iter().map(|option| (*option).to_owned());
        Self(run.into_iter().chain(options).chain(["--".to_owned()]).collect())
    }

    /// A command line with the launcher in front.
    pub(super) fn words(&self, command: &[&str]) -> Vec<String> {
        self.0.iter().cloned().chain(command.iter().map(|word| (*word).to_owned())).collect()
    }
}
