//! Kills of a recording.

use super::limits::RowLimits;
use super::view::RecordingView;
use crate::RecordError;
use crate::format;
use crate::store::ReadFailure;
use mw_model::{ProcessKill, bounded_json};

/// The most kills that are read.
const MAX_KILLS: usize = 100_000;

/// The most bytes of all of them.
const MAX_BYTES: usize = 64 << 20;

/// The most memory that one becomes.
const MAX_KILL_BYTES: usize = 256 << 10;

impl RecordingView<'_> {
    pub(super) fn kills(self, since: u64) -> Result<Vec<ProcessKill>, RecordError> {
        self.read_kills(since).map_err(|error| error.at(self.path))
    }

    fn read_kills(self, since: u64) -> Result<Vec<ProcessKill>, ReadFailure> {
        let connection = &self.opened.connection;
        if !format::has_kills(connection)? {
            return Ok(Vec::new());
        }
        let query = "SELECT id, body FROM kill WHERE unix_ms >= ? ORDER BY id";
        let mut statement = connection.prepare_cached(query)?;
        let mut found = statement.query([i64::try_from(since).unwrap_or(i64::MAX)])?;
        let mut limits = RowLimits::new("kill", MAX_KILLS, MAX_BYTES);
        let mut kills = Vec::new();
        while let Some(row) = found.next()? {
            let (id, body): (u64, String) = (row.get(0)?, row.get(1)?);
            limits.add(id).and_then(|()| limits.take(body.len())).map_err(ReadFailure::Content)?;
            let kill = bounded_json::from_slice(body.as_bytes(), MAX_KILL_BYTES);
            kills.push(kill.map_err(|why| ReadFailure::Content(format!("kill {id}: {why}")))?);
        }
        Ok(kills)
    }
}
