//! All TCP or UDP sockets of a network namespace by sock_diag(7), with what TCP knows of their segments.

use super::sockets::{
    AF_INET, AF_INET6, HEADER_BYTES, IPPROTO_TCP, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_ERROR,
    NO_COOKIE, attribute, request,
};
use mw_model::ListenQueue;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

const IPPROTO_UDP: u8 = 17;
const NLMSG_DONE: u16 = 3;

/// States of sockets, as bits (include/net/tcp_states.h).
const ESTABLISHED: u32 = 1 << 1;
const SYN_SENT: u32 = 1 << 2;
const LISTEN: u32 = 1 << 10;

/// The extension that carries `struct tcp_info`, and its attribute.
const SHOW_INFO: u8 = 1 << (INET_DIAG_INFO - 1);
const INET_DIAG_INFO: u16 = 2;
/// The retransmission timer runs.
const TIMER_RETRANSMITS: u8 = 1;

/// One part of an answer.
const PART_BYTES: usize = 32 << 10;
/// The most of an answer that is read: 6,000 sockets.
const MAX_ANSWER_BYTES: usize = 2 << 20;

/// Sockets that are asked for.
pub(super) struct DiagQuery {
    family: u8,
    protocol: u8,
    extensions: u8,
    states: u32,
}

impl DiagQuery {
    /// The families of addresses.
    pub(super) const FAMILIES: [u8; 2] = [AF_INET, AF_INET6];

    /// TCP sockets that listen, first, and those that connect or are connected.
    pub(super) fn tcp(family: u8) -> Self {
        let states = LISTEN | SYN_SENT | ESTABLISHED;
        Self { family, protocol: IPPROTO_TCP, extensions: SHOW_INFO, states }
    }

    /// UDP sockets that are connected.
    pub(super) fn udp(family: u8) -> Self {
        Self { family, protocol: IPPROTO_UDP, extensions: 0, states: ESTABLISHED }
    }

