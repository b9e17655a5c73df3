//! How large a recording becomes:
//! `cargo bench -p mw-watch --bench retention -- [DAYS] [SECONDS] [--short]`.
//!
//! This machine is recorded for some seconds; what it did then, varied, goes on for days of a clock
//! that runs ahead, through the recorder's own writer with its usual retention, with the capture of
//! every hour and an incident a day. A table of the file's size is printed.
#![allow(clippy::unwrap_used, reason = "a benchmark ends where something fails")]

#[path = "../tests/common/series.rs"]
mod series;
#[path = "../tests/common/simulated.rs"]
mod simulated;

use mw_collect::{Source, capture};
use mw_model::{INCIDENT_SCHEMA, Incident, Table};
use mw_record::Retention;
use simulated::{HOUR_S, Simulated, recorded};
use std::time::Instant;

const USUAL_DAYS: u64 = 60;
const USUAL_SECONDS: u64 = 120;

/// Days that `--short` goes through second by second, and the step of the others.
const WHOLE_DAYS: u64 = 2;
const SHORT_STEP: usize = 10;

/// Rows of an incident, ten a second.
const INCIDENT_ROWS: usize = 600;

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let days = numbers.first().copied().unwrap_or(USUAL_DAYS);
    let short = std::env::args().any(|arg| arg == "--short");
    let table = recorded(numbers.get(1).copied().unwrap_or(USUAL_SECONDS));
    let mut captured = Vec::new();
    capture::write(&Source::live().unwrap(), false, &mut captured).unwrap();
    let (rows, columns) = (table.rows(), table.columns.len());
    println!("{rows} real rows of {columns} columns, captures of {} kB", captured.len() / 1000);
    let began = Instant::now();
    let mut recording = Simulated::new(&table, Retention::default());
    let (mut largest, mut largest_hour) = (0, 0);
    println!("\n| days | file and log, MB | growth that day, MB an hour |\n|---|---|---|");
    for day in 1..=days {
        let before = recording.bytes();
        let step = if short && day + WHOLE_DAYS <= days { SHORT_STEP } else { 1 };
        for _ in 0..24 {
            recording.run_at(HOUR_S, step);
            recording.writer().keep_capture(recording.now_unix_ms(), captured.clone());
            largest = largest.max(recording.bytes());
        }
        let id = recording.writer().keep_incident(incident(&table, recording.now_unix_ms()));
        assert!(id.is_ok(), "{id:?}");
        largest_hour = largest_hour.max(recording.bytes().saturating_sub(before) / 24);
        if day <= 2 || day % 10 == 0 || day == days {
            let hour = recording.bytes().saturating_sub(before) as f64 / 24e6;
            println!("| {day} | {:.1} | {hour:.2} |", recording.bytes() as f64 / 1e6);
        }
    }
    println!("\nlargest: {:.1} MB, {:.2} MB an hour", mb(largest), mb(largest_hour));
    println!("{:.0?} in all", began.elapsed());
    let (recording, _dir) = recording.end();
    let (first, last) = recording.range().unwrap().unwrap();
    println!("it holds {:.1} days", (last - first) as f64 / 86_400_000.0);
    assert_eq!(recording.damage(), None);
    assert!(largest <= Retention::default().max_bytes, "{largest} bytes");
}

fn incident(table: &Table, unix_ms: u64) -> Incident {
    let mut rows = Table::new(table.columns.iter().map(|column| column.name.as_str()));
    let mut row = Vec::new();
    for at in 0..INCIDENT_ROWS {
        table.row(at % table.rows(), &mut row);
        rows.push(unix_ms + at as u64 * 100, &row);
    }
    let (started_unix_ms, ended_unix_ms) = (unix_ms, unix_ms + 5_000);
    Incident {
        schema: INCIDENT_SCHEMA,
        started_unix_ms,
        ended_unix_ms,
        table: rows,
        ..Incident::default()
    }
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
