//! What may happen to a recording: killed writers, cut files, a full disk, read-only media.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod common;

use common::{EVER, START_MS, all, host, is_unbroken, names, offer, row, start, wait_for};
use mw_record::{RecordError, Recording, Retention, Writer};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const PATH: &str = "MW_RECORD_TEST_PATH";
const PACE: &str = "MW_RECORD_TEST_PACE_MS";

fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The process that the tests kill: it records without end, from where the file ends.
#[test]
#[ignore = "the other tests start it, and kill it"]
fn victim() {
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let pace: u64 = std::env::var(PACE).unwrap().parse().unwrap();
    let writer = start(&path);
    writer.layout(&names(40));
    let mut at = all(&Recording::open(&path).unwrap()).rows() as u64;
    println!("ready");
    loop {
        if pace == 0 {
            offer(&writer, at..at + 1, 40);
        } else {
            // As the recorder does: every second row has the writer write.
            let hand_over = if at.is_multiple_of(2) { Writer::queue } else { Writer::offer };
            assert!(hand_over(&writer, now_unix_ms(), &row(at, 40)));
            std::thread::sleep(Duration::from_millis(pace));
        }
        at += 1;
    }
}

fn start_victim(path: &Path, pace_ms: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "victim", "--nocapture"])
        .env(PATH, path)
        .env(PACE, pace_ms.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while !said.ends_with("ready") {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "{said}");
        said.push(char::from(byte[0]));
    }
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}

#[test]
fn a_writer_that_is_killed_at_any_moment_leaves_an_unbroken_recording() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let mut before = 0;
    for _ in 0..12 {
        let victim = start_victim(&path, 0);
        std::thread::sleep(Duration::from_micros(random(300_000)));
        kill(victim);
        let recording = Recording::open(&path).unwrap();
        let table = all(&recording);
        is_unbroken(&table);
        assert!(table.rows() >= before, "{} rows, {before} before", table.rows());
        assert_eq!(recording.damage(), None);
        before = table.rows();
    }
    assert!(before > 300, "{before} rows");
}

#[test]
fn a_kill_loses_three_seconds_at_most() {
    let dir = TempDir::new().unwrap();
    for _ in 0..3 {
        let path = dir.path().join("recording.db");
        let victim = start_victim(&path, 50);
        std::thread::sleep(Duration::from_millis(2_000 + random(1_000)));
        let killed = now_unix_ms();
        kill(victim);
        let (_, last) = Recording::open(&path).unwrap().range().unwrap().unwrap();
        assert!(last + 3_000 >= killed, "{} ms lost", killed - last);
    }
}

fn log(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-wal");
    PathBuf::from(name)
}

/// The file and its log, as a machine that loses power leaves them.
struct Left {
    file: Vec<u8>,
    log: Vec<u8>,
    rows: usize,
}

fn left() -> Left {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(10));
    offer(&writer, 0..1_000, 10);
    let recording = Recording::open(&path).unwrap();
    wait_for(|| recording.range().unwrap().is_some_and(|(_, last)| last == START_MS + 999_000));
    for at in 1_000..1_010 {
        offer(&writer, at..at + 1, 10);
        wait_for(|| recording.range().unwrap().unwrap().1 == START_MS + at * 1_000);
    }
    let (file, log) = (fs::read(&path).unwrap(), fs::read(log(&path)).unwrap());
    Left { file, log, rows: 1_010 }
}

/// Lays a file and its log down under a name that is not used yet.
fn lay(dir: &TempDir, file: &[u8], log_bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(format!("{}.db", fs::read_dir(dir.path()).unwrap().count()));
    fs::write(&path, file).unwrap();
    fs::write(log(&path), log_bytes).unwrap();
    path
}

