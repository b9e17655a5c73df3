//! A command that is started here and waited for, while something else is done.

use crate::{Exit, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Child, Command};
use std::time::Duration;

/// Interval at which the caller does its other work.
pub(crate) const ROUND: Duration = Duration::from_millis(100);

/// Starts a command with its arguments. The failure's exit code is that of env(1).
pub(crate) fn spawn(name: &OsString, arguments: &[OsString]) -> Result<Child, Failure> {
    Command::new(name).args(arguments).spawn().map_err(|error| {
        let name = name.to_string_lossy();
        Failure::new(Exit::from_exec_error(&error), format!("{name}: {error}"))
    })
}

/// A descriptor that becomes readable when the command ends.
pub(crate) fn end_of(child: &Child) -> Result<OwnedFd, Failure> {
    let opened = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    opened.map_err(|error| not_waited(error.into()))
}

pub(crate) fn not_waited(error: std::io::Error) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("waiting for the command: {error}"))
}

/// Waits for a descriptor to become readable, for one round at most.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
    // A signal ends it early, which the next round makes up for.
    poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
}
