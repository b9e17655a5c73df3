//! Recordings that are made to take all memory or all time of their reader: pages by hand, structures that are small in
//! the file and large in memory. Every reader ends with an error, within limits of memory and time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod common;

use common::{of_each_kind, read_all};
use mw_test::sqlite_pages::{SqlitePages, SqliteValue};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a reader may take. Tests are built without optimization.
const MAX_BYTES: u64 = 512 << 20;
const MAX_TIME: Duration = Duration::from_secs(30);

/// Reads what must be refused.
fn check(name: &str, pages: SqlitePages) {
    let text = read(name, pages);
    assert!(text.contains("damaged") || text.contains("too many"), "{name}: {text}");
}

/// Reads in a process of its own, so that its memory can be told: this test again. What it says.
fn read(name: &str, pages: SqlitePages) -> String {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let bytes = pages.to_bytes();
    fs::write(&path, &bytes).unwrap();
    if let Some(kept) = std::env::var_os(KEEP) {
        fs::write(Path::new(&kept).join(name.replace(' ', "-")), &bytes).unwrap();
    }
    let begun = Instant::now();
    let mut reader = std::process::Command::new(std::env::current_exe().unwrap());
    reader.args(["--exact", "reads_what_it_is_given", "--nocapture"]).env(READ, &path);
    let mut reader = reader.stdout(Stdio::piped()).spawn().unwrap();
    let ended = mw_test::exit_within(&mut reader, MAX_TIME).unwrap();
    if ended.is_none() {
        reader.kill().unwrap();
    }
    assert!(ended.is_some(), "{name}: not read within {MAX_TIME:?}");
    let mut text = String::new();
    reader.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let bytes_of = |line: &str| line.strip_prefix("peak ").map(|bytes| bytes.parse::<u64>());
    let peak = text.lines().find_map(bytes_of).expect(&text).unwrap();
    println!(
        "{name}: {} bytes of file, {} MiB, {:?}: {text}",
        bytes.len(),
        peak >> 20,
        begun.elapsed()
    );
    assert!(peak <= MAX_BYTES, "{name}: {peak}");
    text
}

/// Names a directory that keeps the files, to be read by hand.
const KEEP: &str = "MW_TEST_KEEP";

/// Names the recording for the process that reads.
const READ: &str = "MW_TEST_READ";

#[test]
fn reads_what_it_is_given() {
    let Some(path) = std::env::var_os(READ) else { return };
    for error in read_all(Path::new(&path)) {
        println!("{}", error.chars().take(300).collect::<String>());
    }
    println!("peak {}", mw_test::peak_bytes());
}

/// As an earlier version wrote it, which has no index of incidents.
fn pages_without_list() -> SqlitePages {
    let dir = TempDir::new().unwrap();
    let path = of_each_kind(dir.path());
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP INDEX incident_list").unwrap();
    SqlitePages::parse(&fs::read(path).unwrap())
}

fn pages() -> SqlitePages {
    let dir = TempDir::new().unwrap();
    SqlitePages::parse(&fs::read(of_each_kind(dir.path())).unwrap())
}

#[test]
fn a_page_with_many_parents() {
    for name in ["chunk", "incident_list", "sizes", "capture"] {
        let mut pages = pages();
        pages.multiply(name, 4);
        check(name, pages);
    }
    let mut pages = pages_without_list();
    pages.multiply("incident", 4);
    check("incident", pages);
    // A layout is looked up by its number: nobody goes through them.
    let mut pages = self::pages();
    pages.multiply("layout", 4);
    read("layout", pages);
}

#[test]
fn definitions_with_many_parents() {
    let mut pages = pages();
    pages.multiply_definitions(4);
    check("definitions", pages);
}

