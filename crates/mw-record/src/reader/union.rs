//! Columns of several layouts in one table.

use crate::{RecordError, codec};
use mw_model::Table;
use std::collections::HashMap;

/// Columns of several layouts, side by side.
#[derive(Debug, Default)]
pub(super) struct Union {
    pub(super) names: Vec<String>,
    places: HashMap<String, usize>,
    seen: Vec<u64>,
}

impl Union {
    /// Adds the columns of a layout that was not seen yet.
    pub(super) fn places(
        &mut self,
        layout: u64,
        names: impl FnOnce() -> Result<Vec<String>, RecordError>,
    ) -> Result<(), RecordError> {
        if self.seen.contains(&layout) {
            return Ok(());
        }
        self.seen.push(layout);
        for name in names()? {
            let place = self.names.len();
            if self.names.len() < codec::MAX_COLUMNS && !self.places.contains_key(&name) {
                self.places.insert(name.clone(), place);
                self.names.push(name);
            }
        }
        Ok(())
    }
}

/// Adds rows to a table that has all of their columns.
pub(crate) fn append(table: &mut Table, part: Table) {
    let rows = part.rows();
    table.at_unix_ms.extend(part.at_unix_ms);
    let same = table.columns.iter().map(|c| &c.name).eq(part.columns.iter().map(|c| &c.name));
    if same {
        for (column, more) in table.columns.iter_mut().zip(part.columns) {
            column.values.extend(more.values);
        }
        return;
    }
    let mut parts: HashMap<String, Vec<u64>> =
        part.columns.into_iter().map(|column| (column.name, column.values)).collect();
    for column in &mut table.columns {
        match parts.remove(&column.name) {
            Some(more) => column.values.extend(more),
            None => column.values.resize(column.values.len() + rows, mw_model::NO_VALUE),
        }
    }
}
