//! The heads of all chunks, as far as they can be read.

use super::limits::{KeyOrder, RowLimits};
use crate::chunk::{CHUNKS, ChunkHead};
use rusqlite::Connection;

/// The most chunks that a recording has: beyond it, it is none of memwright's.
const MAX_CHUNKS: usize = 200_000;

/// Readable part of the list of chunks.
#[derive(Debug, Default)]
pub(super) struct ChunkScan {
    /// In the order in which they were taken.
    pub(super) chunks: Vec<ChunkHead>,
    /// Gaps in that list, from the first chunk that could not be read.
    gap: Option<usize>,
    /// The reason why there is a gap.
    pub(super) problem: Option<String>,
}

/// Reads the heads of all chunks; where some cannot be read, those before and those after them.
pub(super) fn scan(connection: &Connection) -> ChunkScan {
    let (mut chunks, problem) =
        walk(connection, &format!("{CHUNKS} ORDER BY seq"), KeyOrder::Ascending);
    let Some(problem) = problem else { return ChunkScan { chunks, gap: None, problem: None } };
    let gap = chunks.len();
    let last = chunks.last().map_or(0, |chunk| chunk.seq);
    let after = format!("{CHUNKS} WHERE seq > {last} ORDER BY seq DESC");
    let (mut after, _) = walk(connection, &after, KeyOrder::Descending);
    after.reverse();
    chunks.extend(after);
    ChunkScan { chunks, gap: Some(gap), problem: Some(problem) }
}

fn walk(connection: &Connection, query: &str, order: KeyOrder) -> (Vec<ChunkHead>, Option<String>) {
    let mut chunks = Vec::new();
    let mut heads = RowLimits::new("chunk", MAX_CHUNKS, usize::MAX).ordered(order);
    let mut read = || {
        let mut statement = connection.prepare_cached(query)?;
        for chunk in statement.query_map([], ChunkHead::read)? {
            let chunk = chunk?;
            if let Err(problem) = heads.add(chunk.seq) {
                return Ok(Some(problem));
            }
            chunks.push(chunk);
        }
        Ok(None)
    };
    let problem = read().unwrap_or_else(|error: rusqlite::Error| Some(error.to_string()));
    (chunks, problem)
}

impl ChunkScan {
    /// The earliest and the latest time.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        range(&self.chunks)
    }

    /// True if nothing is missing between two times.
    pub(super) fn is_whole(&self, since_unix_ms: u64, until_unix_ms: u64) -> bool {
        let Some((before, after)) = self.gap.map(|gap| self.chunks.split_at(gap)) else {
            return true;
        };
        let before = range(before).is_some_and(|(_, until)| until_unix_ms <= until);
        before || range(after).is_some_and(|(since, _)| since_unix_ms >= since)
    }

    /// Readable parts, for people.
    pub(super) fn readable(&self) -> String {
        let (before, after) = self.chunks.split_at(self.gap.unwrap_or(self.chunks.len()));
        match (range(before), range(after)) {
            (None, None) => "none of its rows can be read".to_owned(),
            (Some((_, until)), None) => {
                format!("its rows until {until} can be read (--until {until})")
            }
            (None, Some((since, _))) => {
                format!("its rows from {since} on can be read (--since {since})")
            }
            (Some((_, until)), Some((since, _))) => format!(
                "its rows until {until} and from {since} on can be read \
                 (--until {until}, --since {since})"
            ),
        }
    }
}

fn range(chunks: &[ChunkHead]) -> Option<(u64, u64)> {
    let since = chunks.iter().map(|chunk| chunk.since_unix_ms).min()?;
    Some((since, chunks.iter().map(|chunk| chunk.until_unix_ms).max()?))
}
