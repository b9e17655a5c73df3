//! Since when findings are there: what acts on a node (a drain, a condition) acts on what lasts, not on a moment.

use crate::output::{self, Readers};
use crate::{Exit, Failure};
use mw_model::{Report, Severity, bounded_json};
use mw_sys::guarded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The checks that have to find it.
const MIN_CHECKS: u32 = 3;

/// A finding that no check has confirmed for so long begins anew.
const GAP_MS: u64 = 15 * 60 * 1000;

const FILE: &str = "sightings.json";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MAX_BYTES: u64 = 64 << 10;
/// Memory limit of the file, in bytes.
const MAX_IN_MEMORY: usize = 1 << 20;

const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Critical];

/// Rules with a finding of a severity at least, and when it was found; of one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sightings {
    boot_id: String,
    /// By `RULE SEVERITY`.
    found: BTreeMap<String, Sighting>,
}

/// Times are in milliseconds since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Sighting {
    first_ms: u64,
    last_ms: u64,
    checks: u32,
}

impl Sighting {
    /// With another check that found it.
    fn again(known: Option<Self>, now_ms: u64) -> Self {
        let known = known.filter(|known| now_ms.saturating_sub(known.last_ms) <= GAP_MS);
        Self {
            first_ms: known.map_or(now_ms, |known| known.first_ms.min(now_ms)),
            last_ms: now_ms,
            checks: known.map_or(0, |known| known.checks).saturating_add(1),
        }
    }
}

fn key(rule: &str, severity: Severity) -> String {
    format!("{rule} {severity}")
}

impl Sightings {
    /// Takes what a check has found about the machine. Rules that it did not check, or could not, stay as they were.
    pub(crate) fn note(&mut self, report: &Report, now_ms: u64) {
        let mut worst: BTreeMap<&str, Option<Severity>> =
            report.quiet.iter().map(|rule| (rule.as_str(), None)).collect();
        for finding in &report.findings {
            let severity = Some(finding.severity).filter(|_| finding.subject.is_machine());
            let known = worst.entry(&finding.rule).or_default();
            *known = severity.max(*known);
        }
        for (rule, worst) in worst {
            for severity in SEVERITIES {
                let key = key(rule, severity);
                let known = self.found.remove(&key);
                if worst >= Some(severity) {
                    self.found.insert(key, Sighting::again(known, now_ms));
                }
            }
        }
    }

    /// True if a rule's finding has been of this severity at least for `least`, in several checks; in this one, where
    /// that is zero.
    pub(crate) fn lasts(&self, rule: &str, severity: Severity, least: Duration) -> bool {
        let min_checks = if least.is_zero() { 1 } else { MIN_CHECKS };
        let least_ms = u64::try_from(least.as_millis()).unwrap_or(u64::MAX);
        self.found.get(&key(rule, severity)).is_some_and(
            |Sighting { first_ms, last_ms, checks }| {
                *checks >= min_checks && last_ms.saturating_sub(*first_ms) >= least_ms
            },
        )
    }

    /// Has critical findings that do not last count as warnings.
    pub(crate) fn settle(&self, report: &mut Report, least: Duration) {
        for finding in &mut report.findings {
            if !self.lasts(&finding.rule, Severity::Critical, least) {
                finding.severity = finding.severity.min(Severity::Warning);
            }
        }
        mw_rules::sum_up(report);
    }
}

