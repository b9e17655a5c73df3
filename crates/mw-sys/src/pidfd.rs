//! Ends of processes: of a child, while the caller does something else, and of one that is no child.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// struct pidfd_info (linux/pidfd.h) in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// pid, tgid, ppid, and the users and groups.
    ids: [u32; 11],
    exit_code: i32,
}

/// `_IOWR(0xff, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// A descriptor that becomes readable when the child ends.
///
/// # Errors
/// pidfd_open(2)'s.
pub fn exit_descriptor(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// Waits for a descriptor to become readable, for this time at most; a signal ends it early.
pub fn is_readable_within(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec::try_from(time).ok();
    poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// The wait status (waitpid(2)) of the process of a descriptor that was opened while it ran, once its parent
/// has waited for it; `None` before.
///
/// # Errors
/// ioctl(2)'s: `ENOTTY` or `EINVAL` before Linux 6.15, `ESRCH` where the kernel no longer knows.
pub fn exit_status_of(pidfd: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request's number has the size of `info`, which the kernel reads and writes (pidfd(2),
    // linux/pidfd.h); it consists of integers alone, without padding.
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let got = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};
    use std::time::Instant;

    #[test]
    fn the_end_of_a_process_is_known_after_it() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pidfd = exit_descriptor(&child).unwrap();
        let running = match exit_status_of(pidfd.as_fd()) {
            Ok(running) => running,
            Err(error) => {
                let _ = (child.kill(), child.wait());
                return mw_test::skip(format!("needs PIDFD_INFO_EXIT (6.15): {error}"));
            }
        };
        assert_eq!(running, None);
        child.kill().unwrap();
        child.wait().unwrap();
        let status = exit_status_of(pidfd.as_fd()).unwrap().map(ExitStatus::from_raw);
        assert_eq!(status.and_then(|status| status.signal()), Some(9));
    }

    #[test]
    fn the_end_of_a_child_is_waited_for_no_longer_than_asked() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let ended = exit_descriptor(&child).unwrap();
        let start = Instant::now();
        assert!(!is_readable_within(ended.as_fd(), Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        child.kill().unwrap();
        assert!(is_readable_within(ended.as_fd(), Duration::from_secs(60)));
        child.wait().unwrap();
    }
}
