//! Files that are opened, read and closed without the C library, for the reasons of `direct`: a
//! sanitizer tracks file descriptors, and takes those of a thread with its own descriptor table for the
//! program's.

use crate::direct::system_call;
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The size of one read; most files of /proc are not longer.
const PIECE_BYTES: usize = 4096;

/// A file descriptor that is closed without the C library.
#[derive(Debug)]
pub struct DirectFile(RawFd);

impl DirectFile {
    /// Opens a file to read it.
    ///
    /// # Errors
    /// open(2)'s.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path.as_ref(), flags, Mode::empty())?.into())
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// read(2)'s, and `OutOfMemory`.
    pub fn read_to_end(&self) -> io::Result<Vec<u8>> {
        let (mut text, mut length) = (Vec::new(), 0);
        loop {
            text.try_reserve(PIECE_BYTES)?;
            text.resize(length + PIECE_BYTES, 0);
            match rustix::io::read(self, text.get_mut(length..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        text.truncate(length);
        Ok(text)
    }
}

impl From<OwnedFd> for DirectFile {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into_raw_fd())
    }
}

impl AsFd for DirectFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open until this is dropped.
        #[allow(unsafe_code, reason = "a descriptor that this type owns")]
        unsafe {
            BorrowedFd::borrow_raw(self.0)
        }
    }
}

impl AsRawFd for DirectFile {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for DirectFile {
    fn drop(&mut self) {
        // SAFETY: this type owns it, and nobody has it any more (close(2)).
        #[allow(unsafe_code, reason = "a descriptor that this type owns")]
        unsafe {
            system_call(libc::SYS_close, [self.0 as usize])
        };
    }
}

/// Reads all of a file.
///
/// # Errors
/// Those of opening and reading it.
pub fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    DirectFile::open(path)?.read_to_end()
}

/// The names of the directories in a directory, at most `limit` of them.
///
/// # Errors
/// Those of opening and reading it.
pub fn subdirectories(path: impl AsRef<Path>, limit: usize) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = DirectFile::from(rustix::fs::open(path.as_ref(), flags, Mode::empty())?);
    let mut space = [MaybeUninit::uninit(); PIECE_BYTES];
    let mut entries = RawDir::new(dir.as_fd(), &mut space);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
        if names.len() >= limit {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_are_listed() {
        let names = subdirectories("/proc/self", 100).unwrap();
        assert!(
            names.iter().any(|name| name == "task") && !names.iter().any(|name| name == "stat")
        );
        assert_eq!(subdirectories("/proc/self", 2).unwrap().len(), 2);
        assert!(subdirectories("/proc/self/stat", 2).is_err());
    }

    #[test]
    fn a_file_is_read_whole_and_closed() {
        let own = std::env::current_exe().unwrap();
        assert!(read_file(&own).unwrap() == std::fs::read(&own).unwrap());
        assert_eq!(read_file("/dev/null").unwrap(), b"");
        assert_eq!(read_file("/none").unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = DirectFile::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        let link = format!("/proc/self/fd/{number}");
        let leads_there = || std::fs::read_link(&link).is_ok_and(|to| to == Path::new("/dev/null"));
        assert!(leads_there());
        drop(file);
        // Another test may have been given the number.
        assert!((0..100).any(|_| !leads_there()));
    }
}
