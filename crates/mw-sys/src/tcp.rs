//! Delivery of the segments of a TCP connection, by the kernel's own account.

use crate::peer::get_option;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What became of the segments of a TCP connection (tcp(7), `TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpSegments {
    /// Segments that were sent again since the connection was begun.
    pub retransmitted: u32,
    /// Segments that the peer has not acknowledged yet.
    pub unacknowledged: u32,
    /// Smoothed round-trip time; zero until the peer has acknowledged anything.
    pub round_trip: Duration,
}

/// Segments of a TCP socket's connection. It does not wait.
///
/// Linux, include/uapi/linux/tcp.h, `struct tcp_info`, and net/ipv4/tcp.c, `tcp_get_info()`: a SYN that is not
/// answered counts as well.
///
/// # Errors
/// getsockopt(2)'s: `EOPNOTSUPP` for a Unix socket.
pub fn tcp_segments(socket: BorrowedFd<'_>) -> io::Result<TcpSegments> {
    // SAFETY: the type consists of integers alone, of which each may be zero.
    #[allow(unsafe_code, reason = "libc gives it no constructor")]
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, std::slice::from_mut(&mut info))?;
    Ok(TcpSegments {
        retransmitted: info.tcpi_total_retrans,
        unacknowledged: info.tcpi_unacked,
        round_trip: Duration::from_micros(info.tcpi_rtt.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_was_delivered_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        server.write_all(b"y").unwrap();
        client.read_exact(&mut [0]).unwrap();
        let segments = tcp_segments(client.as_fd()).unwrap();
        assert_eq!((segments.retransmitted, segments.unacknowledged), (0, 0));
        assert!(segments.round_trip > Duration::ZERO, "{segments:?}");
        assert!(segments.round_trip < Duration::from_secs(1), "{segments:?}");
    }

    #[test]
    fn a_unix_socket_has_no_segments() {
        let (socket, _other) = UnixStream::pair().unwrap();
        assert!(tcp_segments(socket.as_fd()).is_err());
    }
}
