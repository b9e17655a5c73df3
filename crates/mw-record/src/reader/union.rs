//! Columns of several layouts in one table.

use crate::{RecordError, codec};
use mw_model::Table;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The most layouts that are put side by side; a machine gets another one when a disk, a probe or a CPU comes or goes.
const MAX_LAYOUTS: usize = 4096;

/// The most columns of all layouts that are put side by side, each counted as often as it comes.
const MAX_COLUMNS_READ: usize = 1 << 20;

/// Columns of several layouts, side by side.
#[derive(Debug, Default)]
pub(super) struct Union {
    pub(super) names: Vec<String>,
    places: HashMap<String, usize>,
    seen: HashSet<u64>,
    columns_read: usize,
}

impl Union {
    /// Adds the columns of a layout that was not seen yet; the inner error is that there are too many.
    pub(super) fn places(
        &mut self,
        layout: u64,
        names: impl FnOnce() -> Result<Rc<[String]>, RecordError>,
    ) -> Result<Result<(), String>, RecordError> {
        if !self.seen.insert(layout) {
            return Ok(Ok(()));
        }
        let names = names()?;
        self.columns_read = self.columns_read.saturating_add(names.len());
        if self.seen.len() > MAX_LAYOUTS || self.columns_read > MAX_COLUMNS_READ {
            return Ok(Err("more layouts than any recording has".to_owned()));
        }
        for name in names.iter() {
            let place = self.names.len();
            if place < codec::MAX_COLUMNS && !self.places.contains_key(name) {
                self.places.insert(name.clone(), place);
                self.names.push(name.clone());
            }
        }
        Ok(Ok(()))
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
