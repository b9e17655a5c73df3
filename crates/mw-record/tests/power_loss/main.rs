//! A loss of power at any write of a recorder: what it wrote and synced is traced, and from the trace
//! come the disks that a loss of power may leave. What was not synced is lost, there, torn, or there
//! in another order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod trace;

use common::{EVER, START_MS, host, names, start, wait_for};
use disk::{Disk, Loss, Random};
use mw_model::Incident;
use mw_record::{RecordError, Recording, Retention, Writer};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use trace::Call;

const PATH: &str = "MW_RECORD_TEST_PATH";
const NAME: &str = "recording.db";
const COLUMNS: usize = 120;

/// Rows that are offered as fast as the writer takes them, and then ten a second.
const BURST: u64 = 700;
const PACED: u64 = 60;
const PACE: Duration = Duration::from_millis(100);

/// Disks that are looked at, of each loss.
const CUTS: usize = 60;

/// The seconds that may be lost.
const LOST_S: f64 = 3.0;

fn row(at: u64) -> Vec<u64> {
    // Not compressible, so that there is much to write.
    (0..COLUMNS as u64).map(|column| (at * 1_000 + column).wrapping_mul(0x9e37_79b9) >> 7).collect()
}

/// As the recorder does: every second row has the writer write.
fn offer(writer: &Writer, at: u64) {
    let (unix_ms, row) = (START_MS + at * 1_000, row(at));
    if !at.is_multiple_of(2) || !writer.queue(unix_ms, &row) {
        wait_for(|| writer.offer(unix_ms, &row));
    }
    println!("row {at}");
}

/// The process that is traced: it makes a recording, and then goes on in it, so that what is old is
/// thinned and pages are released.
#[test]
#[ignore = "run by the other test"]
fn victim() {
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let writer = start(&path);
    writer.layout(&names(COLUMNS));
    (0..BURST).for_each(|at| offer(&writer, at));
    keep_incident(&writer);
    writer.keep_capture(START_MS, vec![7; 3 << 20]);
    drop(writer);
    let retention = Retention {
        every_row_for: Duration::from_secs(200),
        max_bytes: 8 << 20,
        ..Retention::default()
    };
    let writer = Writer::start(&path, &host(), retention).unwrap();
    writer.layout(&names(COLUMNS));
    (BURST..2 * BURST).for_each(|at| offer(&writer, at));
    keep_incident(&writer);
    for at in 2 * BURST..2 * BURST + PACED {
        offer(&writer, at);
        std::thread::sleep(PACE);
    }
}

fn keep_incident(writer: &Writer) {
    let id = writer.keep_incident(Incident { schema: 1, ..Incident::default() }).unwrap();
    println!("incident {id}");
}

/// What the recorder had been handed, and what it had confirmed.
#[derive(Default)]
struct Handed {
    at_s: Vec<f64>,
    incidents: usize,
}

impl Handed {
    fn hear(&mut self, at_s: f64, said: &str) {
        for line in said.lines() {
            if line.starts_with("row ") {
                self.at_s.push(at_s);
            } else if line.starts_with("incident ") {
                self.incidents += 1;
            }
        }
    }
}

/// Promise (The recorder): A power failure at any write, with unsynced data lost, torn or reordered, loses at most
/// three seconds, and the recorder continues with the rest.
#[test]
fn a_loss_of_power_at_any_write_loses_three_seconds_at_most() {
    let dir = TempDir::new().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--ignored", "--exact", "victim", "--nocapture"]);
    victim.env(PATH, dir.path().join(NAME));
    let events = trace::of(victim);
    let given_back = |call: &Call| matches!(call, Call::Cut { path, .. } if path.ends_with(NAME));
    assert!(events.iter().any(|event| given_back(&event.call)), "no pages were given back");
    let (mut disk, mut handed) = (Disk::default(), Handed::default());
    let mut random = Random(5);
    let mut lost_s = Vec::new();
    for (number, event) in events.iter().enumerate() {
        if let Call::Said(said) = &event.call {
            handed.hear(event.at_s, said);
            continue;
        }
        disk.apply(&event.call);
        let begins = number < 48;
        if !begins && random.below(events.len()) > mw_test::rounds(CUTS / 3, CUTS) {
            continue;
        }
        for loss in [Loss::Everything, Loss::Nothing, Loss::Torn, Loss::Reordered] {
            let image = TempDir::new_in("/dev/shm").unwrap();
            disk.lay(image.path(), loss, &mut random);
            let rows = look(image.path(), loss, handed.incidents);
            let first_lost = handed.at_s.get(rows);
            lost_s.push(first_lost.map_or(0.0, |handed_s| event.at_s - handed_s));
            go_on(image.path(), rows);
        }
    }
    lost_s.sort_by(f64::total_cmp);
    let at = |share: f64| lost_s[((lost_s.len() - 1) as f64 * share) as usize];
    println!("{} writes and syncs, {} disks", events.len(), lost_s.len());
    println!("lost: median {:.3} s, p99 {:.3} s, most {:.3} s", at(0.5), at(0.99), at(1.0));
    // Where the machine stands still for seconds, so does the writer.
    assert!(at(0.99) <= LOST_S, "{} s are lost", at(0.99));
}

/// How many rows there are; all are what they were, without a hole.
fn look(folder: &Path, loss: Loss, incidents: usize) -> usize {
    let path = folder.join(NAME);
    let recording = match Recording::open(&path) {
        Ok(recording) => recording,
        Err(RecordError::NotFound { .. } | RecordError::NotARecording { .. }) => return 0,
        Err(error) => panic!("{loss:?}: {error}"),
    };
    assert_eq!(recording.damage(), None, "{loss:?}");
    let found = recording.incidents().unwrap().len();
    assert!(found >= incidents, "{loss:?}: {found} incidents, {incidents} were kept");
    let table = recording.table(EVER.0, EVER.1).unwrap();
    let mut before = None;
    for (place, unix_ms) in table.at_unix_ms.iter().enumerate() {
        let at = (unix_ms - START_MS) / 1_000;
        // What is old may be thinned to one row in ten seconds.
        assert!(before.is_none_or(|before| at > before && at <= before + 10), "{before:?} {at}");
        before = Some(at);
        let values: Vec<u64> = table.columns.iter().map(|column| column.values[place]).collect();
        assert_eq!(values, row(at), "{loss:?}: row {at}");
    }
    before.map_or(0, |last| usize::try_from(last).unwrap() + 1)
}

/// The recorder goes on in what is left.
fn go_on(folder: &Path, rows: usize) {
    let path = folder.join(NAME);
    let writer = Writer::start(&path, &host(), Retention::default()).unwrap();
    assert_eq!(writer.notice(), None);
    writer.layout(&names(COLUMNS));
    for at in rows..rows + 3 {
        wait_for(|| writer.offer(START_MS + at as u64 * 1_000, &row(at as u64)));
    }
    drop(writer);
    assert_eq!(look(folder, Loss::Nothing, 0), rows + 3);
}