/// Promise (The recorder): A log that is truncated anywhere loses only what followed; a full disk is a temporary
/// error; read-only media can be read.
#[test]
fn a_log_cut_anywhere_loses_what_was_behind_the_cut() {
    let Left { file, log, rows } = left();
    let dir = TempDir::new().unwrap();
    let whole = all(&Recording::open(&lay(&dir, &file, &log)).unwrap());
    assert_eq!(whole.rows(), rows);
    let step = log.len() / 40;
    let mut cuts: Vec<usize> = (0..log.len()).step_by(step).collect();
    cuts.extend(log.len() - 10..log.len());
    let mut last = 0;
    for cut in cuts {
        let recording = Recording::open(&lay(&dir, &file, &log[..cut])).unwrap();
        let table = all(&recording);
        is_unbroken(&table);
        assert!(table.rows() >= last, "cut at {cut}");
        last = table.rows();
    }
    assert_eq!(last, rows - 1, "the last transaction alone is behind the last cuts");
}

#[test]
fn a_file_cut_anywhere_is_read_as_far_as_it_goes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("whole.db");
    let writer = start(&path);
    writer.layout(&names(200));
    offer(&writer, 0..1_500, 200);
    drop(writer);
    let file = fs::read(&path).unwrap();
    let mut outcomes = [0; 3];
    let cuts = (0..40).map(|at| file.len() * at / 40).chain(file.len() - 5..file.len());
    for cut in cuts {
        let path = lay(&dir, &file[..cut], &[]);
        outcomes[read_what_is_left(&path)] += 1;
    }
    // Whether the last page's end holds anything is a matter of when rows were put together.
    let [unreadable, in_part, whole] = outcomes;
    assert!(unreadable > 0 && in_part + whole >= 5, "{outcomes:?}");
}

/// 0: nothing can be read, and that is said; 1: a part; 2: all.
fn read_what_is_left(path: &Path) -> usize {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(RecordError::Damaged { .. } | RecordError::NotARecording { .. }) => return 0,
        Err(error) => panic!("{error}"),
    };
    let error = match recording.table(EVER.0, EVER.1) {
        Ok(table) => {
            is_unbroken(&table);
            return 2;
        }
        Err(error @ RecordError::Damaged { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    if let Some((_, until)) = error.split_once("(--until ") {
        let until: u64 = until.split([',', ')']).next().unwrap().parse().unwrap();
        let table = recording.table(0, until).unwrap();
        assert!(table.rows() > 0);
        is_unbroken(&table);
    }
    1
}

#[test]
fn a_damaged_recording_is_set_aside_and_a_new_one_begun() {
    let Left { file, .. } = left();
    let dir = TempDir::new().unwrap();
    let path = lay(&dir, &file[..file.len() / 2], &[]);
    let writer = start(&path);
    let notice = writer.notice().unwrap().to_owned();
    assert!(notice.contains("moved to") && notice.contains(".damaged"), "{notice}");
    writer.layout(&names(2));
    offer(&writer, 0..3, 2);
    drop(writer);
    assert_eq!(all(&Recording::open(&path).unwrap()).rows(), 3);
}

#[test]
fn a_removed_recording_is_begun_anew() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(2));
    offer(&writer, 0..2, 2);
    wait_for(|| Recording::open(&path).is_ok_and(|r| r.range().unwrap().is_some()));
    fs::remove_dir_all(dir.path()).unwrap();
    let mut at = 2;
    wait_for(|| {
        writer.offer(START_MS + at * 1_000, &row(at, 2));
        at += 1;
        Recording::open(&path).is_ok_and(|r| r.range().is_ok_and(|range| range.is_some()))
    });
}

#[test]
fn reading_leaves_the_folder_as_it_is() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(2));
    offer(&writer, 0..400, 2);
    drop(writer);
    let files = || {
        let entries = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.map(|path| (fs::read(&path).unwrap(), path)).collect();
        files.sort();
        files
    };
    let before = files();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(all(&recording).rows(), 400);
    assert!(files() == before);
    drop(recording);
    assert!(files() == before);
}

/// A small file system of its own; gone with this value.
struct Mounted {
    dir: TempDir,
    _lock: File,
}

