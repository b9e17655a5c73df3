//! Recordings that are damaged at random, in their pages and in what lies compressed in them: every reader ends, without
//! a panic, within limits of memory and time. `MW_FUZZ_S` is the duration in seconds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{START_MS, names, offer, read_all, start};
use mw_model::{
    BlockedTask, Column, HolderSize, Incident, KernelWait, Profile, Role, SizedHolder, Stack,
    Table, Trigger,
};
use mw_test::{FuzzLimits, Random, fuzz};
use rusqlite::{Connection, params};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const LIMITS: FuzzLimits = FuzzLimits { bytes: 512 << 20, cpu: Duration::from_secs(30) };

const PAGE_BYTES: usize = 4096;

/// The columns whose contents are compressed.
const COMPRESSED: [(&str, &str); 6] = [
    ("chunk", "body"),
    ("layout", "names"),
    ("incident", "body"),
    ("incident", "rows"),
    ("sizes", "holders"),
    ("sizes", "body"),
];

/// A recording that has more than one page of each table.
fn recorded(dir: &Path) -> PathBuf {
    let path = dir.join("recording.db");
    let writer = start(&path);
    for columns in [40, 41] {
        writer.layout(&names(columns));
        offer(&writer, 0..700, columns);
    }
    for at in 0..40 {
        writer.keep_incident(incident(at)).unwrap();
    }
    for at in 0..130 {
        let size = |name: usize| HolderSize {
            holder: SizedHolder::Cgroup { path: format!("/{name}") },
            bytes: at << 20,
            limit_bytes: Some(1 << 30),
        };
        writer.keep_sizes(START_MS + at * 60_000, (0..40).map(size).collect());
        writer.keep_capture(START_MS + at * 1000, vec![at as u8; 3000]);
    }
    drop(writer);
    path
}

fn incident(at: u64) -> Incident {
    let text = |name: &str| format!("{name} {at}");
    let wait = KernelWait { task: text("task"), total_us: at, ..KernelWait::default() };
    let blocked = BlockedTask {
        task: text("task"),
        stack: vec![text("function"); 8],
        ..BlockedTask::default()
    };
    let role = Role { pid: 1, task: text("task"), why: text("why") };
    let stack = Stack { task: text("task"), pid: 1, frames: vec![0, 1, 0], samples: 2 };
    let functions = vec![text("function"), "schedule".to_owned()];
    let profile = Profile { functions, stacks: vec![stack; 20], ..Profile::default() };
    let columns = (0..20).map(|name| Column { name: format!("c{name}"), values: vec![at; 100] });
    Incident {
        schema: 1,
        started_unix_ms: START_MS + at,
        ended_unix_ms: START_MS + at + 1000,
        verdict: text("verdict"),
        trigger: Trigger { name: text("probe"), ..Trigger::default() },
        waits: vec![wait; 20],
        blocked: vec![blocked; 5],
        suffering: vec![role.clone(); 3],
        causing: vec![role],
        profile: Some(profile.clone()),
        baseline: Some(profile),
        table: Table { at_unix_ms: (0..100).collect(), columns: columns.collect() },
        ..Incident::default()
    }
}

/// Damages the pages of a file.
fn damage_pages(random: &mut Random, file: &mut Vec<u8>) {
    let pages = file.len() / PAGE_BYTES;
    for _ in 0..=random.below(4) {
        let at = random.below(pages) * PAGE_BYTES;
        let page = at..at + PAGE_BYTES;
        match random.below(6) {
            // The heads and the cells of a page, or an overflow page's next one, are where it hurts.
            0 => {
                let head = if at == 0 { 100 } else { 0 };
                random.damage(&mut file[at + head..at + head + 64]);
            }
            1 => random.damage(&mut file[page]),
            2 => {
                let from = random.below(pages) * PAGE_BYTES;
                file.copy_within(from..from + PAGE_BYTES, at);
            }
            // A page number of this file: of a child, or of the next page of a long row.
            3 => {
                let number = u32::try_from(random.below(pages) + 1).unwrap().to_be_bytes();
                let place = at + random.below(PAGE_BYTES / 4) * 4;
                file[place..place + 4].copy_from_slice(&number);
            }
            4 => file.truncate(at.max(PAGE_BYTES)),
            _ => random.damage(&mut file[..100]),
        }
        if file.len() / PAGE_BYTES < pages {
            return;
        }
    }
}

/// Damages what lies compressed in a row, so that it can be decompressed, or numbers of a row.
fn damage_contents(random: &mut Random, path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    // Nothing is to survive a loss of power.
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
    for _ in 0..=random.below(3) {
        let (table, column) = *random.pick(&COMPRESSED);
        let any = format!("SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 1 OFFSET ?");
        let offset = random.below(40);
        let found = connection.query_row(&any, [offset], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        });
        let Ok((id, packed)) = found else { continue };
        let mut bytes = zstd::bulk::decompress(&packed, 64 << 20).unwrap();
        match random.below(5) {
            0 => {
                let at = random.below(bytes.len());
                let part = bytes[at..(at + 1 + random.below(200)).min(bytes.len())].to_vec();
                let copies = 1 << random.below(18);
                let more = part.repeat(copies.min((24 << 20) / part.len().max(1)));
                bytes.splice(at..at, more);
            }
            1 => bytes.truncate(random.below(bytes.len())),
            _ => random.damage(&mut bytes),
        }
        let packed = zstd::bulk::compress(&bytes, 1).unwrap();
        let set = format!("UPDATE {table} SET {column} = ? WHERE rowid = ?");
        connection.execute(&set, params![packed, id])?;
    }
    let number = random.odd_number().cast_signed();
    let columns = ["since_unix_ms", "until_unix_ms", "rows", "span_ms", "step_ms", "layout"];
    let set = format!("UPDATE chunk SET {} = ? WHERE rowid % 3 = 0", random.pick(&columns));
    if random.below(3) == 0 {
        connection.execute(&set, [number])?;
    }
    connection.execute_batch("COMMIT")
}

#[test]
fn damaged_recordings_are_read_within_limits() {
    let dir = TempDir::new().unwrap();
    let whole = fs::read(recorded(dir.path())).unwrap();
    assert!(read_all(&dir.path().join("recording.db")).is_empty());
    let path = dir.path().join("damaged.db");
    fuzz(5, LIMITS, |random| {
        let mut file = whole.clone();
        fs::write(&path, &file).unwrap();
        let kind = random.below(3);
        if kind != 0 {
            damage_contents(random, &path).unwrap();
            file = fs::read(&path).unwrap();
        }
        if kind != 1 {
            damage_pages(random, &mut file);
        }
        fs::write(&path, &file).unwrap();
        drop(read_all(&path));
    });
}
