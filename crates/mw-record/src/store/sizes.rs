//! Sizes of holders: a row a sample, and one row for those of an hour.
//!
//! A row has the names of its holders, and a block (`codec.rs`) of two columns for each: the bytes of all
//! holders, then their limits. [`NO_VALUE`] is a holder that a sample lacks, and a limit that there is not.

use super::{Store, oldest_beyond, signed};
use crate::RecordError;
use crate::codec::{self, RowBlock};
use crate::format::failed;
use mw_model::{HolderSize, NO_VALUE};
use rusqlite::{Transaction, params};
use std::collections::HashMap;
use std::time::Duration;

/// Holders of a sample; more are not kept.
const MAX_HOLDERS: usize = 256;

/// Holders of a packed row; those of the samples beyond it are not kept: a machine that starts many large
/// programs a minute has so many.
const MAX_PACKED_HOLDERS: usize = 2048;

/// Samples that are packed together.
const SAMPLES_PER_ROW: usize = 60;

/// The most samples of a row: those of hours in which the file could not be written.
const MAX_SAMPLES_PER_ROW: usize = 1024;

/// The recorded time that a sample stands for.
const SAMPLE_SPAN: Duration = Duration::from_secs(60);

/// The longest list of names: of [`MAX_PACKED_HOLDERS`] paths of cgroups.
const MAX_NAMES_BYTES: usize = 8 << 20;

/// Samples of the same holders.
#[derive(Debug, Default)]
pub(crate) struct SizeBlock {
    pub(crate) names: Vec<String>,
    pub(crate) at_unix_ms: Vec<u64>,
    pub(crate) bytes: Vec<Vec<u64>>,
    pub(crate) limits: Vec<Vec<u64>>,
}

impl SizeBlock {
    /// Memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.len() + size_of::<String>()).sum();
        names + 2 * self.names.len() * self.at_unix_ms.len() * size_of::<u64>()
    }

    fn of_sample(unix_ms: u64, sizes: &[HolderSize]) -> Self {
        let sizes = sizes.get(..MAX_HOLDERS).unwrap_or(sizes);
        let one = |value: u64| vec![value];
        Self {
            names: sizes.iter().map(|size| size.holder.to_string().replace('\n', " ")).collect(),
            at_unix_ms: vec![unix_ms],
            bytes: sizes.iter().map(|size| one(size.bytes)).collect(),
            limits: sizes.iter().map(|size| one(size.limit_bytes.unwrap_or(NO_VALUE))).collect(),
        }
    }

    /// Samples one after the other.
    fn joined(parts: Vec<Self>) -> Self {
        let mut all = Self::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        for part in parts {
            let before = all.at_unix_ms.len();
            all.at_unix_ms.extend(part.at_unix_ms);
            for ((name, bytes), limits) in part.names.into_iter().zip(part.bytes).zip(part.limits) {
                let next = all.names.len();
                let place = *places.entry(name).or_insert_with_key(|name| {
                    all.names.push(name.clone());
                    next
                });
                if place >= MAX_PACKED_HOLDERS {
                    continue;
                }
                if place == next {
                    all.bytes.push(Vec::new());
                    all.limits.push(Vec::new());
                }
                for (series, more) in [(&mut all.bytes, bytes), (&mut all.limits, limits)] {
                    let Some(series) = series.get_mut(place) else { continue };
                    series.resize(before, NO_VALUE);
                    series.extend(more);
                }
            }
            let now = all.at_unix_ms.len();
            for series in all.bytes.iter_mut().chain(&mut all.limits) {
                series.resize(now, NO_VALUE);
            }
        }
        all.names.truncate(MAX_PACKED_HOLDERS);
        all
    }

    fn pack(mut self) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
        let names = codec::compress(self.names.join("\n").as_bytes())?;
        self.bytes.append(&mut self.limits);
        Ok((names, codec::pack(&RowBlock { at_unix_ms: self.at_unix_ms, columns: self.bytes })?))
    }

    /// Of so many samples.
    ///
    /// # Errors
    /// What is wrong with them.
    fn unpack(names: &[u8], body: &[u8], samples: usize) -> Result<Self, &'static str> {
        if samples > MAX_SAMPLES_PER_ROW {
            return Err("more samples than any row that memwright writes");
        }
        let names = codec::decompress(names, MAX_NAMES_BYTES)?;
        let names = String::from_utf8(names).map_err(|_| "its names are not text")?;
        let names: Vec<String> = match names.as_str() {
            "" => Vec::new(),
            names => names.split('\n').map(str::to_owned).collect(),
        };
        if names.len() > MAX_PACKED_HOLDERS {
            return Err("more holders than any that memwright writes");
        }
        let RowBlock { at_unix_ms, columns: mut bytes } =
            codec::unpack_rows(body, names.len() * 2, Some(samples))?;
        let limits = bytes.split_off(names.len());
        Ok(Self { names, at_unix_ms, bytes, limits })
    }
}

