//! The peer that a process of the request waited for, by its connections.

use crate::request::RequestTime;
use crate::share::percent;
use crate::stall_window::StallWindow;
use mw_critical_path::{PathPart, TimeClass};
use mw_model::{
    Finding, PeerReply, Quantity, Remedy, ServiceConnection, ServiceProcess, Transport,
    format_duration_ms,
};
use std::net::SocketAddr;

/// Time in which no task of this machine worked on the request.
pub(crate) const UNATTENDED: &[TimeClass] =
    &[TimeClass::Network, TimeClass::Idle, TimeClass::TimeLimit, TimeClass::Unknown];

/// Of the stall until the connection was read, the share that the wait covers, and of the request, the share of the waits
/// for peers, in percent.
const LEAST_PERCENT: f64 = 50.0;
/// A shorter wait is no evidence.
const LEAST_WAIT_MS: u64 = 200;

const NS_PER_MS: u64 = 1_000_000;
/// From then on the first segment of a connection has been sent again (include/net/tcp.h, `TCP_TIMEOUT_INIT`), with some
/// time for the timer's own task.
const SYN_TIMEOUT_MS: u64 = 1_200;
/// A connection that has sent no more was made for this request, or shortly before it.
const MAX_YOUNG_SEGMENTS: u32 = 8;
/// A wait that began longer before the stall is not of it: an idle connection of a pool.
const SHORTLY_BEFORE_MS: u64 = 1000;

/// Protocols by the port that their servers usually have.
const PROTOCOLS: &[(u16, &str)] = &[
    (25, "SMTP"),
    (53, "DNS"),
    (80, "HTTP"),
    (88, "Kerberos"),
    (389, "LDAP"),
    (443, "HTTPS"),
    (636, "LDAPS"),
    (1433, "SQL Server"),
    (1521, "Oracle"),
    (2049, "NFS"),
    (2379, "etcd"),
    (3306, "MySQL"),
    (5432, "PostgreSQL"),
    (5672, "AMQP"),
    (6379, "Redis"),
    (9042, "Cassandra"),
    (9092, "Kafka"),
    (9200, "Elasticsearch"),
    (11211, "memcached"),
    (27017, "MongoDB"),
];

/// A peer that did not reply for most of a stall.
pub(crate) struct AwaitedPeer<'a> {
    connection: &'a ServiceConnection,
    address: SocketAddr,
    reply: PeerReply,
    waited_ms: u64,
    /// Segments were sent again, or the first one was, after the connection was read.
    is_sent_again: bool,
    /// Beginning of the stall, in milliseconds since 1970.
    started_unix_ms: u64,
    /// Other peers that the same process waited for as long.
    others: usize,
}

impl<'a> AwaitedPeer<'a> {
    /// The peer of a part's process that it waited for longest, while no task of this machine worked on the request.
    pub(crate) fn of_part(
        stall: &StallWindow<'a>,
        spent: TimeClass,
        part: &PathPart,
    ) -> Option<Self> {
        Self::of_process(stall, spent, part, part.task.process)
    }

    /// The peer of a client that waited for a part's task, while nobody worked on the request: its connection is known where
    /// those of the service are not.
    pub(crate) fn of_client(
        stall: &StallWindow<'a>,
        spent: TimeClass,
        part: &PathPart,
    ) -> Option<Self> {
        let chain = stall.incident.path.iter().flat_map(|path| &path.chain);
        let mut clients = chain.filter(|link| link.other.tid == part.task.tid);
        clients.find_map(|link| Self::of_process(stall, spent, part, link.waiter.process))
    }

