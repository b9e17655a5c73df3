//! Files that are no recordings, or are made to do harm.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, START_MS, host, names, offer, start};
use mw_record::{RecordError, Recording, Retention, Writer};
use rusqlite::{Connection, params};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn recorded(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(3));
    offer(&writer, 0..301, 3);
    writer.keep_incident(mw_model::Incident::default()).unwrap();
    drop(writer);
    path
}

/// A recording that somebody has changed.
fn changed(change: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    change(&Connection::open(&path).unwrap()).unwrap();
    (dir, path)
}

fn refused(path: &Path) -> String {
    Recording::open(path).unwrap_err().to_string()
}

#[test]
fn other_files_are_not_recordings_and_stay_as_they_are() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("other");
    assert!(matches!(Recording::open(&path), Err(RecordError::NotFound { .. })));
    for bytes in [b"".as_slice(), b"x", &[7; 5000], b"SQLite format 3\0", &[0; 100]] {
        fs::write(&path, bytes).unwrap();
        assert!(refused(&path).contains("not a memwright recording"), "{}", refused(&path));
        if !bytes.is_empty() {
            let error = Writer::start(&path, &host(), Retention::default()).unwrap_err();
            assert!(matches!(error, RecordError::NotARecording { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }
    let database = dir.path().join("database");
    Connection::open(&database).unwrap().execute_batch("CREATE TABLE chunk (seq)").unwrap();
    let before = fs::read(&database).unwrap();
    assert!(refused(&database).contains("another program"));
    assert!(Writer::start(&database, &host(), Retention::default()).is_err());
    assert!(fs::read(&database).unwrap() == before);
    assert!(refused(dir.path()).contains("not a regular file"));
}

/// Promise (The recorder): For a recording of a newer version, the error names the version that wrote it.
#[test]
fn a_newer_format_says_who_wrote_it_and_is_moved_aside_by_a_writer() {
    let (_dir, path) = changed(|db| {
        db.execute("UPDATE meta SET value = '9.1.0' WHERE key = 'memwright'", [])?;
        db.pragma_update(None, "user_version", mw_record::FORMAT + 1)
    });
    let said = refused(&path);
    assert!(said.contains("format 3") && said.contains("memwright 9.1.0"), "{said}");
    let newer = fs::read(&path).unwrap();
    let aside = |ending: &str| path.with_file_name(format!("recording.db.newer{ending}"));
    let start = || Writer::start(&path, &host(), Retention::default()).unwrap();
    for ending in ["", "-2"] {
        fs::write(&path, &newer).unwrap();
        let writer = start();
        let notice = writer.notice().unwrap().to_owned();
        assert!(notice.contains("memwright 9.1.0"), "{notice}");
        assert!(notice.ends_with(&format!("moved to {}", aside(ending).display())), "{notice}");
        drop(writer);
        Recording::open(&path).unwrap();
    }
    // What an earlier downgrade moved is still there.
    for ending in ["", "-2"] {
        assert!(refused(&aside(ending)).contains("format 3"));
    }
}

#[test]
fn tables_that_compute_are_refused() {
    let (_dir, path) = changed(|db| {
        db.execute_batch(
            "DROP TABLE chunk; CREATE VIEW chunk AS WITH RECURSIVE n(i) AS \
             (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS seq FROM n",
        )
    });
    assert!(refused(&path).contains("'chunk'"));
}

#[test]
fn absurd_contents_are_damage_and_nothing_worse() {
    let bomb = zstd::bulk::compress(&vec![0; 200 << 20], 19).unwrap();
    let column = |name: &str, value: &dyn rusqlite::ToSql| {
        changed(|db| db.execute(&format!("UPDATE chunk SET {name} = ?"), [value]).map(|_| ()))
    };
    for (name, value) in [
        ("body", &bomb as &dyn rusqlite::ToSql),
        ("body", &vec![1_u8; 4 << 20]),
        ("body", &"text"),
        ("rows", &-1),
        ("rows", &i64::MAX),
        ("layout", &99),
        ("since_unix_ms", &"text"),
    ] {
        let (_dir, path) = column(name, value);
        let recording = Recording::open(&path).unwrap();
        let error = recording.table(EVER.0, EVER.1).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("damaged") || said.contains("too many"), "{name}: {said}");
    }
}

#[test]
fn an_absurd_layout_is_damage() {
    let commas = zstd::bulk::compress(&vec![b'\n'; 7 << 20], 19).unwrap();
    for names in [commas, zstd::bulk::compress(b"\xff\xfe", 3).unwrap(), b"no frame".to_vec()] {
        let (_dir, path) =
            changed(|db| db.execute("UPDATE layout SET names = ?", [names]).map(|_| ()));
        let error = Recording::open(&path).unwrap().table(EVER.0, EVER.1).unwrap_err();
        assert!(error.to_string().contains("layout 1"), "{error}");
    }
}

#[test]
fn an_absurd_incident_is_damage() {
    let bomb = zstd::bulk::compress(&vec![b' '; 100 << 20], 19).unwrap();
    let newer = zstd::bulk::compress(br#"{"schema":77}"#, 3).unwrap();
    let not_json = zstd::bulk::compress(b"{", 3).unwrap();
    for (body, word) in [(bomb, "larger"), (newer, "schema 77"), (not_json, "EOF")] {
        let (_dir, path) =
            changed(|db| db.execute("UPDATE incident SET body = ?", params![body]).map(|_| ()));
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.incidents().unwrap().len(), 1);
        let error = recording.incident(1).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn bytes_changed_anywhere_do_not_go_unnoticed_or_panic() {
    let dir = TempDir::new().unwrap();
    let path = recorded(&dir);
    let whole = fs::read(&path).unwrap();
    let right = Recording::open(&path).unwrap().table(EVER.0, EVER.1).unwrap();
    let (mut noticed, mut as_before) = (0, 0);
    for at in (0..whole.len()).step_by(whole.len() / 150) {
        let mut bytes = whole.clone();
        bytes[at..(at + 8).min(whole.len())].fill(0xa5);
        fs::write(&path, bytes).unwrap();
        match Recording::open(&path).and_then(|recording| recording.table(EVER.0, EVER.1)) {
            Err(_) => noticed += 1,
            Ok(table) if table == right => as_before += 1,
            // Times and numbers of a head are not covered by a checksum: rows may be missed.
            Ok(table) => assert!(table.rows() <= right.rows()),
        }
    }
    assert!(noticed > 0 && as_before > 0, "{noticed} {as_before} {START_MS}");
}
