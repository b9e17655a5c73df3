//! A recording at any time, with the settings of the last capture before it.

use crate::feed::Feed;
use crate::moment::{IncidentMark, Moment, Screen, Timeline};
use crate::trail::{TRAIL_MS, Trail};
use jiff::tz::TimeZone;
use mw_model::{Incident, Missing, OriginKind, Reading, Snapshot, Tick, Window};
use mw_record::{RecordError, Recording};
use mw_render::text;
use std::path::{Path, PathBuf};

/// The maximum time between rows of a recording: old rows are thinned to one a minute.
const SPARSEST_MS: u64 = 65_000;

/// Unpacks a capture of the recording at this path.
pub type Unpack = fn(&[u8], &Path) -> Result<Snapshot, String>;

/// The reason why a recording cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{}: nothing recorded yet", _0.display())]
    Empty(PathBuf),
    #[error("{requested} is not recorded (the recording covers {first} to {last})")]
    OutOfRange { requested: String, first: String, last: String },
}

/// A recording.
pub struct Replay {
    recording: Recording,
    unpack: Unpack,
    timeline: Timeline,
    /// The latest capture that was unpacked: when it was taken, and what it holds.
    captured: Option<(u64, Snapshot)>,
    incident: Option<Incident>,
    trouble: Option<String>,
}

impl Replay {
    /// # Errors
    /// It cannot be read, or has no rows.
    pub fn open(path: &Path, unpack: Unpack) -> Result<Self, ReplayError> {
        let recording = Recording::open(path)?;
        let Some((first_ms, last_ms)) = recording.range()? else {
            return Err(ReplayError::Empty(path.to_owned()));
        };
        let mark = |row: mw_model::IncidentRow| IncidentMark {
            id: row.id,
            started_ms: row.started_unix_ms,
            ended_ms: row.ended_unix_ms,
            verdict: row.verdict,
        };
        let mut incidents: Vec<IncidentMark> =
            recording.incidents()?.into_iter().map(mark).collect();
        incidents.sort_by_key(|incident| incident.started_ms);
        let trouble = recording.damage();
        let timeline = Timeline { first_ms, last_ms, incidents };
        Ok(Self { recording, unpack, timeline, captured: None, incident: None, trouble })
    }

    /// Time to begin at: the requested time (which may depend on the end of the recording), the last
    /// incident, or the end.
    ///
    /// # Errors
    /// The time is outside of the recording.
    pub fn start(
        &self,
        requested: Option<impl FnOnce(u64) -> u64>,
        zone: &TimeZone,
    ) -> Result<u64, ReplayError> {
        let Timeline { first_ms, last_ms, incidents } = &self.timeline;
        let Some(requested) = requested else {
            return Ok(incidents.last().map_or(*last_ms, |incident| incident.started_ms));
        };
        let at_ms = requested(*last_ms);
        if !(*first_ms..=*last_ms).contains(&at_ms) {
            let [first, last] = [*first_ms, *last_ms].map(|ms| local_time(ms, zone));
            let requested = local_time(at_ms, zone);
            return Err(ReplayError::OutOfRange { requested, first, last });
        }
        Ok(at_ms)
    }

    fn seek(&mut self, at_ms: u64) -> Result<(Moment, Trail), RecordError> {
        let reach_ms = TRAIL_MS.max(SPARSEST_MS);
        let mut ticks = self.recording.ticks(at_ms.saturating_sub(reach_ms), at_ms)?;
        ticks.sort_by_key(|tick| tick.unix_ms);
        let trail = Trail::from_samples(ticks.iter().map(|tick| (tick.unix_ms, &tick.sample)));
        self.load_incident(at_ms)?;
        let recent = |tick: &Tick| tick.unix_ms + SPARSEST_MS >= at_ms;
        let Some(last) = ticks.pop().filter(recent) else {
            self.trouble = Some("nothing recorded at this time".to_owned());
            return Ok((Moment::default(), trail));
        };
        let mut now = self.settings(last.unix_ms)?;
        now.origin.taken_unix_ms = Some(last.unix_ms);
        let earlier = ticks.pop().map(|tick| tick.sample);
        let window = Window::since(earlier, Snapshot { sample: last.sample, ..now });
        let report = mw_rules::check(&window, None);
        Ok((Moment::new(&window, report), trail))
    }

    /// Loads the incident at a time, unless it is loaded.
    fn load_incident(&mut self, at_ms: u64) -> Result<(), RecordError> {
        let mark = self.timeline.incident_at(at_ms);
        let id = mark.and_then(|at| self.timeline.incidents.get(at)).map(|incident| incident.id);
        if self.incident.as_ref().map(|incident| incident.id) != id {
            self.incident = id.map(|id| self.recording.incident(id)).transpose()?.flatten();
        }
        Ok(())
    }

    /// State of the machine in the last capture before a time: settings, tasks, cgroups.
    fn settings(&mut self, at_ms: u64) -> Result<Snapshot, RecordError> {
        let Some((taken_ms, bytes)) = self.recording.capture_before(at_ms)? else {
            return Ok(self.bare());
        };
        if self.captured.as_ref().map(|(known_ms, _)| *known_ms) != Some(taken_ms) {
            let snapshot = (self.unpack)(&bytes, self.recording.path()).unwrap_or_else(|why| {
                self.trouble = Some(format!("the capture of {taken_ms}: {why}"));
                self.bare()
            });
            self.captured = Some((taken_ms, snapshot));
        }
        Ok(self.captured.as_ref().map_or_else(|| self.bare(), |(_, known)| known.clone()))
    }

    /// Facts about the machine of a recording that holds no capture.
    fn bare(&self) -> Snapshot {
        let host = self.recording.host();
        let mut snapshot = Snapshot::default();
        let origin = &mut snapshot.origin;
        origin.kind = OriginKind::Tree;
        origin.root = self.recording.path().display().to_string();
        origin.page_bytes = host.page_bytes_or_usual();
        origin.cpus = Some(host.cpus).filter(|cpus| *cpus > 0);
        let missing = |what: &str| Missing::absent(what, "not recorded");
        snapshot.processes = Reading::Missing(missing("/proc/PID/status"));
        snapshot.cgroups = Reading::Missing(missing("/sys/fs/cgroup"));
        snapshot
    }
}

impl Feed for Replay {
    fn sample(&mut self) {}

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

    fn is_live(&self) -> bool {
        false
    }
}

fn local_time(unix_ms: u64, zone: &TimeZone) -> String {
    text::time(unix_ms, zone).unwrap_or_else(|| unix_ms.to_string())
}