impl Mounted {
    /// Nothing without the right to mount.
    fn new(size: &str) -> Option<Self> {
        let lock = File::open("/proc/sys/vm").unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let dir = TempDir::new().unwrap();
        let options = std::ffi::CString::new(format!("size={size}")).unwrap();
        match mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), options.as_c_str()) {
            Ok(()) => Some(Self { dir, _lock: lock }),
            Err(error) => {
                mw_test::skip(format!("needs root: mounting a tmpfs: {error}"));
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

/// Promise (The recorder): A recorder that finds no room at its start waits for it; a recording of a newer memwright
/// is moved aside, and none that was moved before is lost.
#[test]
fn a_full_disk_is_told_from_other_trouble_at_the_start() {
    let Some(disk) = Mounted::new("2m") else { return };
    let path = disk.dir.path().join("recording.db");
    let filler = disk.dir.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    let error = Writer::start(&path, &host(), Retention::default()).unwrap_err();
    assert!(matches!(error, RecordError::Full { .. }), "{error}");
    drop(file);
    fs::remove_file(&filler).unwrap();
    Writer::start(&path, &host(), Retention::default()).unwrap();
}

#[test]
fn a_full_disk_is_trouble_that_passes() {
    let Some(disk) = Mounted::new("2m") else { return };
    let path = disk.dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(400));
    let filler = disk.dir.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    let mut at = 0;
    let mut next = || {
        at += 1;
        writer.offer(START_MS + at * 1_000, &row(at, 400))
    };
    wait_for(|| {
        next();
        writer.trouble().is_some() && writer.dropped() > 0
    });
    let trouble = writer.trouble().unwrap();
    assert!(trouble.contains("recording.db") && trouble.contains("full"), "{trouble}");
    for verdict in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        let verdict = verdict.to_owned();
        let kept = writer.keep_incident(mw_model::Incident { verdict, ..Default::default() });
        assert!(kept.unwrap_err().to_string().contains("full"));
    }
    drop(file);
    fs::remove_file(&filler).unwrap();
    wait_for(|| writer.trouble().is_none());
    wait_for(&mut next);
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    let (_, last) = recording.range().unwrap().unwrap();
    assert_eq!(last, START_MS + at * 1_000);
    let incidents = recording.incidents().unwrap();
    let verdicts: Vec<&str> = incidents.iter().map(|row| row.verdict.as_str()).collect();
    assert_eq!(
        verdicts,
        ["b", "c", "d", "e", "f", "g", "h", "i"],
        "the oldest of too many is given up"
    );
}

#[test]
fn read_only_media_can_be_read() {
    let Left { file, log: log_bytes, rows } = left();
    let Some(disk) = Mounted::new("64m") else { return };
    let killed = lay(&disk.dir, &file, &log_bytes);
    let closed = disk.dir.path().join("closed.db");
    let writer = start(&closed);
    writer.layout(&names(2));
    offer(&writer, 0..5, 2);
    drop(writer);
    mount_remount(disk.dir.path(), MountFlags::RDONLY, "").unwrap();
    assert_eq!(all(&Recording::open(&killed).unwrap()).rows(), rows);
    assert_eq!(all(&Recording::open(&closed).unwrap()).rows(), 5);
}

#[test]
fn nobody_else_can_lock_a_recording() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let lock = dir.path().join("recording.db-writer");
    let mode = || fs::metadata(&lock).unwrap().permissions().mode() & 0o7777;
    drop(start(&path));
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    drop(start(&path));
    assert_eq!(mode(), 0o600);

    let refused = |why: &str| {
        let error = Writer::start(&path, &common::host(), Retention::default()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&lock, Some(65534), None).unwrap();
        refused("user 65534 owns it; remove it");
    }
    fs::remove_file(&lock).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "of somebody").unwrap();
    std::os::unix::fs::symlink(&other, &lock).unwrap();
    refused("it is a symbolic link, or not a regular file; remove it");
    assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody");
}
