//! A row an hour, made of its minutes: questions about weeks read a sixtieth of the rows.

use crate::frame::{Cell, ColumnType, FrameColumn};
use crate::minutes::{self, MinuteRow};
use std::collections::BTreeMap;

pub(crate) const HOUR_MS: u64 = 3_600_000;

const MINUTES: FrameColumn =
    FrameColumn { name: "minutes", kind: ColumnType::Number, about: "minutes that have a row" };

/// The columns after `at` and `host`.
pub(crate) fn columns() -> impl Iterator<Item = FrameColumn> {
    [MINUTES].into_iter().chain(minutes::columns())
}

/// The hours of these minutes, which are sorted by time.
pub(crate) fn rows(minutes: &BTreeMap<u64, MinuteRow>) -> impl Iterator<Item = (u64, Vec<Cell>)> {
    let mut hours = BTreeMap::<u64, (u64, MinuteRow)>::new();
    for (at, minute) in minutes {
        let (count, hour) = hours.entry(at - at % HOUR_MS).or_default();
        *count += 1;
        minutes::join(hour, minute);
    }
    hours.into_iter().map(|(at, (count, hour))| {
        let cells = [Some(count)].into_iter().chain(hour);
        (at, cells.map(Cell::from).collect())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::minutes::Minutes;
    use mw_model::Table;

    #[test]
    fn an_hour_joins_its_minutes_as_a_minute_joins_its_rows() {
        let mut table = Table::new(["meminfo.MemFree", "meminfo.AnonPages", "vmstat.oom_kill"]);
        for (at, row) in [
            (3_540_000, [50, 7, 0]),
            (3_600_000, [90, 8, 2]),
            (3_660_000, [80, 9, 2]),
            (3_720_000, [85, 6, 5]),
        ] {
            table.push(at, &row);
        }
        let mut minutes = Minutes::new(4096);
        minutes.add(&table);
        let rows: Vec<_> = rows(&minutes.within(&(3_600_000..7_200_000))).collect();
        let [(3_600_000, row)] = rows.as_slice() else { panic!("{rows:?}") };
        let cell =
            |name: &str| row[columns().position(|column| column.name == name).unwrap()].clone();
        assert_eq!(cell("minutes"), Cell::Number(3));
        assert_eq!(cell("rows"), Cell::Number(3));
        assert_eq!(cell("free_bytes_min"), Cell::Number(80));
        assert_eq!(cell("anon_bytes"), Cell::Number(6));
        assert_eq!(cell("oom_kills"), Cell::Number(5));
        assert_eq!(cell("thp_faults"), Cell::None);
    }
}
