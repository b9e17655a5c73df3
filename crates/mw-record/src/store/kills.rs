//! Kills: a row each.

use super::{Store, signed};
use crate::RecordError;
use crate::format::failed;
use crate::incident::IncidentSize;
use mw_model::ProcessKill;
use rusqlite::params;

/// Kills that are written at once.
const MAX_KILLS: usize = 256;

impl Store {
    /// Adds kills; of more than 256 the first.
    pub(crate) fn add_kills(&mut self, kills: &[ProcessKill]) -> Result<(), RecordError> {
        let kills = kills.get(..MAX_KILLS).unwrap_or(kills);
        let rows = kills.iter().map(|kill| Ok((kill, serde_json::to_string(kill)?)));
        let rows: Vec<(&ProcessKill, String)> =
            rows.collect::<serde_json::Result<_>>().map_err(|error| self.io(error.into()))?;
        self.write(|transaction| {
            let insert = "INSERT INTO kill (unix_ms, source, body) VALUES (?, ?, ?)";
            let mut statement = transaction.prepare_cached(insert)?;
            rows.iter().try_for_each(|(kill, body)| {
                statement
                    .execute(params![signed(kill.unix_ms), kill.source_name(), body])
                    .map(|_| ())
            })
        })
    }

    /// Sources and sizes of the kills, the oldest first.
    pub(crate) fn kill_sizes(&self) -> Result<Vec<IncidentSize>, RecordError> {
        let query = "SELECT id, length(body), source FROM kill ORDER BY id";
        let size = |row: &rusqlite::Row<'_>| {
            Ok(IncidentSize { id: row.get(0)?, bytes: row.get(1)?, source: row.get(2)? })
        };
        let sizes = || {
            let mut statement = self.connection.prepare_cached(query)?;
            statement.query_map([], size)?.collect::<rusqlite::Result<_>>()
        };
        sizes().map_err(|error| failed(&self.path, error))
    }

    pub(crate) fn delete_kills(&mut self, ids: &[u64]) -> Result<(), RecordError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write(|transaction| {
            let mut statement = transaction.prepare_cached("DELETE FROM kill WHERE id = ?")?;
            ids.iter().try_for_each(|id| statement.execute([signed(*id)]).map(|_| ()))
        })
    }
}
