//! Descriptors that a service manager passes, and who is at the other end of a socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first of them (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// The most that are taken.
const MOST: RawFd = 1 << 16;

/// The descriptors that the service manager passed to this process, with their names
/// (sd_listen_fds(3)); none at the second call. They are not inherited any further.
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

/// The supplementary groups of the process that connected a Unix socket (`SO_PEERGROUPS`, kernel
/// 4.13); at most 64 of them.
///
/// # Errors
/// getsockopt(2)'s: `ERANGE` for a process that is in more groups.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    /// unix(7); libc does not know it.
    const SO_PEERGROUPS: libc::c_int = 59;
    let mut groups = [0_u32; 64];
    let mut bytes = libc::socklen_t::try_from(size_of_val(&groups)).map_err(io::Error::other)?;
    // SAFETY: `groups` is writable for as many bytes as `bytes` says, which the kernel sets to
    // what it wrote (getsockopt(2)).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(groups.iter().take(bytes as usize / size_of::<u32>()).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn nothing_was_passed_to_a_test() {
        assert!(passed_descriptors().is_empty());
    }

    #[test]
    fn a_peer_has_this_process_s_groups() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let mut own: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        let mut groups = peer_groups(socket.as_fd()).unwrap();
        own.sort_unstable();
        groups.sort_unstable();
        assert_eq!(groups, own);
    }
}
