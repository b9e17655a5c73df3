//! Which libraries a program is linked with (`DT_NEEDED`), for those that must be loaded first.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

const HEADER_BYTES: u64 = 56;
const ENTRY_BYTES: usize = 16;

/// Bounds of what is read of a file, whoever made it.
const MAX_HEADERS: u16 = 64;
const MAX_DYNAMIC_BYTES: u64 = 64 << 10;
const MAX_NAME_BYTES: usize = 256;

/// Beginnings of the names of AddressSanitizer's libraries, which end a program at its start that has
/// another library loaded before them.
const FIRST: [&str; 4] = ["libasan.so", "libhwasan.so", "libclang_rt.asan", "libclang_rt.hwasan"];

/// The library that must be loaded before any other into a program of 64 bits and of this machine's order
/// of bytes; none too where that cannot be read.
pub(super) fn first(program: &Path) -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "the program that the user has started next")]
    let file = File::open(program).ok()?;
    names(&file)?.into_iter().find(|name| is_first(name.as_bytes()))
}

/// True if a name, of `LD_PRELOAD` for example, is that of such a library.
pub(super) fn is_first(name: &[u8]) -> bool {
    let name = Path::new(OsStr::from_bytes(name)).file_name().unwrap_or_default().as_bytes();
    FIRST.iter().any(|first| name.starts_with(first.as_bytes()))
}

fn names(file: &File) -> Option<Vec<String>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    // 64 bits, the least significant byte first.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (start, size) =
        (number(&header, 32)?, u16::from_le_bytes(*header.get(54..)?.first_chunk()?));
    let count = u16::from_le_bytes(*header.get(56..)?.first_chunk()?).min(MAX_HEADERS);
    let mut headers = Vec::new();
    for place in 0..u64::from(count) {
        let mut header = [0; HEADER_BYTES as usize];
        let at = start.checked_add(place * u64::from(size))?;
        file.read_exact_at(&mut header, at).ok()?;
        headers.push(header);
    }
    let kind = |header: &[u8]| number(header, 0).map(|kind| kind & u64::from(u32::MAX));
    let dynamic = headers.iter().find(|header| kind(*header) == Some(PT_DYNAMIC))?;
    let mut entries = vec![0; usize::try_from(number(dynamic, 32)?.min(MAX_DYNAMIC_BYTES)).ok()?];
    file.read_exact_at(&mut entries, number(dynamic, 8)?).ok()?;
    let entry = |entry: &[u8]| Some((number(entry, 0)?, number(entry, 8)?));
    let entries: Vec<_> = entries.chunks_exact(ENTRY_BYTES).filter_map(entry).collect();
    let (_, table) = entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?;
    // An address, which is somewhere in the file.
    let in_file = |header: &[u8]| {
        let (offset, address, bytes) =
            (number(header, 8)?, number(header, 16)?, number(header, 32)?);
        let into = table.checked_sub(address).filter(|into| *into < bytes)?;
        offset.checked_add(into)
    };
    let loads = headers.iter().filter(|header| kind(*header) == Some(PT_LOAD));
    let table = loads.into_iter().find_map(|header| in_file(header))?;
    let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    Some(needed.filter_map(|(_, name)| text(file, table.checked_add(*name)?)).collect())
}

/// A name, which ends with a zero byte.
fn text(file: &File, at: u64) -> Option<String> {
    let mut bytes = [0; MAX_NAME_BYTES];
    let read = file.read_at(&mut bytes, at).ok()?;
    let name = bytes.get(..read)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(name.to_vec()).ok()
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn a_program_says_what_it_is_linked_with() {
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(names(&own).unwrap().iter().any(|name| name == "libc.so.6"));
        assert_eq!(names(&File::open("/dev/null").unwrap()), None);
        assert!(is_first(b"/usr/lib/libasan.so.8") && is_first(b"libclang_rt.asan-x86_64.so"));
        assert!(!is_first(b"libtsan.so.2") && !is_first(b""));
    }

    #[test]
    fn a_damaged_file_is_no_panic() {
        let (dir, mut bytes) = (tempfile::tempdir().unwrap(), own());
        bytes.truncate(1 << 16);
        let path = dir.path().join("it");
        for at in (16..700).step_by(3) {
            let before = std::mem::replace(&mut bytes[at], 0xff);
            std::fs::write(&path, &bytes).unwrap();
            first(&path);
            bytes[at] = before;
        }
    }
}
