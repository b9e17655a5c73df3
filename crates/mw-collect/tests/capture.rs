//! A capture from somebody else may be hostile: what it may not hold is refused, and nothing is
//! written outside the folder.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::Source;
use mw_collect::capture::{self, MAX_CAPTURE_FILES, unpack};
use std::fs;
use std::path::Path;

/// One entry of an archive that is made by hand.
struct Entry<'a> {
    path: &'a str,
    kind: tar::EntryType,
    bytes: &'a [u8],
}

fn archive(path: &Path, entries: &[Entry<'_>]) {
    let mut builder =
        tar::Builder::new(zstd::Encoder::new(fs::File::create(path).unwrap(), 1).unwrap());
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        // set_path refuses what this test wants to write.
        header.as_old_mut().name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(0o644);
        if entry.kind == tar::EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, entry.bytes).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap();
}

/// Unpacks an archive of these entries; the error, and whether anything lies outside the folder.
fn refused(entries: &[Entry<'_>]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("c.tar.zst"), dir.path().join("tree"));
    fs::create_dir(&into).unwrap();
    archive(&file, entries);
    let error = unpack(&file, &into).unwrap_err().to_string();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "{error}");
    error
}

#[test]
fn what_leads_out_of_the_folder_is_refused() {
    let file = |path| Entry { path, kind: tar::EntryType::Regular, bytes: b"x" };
    for path in ["../escaped", "proc/../../escaped", "/escaped"] {
        let error = refused(&[file(path)]);
        assert!(error.contains("leads out of the folder"), "{path}: {error}");
    }
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char] {
        let error = refused(&[Entry { path: "proc/meminfo", kind, bytes: b"" }]);
        assert!(error.contains("neither a file nor a folder"), "{error}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let bytes = vec![0; (4 << 20) + 1];
    let entry = Entry { path: "proc/vmstat", kind: tar::EntryType::Regular, bytes: &bytes };
    assert!(refused(&[entry]).contains("too large"));
    let empty = || Entry { path: "proc/vmstat", kind: tar::EntryType::Regular, bytes: b"" };
    let many: Vec<Entry<'_>> = (0..=MAX_CAPTURE_FILES).map(|_| empty()).collect();
    assert!(refused(&many).contains("too large"));
}

#[test]
fn a_bomb_is_not_unpacked() {
    let bytes = vec![0; 4 << 20];
    let entry = || Entry { path: "proc/vmstat", kind: tar::EntryType::Regular, bytes: &bytes };
    let many: Vec<Entry<'_>> = (0..64).map(|_| entry()).collect();
    let error = refused(&many);
    assert!(error.contains("memwright capture"), "{error}");
}

#[test]
fn a_capture_cut_anywhere_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let (file, cut) = (dir.path().join("whole"), dir.path().join("cut"));
    let entry =
        Entry { path: "proc/meminfo", kind: tar::EntryType::Regular, bytes: b"MemTotal: 1 kB\n" };
    archive(&file, &[entry]);
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() {
        fs::write(&cut, &whole[..length]).unwrap();
        let into = tempfile::tempdir().unwrap();
        assert!(unpack(&cut, into.path()).is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn a_capture_says_which_kernel_objects_are_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("c.tar.zst"), dir.path().join("tree"));
    fs::create_dir(&into).unwrap();
    capture::write(&Source::live().unwrap(), false, fs::File::create(&file).unwrap()).unwrap();
    unpack(&file, &into).unwrap();
    let snapshot = mw_collect::snapshot(&Source::tree(&into).unwrap());
    assert!(snapshot.dentries.required().unwrap().dentries > 0);
    assert!(snapshot.inodes.required().unwrap().inodes > 0);
}
