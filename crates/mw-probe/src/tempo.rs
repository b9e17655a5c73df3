//! The interval between the requests of a probe: shorter while there is a sign that the service waits.
//!
//! A request a second sees nothing of a wait that begins and ends between two of them. Between requests at half of the
//! limit no wait fits that is longer than the limit and a half.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Of a limit, the part at which requests follow each other while there is a sign.
const LIMIT_PARTS: u32 = 2;

/// Requests are never more frequent because of a sign.
const SHORTEST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Tempo {
    calm: Duration,
    alert: Duration,
    is_alert: AtomicBool,
    rises: OwnedFd,
}

impl Tempo {
    /// The tempo of a probe with this interval, and with this limit where a sign shortens its interval.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub(crate) fn new(interval: Duration, limit: Option<Duration>) -> io::Result<Self> {
        let alert = |limit: Duration| (limit / LIMIT_PARTS).max(SHORTEST).min(interval);
        let alert = limit.map_or(interval, alert);
        let rises = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { calm: interval, alert, is_alert: AtomicBool::new(false), rises })
    }

    /// Ends the pause of the probe where it becomes shorter.
    pub(crate) fn set_alert(&self, is_alert: bool) {
        if !self.is_alert.swap(is_alert, Relaxed) && is_alert && self.alert < self.calm {
            // Where it is full, it is readable already.
            let _ = rustix::io::write(&self.rises, &1_u64.to_ne_bytes());
        }
    }

    pub(crate) fn interval(&self) -> Duration {
        if self.is_alert.load(Relaxed) { self.alert } else { self.calm }
    }

    /// Readable from the moment that the interval became shorter, until [`Self::clear`].
    pub(crate) fn rises(&self) -> BorrowedFd<'_> {
        self.rises.as_fd()
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.rises, &mut [0; 8]);
    }
}
