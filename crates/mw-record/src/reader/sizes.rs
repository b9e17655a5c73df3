//! Sizes of holders, as series.

use super::limits::RowLimits;
use super::view::RecordingView;
use crate::RecordError;
use crate::format::failed;
use crate::store::{ReadFailure, SizeBlock, read_sizes};
use mw_model::{NO_VALUE, SizeHistory, SizeSeries, SizedHolder};
use rusqlite::OptionalExtension;
use std::collections::HashMap;

/// Samples that are given at once: a week of one a minute. Of more, one in several.
const MAX_SAMPLES: u64 = 7 * 24 * 60;

/// The most sizes that are given at once: 64 MiB. A holder counts as [`HOLDER_SIZES`].
const MAX_SIZES: usize = 4 << 20;

/// A holder without its name takes as much memory as so many sizes.
const HOLDER_SIZES: usize = 16;

/// The most rows that are read: of a week, one a minute.
const MAX_ROWS: usize = 10_080;

/// The most bytes that rows are unpacked to, one after the other. Two hundred holders take 60 days of 0.3 GB.
const MAX_UNPACKED_BYTES: usize = 2 << 30;

impl RecordingView<'_> {
    /// Of the row that was written last: the clock may have been set back since.
    pub(super) fn last_sizes(self) -> Result<Option<u64>, RecordError> {
        let connection = &self.opened.connection;
        let read = || {
            let last = "SELECT until_unix_ms FROM sizes ORDER BY id DESC LIMIT 1";
            connection.query_row(last, [], |row| row.get(0)).optional()
        };
        read().map_err(|error| failed(self.path, error))
    }

    pub(super) fn sizes(
        self,
        since: u64,
        until: u64,
        is_wanted: &dyn Fn(&SizedHolder) -> bool,
    ) -> Result<SizeHistory, RecordError> {
        let _state = self.hold()?;
        let fail = |error| failed(self.path, error);
        let connection = &self.opened.connection;
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let range = [signed(since), signed(until)];
        let within = "FROM sizes WHERE until_unix_ms >= ? AND since_unix_ms <= ? ORDER BY id";
        let mut reading = SeriesRead {
            range: (since, until),
            is_wanted,
            stride: self.samples(within, range)?.div_ceil(MAX_SAMPLES).max(1),
            seen: 0,
            sizes: 0,
            places: HashMap::new(),
            history: SizeHistory::default(),
        };
        let rows = format!("SELECT samples, holders, body {within}");
        let mut statement = connection.prepare_cached(&rows).map_err(fail)?;
        let mut limits = RowLimits::new("size", MAX_ROWS, MAX_UNPACKED_BYTES);
        for block in statement.query_map(range, read_sizes).map_err(fail)? {
            let block = block.map_err(fail)?;
            let block = block.map_err(|why| self.damaged(format!("sizes: {why}")))?;
            limits.take(block.held_bytes()).map_err(|why| self.damaged(why))?;
            reading.add(block);
            self.limit(reading.sizes as u64, MAX_SIZES as u64, since, until)?;
        }
        Ok(reading.history)
    }

    /// The number of samples in rows that each come once.
    fn samples(self, within: &str, range: [i64; 2]) -> Result<u64, RecordError> {
        let read = || {
            let heads = format!("SELECT id, samples {within}");
            let mut statement = self.opened.connection.prepare_cached(&heads)?;
            let mut heads = statement.query(range)?;
            let mut limits = RowLimits::new("size", MAX_ROWS, usize::MAX);
            let mut samples = 0_u64;
            while let Some(head) = heads.next()? {
                limits.add(head.get(0)?).map_err(ReadFailure::Content)?;
                samples = samples.saturating_add(head.get(1)?);
            }
            Ok(samples)
        };
        read().map_err(|error: ReadFailure| error.at(self.path))
    }
}

struct SeriesRead<'a> {
    range: (u64, u64),
    is_wanted: &'a dyn Fn(&SizedHolder) -> bool,
    /// One in so many samples is given.
    stride: u64,
    seen: u64,
    sizes: usize,
    places: HashMap<String, usize>,
    history: SizeHistory,
}

impl SeriesRead<'_> {
    fn add(&mut self, block: SizeBlock) {
        let SizeBlock { names, at_unix_ms, bytes, limits } = block;
        let (since, until) = self.range;
        let mut wanted = Vec::new();
        for unix_ms in at_unix_ms {
            let is_next = self.seen.is_multiple_of(self.stride);
            self.seen += 1;
            wanted.push((unix_ms, is_next && (since..=until).contains(&unix_ms)));
        }
        self.history.at_unix_ms.extend(wanted.iter().filter(|(_, is)| *is).map(|(ms, _)| ms));
        for ((name, bytes), limits) in names.into_iter().zip(bytes).zip(limits) {
            let Some(series) = self.series(name) else { continue };
            let before = series.sizes.len();
            for (((unix_ms, is_wanted), bytes), limit) in wanted.iter().zip(bytes).zip(limits) {
                if *is_wanted && bytes != NO_VALUE {
                    series.sizes.push((*unix_ms, bytes));
                    series.limit_bytes = Some(limit).filter(|limit| *limit != NO_VALUE);
                }
            }
            self.sizes += series.sizes.len() - before;
        }
    }

    /// The series of a holder; none of one that is not wanted, or of a kind that this version does not know.
    fn series(&mut self, name: String) -> Option<&mut SizeSeries> {
        let place = match self.places.get(&name) {
            Some(place) => *place,
            None => {
                let holder =
                    SizedHolder::from_name(&name).filter(|holder| (self.is_wanted)(holder))?;
                let place = self.history.series.len();
                let new = SizeSeries { holder, limit_bytes: None, sizes: Vec::new() };
                self.sizes += HOLDER_SIZES + 2 * name.len() / size_of::<(u64, u64)>();
                self.history.series.push(new);
                self.places.insert(name, place);
                place
            }
        };
        self.history.series.get_mut(place)
    }
}
