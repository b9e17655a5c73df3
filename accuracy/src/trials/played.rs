//! What comes back of a boot: when its plays happened, what their clients saw, and the recorder's incidents.

use anyhow::Context;
use mw_record::Recording;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The response time above which the recorder's probes stall.
pub(super) const LIMIT_MS: f64 = 500.0;

/// Report of the client about a request that was under way when it was ended.
const ANSWERED: &str = "ok";
const UNANSWERED: &str = "unanswered";

/// A request of the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientSample {
    pub(super) start_ms: f64,
    pub(super) took_ms: f64,
    /// `None`: it was answered.
    pub(super) failure: Option<String>,
}

impl ClientSample {
    /// A line of `ask -c`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start_ms, took_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let failure =
            words.next().filter(|word| ![ANSWERED, UNANSWERED].contains(word)).map(str::to_owned);
        Some(Self { start_ms, took_ms, failure })
    }
}

/// Events of a boot.
#[derive(Debug, Default)]
pub(super) struct BootRecord {
    pub(super) plays: BTreeMap<u32, RunTimes>,
    pub(super) incidents: Vec<mw_model::Incident>,
    /// The client's samples around the recorder's start, and when it started.
    pub(super) start: Option<(Vec<ClientSample>, f64)>,
    /// As in `uname -r`.
    pub(super) release: String,
    /// Directory of its logs.
    pub(super) kept: PathBuf,
}

/// Time of a run, in milliseconds since 1970, and the record of its client.
#[derive(Debug, Default, Clone)]
pub(super) struct RunTimes {
    pub(super) begin_ms: Option<f64>,
    pub(super) end_ms: Option<f64>,
    /// The service did not answer again.
    pub(super) is_lost: bool,
    pub(super) samples: Vec<ClientSample>,
}

impl BootRecord {
    /// From the files that lab/trials/make.sh leaves.
    pub(super) fn read(kept: &Path, release: String) -> anyhow::Result<Self> {
        let text = |name: &str| fs::read_to_string(kept.join(name)).unwrap_or_default();
        let outcome = text("outcome");
        anyhow::ensure!(outcome.trim() == "passed", "{outcome}");
        let mut played = Self { release, kept: kept.to_path_buf(), ..Self::default() };
        let recorder_ms = played.read_times(&text("times"))?;
        let samples = |name: &str| text(name).lines().filter_map(ClientSample::parse).collect();
        for (index, play) in &mut played.plays {
            play.samples = samples(&format!("client.{index}"));
        }
        played.start = recorder_ms.map(|at| (samples("client.start"), at));
        played.incidents = incidents(kept)?;
        Ok(played)
    }

    /// Lines `WHAT INDEX UNIX_MS`; returns when the recorder started.
    fn read_times(&mut self, text: &str) -> anyhow::Result<Option<f64>> {
        let mut recorder_ms = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [what, index, at] = words[..] else { continue };
            let (index, at): (u32, f64) = (index.parse()?, at.parse()?);
            match what {
                "recorder" => recorder_ms = Some(at),
                "begin" => self.plays.entry(index).or_default().begin_ms = Some(at),
                "end" => self.plays.entry(index).or_default().end_ms = Some(at),
                "lost" => self.plays.entry(index).or_default().is_lost = true,
                _ => {}
            }
        }
        Ok(recorder_ms)
    }
}

/// The incidents of the recording.
fn incidents(kept: &Path) -> anyhow::Result<Vec<mw_model::Incident>> {
    let archive = kept.join("recording.tar.gz");
    let status = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(kept).status()?;
    anyhow::ensure!(status.success(), "{}: no recording", archive.display());
    fs::remove_file(&archive)?;
    let recording = Recording::open(&kept.join("recording.db")).context("recording")?;
    let mut incidents = Vec::new();
    for row in recording.incidents()? {
        incidents.extend(recording.incident(row.id)?);
    }
    Ok(incidents)
}
