//! Waiting for what tests expect.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Between two checks of a condition that no descriptor reports.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until a condition holds that no descriptor reports.
///
/// # Panics
/// If it does not hold within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, limit, POLL_INTERVAL, || condition().then_some(()));
}

/// Looks at an interval until something is there.
///
/// # Panics
/// If it is not there within `limit`.
#[track_caller]
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    interval: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(interval);
    }
}

/// Waits for the end of a process; `None` if it has not ended within `limit`.
///
/// # Errors
/// pidfd_open(2)'s, poll(2)'s and waitpid(2)'s.
pub fn exit_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    // A process that was waited for has no descriptor.
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let limit = Timespec::try_from(limit).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit))? {
        0 => Ok(None),
        _ => child.wait().map(Some),
    }
}
