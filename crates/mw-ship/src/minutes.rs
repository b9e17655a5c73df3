//! A row a minute: what was least, most or last, and by how much the kernel's counters grew. A recording thins its rows as
//! they age; a minute's row stays the same, but for what lies between two rows.

use crate::frame::{Cell, ColumnType, FrameColumn};
use mw_model::{NO_VALUE, Table};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

pub(crate) const MINUTE_MS: u64 = 60_000;

/// Rows that are further apart say nothing of the minutes between them.
pub(crate) const LONGEST_GAP_MS: u64 = 3 * MINUTE_MS;

/// From this size on a free block can become a huge page of the usual size.
const HUGE_BYTES: u64 = 2 << 20;

/// The values of a minute, in the order of the columns.
pub(crate) type MinuteRow = Vec<Option<u64>>;

/// Source of a column of a minute among recorded metrics.
#[derive(Debug, Clone, Copy)]
enum ColumnSource {
    /// Number of rows of the minute.
    Rows,
    Last(&'static str),
    Least(&'static str),
    Most(&'static str),
    /// By how much a counter grew.
    Growth(&'static str),
    /// The least number of bytes that are free in blocks of 2 MiB and more, of all zones.
    LeastFreeHuge,
    /// Of all metrics with this beginning and end: by how much they grew together.
    GrowthOfAll(&'static str, &'static str),
    /// The most of any.
    MostOfAny(&'static str, &'static str),
    /// Their sum; each is already a difference.
    SumOfAll(&'static str, &'static str),
}

use ColumnSource::{
    Growth, GrowthOfAll, Last, Least, LeastFreeHuge, Most, MostOfAny, Rows, SumOfAll,
};

/// Name, unit and meaning, and where it comes from.
const COLUMNS: &[(&str, &str, ColumnSource)] = &[
    ("rows", "rows of the recording", Rows),
    ("free_bytes_min", "the least free memory", Least("meminfo.MemFree")),
    ("available_bytes_min", "the least available memory", Least("meminfo.MemAvailable")),
    ("free_2m_bytes_min", "the least memory in free blocks of 2 MiB and more", LeastFreeHuge),
    ("cache_bytes", "page cache, shared memory included", Last("meminfo.Cached")),
    ("dirty_bytes_max", "the most dirty memory", Most("meminfo.Dirty")),
    ("writeback_bytes_max", "the most memory under writeback", Most("meminfo.Writeback")),
    ("anon_bytes", "anonymous memory", Last("meminfo.AnonPages")),
    ("anon_huge_bytes", "of it, in transparent huge pages", Last("meminfo.AnonHugePages")),
    ("shmem_bytes", "shared memory and tmpfs", Last("meminfo.Shmem")),
    ("unevictable_bytes", "memory that reclaim leaves alone", Last("meminfo.Unevictable")),
    ("slab_unreclaimable_bytes", "objects of the kernel that stay", Last("meminfo.SUnreclaim")),
    ("page_table_bytes", "page tables", Last("meminfo.PageTables")),
    ("committed_bytes", "memory that was promised", Last("meminfo.Committed_AS")),
    ("swap_free_bytes_min", "the least free swap", Least("meminfo.SwapFree")),
    ("hugetlb_bytes", "memory in pools of huge pages", Last("meminfo.Hugetlb")),
    (
        "huge_pages_free_min",
        "the fewest free pages of the usual pool",
        Least("meminfo.HugePages_Free"),
    ),
    (
        "memory_some_us",
        "microseconds in which some task waited for memory",
        Growth("pressure.memory.some.total_us"),
    ),
    (
        "memory_full_us",
        "microseconds in which all tasks did",
        Growth("pressure.memory.full.total_us"),
    ),
    (
        "io_some_us",
        "microseconds in which some task waited for a disk",
        Growth("pressure.io.some.total_us"),
    ),
    ("io_full_us", "microseconds in which all tasks did", Growth("pressure.io.full.total_us")),
    (
        "cpu_some_us",
        "microseconds in which some task waited for a CPU",
        Growth("pressure.cpu.some.total_us"),
    ),
    ("kswapd_scanned_pages", "pages that kswapd scanned", Growth("vmstat.pgscan_kswapd")),
    ("kswapd_reclaimed_pages", "pages that it reclaimed", Growth("vmstat.pgsteal_kswapd")),
    ("direct_scanned_pages", "pages that tasks scanned themselves", Growth("vmstat.pgscan_direct")),
    ("direct_reclaimed_pages", "pages that they reclaimed", Growth("vmstat.pgsteal_direct")),
    ("allocation_stalls", "allocations that had to reclaim", Growth("vmstat.allocstall")),
    ("compaction_stalls", "allocations that had to compact", Growth("vmstat.compact_stall")),
    ("compaction_failures", "of them, failed", Growth("vmstat.compact_fail")),
    ("swapped_in_pages", "pages read from swap", Growth("vmstat.pswpin")),
    ("swapped_out_pages", "pages written to swap", Growth("vmstat.pswpout")),
    (
        "refaulted_file_pages",
        "file pages read again after reclaim",
        Growth("vmstat.workingset_refault_file"),
    ),
    (
        "refaulted_anon_pages",
        "anonymous pages read again after reclaim",
        Growth("vmstat.workingset_refault_anon"),
    ),
    ("major_faults", "page faults that read from a disk", Growth("vmstat.pgmajfault")),
    ("thp_faults", "page faults that got a huge page", Growth("vmstat.thp_fault_alloc")),
    ("thp_fallbacks", "page faults that got none", Growth("vmstat.thp_fault_fallback")),
    (
        "zone_reclaim_failures",
        "node-local reclaim that failed",
        Growth("vmstat.zone_reclaim_failed"),
    ),
    ("cache_drops", "writes to drop_caches", Growth("vmstat.drop_pagecache")),
    ("oom_kills", "processes that the OOM killer ended", Growth("vmstat.oom_kill")),
    ("disk_read_bytes", "bytes read from all disks", GrowthOfAll("disk.", ".read_bytes")),
    ("disk_written_bytes", "bytes written to all disks", GrowthOfAll("disk.", ".written_bytes")),
    (
        "probe_worst_us",
        "the longest answer of a probe, in microseconds",
        MostOfAny("probe.", ".worst_us"),
    ),
    ("probe_failures", "probes that failed", SumOfAll("probe.", ".failures")),
];

/// The columns after `at` and `host`.
pub(crate) fn columns() -> impl Iterator<Item = FrameColumn> {
    COLUMNS.iter().map(|(name, about, _)| FrameColumn { name, kind: ColumnType::Number, about })
}

/// Collects rows of a recording.
pub(crate) struct Minutes {
    page_bytes: u64,
    /// By the beginning of the minute.
    rows: BTreeMap<u64, MinuteRow>,
    /// The value of each counter before, and when that was.
    before: HashMap<String, (u64, u64)>,
}

impl Minutes {
    pub(crate) fn new(page_bytes: u64) -> Self {
        Self { page_bytes, rows: BTreeMap::new(), before: HashMap::new() }
    }

    /// Adds rows, in the order in which they were taken.
    pub(crate) fn add(&mut self, table: &Table) {
        let sources: Vec<Vec<RecordedColumn<'_>>> =
            COLUMNS.iter().map(|(_, _, how)| self.sources(table, *how)).collect();
        for (place, at) in table.at_unix_ms.iter().enumerate() {
            let columns = COLUMNS.iter().zip(&sources);
            let values: MinuteRow = columns
                .map(|((_, _, how), sources)| self.value(*how, sources, place, *at))
                .collect();
            join(self.rows.entry(at - at % MINUTE_MS).or_default(), &values);
        }
    }

    /// The columns of the recording that one of a minute is made of.
    fn sources<'a>(&self, table: &'a Table, how: ColumnSource) -> Vec<RecordedColumn<'a>> {
        let page_bytes = self.page_bytes;
        let source = |column: &'a mw_model::Column| {
            let name = column.name.as_str();
            let times = match how {
                Rows => None,
                Last(own) | Least(own) | Most(own) | Growth(own) => (name == own).then_some(1),
                GrowthOfAll(start, end) | MostOfAny(start, end) | SumOfAll(start, end) => {
                    (name.starts_with(start) && name.ends_with(end)).then_some(1)
                }
                LeastFreeHuge => {
                    let order = name.strip_prefix("buddy.").and_then(|rest| rest.rsplit_once('.'));
                    let order = order.and_then(|(_, order)| order.parse::<u32>().ok());
                    let bytes = order.and_then(|order| page_bytes.checked_shl(order));
                    bytes.filter(|bytes| *bytes >= HUGE_BYTES)
                }
            };
            times.map(|times| RecordedColumn { name, values: &column.values, times })
        };
        table.columns.iter().filter_map(source).collect()
    }

    /// Contribution of a row of the recording to a column of its minute.
    fn value(
        &mut self,
        how: ColumnSource,
        sources: &[RecordedColumn<'_>],
        place: usize,
        at: u64,
    ) -> Option<u64> {
        let values = sources.iter().filter_map(|source| Some((source, source.value(place)?)));
        match how {
            Rows => Some(1),
            Growth(_) | GrowthOfAll(..) => {
                let growths =
                    values.filter_map(|(source, value)| self.growth(source.name, value, at));
                growths.reduce(u64::saturating_add)
            }
            MostOfAny(..) => values.map(|(_, value)| value).max(),
            _ => values
                .map(|(source, value)| value.saturating_mul(source.times))
                .reduce(u64::saturating_add),
        }
    }

    /// By how much a counter grew since the row before. A restart of the machine, and a time without a recorder, say
    /// nothing.
    fn growth(&mut self, name: &str, value: u64, at: u64) -> Option<u64> {
        let before = match self.before.get_mut(name) {
            Some(before) => std::mem::replace(before, (value, at)),
            None => {
                self.before.insert(name.to_owned(), (value, at));
                return None;
            }
        };
        let (before, before_at) = before;
        (at.saturating_sub(before_at) <= LONGEST_GAP_MS).then(|| value.checked_sub(before))?
    }

    /// The minutes of this time, in Unix milliseconds.
    pub(crate) fn within(self, time: &Range<u64>) -> BTreeMap<u64, MinuteRow> {
        self.rows.into_iter().filter(|(at, _)| time.contains(at)).collect()
    }
}

/// The rows of a table with these columns.
pub(crate) fn rows(
    minutes: impl IntoIterator<Item = (u64, MinuteRow)>,
) -> impl Iterator<Item = (u64, Vec<Cell>)> {
    minutes.into_iter().map(|(at, row)| (at, row.into_iter().map(Cell::from).collect()))
}

/// Adds a later row of the same time.
pub(crate) fn join(row: &mut MinuteRow, later: &MinuteRow) {
    row.resize(COLUMNS.len(), None);
    for ((cell, value), (_, _, how)) in row.iter_mut().zip(later).zip(COLUMNS) {
        if let Some(value) = *value {
            *cell = Some(cell.map_or(value, |before| how.join(before, value)));
        }
    }
}

impl ColumnSource {
    fn join(self, before: u64, value: u64) -> u64 {
        match self {
            Last(_) => value,
            Least(_) | LeastFreeHuge => before.min(value),
            Most(_) | MostOfAny(..) => before.max(value),
            Rows | Growth(_) | GrowthOfAll(..) | SumOfAll(..) => before.saturating_add(value),
        }
    }
}

/// A column of the recording.
struct RecordedColumn<'a> {
    name: &'a str,
    values: &'a [u64],
    times: u64,
}

impl RecordedColumn<'_> {
    fn value(&self, place: usize) -> Option<u64> {
        self.values.get(place).copied().filter(|value| *value != NO_VALUE)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::Metric;

    fn cell(rows: &[(u64, Vec<Cell>)], minute: usize, name: &str) -> Cell {
        let column = COLUMNS.iter().position(|(column, ..)| *column == name).unwrap();
        rows[minute].1[column].clone()
    }

    #[test]
    fn every_source_is_a_metric_of_recordings() {
        for (name, _, how) in COLUMNS {
            let metric = match *how {
                Rows | LeastFreeHuge => continue,
                Last(metric) | Least(metric) | Most(metric) | Growth(metric) => metric.to_owned(),
                GrowthOfAll(start, end) | MostOfAny(start, end) | SumOfAll(start, end) => {
                    format!("{start}x{end}")
                }
            };
            let known = Metric::from_name(&metric);
            assert!(!matches!(known, Metric::Unknown(_)), "{name}: {metric}");
        }
    }

    #[test]
    fn counters_are_differences_and_the_rest_is_least_most_or_last() {
        let names = [
            "meminfo.MemFree",
            "vmstat.allocstall",
            "buddy.0.Normal.9",
            "buddy.1.Normal.10",
            "buddy.0.Normal.8",
        ];
        let mut table = Table::new(names);
        for (at, row) in [
            (0, [100, 5, 3, 1, 9]),
            (30_000, [70, 8, 1, 1, 9]),
            (59_000, [90, 9, 2, 1, 9]),
            (61_000, [80, 20, NO_VALUE, 1, 9]),
            // A restart of the machine.
            (90_000, [80, 2, 2, 2, 9]),
            // After an hour without a recorder.
            (3_690_000, [80, 1000, 2, 2, 9]),
            (3_691_000, [80, 1001, 2, 2, 9]),
        ] {
            table.push(at, &row);
        }
        let mut minutes = Minutes::new(4096);
        minutes.add(&table);
        let rows: Vec<_> = rows(minutes.within(&(0..u64::MAX))).collect();
        assert_eq!(rows.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 60_000, 3_660_000]);
        assert_eq!(cell(&rows, 0, "free_bytes_min"), Cell::Number(70));
        assert_eq!(cell(&rows, 0, "rows"), Cell::Number(3));
        assert_eq!(cell(&rows, 0, "allocation_stalls"), Cell::Number(4));
        assert_eq!(cell(&rows, 1, "allocation_stalls"), Cell::Number(11));
        assert_eq!(cell(&rows, 2, "allocation_stalls"), Cell::Number(1));
        assert_eq!(cell(&rows, 0, "free_2m_bytes_min"), Cell::Number(6 << 20));
        assert_eq!(cell(&rows, 0, "oom_kills"), Cell::None);
    }

    /// A clock that is set back by ten minutes repeats minutes; each stays one row, and nothing is counted twice.
    #[test]
    fn a_clock_that_goes_back_makes_no_second_row() {
        let mut table = Table::new(["vmstat.oom_kill"]);
        for (at, kills) in [(600_000, 1), (601_000, 2), (10_000, 3), (11_000, 3), (602_000, 4)] {
            table.push(at, &[kills]);
        }
        let mut minutes = Minutes::new(4096);
        minutes.add(&table);
        let rows: Vec<_> = rows(minutes.within(&(0..u64::MAX))).collect();
        let kills: Vec<Cell> = (0..rows.len()).map(|at| cell(&rows, at, "oom_kills")).collect();
        // The last row comes ten minutes after the one before it.
        assert_eq!(kills, [Cell::Number(1), Cell::Number(1)]);
    }
}
