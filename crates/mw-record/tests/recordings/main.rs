//! What is written into a recording, and what is read from it, one file for each subject.

mod beside;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod duckdb;
mod export;
mod hostile;
mod incidents;
mod kills;
mod record;
mod sizes;
