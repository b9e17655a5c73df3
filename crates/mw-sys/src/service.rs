//! File descriptors passed by a service manager.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first one (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

const MOST: RawFd = 1 << 16;

/// The file descriptors that the service manager passed to this process, with their names
/// (sd_listen_fds(3)), close-on-exec; empty at the second call.
pub fn passed_descriptors() -> Vec<(String, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    if TAKEN.swap(true, Ordering::Relaxed) || number("LISTEN_PID") != Some(std::process::id()) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").and_then(|count| RawFd::try_from(count).ok()).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut passed = Vec::new();
    for raw in FIRST..FIRST + count.clamp(0, MOST) {
        let name = names.next().unwrap_or_default().to_owned();
        // SAFETY: fcntl(2) with a number that is no open descriptor is EBADF.
        #[allow(unsafe_code, reason = "a descriptor that nobody owns yet")]
        let set = unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) };
        if set == 0 {
            // SAFETY: it is open, and by the manager's protocol this process's alone, which takes
            // it here once (sd_listen_fds(3)).
            #[allow(unsafe_code, reason = "a descriptor that nobody owns yet")]
            passed.push((name, unsafe { OwnedFd::from_raw_fd(raw) }));
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_was_passed_to_a_test() {
        assert!(passed_descriptors().is_empty());
    }
}
