//! A descriptor that becomes readable when a probe is overdue. Polling every few milliseconds instead
//! would cost 40 µs of CPU time each.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Once expired, it stays readable until it is cleared, whatever it is set to meanwhile: the reader may be
/// late as well.
#[derive(Debug)]
pub(crate) struct OverdueTimer(OwnedFd);

impl OverdueTimer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Replaces the time at which it expires; at once for zero.
    pub(crate) fn expire_in(&self, time: Duration) {
        // Zero would be never (timerfd_settime(2)).
        self.set(time.max(Duration::from_nanos(1)));
    }

    pub(crate) fn cancel(&self) {
        self.set(Duration::ZERO);
    }

    fn set(&self, time: Duration) {
        if self.is_expired() {
            return;
        }
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(time).unwrap_or(never);
        let time = Itimerspec { it_interval: never, it_value };
        // It fails for no time that a Duration can be.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time);
    }

    fn is_expired(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)) == Ok(1)
    }

    /// Makes it unreadable until it expires again.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_timer_stays_readable_until_cleared() {
        let timer = OverdueTimer::new().unwrap();
        timer.expire_in(Duration::from_secs(1000));
        assert!(!timer.is_expired());
        timer.expire_in(Duration::ZERO);
        let mut fds = [PollFd::new(&timer.0, PollFlags::IN)];
        assert_eq!(poll(&mut fds, None), Ok(1));
        timer.cancel();
        timer.expire_in(Duration::from_secs(1000));
        assert!(timer.is_expired());
        timer.clear();
        assert!(!timer.is_expired());
        timer.clear();
    }
}
