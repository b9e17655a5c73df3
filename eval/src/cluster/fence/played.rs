//! What came back of both nodes, and what memwright says of it.

use crate::cluster::lines::{self, Line, Says};
use crate::cluster::phase::{CALM, Phase, began_s, is_of_flood};
use crate::cluster::recorded::{self, Recorded};
use crate::workspace::read;
use anyhow::Context;
use mw_model::IncidentRow;
use std::path::Path;

/// The phases before the flood: their names in the agent's files, and for people.
const PHASES: &[(&str, &str)] =
    &[(CALM, "no flood"), ("direct-io", "the flood under `memwright run --direct-io 64k`")];

/// Time for which events on n2 after the flood are of it.
const AFTERWARDS_S: f64 = 900.0;

/// corosync reports a token that it has missed for so long,
const TOKEN_S: f64 = 3.0;

/// with this line.
const MISSED: &str = "A processor failed";

/// Entries of the table after the takeover.
pub(super) const ROWS: u64 = 1000;

/// Times are in seconds since the epoch.
pub(super) struct Played {
    /// The kernel's release.
    pub(super) release: String,
    /// Memory that the database left, in MiB.
    pub(super) available: String,
    pub(super) phases: Vec<Phase>,
    /// Beginning of the flood without a remedy.
    pub(super) flood_s: f64,
    pub(super) lines: Vec<Line>,
    /// Number of further lines that this machine caused.
    pub(super) of_pauses: usize,
    /// Of the recording of n1, by time.
    pub(super) incidents: Vec<IncidentRow>,
    /// The times of its rows.
    pub(super) rows_s: Vec<f64>,
    /// The entries of the table on n2 after the takeover, or an error.
    pub(super) entries: String,
    /// The node that has the database in the end.
    pub(super) holder: String,
    /// Output of `memwright incidents` on n1 after its reset.
    pub(super) incidents_said: String,
    /// Output of `memwright heartbeats` for the logs of both nodes and the recording of n1.
    pub(super) heartbeats: String,
    /// Output of `memwright report` for the last stall before the reset.
    pub(super) report: String,
}

impl Played {
    pub(super) fn read(program: &Path, kept: &Path) -> anyhow::Result<Self> {
        let of = |node: &str, name: &str| read(&kept.join(node).join(name));
        let phases = PHASES
            .iter()
            .map(|phase| Phase::parse(*phase, &of("n1", &format!("{}.counters", phase.0))?));
        let phases = phases.collect::<anyhow::Result<Vec<_>>>()?;
        let flood_s = of("n1", "flooded").context("n1 was not reset")?.trim().parse()?;
        let (lines, of_pauses) = recorded::lines(kept)?;
        let recorded = Recorded::unpack(program, kept)?;
        let rows = recorded.open()?.table(0, u64::MAX)?.at_unix_ms;
        let mut played = Self {
            release: read(&kept.join("release"))?,
            available: of("n1", "available")?.trim().to_owned(),
            phases,
            flood_s,
            lines,
            of_pauses,
            incidents: recorded.incidents()?,
            rows_s: rows.iter().map(|ms| *ms as f64 / 1000.0).collect(),
            entries: of("n2", "rows")?.trim().to_owned(),
            holder: of("n2", "holder")?.trim().to_owned(),
            incidents_said: recorded.says(&["incidents"], &[])?,
            heartbeats: recorded.says(&["heartbeats"], &["n1", "n2"])?,
            report: String::new(),
        };
        let last = played.warned().next_back().map(|incident| incident.id.to_string());
        if let Some(last) = last {
            played.report = recorded.says(&["report", &last], &["n1", "n2"])?;
        }
        Ok(played)
    }

    /// The lines of the flood, and what came of it.
    pub(super) fn of_flood(&self) -> impl Iterator<Item = &Line> {
        lines::between(&self.lines, self.flood_s, self.flood_s + AFTERWARDS_S)
    }

    /// Time of the first of these lines, in seconds since the flood began.
    pub(super) fn first(&self, says: &[Says]) -> Option<f64> {
        let line = self.of_flood().find(|line| says.contains(&line.says))?;
        Some(line.after_s(self.flood_s))
    }

    /// The incidents of n1 in the flood, before its reset, with a cause that the flood may have; by time.
    pub(super) fn warned(&self) -> impl DoubleEndedIterator<Item = &IncidentRow> {
        let until_s = self.flood_s + self.reset_s().unwrap_or(0.0);
        let is_before =
            move |incident: &&IncidentRow| (self.flood_s..until_s).contains(&began_s(incident));
        self.incidents.iter().filter(is_before).filter(|incident| is_of_flood(incident))
    }

    /// Beginning of the first of them, in seconds since the flood began.
    pub(super) fn warned_s(&self) -> Option<f64> {
        self.warned().next().map(|incident| began_s(incident) - self.flood_s)
    }

    /// Time of the reset of n1, in seconds since the flood began: n2 misses its token from then on.
    pub(super) fn reset_s(&self) -> Option<f64> {
        let fenced_s = self.first(&[Says::Fenced])?;
        let is_missed = |line: &&Line| line.node == "n2" && line.text.contains(MISSED);
        let missed = self.of_flood().filter(is_missed).map(|line| line.after_s(self.flood_s));
        Some(missed.take_while(|missed_s| *missed_s < fenced_s).last()? - TOKEN_S)
    }

    /// Time before the reset that is not recorded, in seconds.
    pub(super) fn lost_s(&self) -> Option<f64> {
        let reset_s = self.flood_s + self.reset_s()?;
        // The clocks of the nodes may differ by a second.
        let last = self.rows_s.iter().rfind(|row_s| **row_s < reset_s + 1.0)?;
        Some((reset_s - last).max(0.0))
    }
}
