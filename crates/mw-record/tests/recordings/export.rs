//! Exports, read by others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, START_MS, offer, row, start};
use mw_record::{ExportFormat, Recording, export};
use std::path::Path;
use tempfile::TempDir;

/// Five rows of two columns, then one of which the first is missing and a third is new.
fn recorded(dir: &Path) -> Recording {
    let path = dir.join("recording.db");
    let writer = start(&path);
    writer.layout(&["meminfo.MemFree".to_owned(), "odd,\"name\"".to_owned()]);
    offer(&writer, 0..5, 2);
    writer.layout(&["odd,\"name\"".to_owned(), "new".to_owned()]);
    assert!(writer.offer(START_MS + 5_250, &[7, u64::MAX - 1]));
    drop(writer);
    Recording::open(&path).unwrap()
}

fn exported(format: ExportFormat) -> Vec<u8> {
    let dir = TempDir::new().unwrap();
    let mut out = Vec::new();
    let rows = export(&recorded(dir.path()), EVER.0, EVER.1, format, &mut out).unwrap();
    assert_eq!(rows, 6);
    out
}

#[test]
fn csv_has_a_line_a_row() {
    let text = String::from_utf8(exported(ExportFormat::Csv)).unwrap();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines[0], "at,meminfo.MemFree,\"odd,\"\"name\"\"\",new");
    assert_eq!(lines[1], "2023-11-14T22:14:00.000Z,0,1,");
    assert_eq!(lines[6], "2023-11-14T22:14:05.250Z,,7,18446744073709551614");
    assert_eq!((lines[7], lines.len()), ("", 8));
}

#[test]
fn json_has_an_object_a_row() {
    let json: serde_json::Value = serde_json::from_slice(&exported(ExportFormat::Json)).unwrap();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[1]["meminfo.MemFree"], row(1, 2)[0]);
    let expected = serde_json::json!(
        {"at": "2023-11-14T22:14:05.250Z", "odd,\"name\"": 7, "new": u64::MAX - 1}
    );
    assert_eq!(rows[5], expected);
}

#[test]
fn an_export_of_no_rows_is_whole() {
    let dir = TempDir::new().unwrap();
    let recording = recorded(dir.path());
    let mut out = Vec::new();
    assert_eq!(export(&recording, 0, 1, ExportFormat::Json, &mut out).unwrap(), 0);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).unwrap(), serde_json::json!([]));
}
#[test]
fn parquet_is_read_by_its_own_library() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let dir = TempDir::new().unwrap();
    let file = dir.path().join("rows.parquet");
    std::fs::write(&file, exported(ExportFormat::Parquet)).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 6);
    let last: Vec<&Field> = rows[5].get_column_iter().map(|(_, field)| field).collect();
    assert_eq!(last[0], &Field::TimestampMillis(START_MS as i64 + 5_250));
    assert_eq!(last[1], &Field::Null);
    assert_eq!(last[3], &Field::ULong(u64::MAX - 1));
}