    fn of_process(
        stall: &StallWindow<'a>,
        spent: TimeClass,
        part: &PathPart,
        process: u32,
    ) -> Option<Self> {
        if !UNATTENDED.contains(&spent) || [part.task.process, process].contains(&0) {
            return None;
        }
        let connections = stall.incident.connections.iter();
        let own: Vec<_> =
            connections.filter(|connection| connection.process.pid == process).collect();
        // What a process waits for that has made one connection is that one, also after it was read.
        let is_young =
            |one: &&ServiceConnection| one.is_connecting || one.segments_sent <= MAX_YOUNG_SEGMENTS;
        let is_known = own.len() == 1 && own.iter().all(is_young) && spent == TimeClass::Network;
        let part_ms = is_known.then_some(part.total_ns / NS_PER_MS);
        let mut peers: Vec<Self> =
            own.into_iter().filter_map(|own| Self::on(stall, own, part_ms)).collect();
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.waited_ms));
        peers.dedup_by_key(|peer| peer.address);
        let others = peers.len().saturating_sub(1);
        peers.into_iter().next().map(|longest| Self { others, ..longest })
    }

    /// The peer of a connection, where the wait for it is of this stall; `part_ms` is the time of the path that is known to
    /// be of it.
    fn on(
        stall: &StallWindow<'a>,
        connection: &'a ServiceConnection,
        part_ms: Option<u64>,
    ) -> Option<Self> {
        let (reply, waited_ms) = connection.awaited()?;
        let incident = stall.incident;
        let started_unix_ms = incident.started_unix_ms;
        let read_unix_ms = connection.read_unix_ms;
        // Of a question over UDP only readings tell, of which the first is when the stall is seen.
        let since_unix_ms = match connection.transport {
            Transport::Tcp => started_unix_ms,
            Transport::Udp => started_unix_ms.max(incident.seen_unix_ms),
        };
        let began_unix_ms = read_unix_ms.saturating_sub(waited_ms);
        let is_of_stall = began_unix_ms.saturating_add(SHORTLY_BEFORE_MS) >= started_unix_ms;
        let until_unix_ms = connection.ended_by_unix_ms.unwrap_or(read_unix_ms);
        let length_ms = until_unix_ms.saturating_sub(since_unix_ms);
        let most_ms = until_unix_ms.saturating_sub(began_unix_ms);
        let read_ms = waited_ms;
        let waited_ms = part_ms.map_or(read_ms, |part_ms| read_ms.max(part_ms.min(most_ms)));
        let is_sent_again = connection.timeouts > 0
            || reply == PeerReply::Connection
                && read_ms < SYN_TIMEOUT_MS
                && waited_ms > SYN_TIMEOUT_MS;
        let is_most = waited_ms >= LEAST_WAIT_MS && percent(waited_ms, length_ms) >= LEAST_PERCENT;
        let is_own = !connection.is_accepted || is_of_command(stall, connection);
        (is_of_stall && is_most && is_own).then_some(Self {
            connection,
            address: connection.peer?,
            reply,
            waited_ms,
            is_sent_again,
            started_unix_ms,
            others: 0,
        })
    }

    /// True if what was sent to the peer was sent again.
    pub(crate) fn is_lost(&self) -> bool {
        match self.reply {
            // The peer's segments may be lost as well as those of this end were.
            PeerReply::Answer => {
                let ServiceConnection { segments_sent, retransmitted, .. } = *self.connection;
                retransmitted > 0 && segments_sent <= MAX_YOUNG_SEGMENTS
            }
            PeerReply::Acknowledgement | PeerReply::Connection => self.is_sent_again,
        }
    }

    /// True if the peer is a process of this machine.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// True if the process waited for no other peer as well.
    pub(crate) fn is_only_one(&self) -> bool {
        self.others == 0
    }

    /// `the answer of 10.0.0.5:5432 (PostgreSQL)`.
    pub(crate) fn awaited(&self) -> String {
        let peer = self.label();
        match self.reply {
            PeerReply::Answer => format!("the answer of {peer}"),
            PeerReply::Acknowledgement => format!("an acknowledgement of {peer}"),
            PeerReply::Connection => format!("a connection to {peer}"),
        }
    }

    /// Its address, with the protocol that usually has the port.
    pub(crate) fn label(&self) -> String {
        let port = self.address.port();
        match PROTOCOLS.iter().find(|(known, _)| *known == port) {
            Some((_, protocol)) => format!("{} ({protocol})", self.address),
            None => self.address.to_string(),
        }
    }

    /// Adds how long and since when the process waited, and what became of its segments.
    pub(crate) fn describe(&self, finding: Finding) -> Finding {
        const SOURCE: &str = "sock_diag";
        let count = |value: u32| Quantity::Count(value.into());
        let mut finding = finding
            .with_evidence(
                format!("wait for {}", self.awaited()),
                Quantity::Milliseconds(self.waited_ms as f64),
                SOURCE,
            )
            .with_evidence("its beginning", Quantity::Text(self.beginning()), SOURCE);
        if self.others > 0 {
            let others = Quantity::Count(self.others as u64);
            finding = finding.with_evidence("other peers that it waited for", others, SOURCE);
        }
        let ServiceConnection { transport, retransmitted, unacknowledged, .. } = *self.connection;
        if transport == Transport::Udp {
            return finding;
        }
        finding
            .with_evidence("segments that were sent again", count(retransmitted), SOURCE)
            .with_evidence("segments without acknowledgement", count(unacknowledged), SOURCE)
    }

    /// `0.2 s after that of the stall`.
    fn beginning(&self) -> String {
        let began_unix_ms = self.connection.read_unix_ms.saturating_sub(self.waited_ms);
        let apart = format_duration_ms(began_unix_ms.abs_diff(self.started_unix_ms) as f64);
        let order = if began_unix_ms < self.started_unix_ms { "before" } else { "after" };
        format!("{apart} {order} that of the stall")
    }

    /// The process whose connection it is.
    pub(crate) fn process(&self) -> &ServiceProcess {
        &self.connection.process
    }

    /// The command that shows the connection, in the network namespace of its process.
    pub(crate) fn remedy(&self, summary: &str) -> Remedy {
        let protocol = match self.connection.transport {
            Transport::Tcp => 't',
            Transport::Udp => 'u',
        };
        let show = format!("ss -{protocol}inop dst '{}'", self.address);
        let pid = self.connection.process.pid;
        crate::path_words::manual(summary, &format!("nsenter -t {pid} -n {show}"))
    }
}

/// True if the processes of the request waited for peers on the network for most of its time. A peer at an address of the
/// loopback device is a process of this machine, which may be the one that was stopped.
pub(crate) fn explains_most(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> bool {
    let waits = |spent, part: &PathPart| {
        let peer = AwaitedPeer::of_part(stall, spent, part);
        peer.is_some_and(|peer| !peer.is_of_this_machine())
    };
    request.percent_where(waits) >= LEAST_PERCENT
}

/// True if the other end of a connection is that of another process that was read: the probe's command, or one that
/// asked for it. What other clients do not acknowledge delays no request of the probe.
fn is_of_command(stall: &StallWindow<'_>, connection: &ServiceConnection) -> bool {
    let mut others = stall.incident.connections.iter();
    others.any(|other| {
        !other.is_accepted && (other.local, other.peer) == (connection.peer, connection.local)
    })
}