/// The sizes of a row, from its columns `samples`, `holders` and `body`.
pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<SizeBlock, &'static str>> {
    let samples: u64 = row.get("samples")?;
    let (names, body): (Vec<u8>, Vec<u8>) = (row.get("holders")?, row.get("body")?);
    Ok(SizeBlock::unpack(&names, &body, usize::try_from(samples).unwrap_or(usize::MAX)))
}

impl Store {
    /// Adds the sizes of holders at a time, and packs those of an hour.
    pub(crate) fn add_sizes(
        &mut self,
        unix_ms: u64,
        sizes: &[HolderSize],
    ) -> Result<(), RecordError> {
        self.insert_sizes(SizeBlock::of_sample(unix_ms, sizes), None)?;
        let loose = "SELECT count(*), coalesce(max(id), 0) FROM sizes WHERE samples = 1";
        let loose = self.connection.query_row(loose, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (count, last): (usize, i64) = loose.map_err(|error| failed(&self.path, error))?;
        if count < SAMPLES_PER_ROW { Ok(()) } else { self.pack_sizes(last) }
    }

    /// Makes one row of those that have one sample, up to a row.
    fn pack_sizes(&mut self, last: i64) -> Result<(), RecordError> {
        let parts = || {
            let query = "SELECT samples, holders, body FROM sizes WHERE samples = 1 AND id <= ? ORDER BY id";
            let mut statement = self.connection.prepare_cached(query)?;
            statement.query_map([last], read)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        let parts = parts().map_err(|error| failed(&self.path, error))?;
        // One that cannot be read must not keep the others from being packed.
        let parts = parts.into_iter().filter_map(Result::ok).collect();
        self.insert_sizes(SizeBlock::joined(parts), Some(last))
    }

    /// Inserts a row, in place of those of one sample up to `replaces`.
    fn insert_sizes(&mut self, block: SizeBlock, replaces: Option<i64>) -> Result<(), RecordError> {
        let since = block.at_unix_ms.iter().copied().min().unwrap_or(0);
        let until = block.at_unix_ms.iter().copied().max().unwrap_or(0);
        let samples = block.at_unix_ms.len() as u64;
        let (names, body) = block.pack().map_err(|error| self.io(error))?;
        self.write(|transaction: &Transaction<'_>| {
            if let Some(last) = replaces {
                transaction.execute("DELETE FROM sizes WHERE samples = 1 AND id <= ?", [last])?;
            }
            if samples == 0 {
                return Ok(0);
            }
            let insert = "INSERT INTO sizes (since_unix_ms, until_unix_ms, samples, holders, body) \
                          VALUES (?, ?, ?, ?, ?)";
            let mut statement = transaction.prepare_cached(insert)?;
            statement.execute(params![signed(since), signed(until), signed(samples), names, body])
        })?;
        Ok(())
    }

    /// Keeps the newest sizes of so much recorded time that fit into so many bytes.
    pub(crate) fn keep_sizes(
        &mut self,
        max_age: Duration,
        max_bytes: u64,
    ) -> Result<(), RecordError> {
        let samples = max_age.as_secs() / SAMPLE_SPAN.as_secs();
        self.write(|transaction| {
            transaction.execute(&oldest_beyond("sizes", "samples"), [signed(samples)])?;
            let bytes = "length(holders) + length(body)";
            transaction.execute(&oldest_beyond("sizes", bytes), [signed(max_bytes)])
        })?;
        Ok(())
    }
}
