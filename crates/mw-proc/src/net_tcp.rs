//! `/proc/net/tcp` and `/proc/net/tcp6`: sockets by address (any kernel).

use crate::scan;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The states of a socket that are told apart here (include/net/tcp_states.h).
pub const ESTABLISHED: u8 = 1;
pub const SYN_SENT: u8 = 2;
pub const LISTEN: u8 = 10;

/// A TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    pub state: u8,
    /// 0 until a process has accepted it.
    pub inode: u64,
    /// Of a listening socket: connections that wait to be accepted.
    pub waiting: u32,
    /// Maximum number that may wait, where that is known.
    pub limit: Option<u32>,
}

/// Finds the socket of `local` that is connected to `remote`, or that listens there where `remote` is
/// `None`: on the address itself, or else on all. A line that is malformed is passed over: the file
/// changes while it is read.
#[must_use]
pub fn find(text: &[u8], local: SocketAddr, remote: Option<SocketAddr>) -> Option<TcpSocket> {
    let mut on_all = None;
    for (own, other, socket) in sockets(text) {
        if own.port() != local.port() {
            continue;
        }
        let is_wanted = match remote {
            Some(remote) => socket.state != LISTEN && other == remote && own == local,
            None => socket.state == LISTEN && own == local,
        };
        if is_wanted {
            return Some(socket);
        }
        if remote.is_none() && socket.state == LISTEN && own.ip().is_unspecified() {
            on_all = Some(socket);
        }
    }
    on_all
}

/// All sockets, each with its own address and that of the other end.
pub fn sockets(text: &[u8]) -> impl Iterator<Item = (SocketAddr, SocketAddr, TcpSocket)> {
    scan::lines(text).skip(1).filter_map(|line| parse_line(line.text))
}

/// `0: 0100007F:1538 00000000:0000 0A 00000000:00000001 00:00000000 00000000 1000 0 4711 ...`
fn parse_line(text: &[u8]) -> Option<(SocketAddr, SocketAddr, TcpSocket)> {
    let mut fields = scan::fields(text).skip(1);
    let own = address(fields.next()?)?;
    let other = address(fields.next()?)?;
    let state = u8::try_from(scan::parse_hex_u64(fields.next()?).ok()?).ok()?;
    let (_, waiting) = scan::split_once(fields.next()?, b':')?;
    let waiting = u32::try_from(scan::parse_hex_u64(waiting).ok()?).ok()?;
    let inode = scan::parse_u64(fields.nth(4)?).ok()?;
    Some((own, other, TcpSocket { state, inode, waiting, limit: None }))
}

/// Words of 32 bits in the order of the machine's bytes, and a port.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let (address, port) = scan::split_once(text, b':')?;
    let port = u16::try_from(scan::parse_hex_u64(port).ok()?).ok()?;
    let word = |at: usize| {
        let digits = address.get(at..at.checked_add(8)?)?;
        Some(u32::try_from(scan::parse_hex_u64(digits).ok()?).ok()?.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &[u8] = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt
   0: 00000000:1538 00000000:0000 0A 00000000:00000003 00:00000000 00000000   111        0 4711 1 0
   1: 0100007F:1538 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   111        0 4712 1 0
   2: garbage
";
    const V6: &[u8] = b"  sl  local_address
   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A \
00000000:00000000 00:00000000 00000000     0        0 9 1 0
   1: 0000000000000000FFFF00000100007F:0051 0000000000000000FFFF00000100007F:0052 01 \
00000000:00000000 00:00000000 00000000     0        0 10 1 0
";

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_are_found_by_address() {
        let listener = TcpSocket { state: LISTEN, inode: 4711, waiting: 3, limit: None };
        assert_eq!(find(V4, at("127.0.0.1:5432"), None), Some(listener));
        let connected = find(V4, at("127.0.0.1:5432"), Some(at("127.0.0.1:40000")));
        assert_eq!(connected.map(|socket| (socket.state, socket.inode)), Some((ESTABLISHED, 4712)));
        assert_eq!(find(V4, at("127.0.0.1:5432"), Some(at("127.0.0.1:1"))), None);
        assert_eq!(find(V4, at("127.0.0.1:1"), None), None);
        assert_eq!(find(V6, at("[::1]:80"), None).map(|socket| socket.inode), Some(9));
        let mapped = find(V6, at("127.0.0.1:81"), Some(at("127.0.0.1:82")));
        assert_eq!(mapped.map(|socket| socket.inode), Some(10));
    }

    #[test]
    fn anything_is_read() {
        for text in [&b""[..], b"\n", b"x\n0: :0 :0 0A\n", b"h\n0: 0:1 0:1 FFF 0:0 0 0 0 0 0\n"] {
            assert_eq!(find(text, at("127.0.0.1:1"), None), None);
        }
    }
}
