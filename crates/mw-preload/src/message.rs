//! Messages on standard error.

use crate::kernel;
use rustix::fd::BorrowedFd;
use rustix::fs::fstat;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// The file that standard error was at the start: later its number may belong to another file.
static STDERR_DEVICE: AtomicU64 = AtomicU64::new(0);
static STDERR_INODE: AtomicU64 = AtomicU64::new(0);

/// Stores which file standard error is, when the library is loaded.
pub(crate) fn remember_stderr() {
    let (device, inode) = stderr_file().unwrap_or_default();
    STDERR_DEVICE.store(device, Ordering::Relaxed);
    STDERR_INODE.store(inode, Ordering::Relaxed);
}

/// Writes to standard error, if that is still the file that it was at the start.
pub(crate) fn write(text: &str) {
    let _errno = kernel::ErrnoGuard::new();
    let at_start = (STDERR_DEVICE.load(Ordering::Relaxed), STDERR_INODE.load(Ordering::Relaxed));
    if stderr_file() == Some(at_start) {
        let _ = rustix::io::write(stderr_fd(), text.as_bytes());
    }
}

/// The device and inode of standard error.
fn stderr_file() -> Option<(u64, u64)> {
    let stat = fstat(stderr_fd()).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn stderr_fd() -> BorrowedFd<'static> {
    // SAFETY: if the number is closed, calls on it fail; `write` checks that it is not another file's.
    #[allow(unsafe_code, reason = "std's handle takes a lock")]
    unsafe {
        BorrowedFd::borrow_raw(libc::STDERR_FILENO)
    }
}

/// A line of bounded length, without allocation.
pub(crate) struct MessageLine {
    bytes: [u8; 400],
    length: usize,
}

impl Default for MessageLine {
    fn default() -> Self {
        Self { bytes: [0; 400], length: 0 }
    }
}

impl MessageLine {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()).unwrap_or_default()
    }
}

impl Write for MessageLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_an_error() {
        let mut line = MessageLine::default();
        assert!(line.write_str(&"x".repeat(400)).is_ok());
        assert!(line.write_str("y").is_err());
    }
}
