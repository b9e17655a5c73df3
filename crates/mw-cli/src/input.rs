//! A file that a command reads, which may be a pipe: reading ends when the command is told to end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Standard input, where a file can be named.
const STANDARD_INPUT: &str = "-";

/// How long a pipe is waited for before signals are looked at.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// An opened file or pipe.
pub(crate) struct Input(File);

impl Input {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// Those of open(2).
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_INPUT) {
            let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0)?;
            return Ok(Self(File::from(input)));
        }
        // A named pipe without a writer would block here, while signals are blocked.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        Ok(Self(File::from(opened)))
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if mw_sys::is_termination_requested() {
                return Err(io::Error::other("interrupted"));
            }
            let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&POLL));
            if !matches!(ready, Ok(0) | Err(rustix::io::Errno::INTR)) {
                return self.0.read(bytes);
            }
        }
    }
}
