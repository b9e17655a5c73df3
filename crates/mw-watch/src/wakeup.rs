//! A descriptor by which one thread wakes another.

use crate::clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Readable from the first [`WakeupFd::wake`] until it is cleared.
#[derive(Debug)]
pub(crate) struct WakeupFd(OwnedFd);

impl WakeupFd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Never blocks.
    pub(crate) fn wake(&self) {
        // Where it is full, it is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Waits until a moment of [`clock::monotonic`]; whether it was woken before, which is cleared.
    pub(crate) fn wait_until(&self, moment: Duration) -> bool {
        loop {
            let left = moment.saturating_sub(clock::monotonic());
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return false,
                Ok(_) => {
                    self.clear();
                    return true;
                }
                // Interrupted.
                Err(_) => {}
            }
        }
    }
}

impl AsFd for WakeupFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
