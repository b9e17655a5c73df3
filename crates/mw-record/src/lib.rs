//! The recording: counters over time and incidents in one file that survives a crash, and their
//! export.
//!
//! # Format
//! An SQLite database in WAL mode, `application_id` [`APPLICATION_ID`], `user_version`
//! [`FORMAT`]. Times are milliseconds since 1970, as the machine's clock said.
//!
//! | table | a row is |
//! |---|---|
//! | `meta` | a fact about the file: `memwright` (version that wrote last), `host` (JSON), `created_unix_ms`. This table stays as it is in all versions |
//! | `layout` | a list of column names ([`mw_model::Layout`]): compressed, a line each. A machine whose columns change gets another one |
//! | `chunk` | up to 300 rows of one layout, column by column, compressed (`codec.rs`), from `seq` on |
//! | `incident` | an [`mw_model::Incident`]: what is listed, `body` (compressed JSON without the values of its table) and `rows` (these, packed as a chunk is). One that is open is replaced as it changes |
//! | `capture` | a tree that `memwright capture` would have written at that moment, as it is |
//! | `sizes` | sizes of holders ([`mw_model::HolderSize`]) over an hour, or at one moment: `holders` (their names, compressed, a line each) and `body` (their bytes, then their limits, packed as a chunk is). `samples` is of how many moments |
//! | `kill` | an [`mw_model::ProcessKill`] as JSON, and its `source` for retention. Recordings of before 0.3 lack the table; a writer adds it |
//!
//! The index `incident_list` has what is listed of incidents, so that a list reads none of their evidence.
//!
//! `chunk.step_ms` says how dense a chunk is: 0, one row that waits to be packed; 1, every row as it
//! was taken; 10,000 or 60,000, thinned. `since_unix_ms` and `until_unix_ms` are the earliest and the
//! latest time in it, `span_ms` is how much recorded time it stands for.
//!
//! Beside the file lies `FILE-forecast`, which is rewritten from `sizes` every hour (`forecast.rs`).
//!
//! # Order and clocks
//! Rows are kept in the order in which they were taken (`seq`), whatever the clock did; after a
//! clock was set back, times go back in the recording too. Age is recorded time, not the clock's:
//! a jump of the clock, or a year switched off, deletes nothing.
//!
//! # Atomicity
//! The rows that are queued when the writer wakes up are one transaction, synced (`synchronous=FULL`); packing and
//! thinning replace rows within one transaction. A process that is killed, or a machine that
//! loses power, loses the rows that were not written yet: the recorder wakes the writer for every second row at least,
//! so that these are the last three seconds at most. One
//! process writes: it holds a lock (`flock`) on `FILE-writer`, which names it. Readers only read:
//! they work beside the writer, after it was killed, on a copy, and on read-only media.
//!
//! # Open incidents
//! An incident is written when its stall begins, with `state` `open`, and replaced under its number until
//! it is `closed`. A writer that begins marks what an earlier one left open as `interrupted`; a reader
//! shows it so as soon as nobody holds the lock. The column counts, not the state in the body.
//!
//! # Versioning
//! A reader refuses a newer `user_version`, and says which memwright wrote it; a writer moves the file aside. Names of columns that
//! a version does not know are kept, and read as nothing.
//!
//! # Retention
//! [`Retention`]: thinned to 10 s after a day and to 60 s after a week, deleted after 60 days or
//! beyond 200 MB, incidents last. Sizes are not thinned; they take an eighth of the file at most, kills a
//! sixty-fourth, of which the source with the most loses its oldest. Freed pages are released (`auto_vacuum=INCREMENTAL`).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod chunk;
mod codec;
mod error;
mod export;
mod forecast;
mod format;
mod incident;
mod lock;
mod reader;
mod retention;
mod store;
mod thin;
mod version;
mod writer;

pub use error::RecordError;
pub use export::{ExportError, ExportFormat, export, export_table};
pub use forecast::{keep_supplies, supplies};
pub use incident::word;
pub use reader::{MAX_TABLE_VALUES, MAX_TICKS, Recording};
pub use retention::Retention;
pub use version::{APPLICATION_ID, FORMAT};
pub use writer::Writer;
