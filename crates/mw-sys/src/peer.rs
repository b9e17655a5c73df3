//! The peer of a Unix socket: its credentials, what it may send, what it has not read.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The credentials of the process that connected a Unix socket, at that time (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process; none where it has no id in this process's PID namespace.
    pub process: Option<u32>,
    pub user: u32,
    pub group: u32,
}

/// The credentials of the process at the other end of a connected Unix socket (unix(7)).
///
/// rustix's `socket_peercred` requires a nonzero process id, which the kernel does not guarantee: a
/// peer outside this PID namespace is 0 (pid_namespaces(7)).
///
/// # Errors
/// getsockopt(2)'s.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<PeerCredentials> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, std::slice::from_mut(&mut peer))?;
    let process = u32::try_from(peer.pid).ok().filter(|pid| *pid > 0);
    Ok(PeerCredentials { process, user: peer.uid, group: peer.gid })
}

/// The supplementary groups of the process that connected a Unix socket (`SO_PEERGROUPS`, kernel
/// 4.13); at most 64 of them.
///
/// # Errors
/// getsockopt(2)'s: `ERANGE` for a process in more groups.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    /// unix(7); libc does not know it.
    const SO_PEERGROUPS: libc::c_int = 59;
    let mut groups = [0_u32; 64];
    let count = get_option(socket, libc::SOL_SOCKET, SO_PEERGROUPS, &mut groups)?;
    Ok(groups.iter().take(count).copied().collect())
}

/// Reads an option of a socket's level into numbers; returns how many whole ones the kernel wrote.
pub(crate) fn get_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    values: &mut [T],
) -> io::Result<usize> {
    let mut bytes = libc::socklen_t::try_from(size_of_val(values)).map_err(io::Error::other)?;
    // SAFETY: `values` is writable for as many bytes as `bytes` says, which the kernel sets to
    // what it wrote (getsockopt(2)); all types that are read this way consist of integers alone.
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            values.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes as usize / size_of::<T>())
}

/// Makes the kernel reject every message to this Unix socket that carries file descriptors
/// (`SO_PASSRIGHTS` 0); the sender gets `EPERM`. Sockets accepted from a listener inherit it.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.16.
pub fn refuse_descriptors(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// asm-generic/socket.h; libc does not know it on every architecture.
    const SO_PASSRIGHTS: libc::c_int = 83;
    let off: libc::c_int = 0;
    // SAFETY: `off` is readable and as long as passed (setsockopt(2)).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The memory of messages that the peer of a Unix socket has not read (`SIOCOUTQ`), with the kernel's
/// overhead; 0 when all are read or the peer has closed the socket.
///
/// # Errors
/// ioctl(2)'s.
pub fn unread_bytes(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int (unix(7), `SIOCOUTQ`, which is `TIOCOUTQ`).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let got = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_peer_is_this_process() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let peer = peer_credentials(socket.as_fd()).unwrap();
        assert_eq!(peer.process, Some(std::process::id()));
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        assert_eq!(peer.group, rustix::process::getegid().as_raw());
    }

    #[test]
    fn the_groups_of_a_peer_are_reported() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let mut own: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        let mut groups = peer_groups(socket.as_fd()).unwrap();
        own.sort_unstable();
        groups.sort_unstable();
        assert_eq!(groups, own);
    }

    #[test]
    fn unread_bytes_count_until_they_are_read_or_dropped() {
        let (mut socket, mut other) = UnixStream::pair().unwrap();
        assert_eq!(unread_bytes(socket.as_fd()).unwrap(), 0);
        socket.write_all(b"x").unwrap();
        assert!(unread_bytes(socket.as_fd()).unwrap() > 0);
        other.read_exact(&mut [0]).unwrap();
        assert_eq!(unread_bytes(socket.as_fd()).unwrap(), 0);
        socket.write_all(b"x").unwrap();
        drop(other);
        assert_eq!(unread_bytes(socket.as_fd()).unwrap(), 0);
    }
}
