//! Captures that are damaged at random, in the archive and in the files of the kernel: reading and checking them ends,
//! without a panic, within limits of memory and time. `MW_FUZZ_S` is the duration in seconds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_collect::{Source, capture, input};
use mw_test::{FuzzLimits, Random, fuzz};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

const LIMITS: FuzzLimits = FuzzLimits { bytes: 512 << 20, cpu: Duration::from_secs(30) };

/// As memwright's archives: a head, and what fills the last block of a file.
const BLOCK_BYTES: usize = 512;

/// Archives of files that are larger are refused.
const MAX_FILE_BYTES: usize = 4 << 20;

struct File {
    path: String,
    bytes: Vec<u8>,
}

fn files(archive: &[u8]) -> Vec<File> {
    let mut archive = tar::Archive::new(archive);
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        File { path, bytes }
    };
    archive.entries().unwrap().map(read).collect()
}

fn archive(files: &[File]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for File { path, bytes } in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // A path that the archive cannot have is left out.
        let _ = archive.append_data(&mut header, path, bytes.as_slice());
    }
    archive.into_inner().unwrap()
}

/// Damages a file of the kernel: bytes, lines, or its size.
fn damage_file(random: &mut Random, file: &mut File) {
    let bytes = &mut file.bytes;
    match random.below(6) {
        0 => random.damage(bytes),
        1 => bytes.truncate(random.below(bytes.len())),
        // A line, or a part of one, many times.
        2 | 3 => {
            let at = random.below(bytes.len());
            let part = bytes[at..(at + 1 + random.below(80)).min(bytes.len())].to_vec();
            let most = MAX_FILE_BYTES.saturating_sub(bytes.len()) / part.len().max(1);
            let copies = (1 << random.below(22)).min(most);
            bytes.splice(at..at, part.repeat(copies));
        }
        4 => {
            let number = random.odd_number().to_string();
            let at = bytes.iter().position(u8::is_ascii_digit).unwrap_or(0);
            bytes.splice(at..at, number.into_bytes());
        }
        _ => {
            let folders = ["x/", "../", "./", "9/", "sys/fs/cgroup/"];
            let below = random.pick(&folders).repeat(1 << random.below(12));
            let at = file.path.find('/').map_or(0, |at| at + 1);
            file.path.insert_str(at, &below);
        }
    }
}

fn damaged(random: &mut Random, whole: &[u8]) -> Vec<u8> {
    let mut files = files(whole);
    for _ in 0..=random.below(6) {
        let at = random.below(files.len());
        match random.below(8) {
            0 => {
                let number = random.below(1 << 12);
                let copy = |name| File {
                    path: format!("proc/{name}/status"),
                    bytes: files[at].bytes.get(..2000).unwrap_or(&files[at].bytes).to_vec(),
                };
                let more: Vec<File> = (0..number).map(copy).collect();
                files.extend(more);
            }
            1 => drop(files.swap_remove(at)),
            _ => damage_file(random, &mut files[at]),
        }
    }
    let mut archive = archive(&files);
    if random.below(4) == 0 {
        // The head of a file: its checksum is fixed half of the time.
        let at = random.below(archive.len() / BLOCK_BYTES) * BLOCK_BYTES;
        let head = &mut archive[at..at + BLOCK_BYTES];
        random.damage(head);
        if random.below(2) == 0 {
            let mut mended = tar::Header::new_old();
            mended.as_mut_bytes().copy_from_slice(head);
            mended.set_cksum();
            head.copy_from_slice(mended.as_bytes());
        }
    }
    let mut compressor = zstd::Encoder::new(Vec::new(), 1).unwrap();
    compressor.write_all(&archive).unwrap();
    let mut packed = compressor.finish().unwrap();
    if random.below(8) == 0 {
        random.damage(&mut packed);
    }
    packed
}

#[test]
fn damaged_captures_are_read_and_checked_within_limits() {
    let mut packed = Vec::new();
    capture::write(&Source::live().unwrap(), false, &mut packed).unwrap();
    let whole = zstd::decode_all(packed.as_slice()).unwrap();
    fuzz(5, LIMITS, |random| {
        let packed = damaged(random, &whole);
        if let Ok(source) = capture::read(packed.as_slice(), Path::new("damaged")) {
            drop(mw_rules::check(&mw_collect::window(&source), None));
        }
    });
}

#[test]
fn damaged_text_archives_are_read_and_checked_within_limits() {
    let whole = std::fs::read(mw_test::fixture("zone-reclaim/quiet")).unwrap();
    fuzz(5, LIMITS, |random| {
        let mut file = File { path: String::new(), bytes: whole.clone() };
        for _ in 0..=random.below(6) {
            damage_file(random, &mut file);
        }
        if let Ok(source) = input::read(file.bytes.as_slice(), Path::new("damaged")) {
            drop(mw_rules::check(&mw_collect::window(&source), None));
        }
    });
}
