//! The state of a machine in a file: written by memwright, by another tool that collects for support (sosreport,
//! supportconfig), by tar, or the pasted output of a command.
//!
//! Any of them may be compressed. What comes from elsewhere is not trusted: what is read of it and what is kept is
//! bounded, and nothing of it is written to a file system.

mod archive;
mod compression;
mod links;
mod paste;
mod table;
mod transcript;

use crate::capture::{self, CaptureError};
use crate::source::Source;
use crate::text_archive::{self, MAX_TEXT_BYTES, TextArchive};
use mw_sys::guarded;
use std::io::{BufReader, Read};
use std::path::Path;

/// The longest beginning that tells what a file is: the magic of tar is at byte 257.
const HEAD_BYTES: u64 = 512;

/// The machine in a file, whatever wrote it; `file` is its name, beside which the base of a text archive is.
///
/// # Errors
/// It cannot be read, or nothing in it is a file of the kernel; it is larger than such a file may be, or has paths that
/// lead out of the tree.
pub fn read(reader: impl Read, file: &Path) -> Result<Source, CaptureError> {
    let failed = |source| CaptureError::Io { path: file.to_owned(), source };
    let (head, whole) = peek(reader).map_err(failed)?;
    if text_archive::is_one(&head) {
        let text = read_text(whole).map_err(failed)?;
        return Ok(Source::in_memory(TextArchive::parse(&text, file)?.tree, file)?);
    }
    if compression::is_zstd(&head) {
        return capture::read(whole, file);
    }
    let decoder = compression::decoder(&head, BufReader::new(whole));
    let (head, content) = peek(decoder).map_err(failed)?;
    if archive::is_tar(&head) {
        return archive::read(content, file);
    }
    let text = read_text(content).map_err(failed)?;
    let paste = paste::read(&String::from_utf8_lossy(&text))
        .ok_or_else(|| CaptureError::Unknown { path: file.to_owned() })?;
    Ok(Source::in_memory(paste.tree, file)?.with_input(paste.input))
}

/// [`read`] of a file by its name.
///
/// # Errors
/// As of [`read`]; it cannot be opened.
pub fn open(file: &Path) -> Result<Source, CaptureError> {
    let opened = guarded::open_input(file);
    read(opened.map_err(|source| CaptureError::Io { path: file.to_owned(), source })?, file)
}

/// The beginning of what `reader` delivers, and all of it.
fn peek<R: Read>(mut reader: R) -> std::io::Result<(Vec<u8>, impl Read + use<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let whole = std::io::Cursor::new(head.clone()).chain(reader);
    Ok((head, whole))
}

fn read_text(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    reader.take(MAX_TEXT_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > MAX_TEXT_BYTES {
        true => Err(std::io::Error::other(format!("larger than {} MiB", MAX_TEXT_BYTES >> 20))),
        false => Ok(text),
    }
}
