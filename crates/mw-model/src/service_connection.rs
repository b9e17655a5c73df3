//! Connections on which a process of a service waits for the other end, by the kernel's own account of them.

use crate::ServiceProcess;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Port of name servers. Resolvers open a UDP socket for a question, and close it with the answer.
const NAME_SERVER_PORT: u16 = 53;

/// Segments that are sent on a connection that has brought nothing yet, before it counts as one without answers.
const MAX_UNANSWERED: u32 = 16;

/// A connection of a process during a stall, as it was last read by sock_diag(7) (`struct tcp_info`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceConnection {
    pub process: ServiceProcess,
    pub transport: Transport,
    pub is_connecting: bool,
    /// A client opened it, and not the process.
    pub is_accepted: bool,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// Time of the first and of the last reading that found it waiting, in milliseconds since 1970.
    pub first_read_unix_ms: u64,
    pub read_unix_ms: u64,
    /// Time of the first reading after that, which did not find it waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by_unix_ms: Option<u64>,
    /// Bytes that arrived and that the process has not read.
    pub unread_bytes: u32,
    /// Bytes that the process wrote and the peer has not acknowledged, whether or not they were sent.
    pub queued_bytes: u32,
    /// Segments that were sent and that the peer has not acknowledged.
    pub unacknowledged: u32,
    /// Retransmission timeouts since the peer acknowledged anything.
    pub timeouts: u32,
    /// Segments that were sent again since the connection was opened.
    pub retransmitted: u32,
    /// Time from the first transmission of what is not acknowledged to the reading, in milliseconds; what the
    /// retransmission timeouts since then add up to.
    pub unacknowledged_ms: u64,
    /// Smoothed round-trip time; 0 where the peer acknowledged nothing.
    pub round_trip_us: u64,
    /// Segments with data.
    pub segments_sent: u32,
    pub segments_received: u32,
    /// Time from the last data that was sent, the last that was received, and the last acknowledgement of the peer to the
    /// reading, in ticks of the kernel's clock.
    pub sent_ms_ago: u64,
    pub received_ms_ago: u64,
    pub acknowledged_ms_ago: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    #[default]
    Tcp,
    Udp,
}

/// What a connection lacks of its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerReply {
    /// Segments were sent again and are not acknowledged.
    Acknowledgement,
    /// The connection is not established.
    Connection,
    /// The peer acknowledged a request, and sent nothing since.
    Answer,
}

impl ServiceConnection {
    /// What the process waits for on this connection, and for how long at least, in milliseconds until the last reading.
    ///
    /// A connection on which the peer sent last waits for nothing; nor does one that was accepted, on which the next
    /// request is the client's.
    pub fn awaited(&self) -> Option<(PeerReply, u64)> {
        let watched_ms = self.read_unix_ms.saturating_sub(self.first_read_unix_ms);
        match self.transport {
            Transport::Udp => {
                let is_question = self.peer.is_some_and(|peer| peer.port() == NAME_SERVER_PORT)
                    && self.unread_bytes == 0;
                is_question.then_some((PeerReply::Answer, watched_ms))
            }
            Transport::Tcp if self.is_connecting => {
                Some((PeerReply::Connection, self.unacknowledged_ms.max(watched_ms)))
            }
            Transport::Tcp if self.unacknowledged > 0 => {
                (self.timeouts > 0).then_some((PeerReply::Acknowledgement, self.unacknowledged_ms))
            }
            Transport::Tcp => self.is_request().then_some((PeerReply::Answer, self.sent_ms_ago)),
        }
    }

    /// True if what was sent last, and was acknowledged, may be a request. Of data that was sent and received in the same
    /// tick the last is the one that the peer acknowledged without more data.
    fn is_request(&self) -> bool {
        let is_last = self.segments_received == 0
            || self.sent_ms_ago < self.received_ms_ago
            || self.sent_ms_ago == self.received_ms_ago
                && self.acknowledged_ms_ago < self.received_ms_ago;
        let is_one_way = self.segments_received == 0 && self.segments_sent > MAX_UNANSWERED;
        !self.is_accepted
            && !is_one_way
            && self.segments_sent > 0
            && (self.unread_bytes, self.queued_bytes) == (0, 0)
            && is_last
    }

    /// True if another reading is of the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.process.pid, self.transport, self.local, self.peer)
            == (other.process.pid, other.transport, other.local, other.peer)
    }
}
