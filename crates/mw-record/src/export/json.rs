//! An array of objects, one a line.

use super::sink::{AT, ExportError, Sink, rfc3339, values};
use mw_model::Table;
use std::io::Write;

pub(super) struct Json<W> {
    out: W,
    /// `,"name":` of each column.
    keys: Vec<String>,
    empty: bool,
}

impl<W: Write> Json<W> {
    pub(super) fn new(names: &[String], mut out: W) -> Result<Self, ExportError> {
        let key = |name: &String| Ok(format!(",{}:", serde_json::to_string(name)?));
        let keys = names.iter().map(key).collect::<Result<_, serde_json::Error>>();
        out.write_all(b"[")?;
        Ok(Self { out, keys: keys.map_err(std::io::Error::from)?, empty: true })
    }
}

impl<W: Write> Sink for Json<W> {
    fn write(&mut self, table: &Table) -> Result<(), ExportError> {
        for (row, unix_ms) in table.at_unix_ms.iter().enumerate() {
            self.out.write_all(if self.empty { b"\n" } else { b",\n" })?;
            self.empty = false;
            match rfc3339(*unix_ms) {
                Some(at) => write!(self.out, "{{\"{AT}\":\"{at:.3}\"")?,
                None => write!(self.out, "{{\"{AT}\":null")?,
            }
            for (key, value) in self.keys.iter().zip(values(table, row)) {
                if let Some(value) = value {
                    write!(self.out, "{key}{value}")?;
                }
            }
            self.out.write_all(b"}")?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        self.out.write_all(b"\n]\n")?;
        Ok(self.out.flush()?)
    }
}
