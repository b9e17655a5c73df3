//! Comma separated values, as RFC 4180 says.

use super::sink::{AT, ExportError, Sink, rfc3339, values};
use mw_model::Table;
use std::io::Write;

pub(super) struct Csv<W> {
    out: W,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(names: &[String], mut out: W) -> Result<Self, ExportError> {
        write!(out, "{AT}")?;
        for name in names {
            write!(out, ",{}", quoted(name))?;
        }
        out.write_all(b"\r\n")?;
        Ok(Self { out })
    }
}

impl<W: Write> Sink for Csv<W> {
    fn write(&mut self, table: &Table) -> Result<(), ExportError> {
        for (row, unix_ms) in table.at_unix_ms.iter().enumerate() {
            if let Some(at) = rfc3339(*unix_ms) {
                write!(self.out, "{at:.3}")?;
            }
            for value in values(table, row) {
                match value {
                    Some(value) => write!(self.out, ",{value}")?,
                    None => self.out.write_all(b",")?,
                }
            }
            self.out.write_all(b"\r\n")?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        Ok(self.out.flush()?)
    }
}

fn quoted(name: &str) -> String {
    if name.contains(['"', ',', '\r', '\n']) {
        return format!("\"{}\"", name.replace('"', "\"\""));
    }
    name.to_owned()
}