/// Milliseconds since boot, with those in suspend.
pub(crate) fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

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
        let known = known.filter(|known| known.boot_id == boot_id);
        Self { path, sightings: known.unwrap_or(Sightings { boot_id, ..Sightings::default() }) }
    }

    /// Takes what a check has found, and writes the file, unless nothing is found and nothing was.
    ///
    /// # Errors
    /// The file cannot be written: without it, nothing ever lasts.
    pub(crate) fn note(&mut self, report: &Report) -> Result<(), Failure> {
        let was_empty = self.sightings.found.is_empty();
        self.sightings.note(report, now_ms());
        if was_empty && self.sightings.found.is_empty() {
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
    use mw_model::{Area, Finding, Subject};

    const MINUTE: u64 = 60_000;
    const LEAST: Duration = Duration::from_secs(180);

    const RULE: &str = "reclaim-storm";

    /// With a finding of the rule, or none.
    fn report(found: Option<(Severity, Subject)>) -> Report {
        let mut report = mw_rules::check(&mw_model::Window::default(), None);
        match found {
            Some((severity, subject)) => {
                let mut finding = Finding::new(severity, subject, "found");
                finding.rule = RULE.to_owned();
                report.findings = vec![finding];
            }
            None => report.quiet = vec![RULE.to_owned()],
        }
        report
    }

    fn found(severity: Severity) -> Report {
        report(Some((severity, Area::Reclaim.into())))
    }

    fn seen_at(minutes: &[u64]) -> Sightings {
        let mut sightings = Sightings::default();
        for minute in minutes {
            sightings.note(&found(Severity::Critical), minute * MINUTE);
        }
        sightings
    }

    fn lasts(sightings: &Sightings) -> bool {
        sightings.lasts(RULE, Severity::Critical, LEAST)
    }

    #[test]
    fn a_finding_lasts_after_minutes_and_several_checks() {
        let lasts = |minutes: &[u64]| lasts(&seen_at(minutes));
        assert!(!lasts(&[0]));
        assert!(!lasts(&[0, 1, 2]), "too short");
        assert!(!lasts(&[0, 5]), "two checks may have met two moments");
        assert!(lasts(&[0, 1, 2, 3]));
        assert!(!lasts(&[0, 1, 2, 30]), "nobody checked between");
    }

    #[test]
    fn a_check_without_the_finding_begins_anew() {
        for other in [report(None), found(Severity::Note)] {
            let mut sightings = seen_at(&[0, 1, 2]);
            sightings.note(&other, 3 * MINUTE);
            sightings.note(&found(Severity::Critical), 4 * MINUTE);
            assert!(!lasts(&sightings));
        }
    }

    #[test]
    fn a_check_of_other_rules_changes_nothing() {
        let mut sightings = seen_at(&[0, 1, 2]);
        let mut other = report(None);
        other.quiet = vec!["oom-kill".to_owned()];
        sightings.note(&other, 2 * MINUTE);
        sightings.note(&found(Severity::Critical), 3 * MINUTE);
        assert!(lasts(&sightings));
    }

    #[test]
    fn a_note_for_hours_makes_no_critical_moment_last() {
        let mut sightings = Sightings::default();
        for minute in 0..60 {
            sightings.note(&found(Severity::Note), minute * MINUTE);
        }
        sightings.note(&found(Severity::Critical), 60 * MINUTE);
        assert!(!lasts(&sightings));
        assert!(sightings.lasts(RULE, Severity::Note, LEAST));
    }

    #[test]
    fn a_process_at_its_limit_never_lasts() {
        let mut sightings = Sightings::default();
        for minute in 0..9 {
            let of_a_user = (Severity::Critical, Subject::Process("toy".to_owned()));
            sightings.note(&report(Some(of_a_user)), minute * MINUTE);
        }
        assert!(!sightings.lasts(RULE, Severity::Note, Duration::ZERO));
    }

    #[test]
    fn what_does_not_last_is_a_warning() {
        let mut report = found(Severity::Critical);
        seen_at(&[0, 1, 2, 3]).settle(&mut report, LEAST);
        assert_eq!(report.worst, Some(Severity::Critical));
        seen_at(&[0]).settle(&mut report, LEAST);
        assert_eq!(report.worst, Some(Severity::Warning));
    }

    #[test]
    fn sightings_are_kept_within_a_boot() {
        let dir = tempfile::tempdir().unwrap();
        for checks in 1..=3 {
            let mut kept = SightingsFile::open(dir.path());
            kept.note(&found(Severity::Note)).unwrap();
            assert_eq!(kept.sightings.found["reclaim-storm note"].checks, checks);
        }
        let path = dir.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        let boot = std::fs::read_to_string(BOOT_ID).unwrap();
        std::fs::write(&path, text.replace(boot.trim(), "another")).unwrap();
        assert_eq!(SightingsFile::open(dir.path()).sightings.found.len(), 0);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(SightingsFile::open(dir.path()).sightings.found.len(), 0);
    }
}