fn incident(verdict: SqliteValue, body: Vec<u8>) -> Vec<SqliteValue> {
    let text = |text: &str| SqliteValue::Text(text.to_owned());
    let mut row =
        vec![SqliteValue::Key, SqliteValue::Int(1), SqliteValue::Int(2), text("probe"), text("db")];
    row.extend([SqliteValue::Real(1.0), verdict, text("reclaim-storm"), SqliteValue::Int(90)]);
    row.extend([SqliteValue::Blob(body), SqliteValue::Blob(Vec::new())]);
    row
}

#[test]
fn a_text_without_end() {
    let mut pages = pages_without_list();
    let rows: Vec<_> =
        (0..100).map(|_| incident(SqliteValue::EndlessText(60 << 20), vec![])).collect();
    pages.set_rows("incident", &rows);
    check("verdict", pages);
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

#[test]
fn json_that_becomes_large() {
    let lists: [(&str, &str); 5] = [
        ("waits", "{}"),
        ("blocked", "{\"stack\":[\"\",\"\",\"\"]}"),
        ("tasks", "{}"),
        ("suffering", "{}"),
        ("groups", "{}"),
    ];
    for (list, item) in lists {
        let count = (30 << 20) / (item.len() + 1);
        let json =
            format!("{{\"schema\":1,\"{list}\":[{}{item}]}}", format!("{item},").repeat(count));
        let mut pages = pages();
        let verdict = SqliteValue::Text("x".to_owned());
        pages.set_rows("incident", &[incident(verdict, compressed(json.as_bytes()))]);
        check(list, pages);
    }
}

fn number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A block (codec.rs) whose values are all zero.
fn zeros(rows: u64, columns: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(&mut bytes, rows);
    number(&mut bytes, columns);
    let series: &[u8] = if rows > 1 { &[0, 0] } else { &[0] };
    bytes.extend(series.repeat(usize::try_from(columns).unwrap() + 1));
    compressed(&bytes)
}

#[test]
fn sizes_without_end() {
    let row = |samples: u64, rows: u64, holders: &str, columns: u64| {
        let numbers = [1, 2, i64::try_from(samples).unwrap()].map(SqliteValue::Int);
        let mut row = vec![SqliteValue::Key];
        row.extend(numbers);
        row.push(SqliteValue::Blob(compressed(holders.as_bytes())));
        row.push(SqliteValue::Blob(zeros(rows, columns)));
        row
    };
    let many_names: Vec<String> = (0..2048).map(|at| format!("cgroup./{at}")).collect();
    let cases = [
        ("times of no holder", row(0, 8 << 20, "", 0)),
        ("times that the head does not have", row(1, 4 << 20, "machine", 2)),
        ("many samples", row(1024, 1024, &many_names.join("\n"), 4096)),
    ];
    for (name, row) in cases {
        let mut pages = pages();
        pages.set_rows("sizes", &vec![row; 3000]);
        check(name, pages);
    }
    // Holders that are in one row each.
    let rows = (0..5000).map(|at| {
        let names: Vec<String> = (0..2048).map(|name| format!("cgroup./{at}.{name}")).collect();
        row(1, 1, &names.join("\n"), 4096)
    });
    let rows: Vec<_> = rows.collect();
    let mut pages = pages();
    pages.set_rows("sizes", &rows);
    check("many holders", pages);
}

#[test]
fn layouts_without_end() {
    let mut pages = pages();
    let names: Vec<String> = (0..60_000).map(|name| format!("c{name}")).collect();
    let layout = vec![SqliteValue::Key, SqliteValue::Blob(compressed(names.join("\n").as_bytes()))];
    let count = 2000;
    pages.set_rows("layout", &vec![layout; count]);
    let chunk = |layout: usize| {
        let numbers = [1, 2, 1, 1, 1, i64::try_from(layout).unwrap()].map(SqliteValue::Int);
        let mut row = vec![SqliteValue::Key];
        row.extend(numbers);
        row.push(SqliteValue::Blob(zeros(1, 60_000)));
        row
    };
    let chunks: Vec<_> = (1..=count).map(chunk).collect();
    pages.set_rows("chunk", &chunks);
    check("layouts", pages);
}
