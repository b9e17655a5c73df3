//! A file that a command reads, which may be a pipe: reading ends when the command is told to end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Standard input, where a file can be named.
const STANDARD_INPUT: &str = "-";

/// Time to wait for a pipe before signals are checked.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An opened file or pipe.
#[derive(Debug)]
pub struct InputFile(File);

impl InputFile {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// Those of open(2); another user chose what the name leads to.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_INPUT) {
            let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0)?;
            return Ok(Self(File::from(input)));
        }
        crate::guarded::open_input(path).map(Self)
    }

    /// Goes to the last `max_bytes` of a file that has more; the number of bytes before them. A pipe stays where it is.
    ///
    /// # Errors
    /// Those of lseek(2).
    pub fn skip_to_last(&mut self, max_bytes: u64) -> io::Result<u64> {
        let metadata = self.0.metadata()?;
        let before = metadata.len().saturating_sub(max_bytes);
        if !metadata.is_file() || before == 0 {
            return Ok(0);
        }
        self.0.seek(SeekFrom::Start(before))
    }

    /// True if there is something left to read, which is consumed.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn has_more(&mut self) -> io::Result<bool> {
        Ok(self.read(&mut [0])? > 0)
    }
}

impl Read for InputFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if crate::is_termination_requested() {
                return Err(io::Error::other("interrupted"));
            }
            let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&POLL));
            if !matches!(ready, Ok(0) | Err(rustix::io::Errno::INTR)) {
                return self.0.read(bytes);
            }
        }
    }
}
