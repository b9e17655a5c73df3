//! A descriptor by which one thread wakes another.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Readable from the first ring until it is heard.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes whoever polls it. Waits for nothing.
    pub(crate) fn ring(&self) {
        // Where it is full, it is ringing already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Has it stay silent until it is rung again.
    pub(crate) fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
