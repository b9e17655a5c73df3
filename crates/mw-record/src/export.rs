//! Recordings for other programs.
//!
//! A row a row, in the order in which they were taken; the column `at` is its time, the others are
//! named as [`mw_model::Layout`] says (in SQL, all of them need quotes). Where there was no value
//! there is none.

mod csv;
mod json;
mod parquet;
mod sink;

use crate::Recording;
use crate::reader::append;
use mw_model::Table;
pub use sink::ExportError;
use sink::Sink;
use std::io::Write;

/// Values that are put together before they are written, 16 MiB: a row group of Parquet.
const VALUES_AT_ONCE: usize = 2 << 20;

/// A form for other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma separated values; times as RFC 3339 in UTC.
    Csv,
    /// An array of objects, one a line; times as RFC 3339 in UTC.
    Json,
    /// Parquet, compressed with zstd; times as timestamps in UTC.
    Parquet,
}

/// Writes the rows between two times, both included, and gives their number. Memory is bounded,
/// however many there are.
///
/// # Errors
/// Part of the recording is damaged, or `out` cannot be written.
pub fn export(
    recording: &Recording,
    since_unix_ms: u64,
    until_unix_ms: u64,
    format: ExportFormat,
    out: impl Write + Send,
) -> Result<u64, ExportError> {
    let exporting = recording.walk(
        since_unix_ms,
        until_unix_ms,
        |names| RowExport::begin(format, &names, out),
        RowExport::add,
    )?;
    exporting.finish()
}

struct RowExport<'a> {
    sink: Box<dyn Sink + 'a>,
    waiting: Table,
    rows: u64,
}

impl<'a> RowExport<'a> {
    fn begin(
        format: ExportFormat,
        names: &[String],
        out: impl Write + Send + 'a,
    ) -> Result<Self, ExportError> {
        let waiting = Table::new(names.iter().map(String::as_str));
        Ok(Self { sink: sink(format, names, out)?, waiting, rows: 0 })
    }

    fn add(&mut self, part: Table) -> Result<(), ExportError> {
        append(&mut self.waiting, part);
        if self.waiting.rows() * (self.waiting.columns.len() + 1) >= VALUES_AT_ONCE {
            self.rows += write_out(self.sink.as_mut(), &mut self.waiting)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, ExportError> {
        self.rows += write_out(self.sink.as_mut(), &mut self.waiting)?;
        self.sink.finish()?;
        Ok(self.rows)
    }
}

/// Writes a table.
///
/// # Errors
/// `out` cannot be written.
pub fn export_table(
    table: &Table,
    format: ExportFormat,
    out: impl Write + Send,
) -> Result<(), ExportError> {
    let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let mut sink = sink(format, &names, out)?;
    sink.write(table)?;
    sink.finish()
}

fn sink<'a>(
    format: ExportFormat,
    names: &[String],
    out: impl Write + Send + 'a,
) -> Result<Box<dyn Sink + 'a>, ExportError> {
    Ok(match format {
        ExportFormat::Csv => Box::new(csv::Csv::new(names, out)?),
        ExportFormat::Json => Box::new(json::Json::new(names, out)?),
        ExportFormat::Parquet => Box::new(parquet::Parquet::new(names, out)?),
    })
}

/// Writes what waits, and empties it.
fn write_out(sink: &mut dyn Sink, waiting: &mut Table) -> Result<u64, ExportError> {
    let rows = waiting.rows();
    if rows > 0 {
        sink.write(waiting)?;
    }
    waiting.at_unix_ms.clear();
    waiting.columns.iter_mut().for_each(|column| column.values.clear());
    Ok(rows as u64)
}
