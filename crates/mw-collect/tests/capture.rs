//! A capture from somebody else may be hostile: what it may not hold is refused, nothing is written anywhere, and what it
//! makes its reader do is limited.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::Source;
use mw_collect::capture::{self, CaptureError, MAX_CAPTURE_FILES};
use std::fs;
use std::path::Path;

/// One entry of an archive that is made by hand.
struct Entry<'a> {
    path: &'a str,
    kind: tar::EntryType,
    bytes: &'a [u8],
}

fn read(path: &Path) -> Result<Source, CaptureError> {
    capture::read(fs::File::open(path).unwrap(), path)
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

/// Reads an archive of these entries; the error.
fn refused(entries: &[Entry<'_>]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.tar.zst");
    archive(&file, entries);
    read(&file).unwrap_err().to_string()
}

#[test]
fn what_leads_out_of_the_folder_is_refused() {
    let file = |path| Entry { path, kind: tar::EntryType::Regular, bytes: b"x" };
    for path in ["../escaped", "proc/../../escaped", "/escaped"] {
        let error = refused(&[file(path)]);
        assert!(error.contains("leads out of the directory"), "{path}: {error}");
    }
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char] {
        let error = refused(&[Entry { path: "proc/meminfo", kind, bytes: b"" }]);
        assert!(error.contains("neither a file nor a directory"), "{error}");
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
        assert!(read(&cut).is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn a_capture_says_which_kernel_objects_are_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.tar.zst");
    capture::write(&Source::live().unwrap(), false, fs::File::create(&file).unwrap()).unwrap();
    let snapshot = mw_collect::snapshot(&read(&file).unwrap());
    assert!(snapshot.dentries.required().unwrap().dentries > 0);
    assert!(snapshot.inodes.required().unwrap().inodes > 0);
}

/// An archive with long names: files that are each in a directory of their own, `depth` directories deep.
fn deep(path: &Path, files: usize, depth: usize) {
    let mut builder =
        tar::Builder::new(zstd::Encoder::new(fs::File::create(path).unwrap(), 19).unwrap());
    for file in 0..files {
        let name = format!("proc/{file}/{}x", "d/".repeat(depth));
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, std::io::empty()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap();
}

#[test]
fn folders_take_no_memory_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.tar.zst");
    // Four hundred thousand directories in some kilobytes.
    deep(&file, 200, 2000);
    assert!(fs::metadata(&file).unwrap().len() < 8000);
    let before = mw_sys::peak_resident_bytes();
    let source = read(&file).unwrap();
    let window = mw_collect::window(&source);
    assert!(mw_sys::peak_resident_bytes() < before + (32 << 20));
    assert!(window.now.sample.meminfo.value().is_none());
    assert_eq!(source.root(), file);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    deep(&file, 1, 3000);
    assert!(read(&file).unwrap_err().to_string().contains("name is too long"));
}

#[test]
fn a_file_that_is_a_folder_is_refused() {
    let file = |path| Entry { path, kind: tar::EntryType::Regular, bytes: b"x" };
    let error = refused(&[file("proc/meminfo/x"), file("proc/meminfo")]);
    assert!(error.contains("a file and a directory"), "{error}");
}