    /// struct inet_diag_req_v2 (linux/inet_diag.h), of any address.
    fn payload(&self) -> Vec<u8> {
        let mut payload = vec![self.family, self.protocol, self.extensions, 0];
        payload.extend(self.states.to_ne_bytes());
        payload.extend([0; 40]);
        payload.extend(NO_COOKIE);
        payload
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiagState {
    Listening,
    Connecting,
    Connected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiagSocket {
    pub(super) state: DiagState,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) inode: u64,
    pub(super) unread_bytes: u32,
    pub(super) queued_bytes: u32,
    pub(super) segments: DiagSegments,
}

impl DiagSocket {
    /// Connections that wait to be accepted, of a socket that listens.
    pub(super) fn listen_queue(&self) -> ListenQueue {
        ListenQueue { waiting: self.unread_bytes, limit: self.queued_bytes }
    }
}

/// Segments of a TCP socket (`struct tcp_info`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiagSegments {
    pub(super) unacknowledged: u32,
    pub(super) timeouts: u32,
    pub(super) retransmitted: u32,
    pub(super) unacknowledged_ms: u64,
    pub(super) round_trip_us: u64,
    pub(super) sent: u32,
    pub(super) received: u32,
    pub(super) sent_ms_ago: u64,
    pub(super) received_ms_ago: u64,
    pub(super) acknowledged_ms_ago: u64,
}

/// Calls `note` for each socket of an answer; returns whether it was read to its end, and not to [`MAX_ANSWER_BYTES`] or
/// the deadline.
///
/// # Errors
/// The kernel lacks the protocol's module, or does not answer.
pub(super) fn dump(
    socket: &OwnedFd,
    query: &DiagQuery,
    deadline: Instant,
    note: &mut impl FnMut(DiagSocket),
) -> io::Result<bool> {
    let bytes = request(&query.payload(), NLM_F_REQUEST | NLM_F_DUMP)?;
    send(socket, &bytes, SendFlags::empty())?;
    let mut part = vec![0; PART_BYTES];
    let mut read = 0;
    while read < MAX_ANSWER_BYTES && Instant::now() < deadline {
        let (_, received) = recv(socket, part.as_mut_slice(), RecvFlags::empty())?;
        read += received.max(1);
        if note_messages(part.get(..received).unwrap_or_default(), note)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes the sockets of one part of an answer; returns whether that was the last.
fn note_messages(mut part: &[u8], note: &mut impl FnMut(DiagSocket)) -> Result<bool, Errno> {
    while let (Some(bytes), Some(kind)) = (word(part, 0), half(part, 4)) {
        let bytes = usize::try_from(bytes).unwrap_or(0);
        let Some(message) = part.get(HEADER_BYTES..bytes) else { return Err(Errno::BADMSG) };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let error = word(message, 0).map_or(-1, u32::cast_signed);
                return Err(Errno::from_raw_os_error(error.saturating_neg()));
            }
            _ => {
                if let Some(socket) = parse(message) {
                    note(socket);
                }
            }
        }
        part = part.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// struct inet_diag_msg: family, state, timer, timeouts, the socket's id (48), expiry, receive queue, send queue, user,
/// inode; then attributes.
fn parse(message: &[u8]) -> Option<DiagSocket> {
    let family = *message.first()?;
    let state = match 1_u32.checked_shl((*message.get(1)?).into())? {
        LISTEN => DiagState::Listening,
        SYN_SENT => DiagState::Connecting,
        ESTABLISHED => DiagState::Connected,
        _ => return None,
    };
    let left_ms = (*message.get(2)? == TIMER_RETRANSMITS).then(|| word(message, 52)).flatten();
    let info = message.get(72..).and_then(|attributes| attribute(attributes, INET_DIAG_INFO));
    Some(DiagSocket {
        state,
        local: address(family, message.get(8..24)?, message.get(4..6)?),
        peer: address(family, message.get(24..40)?, message.get(6..8)?),
        inode: word(message, 68)?.into(),
        unread_bytes: word(message, 56)?,
        queued_bytes: word(message, 60)?,
        segments: info.and_then(|info| segments(info, left_ms)).unwrap_or_default(),
    })
}

/// struct tcp_info (linux/tcp.h); an older kernel's is shorter.
fn segments(info: &[u8], left_ms: Option<u32>) -> Option<DiagSegments> {
    let long = |at| word(info, at).map(u64::from);
    let timeouts = u32::from(*info.get(2)?);
    let timeout_ms = long(8)? / 1000;
    let timer = RetransmissionTimer {
        timeouts,
        doublings: u32::from(*info.get(4)?).min(timeouts),
        timeout_ms,
        left_ms: left_ms.map_or(timeout_ms, u64::from),
    };
    Some(DiagSegments {
        unacknowledged: word(info, 24)?,
        timeouts,
        retransmitted: word(info, 100)?,
        unacknowledged_ms: timer.elapsed_ms(),
        round_trip_us: long(68)?,
        received: word(info, 152).unwrap_or(1),
        sent: word(info, 156).unwrap_or(1),
        sent_ms_ago: long(44)?,
        received_ms_ago: long(52)?,
        acknowledged_ms_ago: long(56)?,
    })
}

/// State of a retransmission timer, which doubles with each timeout; that of a first SYN does so after some only.
struct RetransmissionTimer {
    timeouts: u32,
    doublings: u32,
    timeout_ms: u64,
    left_ms: u64,
}

impl RetransmissionTimer {
    /// Time since it was set first.
    fn elapsed_ms(&self) -> u64 {
        let first_ms = self.timeout_ms.checked_shr(self.doublings).unwrap_or(0);
        let same = u64::from(self.timeouts.saturating_sub(self.doublings));
        let since_last_ms = self.timeout_ms.saturating_sub(self.left_ms);
        first_ms
            .saturating_mul(same)
            .saturating_add(self.timeout_ms.saturating_sub(first_ms))
            .saturating_add(since_last_ms)
    }
}

/// An address that a name stands for one way only: IPv4 as such also where an IPv6 socket has it.
fn address(family: u8, address: &[u8], port: &[u8]) -> Option<SocketAddr> {
    let ip = match family {
        AF_INET => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(address.get(..4)?).ok()?)),
        AF_INET6 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(port.try_into().ok()?)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_any_bytes_are_read() {
        let none = &mut |_| {};
        assert_eq!(note_messages(&[], none), Ok(false));
        assert_eq!(note_messages(&[200, 0, 0, 0, 20, 0, 0, 0], none), Err(Errno::BADMSG));
        assert_eq!(note_messages(&[0; 64], none), Err(Errno::BADMSG));
        let mut done = [0; 16];
        (done[0], done[4]) = (16, 3);
        assert_eq!(note_messages(&done, none), Ok(true));
        let mut error = [0; 20];
        (error[0], error[4]) = (20, 2);
        error[16..].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(note_messages(&error, none), Err(Errno::NOENT));
        assert_eq!(parse(&[0; 80]), None, "no such state");
        assert_eq!(segments(&[0; 100], None), None, "cut off");
    }

    #[test]
    fn timeouts_add_up() {
        let elapsed = |timeouts, doublings, timeout_ms, left_ms| {
            RetransmissionTimer { timeouts, doublings, timeout_ms, left_ms }.elapsed_ms()
        };
        assert_eq!(elapsed(0, 0, 200, 150), 50);
        assert_eq!(elapsed(3, 3, 1600, 1600), 200 + 400 + 800);
        assert_eq!(elapsed(2, 0, 1000, 400), 2600, "a SYN that is sent again each second");
        assert_eq!(elapsed(255, 255, 120_000, 0), 240_000);
        assert_eq!(elapsed(0, 0, 200, 900), 0);
    }
}
