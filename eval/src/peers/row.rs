//! A row of the table: a method and what was measured of it.

use super::method::{Memory, Method};
use mw_segment::PageSize;
use mw_test::measure::median;

/// The times of one turn, in milliseconds for each GiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Until all memory is populated, and locked where the method locks it.
    pub(super) create: f64,
    /// Until all of it is freed.
    pub(super) destroy: f64,
}

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) memory: Memory,
    pub(super) page: PageSize,
    pub(super) threads: usize,
    pub(super) locked: bool,
    pub(super) method: Method,
    pub(super) samples: Vec<Sample>,
    /// The reason why it cannot be measured on this machine.
    pub(super) missing: Option<String>,
}

impl Row {
    /// The median, the least and the most.
    pub(super) fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<[f64; 3]> {
        let values: Vec<f64> = self.samples.iter().map(of).collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        Some([median(values), least, most])
    }

    /// True if one thread does it with plain system calls or stores alone.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.method, Method::Stores | Method::Mlock)
    }

    /// Pages of a huge page pool are never reclaimed.
    pub(super) fn stays_in_memory(&self) -> bool {
        self.locked || self.page.is_hugetlb()
    }
}

/// The median time of the plain way on `page`, beside which a row of these properties stands.
pub(super) fn plain<'a>(rows: &'a [Row], of: &Row, page: PageSize) -> Option<&'a Row> {
    let is_same = |row: &&Row| {
        let lock = page.is_hugetlb() || row.locked == of.stays_in_memory();
        let memory = page.is_hugetlb() || row.memory == of.memory;
        row.is_plain() && row.page == page && lock && memory
    };
    rows.iter().find(is_same)
}

/// Speed at which a row creates its memory, as a multiple of the plain way on `page`.
pub(super) fn ratio(rows: &[Row], row: &Row, page: PageSize) -> Option<f64> {
    let plain = plain(rows, row, page)?.spread(|sample| sample.create)?;
    let own = row.spread(|sample| sample.create)?;
    Some(plain[0] / own[0])
}
