//! DuckDB reads what is exported.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, offer, start};
use mw_record::{ExportFormat, Recording, export};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Promise (The recorder): DuckDB reads every export.
#[test]
fn duckdb_queries_every_format() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(python) = mw_test::python_with_duckdb(target) else { return };
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&["vmstat.pgscan_direct".to_owned(), "meminfo.MemFree".to_owned()]);
    offer(&writer, 0..700, 2);
    writer.layout(&["vmstat.pgscan_direct".to_owned()]);
    offer(&writer, 700..710, 1);
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    let formats = [
        ("parquet", ExportFormat::Parquet),
        ("csv", ExportFormat::Csv),
        ("json", ExportFormat::Json),
    ];
    for (name, format) in formats {
        let file = dir.path().join(format!("rows.{name}"));
        export(&recording, EVER.0, EVER.1, format, File::create(&file).unwrap()).unwrap();
        let script = dir.path().join("query.py");
        let query = format!(
            "import duckdb\nprint(duckdb.sql('''SELECT count(*), max(\"vmstat.pgscan_direct\"), \
             count(\"meminfo.MemFree\"), epoch_ms(max(\"at\")) FROM '{}' ''').fetchall())",
            file.display()
        );
        fs::write(&script, query).unwrap();
        let output = Command::new(&python).env("TZ", "UTC").arg(&script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said, "[(710, 709000, 700, 1700000749000)]\n", "{name}: {failed}");
    }
}
