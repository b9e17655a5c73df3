//! Files that are opened, read and closed past the C library, for the reasons of `direct`: a sanitizer
//! keeps books of descriptors, and takes those of a thread with a table of its own for the program's.

use crate::direct::system_call;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// What is read at a time, the files of /proc being no longer as a rule.
const PIECE_BYTES: usize = 4096;

/// A descriptor that is closed past the C library.
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

#[cfg(test)]
mod tests {
    use super::*;

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
