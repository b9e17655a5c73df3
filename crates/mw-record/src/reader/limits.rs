//! Limits of what a file may make its reader do.
//!
//! Pages of a hostile file name one another as they like: a page that is the child of three hundred others, level by
//! level, gives more rows than there are atoms, and an overflow page that follows itself gives a text of any length. So
//! the work of SQLite is counted, rows must come in the order of their keys, each once, and what is read of them has a
//! limit as well.

use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Instructions of SQLite's virtual machine from one count to the next.
const INSTRUCTIONS_PER_COUNT: u64 = 10_000;

/// The most instructions for opening a file: each row of its definitions is parsed besides, and there are ten.
const MAX_INSTRUCTIONS_OF_OPENING: u64 = 100_000;

/// The most instructions for one look. The heads of as many chunks as a recording may have take a tenth of them, and all
/// of them take some seconds.
const MAX_INSTRUCTIONS: u64 = 50_000_000;

/// The work that a connection has left for a look.
#[derive(Debug, Clone)]
pub(super) struct WorkLimit(Arc<AtomicU64>);

impl WorkLimit {
    /// Has a connection end a query that takes too much work.
    pub(super) fn limit(connection: &mut Connection) -> rusqlite::Result<Self> {
        let work = Self(Arc::new(AtomicU64::new(MAX_INSTRUCTIONS_OF_OPENING)));
        let left = work.clone();
        let is_too_much = move || {
            let less = left.0.load(Ordering::Relaxed).checked_sub(INSTRUCTIONS_PER_COUNT);
            left.0.store(less.unwrap_or(0), Ordering::Relaxed);
            less.is_none()
        };
        let interval = i32::try_from(INSTRUCTIONS_PER_COUNT).unwrap_or(i32::MAX);
        connection.progress_handler(interval, Some(is_too_much))?;
        Ok(work)
    }

    /// Another look begins.
    pub(super) fn begin(&self) {
        self.0.store(MAX_INSTRUCTIONS, Ordering::Relaxed);
    }
}

/// The order that keys have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOrder {
    Ascending,
    Descending,
}

/// Counts the rows of a query.
#[derive(Debug)]
pub(super) struct RowLimits {
    what: &'static str,
    order: KeyOrder,
    last_key: Option<u64>,
    rows_left: usize,
    bytes_left: usize,
}

impl RowLimits {
    pub(super) fn new(what: &'static str, max_rows: usize, max_bytes: usize) -> Self {
        let order = KeyOrder::Ascending;
        Self { what, order, last_key: None, rows_left: max_rows, bytes_left: max_bytes }
    }

    pub(super) fn ordered(self, order: KeyOrder) -> Self {
        Self { order, ..self }
    }

    /// Another row.
    ///
    /// # Errors
    /// It is one too many, or comes out of order.
    pub(super) fn add(&mut self, key: u64) -> Result<(), String> {
        let what = self.what;
        let follows = |last: u64| match self.order {
            KeyOrder::Ascending => key > last,
            KeyOrder::Descending => key < last,
        };
        if !self.last_key.replace(key).is_none_or(follows) {
            return Err(format!("{what} {key} comes twice or out of order"));
        }
        let left = self.rows_left.checked_sub(1);
        self.rows_left = left.ok_or_else(|| format!("more {what}s than any recording has"))?;
        Ok(())
    }

    /// So many bytes of a row are kept, or so many are worked through.
    ///
    /// # Errors
    /// They are too many.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left =
            left.ok_or_else(|| format!("its {}s are larger than any recording's", self.what))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_once_in_order_and_within_limits() {
        let mut rows = RowLimits::new("chunk", 3, 10);
        assert_eq!(rows.add(1), Ok(()));
        assert_eq!(rows.add(5), Ok(()));
        assert!(rows.add(5).unwrap_err().contains("chunk 5 comes twice"));
        assert_eq!(rows.add(6), Ok(()));
        assert!(rows.add(7).unwrap_err().contains("more chunks"));
        assert_eq!(rows.take(10), Ok(()));
        assert!(rows.take(1).unwrap_err().contains("larger"));
        let mut rows = RowLimits::new("chunk", 3, 10).ordered(KeyOrder::Descending);
        assert_eq!((rows.add(9), rows.add(8)), (Ok(()), Ok(())));
        assert!(rows.add(8).is_err());
    }

    #[test]
    fn a_query_without_end_is_ended_and_the_next_one_is_not() {
        let mut connection = Connection::open_in_memory().unwrap();
        let work = WorkLimit::limit(&mut connection).unwrap();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                       SELECT max(i) FROM n";
        let error = connection.query_row(endless, [], |_| Ok(())).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
        work.begin();
        connection.query_row("SELECT 1", [], |_| Ok(())).unwrap();
    }
}
