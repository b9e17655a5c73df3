//! A recording: any moment of it, with the machine's settings as they were captured last before.

use super::Feed;
use crate::args::Moment as At;
use crate::command::captured;
use crate::{Exit, Failure};
use jiff::tz::TimeZone;
use mw_model::{Incident, Look, Missing, OriginKind, Snapshot, Tick, Window};
use mw_record::{RecordError, Recording};
use mw_render::text;
use mw_render::tui::{IncidentMark, Moment, Screen, TRAIL_MS, Timeline, Trail};
use std::path::Path;

/// Rows of a recording are at most so far apart: what is old is thinned to one a minute.
const SPARSEST_MS: u64 = 65_000;

/// A recording that is shown.
pub(super) struct Replay {
    recording: Recording,
    timeline: Timeline,
    /// The latest capture that was unpacked: when it was taken, and what it holds.
    captured: Option<(u64, Snapshot)>,
    incident: Option<Incident>,
    trouble: Option<String>,
}

impl Replay {
    /// Opens a recording.
    ///
    /// # Errors
    /// It cannot be read, or holds nothing.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let recording = Recording::open(path).map_err(could_not)?;
        let Some((first_ms, last_ms)) = recording.range().map_err(could_not)? else {
            return Err(could_not(format!("{}: nothing recorded yet", path.display())));
        };
        let mark = |row: mw_model::IncidentRow| IncidentMark {
            id: row.id,
            started_ms: row.started_unix_ms,
            ended_ms: row.ended_unix_ms,
            verdict: row.verdict,
        };
        let mut incidents: Vec<IncidentMark> =
            recording.incidents().map_err(could_not)?.into_iter().map(mark).collect();
        incidents.sort_by_key(|incident| incident.started_ms);
        let trouble = recording.damage();
        let timeline = Timeline { first_ms, last_ms, incidents };
        Ok(Self { recording, timeline, captured: None, incident: None, trouble })
    }

    /// Where to begin: the time that was asked for, the last incident, or the end.
    ///
    /// # Errors
    /// The time lies outside of the recording.
    pub(super) fn start(&self, asked: Option<At>, zone: &TimeZone) -> Result<u64, Failure> {
        let Timeline { first_ms, last_ms, incidents } = &self.timeline;
        let Some(asked) = asked else {
            return Ok(incidents.last().map_or(*last_ms, |incident| incident.started_ms));
        };
        let usage = |line: String| Failure::new(Exit::Usage, line);
        let at_ms = asked.unix_ms(*last_ms);
        if !(*first_ms..=*last_ms).contains(&at_ms) {
            let [first, last] = [*first_ms, *last_ms].map(|ms| said(ms, zone));
            let asked = said(at_ms, zone);
            return Err(usage(format!(
                "{asked} is not recorded (the recording covers {first} to {last})"
            )));
        }
        Ok(at_ms)
    }

    fn seek(&mut self, at_ms: u64) -> Result<(Moment, Trail), RecordError> {
        let reach_ms = TRAIL_MS.max(SPARSEST_MS);
        let mut ticks = self.recording.ticks(at_ms.saturating_sub(reach_ms), at_ms)?;
        ticks.sort_by_key(|tick| tick.unix_ms);
        let trail = Trail::from_samples(ticks.iter().map(|tick| (tick.unix_ms, &tick.sample)));
        self.meet_incident(at_ms)?;
        let recent = |tick: &Tick| tick.unix_ms + SPARSEST_MS >= at_ms;
        let Some(last) = ticks.pop().filter(recent) else {
            self.trouble = Some("nothing recorded at this time".to_owned());
            return Ok((Moment::default(), trail));
        };
        let mut now = self.settings(last.unix_ms)?;
        now.origin.taken_unix_ms = Some(last.unix_ms);
        let earlier = ticks.pop().map(|tick| tick.sample).into_iter().collect();
        let window = Window { earlier, now: Snapshot { sample: last.sample, ..now } };
        let report = mw_rules::check(&window, None);
        Ok((Moment::new(&window, report), trail))
    }

    /// Loads the incident that lies over a time, where it is another than before.
    fn meet_incident(&mut self, at_ms: u64) -> Result<(), RecordError> {
        let mark = self.timeline.incident_at(at_ms);
        let id = mark.and_then(|at| self.timeline.incidents.get(at)).map(|incident| incident.id);
        if self.incident.as_ref().map(|incident| incident.id) != id {
            self.incident = id.map(|id| self.recording.incident(id)).transpose()?.flatten();
        }
        Ok(())
    }

    /// What the last capture before a time says of the machine: settings, tasks, cgroups.
    fn settings(&mut self, at_ms: u64) -> Result<Snapshot, RecordError> {
        let Some((taken_ms, bytes)) = self.recording.capture_before(at_ms)? else {
            return Ok(self.bare());
        };
        if self.captured.as_ref().map(|(known_ms, _)| *known_ms) != Some(taken_ms) {
            let snapshot = captured::snapshot(&bytes).unwrap_or_else(|why| {
                self.trouble = Some(format!("the capture of {taken_ms}: {why}"));
                self.bare()
            });
            self.captured = Some((taken_ms, snapshot));
        }
        Ok(self.captured.as_ref().map_or_else(|| self.bare(), |(_, known)| known.clone()))
    }

    /// What the recording says of its machine where it holds no capture.
    fn bare(&self) -> Snapshot {
        let host = self.recording.host();
        let mut snapshot = Snapshot::default();
        let origin = &mut snapshot.origin;
        origin.kind = OriginKind::Tree;
        origin.root = self.recording.path().display().to_string();
        origin.page_bytes = if host.page_bytes == 0 { 4096 } else { host.page_bytes };
        origin.cpus = Some(host.cpus).filter(|cpus| *cpus > 0);
        let missing = |what: &str| Missing::absent(what, "not recorded");
        snapshot.processes = Look::Missing(missing("/proc/PID/status"));
        snapshot.cgroups = Look::Missing(missing("/sys/fs/cgroup"));
        snapshot
    }
}

impl Feed for Replay {
    fn look(&mut self) {}

    fn screen(&mut self, at_ms: Option<u64>) -> Screen {
        let at_ms = at_ms.unwrap_or(self.timeline.last_ms);
        // Somebody may still be writing it.
        if let (true, Ok(Some((_, last_ms)))) =
            (at_ms >= self.timeline.last_ms, self.recording.range())
        {
            self.timeline.last_ms = last_ms;
        }
        let (moment, trail) = self.seek(at_ms).unwrap_or_else(|error| {
            self.trouble = Some(error.to_string());
            (Moment::default(), Trail::default())
        });
        Screen {
            moment,
            trail,
            timeline: self.timeline.clone(),
            incident: self.incident.clone(),
            trouble: self.trouble.take(),
        }
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn goes_on(&self) -> bool {
        false
    }
}

fn said(unix_ms: u64, zone: &TimeZone) -> String {
    text::time(unix_ms, zone).unwrap_or_else(|| unix_ms.to_string())
}

fn could_not(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotCheck, error)
}
