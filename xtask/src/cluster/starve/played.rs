//! What came back from a run, and what memwright says of it.

use super::lines::{self, Line};
use super::phase::{PHASES, Phase};
use crate::workspace::{output, read};
use anyhow::Context;
use mw_model::{IncidentRow, Table};
use mw_record::Recording;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What came back.
pub(super) struct Played {
    /// The kernel's release.
    pub(super) release: String,
    /// What the database left, in MiB.
    pub(super) available: String,
    pub(super) phases: Vec<Phase>,
    pub(super) lines: Vec<Line>,
    pub(super) incidents: Vec<IncidentRow>,
    /// What `memwright heartbeats` says of the logs of n1.
    pub(super) heartbeats: String,
    /// What `memwright report` says of the first incident of the flood.
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
        let mut lines = Vec::new();
        for (node, name) in
            [("n1", "corosync"), ("n1", "pacemaker"), ("n2", "corosync"), ("n2", "pacemaker")]
        {
            lines.extend(lines::of_log(node, &text(kept.join(node).join(format!("{name}.log")))?));
        }
        output(Command::new("gzip").args(["-dkf"]).arg(n1.join("recording.db.gz")))?;
        let recording = n1.join("recording.db");
        let memwright = |args: &[&str]| {
            let mut memwright = Command::new(program);
            let output = memwright.args(args).arg("--recording").arg(&recording).output()?;
            anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let opened = Recording::open(&recording)?;
        let mut incidents = opened.incidents()?;
        incidents.sort_by_key(|incident| incident.started_unix_ms);
        let flood = phases.iter().find(|phase| phase.name == "flood").context("no flood")?;
        let warned = incidents.iter().find(|incident| flood.is_warned_of(incident));
        let logs = ["corosync.log", "pacemaker.log"].map(|log| n1.join(log).display().to_string());
        let [corosync, pacemaker] = &logs;
        let heartbeats = memwright(&["heartbeats", "--log", corosync, "--log", pacemaker])?;
        let number = warned.map_or_else(|| "worst".to_owned(), |warned| warned.id.to_string());
        let report = memwright(&["report", &number, "--log", corosync, "--log", pacemaker])?;
        Ok(Self {
            release: text(kept.join("release"))?,
            available: text(n1.join("available"))?.trim().to_owned(),
            schedmiss: text(n1.join("flood.schedmiss")).unwrap_or_default(),
            series: opened.table(0, u64::MAX)?,
            loads: text(kept.join("loads"))?,
            phases,
            lines,
            incidents,
            heartbeats,
            report,
        })
    }

    /// The lines from the beginning of a phase to that of the next.
    pub(super) fn lines_of(&self, number: usize) -> impl Iterator<Item = &Line> {
        let from_s = self.phases[number].from_s;
        let end_s =
            self.phases.get(number + 1).map_or(self.phases[number].to_s, |next| next.from_s);
        let mut lines: Vec<&Line> =
            self.lines.iter().filter(|line| line.after_s(from_s) < end_s - from_s).collect();
        lines.sort_by(|a, b| a.after_s(from_s).total_cmp(&b.after_s(from_s)));
        lines.into_iter()
    }
}
