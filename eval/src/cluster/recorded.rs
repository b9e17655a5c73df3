//! What the nodes of a cluster sent, as kept: their logs, and the recording of n1 with what memwright says of it.

use super::lines::{self, Line};
use crate::workspace::{output, read};
use mw_model::IncidentRow;
use mw_record::Recording;
use std::path::{Path, PathBuf};
use std::process::Command;

/// corosync's and Pacemaker's lines of both nodes, without those that this machine caused, and how many these are.
pub(super) fn lines(kept: &Path) -> anyhow::Result<(Vec<Line>, usize)> {
    let mut lines = Vec::new();
    for node in ["n1", "n2"] {
        for log in LOGS {
            lines.extend(lines::of_log(node, &read(&kept.join(node).join(log))?));
        }
    }
    let (lines, of_pauses) = lines::without_pauses(lines);
    Ok((lines, of_pauses.len()))
}

/// In a sentence, where there were any.
pub(super) fn pauses(lines: usize) -> String {
    match lines {
        0 => String::new(),
        _ => format!(
            "{lines} lines are not counted: they are from times at which this machine did not run its guests, since \
             corosync was not scheduled on n2 either, where nothing happens.\n\n"
        ),
    }
}

const LOGS: [&str; 2] = ["corosync.log", "pacemaker.log"];

/// A program, and the recording of n1 that it is asked about.
pub(super) struct Recorded<'a> {
    program: &'a Path,
    kept: &'a Path,
    path: PathBuf,
}

impl<'a> Recorded<'a> {
    pub(super) fn unpack(program: &'a Path, kept: &'a Path) -> anyhow::Result<Self> {
        let path = kept.join("n1/recording.db");
        output(Command::new("gzip").args(["-dkf"]).arg(kept.join("n1/recording.db.gz")))?;
        Ok(Self { program, kept, path })
    }

    pub(super) fn open(&self) -> anyhow::Result<Recording> {
        Ok(Recording::open(&self.path)?)
    }

    /// By time.
    pub(super) fn incidents(&self) -> anyhow::Result<Vec<IncidentRow>> {
        let mut incidents = self.open()?.incidents()?;
        incidents.sort_by_key(|incident| incident.started_unix_ms);
        Ok(incidents)
    }

    /// Output of a command for it, with the logs of these nodes.
    pub(super) fn says(&self, command: &[&str], nodes: &[&str]) -> anyhow::Result<String> {
        let mut memwright = Command::new(self.program);
        memwright.args(command).arg("--recording").arg(&self.path);
        for log in nodes.iter().flat_map(|node| LOGS.map(|log| self.kept.join(node).join(log))) {
            memwright.arg("--log").arg(log);
        }
        // The guests' logs have the time of their clocks, without a zone.
        let output = memwright.env("TZ", "UTC").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
