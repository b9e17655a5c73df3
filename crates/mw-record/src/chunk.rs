//! The heads of chunks.

/// A chunk, as its head says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    pub(crate) seq: u64,
    pub(crate) since_unix_ms: u64,
    pub(crate) until_unix_ms: u64,
    pub(crate) rows: u64,
    pub(crate) span_ms: u64,
    pub(crate) step_ms: u64,
    pub(crate) layout: u64,
    pub(crate) bytes: u64,
}

/// The heads of chunks; a condition and an order follow.
pub(crate) const CHUNKS: &str = "SELECT seq, since_unix_ms, until_unix_ms, rows, span_ms, step_ms, \
                                 layout, length(body) FROM chunk";

impl ChunkHead {
    /// The number of the row after its last; of a thinned chunk, not beyond it.
    pub(crate) fn end(&self) -> u64 {
        self.seq.saturating_add(self.rows)
    }

    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            since_unix_ms: row.get(1)?,
            until_unix_ms: row.get(2)?,
            rows: row.get(3)?,
            span_ms: row.get(4)?,
            step_ms: row.get(5)?,
            layout: row.get(6)?,
            bytes: row.get(7)?,
        })
    }
}

/// Chunks of one layout that become one chunk of a wider step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) seqs: Vec<u64>,
    pub(crate) layout: u64,
    pub(crate) step_ms: u64,
    pub(crate) span_ms: u64,
}
