//! Goes through the days of a recording.

use crate::frame::Frame;
use crate::state::{ShipProgress, ShipState};
use crate::tables::{self, TableSpec};
use crate::target::{ShipTarget, ShipTargetError};
use mw_model::IncidentRow;
use mw_record::{RecordError, Recording};
use mw_sys::{guarded, open_lock_file};
use parquet::errors::ParquetError;
use rustix::fs::{FlockOperation, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};

const DAY_MS: u64 = 24 * 3_600_000;

/// A clock may be set back by this much, so that rows are added to a day that was over.
const SETTLED_MS: u64 = DAY_MS;

/// The first row of a day may be this late.
const MINUTE_MS: u64 = 60_000;

/// Before the last row; what is older is of a clock that was wrong.
const OLDEST_MS: u64 = 400 * DAY_MS;

const LOCK: &str = "ship.lock";

#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("as Parquet: {0}")]
    Parquet(#[from] ParquetError),
    #[error(transparent)]
    Target(#[from] ShipTargetError),
    #[error("{path}: {why}")]
    State { path: PathBuf, why: String },
    #[error("{0}: another memwright ship is at work")]
    Busy(PathBuf),
}

/// A recording, and the data set that it is added to.
#[derive(Debug)]
pub struct Shipper<'a> {
    pub recording: &'a Recording,
    /// The name of the machine in the data set.
    pub host: &'a str,
    /// Settings of the machine, if it is this one.
    pub facts: Option<&'a BTreeMap<String, String>>,
    pub target: &'a ShipTarget,
    /// As the user named it.
    pub target_name: &'a str,
    /// Directory of the state.
    pub state_dir: &'a Path,
    pub since_unix_ms: u64,
    pub now_unix_ms: u64,
}

/// Days that were shipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShipSummary {
    pub days: usize,
    pub objects: usize,
    pub bytes: u64,
    /// The last day that is complete, as `2026-11-24`.
    pub complete: Option<String>,
}

