//! Sightings of findings, kept between checks that are processes of their own.

use crate::output::{self, Readers};
use crate::{Exit, Failure};
use mw_cluster::Sightings;
use mw_model::{Report, bounded_json};
use mw_sys::{boot_time_ms, guarded};
use std::path::{Path, PathBuf};

const FILE: &str = "sightings.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MAX_BYTES: u64 = 64 << 10;
/// Memory limit of the file, in bytes.
const MAX_IN_MEMORY: usize = 1 << 20;

/// The sightings of checks that are processes of their own, kept in a file of the state directory.
#[derive(Debug)]
pub(crate) struct SightingsFile {
    path: PathBuf,
    pub(crate) sightings: Sightings,
}

impl SightingsFile {
    /// Reads the file; one that is missing, malformed or of another boot is empty.
    pub(crate) fn open(dir: &Path) -> Self {
        let path = dir.join(FILE);
        let boot_id =
            mw_sys::kernel_file::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        let known = guarded::read(&path, MAX_BYTES).ok();
        let known = known
            .and_then(|bytes| bounded_json::from_slice::<Sightings>(&bytes, MAX_IN_MEMORY).ok());
        let known = known.filter(|known| known.boot_id() == boot_id);
        Self { path, sightings: known.unwrap_or_else(|| Sightings::of_boot(&boot_id)) }
    }

    /// Takes what a check has found, and writes the file, unless nothing is found and nothing was.
    ///
    /// # Errors
    /// The file cannot be written: without it, nothing ever lasts.
    pub(crate) fn note(&mut self, report: &Report) -> Result<(), Failure> {
        let was_empty = self.sightings.is_empty();
        self.sightings.note(report, boot_time_ms());
        if was_empty && self.sightings.is_empty() {
            return Ok(());
        }
        let path = &self.path;
        let failed = |error: &std::io::Error| {
            let line = format!(
                "{}: {error}; choose a directory that can be written with --state-dir, or act at once with \
                 --after 0s",
                path.display()
            );
            Failure::new(Exit::CouldNotCheck, line)
        };
        let json = serde_json::to_vec(&self.sightings).map_err(|error| failed(&error.into()))?;
        if let Some(dir) = path.parent() {
            guarded::create_dirs(dir).map_err(|error| failed(&error))?;
        }
        output::write(path, Readers::Owner, &failed, |file| {
            file.write_all(&json).map_err(|error| failed(&error))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Area, Finding, Severity};

    fn found() -> Report {
        let mut report = mw_rules::check(&mw_model::Window::default(), None);
        let mut finding = Finding::new(Severity::Note, Area::Reclaim, "found");
        finding.rule = "reclaim-storm".to_owned();
        report.findings = vec![finding];
        report
    }

    #[test]
    fn sightings_are_kept_within_a_boot() {
        let dir = tempfile::tempdir().unwrap();
        for checks in 1..=3 {
            let mut kept = SightingsFile::open(dir.path());
            kept.note(&found()).unwrap();
            let json = serde_json::to_value(&kept.sightings).unwrap();
            assert_eq!(json["found"]["reclaim-storm note"]["checks"], checks);
        }
        let path = dir.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        let boot = std::fs::read_to_string(BOOT_ID).unwrap();
        std::fs::write(&path, text.replace(boot.trim(), "another")).unwrap();
        assert!(SightingsFile::open(dir.path()).sightings.is_empty());
        std::fs::write(&path, "{").unwrap();
        assert!(SightingsFile::open(dir.path()).sightings.is_empty());
    }
}
