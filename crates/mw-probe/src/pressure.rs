//! The kernel's pressure trigger: tasks have waited for memory for too large a share of a window.
//!
//! The kernel wakes the poller at the latest a tenth of the window after it noticed, and at most
//! once a window (Documentation/accounting/psi.rst).

use mw_model::Missing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

const FILE: &str = "/proc/pressure/memory";
/// Some task waits for 150 ms of a second, in microseconds.
const TRIGGER: &str = "some 150000 1000000";
/// The same share for a process that may not use windows shorter than 2 s.
const UNPRIVILEGED: &str = "some 300000 2000000";

/// A trigger of /proc/pressure/memory, for as long as it lives.
#[derive(Debug)]
pub struct PressureTrigger {
    file: OwnedFd,
}

impl PressureTrigger {
    /// Asks the kernel to watch.
    ///
    /// # Errors
    /// The kernel has no PSI, or it is switched off, or does not let this process ask.
    pub fn open() -> Result<Self, Missing> {
        watch(TRIGGER)
            .or_else(|error| match error {
                // Without CAP_SYS_RESOURCE a window is a multiple of 2 s, from kernel 6.5 on.
                Errno::INVAL | Errno::PERM => watch(UNPRIVILEGED),
                other => Err(other),
            })
            .map(|file| Self { file })
            .map_err(missing)
    }

    /// Waits until tasks have waited too long, or `timeout` has passed; which of the two it was.
    /// A trigger that the kernel has taken away fires no more.
    pub fn fired(&self, timeout: Duration) -> bool {
        let mut fds = [PollFd::new(&self.file, PollFlags::PRI)];
        let Ok(timeout) = Timespec::try_from(timeout) else { return false };
        let woken = poll(&mut fds, Some(&timeout)).unwrap_or(0);
        let [fd] = &fds;
        woken > 0 && fd.revents().contains(PollFlags::PRI) && !fd.revents().contains(PollFlags::ERR)
    }
}

impl AsFd for PressureTrigger {
    /// Has `POLLPRI` when tasks have waited too long, which polling takes back; `POLLERR` when the
    /// kernel has taken the trigger away.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn watch(trigger: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(FILE, flags, Mode::empty())?;
    // The zero belongs to it.
    rustix::io::write(&file, &[trigger.as_bytes(), &[0]].concat())?;
    Ok(file)
}

fn missing(error: Errno) -> Missing {
    match error {
        Errno::NOENT => Missing::absent(FILE, "kernel 4.20 or later has it, built with CONFIG_PSI"),
        Errno::OPNOTSUPP => Missing::absent(FILE, "it is switched off: boot with psi=1"),
        Errno::ACCESS | Errno::PERM => {
            Missing::skipped(FILE, "not allowed: run as root or with CAP_SYS_RESOURCE")
        }
        Errno::BUSY => Missing::failed(FILE, "another trigger is on this descriptor"),
        other => Missing::failed(FILE, format!("no trigger could be set: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_set_where_the_kernel_has_it_and_waits_no_longer_than_told() {
        if !std::path::Path::new(FILE).exists() {
            assert_eq!(PressureTrigger::open().unwrap_err().what, FILE);
            return;
        }
        let trigger = PressureTrigger::open().unwrap();
        let begun = std::time::Instant::now();
        let fired = trigger.fired(Duration::from_millis(20));
        assert!(fired || begun.elapsed() >= Duration::from_millis(20));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
