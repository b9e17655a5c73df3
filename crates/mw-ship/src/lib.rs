//! Ships recordings to a data set that the machines of a fleet share.
//!
//! ```text
//! minutes/date=2026-11-24/host=db1/1764000000000.parquet     a row a minute
//! hours/date=2026-11-24/host=db1/1764000000000.parquet       a row an hour, made of its minutes
//! incidents/date=2026-11-24/host=db1/1764000000000.parquet   a row an incident, on the day when it began
//! holders/date=2026-11-24/host=db1/1764000000000.parquet     who held how much memory
//! facts/date=2026-11-24/host=db1/1764000000000.parquet       how the machine was set
//! ```
//!
//! Days are those of UTC. The file is named after the recording: a machine that begins another one, or shares its name
//! with a second one, replaces nothing. A day is one file, which is rewritten as a whole until the day is over, so that
//! nothing is lost or doubled, whatever fails in between. What is over is noted in a file of state; without that it is
//! written again with the same rows.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod days;
mod frame;
mod hours;
mod minutes;
mod state;
mod tables;
mod target;

pub use days::{ShipError, ShipSummary, Shipper};
pub use frame::{ColumnType, FrameColumn};
pub use tables::{TABLES, TableSpec};
pub use target::{S3Options, ShipTarget, ShipTargetError};