impl Shipper<'_> {
    /// Ships every day that is not complete yet.
    ///
    /// # Errors
    /// The recording, the data set or the state fails; what was shipped before that stays shipped.
    pub fn ship(&self) -> Result<ShipSummary, ShipError> {
        let _lock = self.lock()?;
        let state_failed = |error: io::Error| self.state_failed(&error);
        let mut state = ShipState::read(self.state_dir).map_err(state_failed)?;
        let key = format!("{} {} {}", self.target_name, self.host, self.file());
        let before = state.get(&key);
        let mut shipped = ShipSummary::default();
        let Some((first, last)) = self.recording.range()? else { return Ok(shipped) };
        let latest = last.min(self.now_unix_ms + DAY_MS);
        let oldest = latest.saturating_sub(OLDEST_MS).max(self.since_unix_ms);
        // Incidents are kept for longer than rows.
        let incidents = self.recording.incidents()?;
        let begun = incidents.iter().map(|incident| incident.started_unix_ms);
        let earliest = begun.chain([first]).filter(|at| *at >= oldest).min().unwrap_or(oldest);
        let since_before = before.as_ref().map(|before| before.since_unix_ms);
        let mut progress = ShipProgress { since_unix_ms: first, ..before.unwrap_or_default() };
        let next = progress.complete_day.map_or(0, |day| day.saturating_add(1));
        // A row from the future, of a clock that was set back, has its day, too.
        for day in (earliest / DAY_MS).max(next)..=latest / DAY_MS {
            let range = day * DAY_MS..(day + 1) * DAY_MS;
            let is_cut = first > range.start + MINUTE_MS;
            let has_ended = if is_cut && !self.may_replace(day, since_before, first)? {
                true
            } else {
                self.ship_day(day, &incidents, &mut progress.sent, &mut shipped)?
            };
            let is_over = self.now_unix_ms >= range.end.saturating_add(SETTLED_MS);
            let is_next =
                progress.complete_day.is_none_or(|complete| day.checked_sub(1) == Some(complete));
            if is_over && has_ended && is_next {
                progress.complete_day = Some(day);
                let own = format!("/date={}/", date(day));
                progress.sent.retain(|object, _| !object.contains(&own));
            }
            state.set(&key, &progress).map_err(state_failed)?;
        }
        self.ship_columns(&mut progress.sent)?;
        state.set(&key, &progress).map_err(state_failed)?;
        shipped.complete = progress.complete_day.map(date);
        Ok(shipped)
    }

    /// True if a day of which the recording lacks the beginning may be shipped: not over one that has more of it.
    fn may_replace(&self, day: u64, before: Option<u64>, first: u64) -> Result<bool, ShipError> {
        if before.is_some_and(|before| first <= before.saturating_add(MINUTE_MS)) {
            return Ok(true);
        }
        Ok(!self.target.has(&self.key(tables::MINUTES, day))?)
    }

    /// Whether all incidents of the day have ended.
    fn ship_day(
        &self,
        day: u64,
        incidents: &[IncidentRow],
        sent: &mut BTreeMap<String, u64>,
        shipped: &mut ShipSummary,
    ) -> Result<bool, ShipError> {
        let range = day * DAY_MS..(day + 1) * DAY_MS;
        let (mut frames, has_ended) = tables::of_day(self.recording, incidents, self.host, &range)?;
        if let Some(facts) = self.facts.filter(|_| range.contains(&self.now_unix_ms)) {
            frames.push(tables::facts(self.host, facts, self.now_unix_ms));
        }
        let before = shipped.objects;
        for (table, frame) in frames.iter().filter(|(_, frame)| !frame.rows.is_empty()) {
            let (key, bytes) = (self.key(*table, day), Frame::parquet(frame)?);
            let hash = hash(&bytes);
            if sent.get(&key) == Some(&hash) {
                continue;
            }
            self.target.put(&key, &bytes)?;
            sent.insert(key, hash);
            shipped.objects += 1;
            shipped.bytes += bytes.len() as u64;
        }
        shipped.days += usize::from(shipped.objects > before);
        Ok(has_ended)
    }

    /// A file without rows for each table, so that engines know its columns before any machine has had an incident. Columns
    /// are only added: their number tells versions apart.
    fn ship_columns(&self, sent: &mut BTreeMap<String, u64>) -> Result<(), ShipError> {
        for table in tables::TABLES {
            let empty = table.empty();
            let count = empty.columns.len();
            let key = format!("{}/date={}/host=none/columns-{count}.parquet", table.name, date(0));
            if sent.contains_key(&key) {
                continue;
            }
            if !self.target.has(&key)? {
                self.target.put(&key, &empty.parquet()?)?;
            }
            sent.insert(key, 0);
        }
        Ok(())
    }

    fn key(&self, table: TableSpec, day: u64) -> String {
        format!("{}/date={}/host={}/{}.parquet", table.name, date(day), self.host, self.file())
    }

    /// The name of its files.
    fn file(&self) -> u64 {
        self.recording.created_unix_ms()
    }

    fn lock(&self) -> Result<File, ShipError> {
        let path = self.state_dir.join(LOCK);
        let failed = |why: &dyn std::fmt::Display| ShipError::State {
            path: path.clone(),
            why: why.to_string(),
        };
        let dir = guarded::open_dir(self.state_dir).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let why = "there is no such directory; create it, or choose one with --state-dir";
                self.state_failed(&io::Error::other(why))
            }
            _ => self.state_failed(&error),
        })?;
        let lock =
            open_lock_file(&dir, Path::new(LOCK), OFlags::RDWR).map_err(|error| failed(&error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(ShipError::Busy(path)),
            Err(errno) => Err(failed(&errno)),
        }
    }

    fn state_failed(&self, error: &io::Error) -> ShipError {
        ShipError::State { path: self.state_dir.to_owned(), why: error.to_string() }
    }
}

/// One that changes with the compiler costs another upload.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The name of a day that is counted from 1970, in UTC.
fn date(day: u64) -> String {
    let time = i64::try_from(day.saturating_mul(DAY_MS)).ok();
    let time = time.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    time.strftime("%Y-%m-%d").to_string()
}
