//! What came back from a run, and what memwright says of it.

use super::guests::PHASES;
use crate::cluster::lines::Line;
use crate::cluster::phase::{self, Phase};
use crate::cluster::recorded::{self, Recorded};
use crate::workspace::read;
use anyhow::Context;
use mw_model::{IncidentRow, Table};
use std::path::{Path, PathBuf};

/// Results of the guests.
pub(super) struct Played {
    /// The kernel's release.
    pub(super) release: String,
    /// Memory that the database left, in MiB.
    pub(super) available: String,
    pub(super) phases: Vec<Phase>,
    pub(super) lines: Vec<Line>,
    /// Number of further lines that this machine caused.
    pub(super) of_pauses: usize,
    pub(super) incidents: Vec<IncidentRow>,
    /// Output of `memwright heartbeats` for the logs of n1.
    pub(super) heartbeats: String,
    /// Output of `memwright report` for the first incident of the flood.
    pub(super) report: String,
    /// Keys of corosync's statistics after the flood.
    pub(super) schedmiss: String,
    /// The recording of n1.
    pub(super) series: Table,
    /// Load averages of this machine.
    pub(super) loads: String,
}

impl Played {
    pub(super) fn read(program: &Path, kept: &Path) -> anyhow::Result<Self> {
        let n1 = kept.join("n1");
        let text = |path: PathBuf| read(&path);
        let mut phases = Vec::new();
        for phase in PHASES {
            phases.push(Phase::parse(*phase, &text(n1.join(format!("{}.counters", phase.0)))?)?);
        }
        let (lines, of_pauses) = recorded::lines(kept)?;
        let recorded = Recorded::unpack(program, kept)?;
        let incidents = recorded.incidents()?;
        let flood = phases.iter().find(|phase| phase.name == "flood").context("no flood")?;
        let warned = incidents.iter().find(|incident| flood.is_warned_of(incident));
        let number = warned.map_or_else(|| "worst".to_owned(), |warned| warned.id.to_string());
        Ok(Self {
            release: text(kept.join("release"))?,
            available: text(n1.join("available"))?.trim().to_owned(),
            schedmiss: text(n1.join("flood.schedmiss")).unwrap_or_default(),
            series: recorded.open()?.table(0, u64::MAX)?,
            loads: text(kept.join("loads"))?,
            phases,
            lines,
            of_pauses,
            heartbeats: recorded.says(&["heartbeats"], &["n1"])?,
            report: recorded.says(&["report", &number], &["n1"])?,
            incidents,
        })
    }

    /// The lines from the beginning of a phase to that of the next.
    pub(super) fn lines_of(&self, number: usize) -> impl Iterator<Item = &Line> {
        phase::lines_of(&self.phases, &self.lines, number)
    }
}
