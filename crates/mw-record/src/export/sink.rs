//! The interface of the formats of an export.

use crate::RecordError;
use mw_model::{NO_VALUE, Table};
use std::io;

/// The name of the column of times.
pub(super) const AT: &str = "at";

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("as Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Takes tables of the same columns and writes them.
pub(super) trait Sink {
    fn write(&mut self, table: &Table) -> Result<(), ExportError>;
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// A time as RFC 3339; `None` beyond the year 9999.
pub(super) fn rfc3339(unix_ms: u64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()
}

/// The values of a row, `None` where there is none.
pub(super) fn values(table: &Table, row: usize) -> impl Iterator<Item = Option<u64>> + '_ {
    let value = move |column: &mw_model::Column| column.values.get(row).copied();
    table.columns.iter().map(value).map(|value| value.filter(|value| *value != NO_VALUE))
}
