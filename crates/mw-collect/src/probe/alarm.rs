//! A descriptor that wakes whoever polls it when something is overdue, so that nobody has to look
//! every few milliseconds: on the development machines a look costs 40 µs of processor time.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Rings until it is heard, whatever it is set to meanwhile: whoever hears it may be late as well.
#[derive(Debug)]
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Has it ring in `time` instead of when it was to; at once for zero.
    pub(super) fn ring_in(&self, time: Duration) {
        // Zero would be never (timerfd_settime(2)).
        self.set(time.max(Duration::from_nanos(1)));
    }

    /// Has it not ring.
    pub(super) fn silence(&self) {
        self.set(Duration::ZERO);
    }

    fn set(&self, time: Duration) {
        if self.is_ringing() {
            return;
        }
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(time).unwrap_or(never);
        let time = Itimerspec { it_interval: never, it_value };
        // It fails for no time that a Duration can be.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time);
    }

    fn is_ringing(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)) == Ok(1)
    }

    /// Has it stay silent after it rang, until it is set again.
    pub(super) fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_until_it_is_heard() {
        let alarm = Alarm::new().unwrap();
        alarm.ring_in(Duration::from_secs(1000));
        assert!(!alarm.is_ringing());
        alarm.ring_in(Duration::ZERO);
        let mut fds = [PollFd::new(&alarm.0, PollFlags::IN)];
        assert_eq!(poll(&mut fds, None), Ok(1));
        alarm.silence();
        alarm.ring_in(Duration::from_secs(1000));
        assert!(alarm.is_ringing());
        alarm.hear();
        assert!(!alarm.is_ringing());
        alarm.hear();
    }
}
