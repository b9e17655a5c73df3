//! Lines by which cluster software reports a late heartbeat, and what the recording has of the seconds before each.
//!
//! - `known`: the lines that are looked for; pure
//! - `stamp`: the time at which a line was written; pure
//! - `logs`: reads logs and the journal, within limits
//! - `join`: what the recording has of that time

mod join;
mod known;
mod logs;
mod stamp;

pub use join::{HEARTBEATS_SCHEMA, LateHeartbeats, around, is_of, join, reports};
pub use known::{KnownLine, parse, shipped};
pub use logs::{FoundLines, LogError, LogSources, TimeRange, read};
