//! A machine's counters over months, made of what it did for a minute.

use mw_model::{NO_VALUE, Table};

/// Values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Since boot: it only grows.
    Counter,
    /// An amount: it comes and goes around what it was.
    Amount,
    /// Since the row before.
    Fresh,
}

/// A column as it was seen.
#[derive(Debug)]
struct Column {
    kind: Kind,
    /// Unit of all its changes.
    unit: u64,
    least: u64,
    most: u64,
    seen: Vec<u64>,
}

/// Rows without end: each changes by what changed from one real second to the next, by half of it at
/// least and one and a half of it at most, in the kernel's own steps (pages, blocks).
#[derive(Debug)]
pub(crate) struct Series {
    columns: Vec<Column>,
    row: Vec<u64>,
    second: usize,
    random: u64,
}

impl Series {
    /// Goes on where a table of real rows, a second apart, ends.
    pub(crate) fn after(table: &Table) -> Self {
        assert!(table.rows() > 2, "too few rows to go on from");
        let columns: Vec<Column> =
            table.columns.iter().map(|column| Column::new(&column.name, &column.values)).collect();
        let row = columns.iter().filter_map(|column| column.seen.last().copied()).collect();
        Self { columns, row, second: 0, random: 5 }
    }

    /// The next row, a second later.
    pub(crate) fn next(&mut self) -> &[u64] {
        let seconds = self.columns.first().map_or(1, |column| column.seen.len() - 1);
        // Mostly what followed in fact, sometimes another time.
        self.second = match self.random() % 16 {
            0 => self.random() as usize % seconds,
            _ => (self.second + 1) % seconds,
        };
        for at in 0..self.columns.len() {
            let share = self.random() % 1025;
            self.row[at] = self.columns[at].next(self.row[at], self.second, share);
        }
        &self.row
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x5851_f42d);
        self.random >> 33
    }
}

impl Column {
    fn new(name: &str, values: &[u64]) -> Self {
        let seen = values.to_vec();
        let fresh = name.starts_with("probe.")
            || name.starts_with("canary.")
            || name == "recorder.late_us"
            || seen.contains(&NO_VALUE);
        let kind = match seen.is_sorted() {
            _ if fresh => Kind::Fresh,
            true => Kind::Counter,
            false => Kind::Amount,
        };
        let changes = seen.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        let unit = changes.fold(0, divisor).max(1);
        let (least, most) = (*seen.iter().min().unwrap(), *seen.iter().max().unwrap());
        Self { kind, unit, least, most, seen }
    }

    /// `share` of 1024, and half of it, of what changed in a second.
    fn next(&self, value: u64, second: usize, share: u64) -> u64 {
        let (from, to) = (self.seen[second], self.seen[second + 1]);
        let part = |whole: u64| {
            let units = u128::from(whole / self.unit) * u128::from(512 + share);
            self.unit * u64::try_from(units.div_ceil(1024)).unwrap_or(u64::MAX / self.unit)
        };
        match self.kind {
            Kind::Fresh if to == NO_VALUE => to,
            Kind::Fresh => to / 1024 * (512 + share) + to % 1024,
            Kind::Counter => value.saturating_add(part(to - from)),
            Kind::Amount => self.moved(value, to >= from, part(to.abs_diff(from))),
        }
    }

    /// Where it would leave twice the range that it was seen in, it turns back.
    fn moved(&self, value: u64, up: bool, by: u64) -> u64 {
        let slack = (self.most - self.least) / 2;
        let up = match value {
            value if value.saturating_add(by) > self.most.saturating_add(slack) => false,
            value if value < self.least.saturating_sub(slack).saturating_add(by) => true,
            _ => up,
        };
        if up { value.saturating_add(by) } else { value.saturating_sub(by) }
    }
}

/// The greatest common divisor.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
