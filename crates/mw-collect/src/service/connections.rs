//! Connections on which processes wait for the other end: TCP, and questions to name servers.
//!
//! sock_diag(7) tells of the sockets of the caller's network namespace, so that its socket is opened in that of each
//! process. The sockets of a namespace are read first, and the descriptors of processes only where some of them wait:
//! an idle service costs one answer.

use super::diag::{self, DiagQuery, DiagSocket, DiagState};
use super::processes::{family, leader, named, sockets as sockets_of};
use super::sockets;
use mw_model::{Missing, ServiceConnection, ServiceProcess, Transport};
use mw_sys::{in_network_namespace, namespace_number};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The most processes whose connections are read: the first of them.
const MAX_PROCESSES: usize = 128;
/// The most network namespaces of them.
const MAX_NAMESPACES: usize = 4;
/// The most processes by way of which a namespace is entered: they may end.
const MAX_TRIES: usize = 3;
/// The most sockets of a namespace that wait and whose process is searched.
const MAX_WAITING: usize = 4096;
/// The most descriptors of a process that are looked at.
const MAX_SOCKETS: usize = 16_384;
/// The most connections that are told of.
const MAX_CONNECTIONS: usize = 32;

/// Connections of processes that wait for their other ends.
#[derive(Debug, Clone, Default)]
pub struct WaitingConnections {
    /// Those that have waited longest.
    pub connections: Vec<ServiceConnection>,
    pub unseen: Vec<Missing>,
}

/// The processes of a service now, of which `known` were found before: the newest first, as one that was forked for a
/// connection.
pub fn current_processes(known: &[u32], deadline: Instant) -> Vec<u32> {
    let Some(first) = known.first() else { return Vec::new() };
    let mut current = family(leader(*first), deadline);
    current.extend(known);
    current.sort_unstable_by_key(|pid| std::cmp::Reverse(*pid));
    current.dedup();
    current
}

/// Reads the connections of `processes` that wait. Takes about `limit` at most, unless the kernel blocks.
pub fn waiting_connections(processes: &[u32], limit: Duration) -> WaitingConnections {
    let deadline = Instant::now() + limit;
    let mut by_namespace: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in processes.iter().copied().take(MAX_PROCESSES) {
        if let Ok(namespace) = namespace_number(&pid.to_string(), "net") {
            by_namespace.entry(namespace).or_default().push(pid);
        }
    }
    let mut found = WaitingConnections::default();
    for (namespace, members) in by_namespace.into_iter().take(MAX_NAMESPACES) {
        let mut sockets = WaitingSockets::default();
        if let Err(why) = sockets.read(namespace, &members, deadline) {
            found.unseen.push(Missing::failed("connections of the service", why));
        }
        found.connections.extend(sockets.of_processes(&members, deadline));
    }
    let waited = |connection: &ServiceConnection| connection.awaited().map(|(_, ms)| ms);
    found.connections.sort_by_key(|connection| std::cmp::Reverse(waited(connection)));
    found.connections.truncate(MAX_CONNECTIONS);
    found
}

/// The sockets of a network namespace that wait, by inode.
#[derive(Default)]
struct WaitingSockets {
    by_inode: HashMap<u64, ServiceConnection>,
    /// Ports at which somebody listens, and those of them where further connections wait or are dropped.
    listening: HashSet<u16>,
    full: HashSet<u16>,
}

impl WaitingSockets {
    /// Reads those of the namespace of `members`.
    fn read(&mut self, namespace: u32, members: &[u32], deadline: Instant) -> Result<(), String> {
        let failed = |error: io::Error| format!("sock_diag in their network namespace: {error}");
        let socket = open_in(namespace, members).map_err(failed)?;
        for family in DiagQuery::FAMILIES {
            let queries = [
                (Transport::Tcp, DiagQuery::tcp(family)),
                (Transport::Udp, DiagQuery::udp(family)),
            ];
            for (transport, query) in queries {
                let mut note = |socket: DiagSocket| self.note(&socket, transport);
                match diag::dump(&socket, &query, deadline, &mut note) {
                    Ok(true) => {}
                    Ok(false) => return Err("its network namespace has too many".to_owned()),
                    // Without its module the kernel has no UDP sockets to show.
                    Err(_) if transport == Transport::Udp => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        Ok(())
    }

    /// The kernel tells of sockets that listen before others.
    fn note(&mut self, socket: &DiagSocket, transport: Transport) {
        let port = |at: Option<SocketAddr>| at.map(|at| at.port());
        if socket.state == DiagState::Listening {
            self.listening.extend(port(socket.local));
            self.full.extend(port(socket.local).filter(|_| socket.listen_queue().is_full()));
        } else if self.by_inode.len() < MAX_WAITING {
            let is_accepted = transport == Transport::Tcp
                && port(socket.local).is_some_and(|port| self.listening.contains(&port));
            let connection = connection(socket, transport, is_accepted);
            let is_queued = is_of_this_machine(socket)
                && port(socket.peer).is_some_and(|port| self.full.contains(&port));
            if connection.awaited().is_some() && !is_queued {
                self.by_inode.insert(socket.inode, connection);
            }
        }
    }

    /// Those that these processes hold.
    fn of_processes(mut self, members: &[u32], deadline: Instant) -> Vec<ServiceConnection> {
        let mut held = Vec::new();
        for pid in members {
            if self.by_inode.is_empty() || Instant::now() > deadline {
                break;
            }
            let inodes = sockets_of(*pid).take(MAX_SOCKETS);
            let own: Vec<_> = inodes.filter_map(|inode| self.by_inode.remove(&inode)).collect();
            if let Some(process) = (!own.is_empty()).then(|| named(*pid)).flatten() {
                let of = |connection| ServiceConnection { process: process.clone(), ..connection };
                held.extend(own.into_iter().map(of));
            }
        }
        held
    }
}

/// A socket that asks about a network namespace, entered by way of one of its processes.
fn open_in(namespace: u32, members: &[u32]) -> io::Result<OwnedFd> {
    let open = || Ok(sockets::open()?);
    if namespace_number("self", "net").is_ok_and(|own| own == namespace) {
        return open();
    }
    let enter = |pid: &u32| in_network_namespace(*pid, open);
    let gone = Err(io::ErrorKind::NotFound.into());
    members.iter().take(MAX_TRIES).fold(gone, |opened, pid| opened.or_else(|_| enter(pid)))
}

/// True if both ends are on this machine: what a full listen queue drops is not lost on the network.
fn is_of_this_machine(socket: &DiagSocket) -> bool {
    let ip = |at: Option<SocketAddr>| at.map(|at| at.ip());
    ip(socket.peer) == ip(socket.local) || ip(socket.peer).is_some_and(|ip| ip.is_loopback())
}

/// What is told of a socket, but for its process.
fn connection(socket: &DiagSocket, transport: Transport, is_accepted: bool) -> ServiceConnection {
    let now = mw_sys::unix_ms();
    let DiagSocket { state, local, peer, unread_bytes, queued_bytes, segments, .. } = *socket;
    ServiceConnection {
        process: ServiceProcess::default(),
        transport,
        is_connecting: state == DiagState::Connecting,
        is_accepted,
        local,
        peer,
        first_read_unix_ms: now,
        read_unix_ms: now,
        ended_by_unix_ms: None,
        unread_bytes,
        queued_bytes,
        unacknowledged: segments.unacknowledged,
        timeouts: segments.timeouts,
        retransmitted: segments.retransmitted,
        unacknowledged_ms: segments.unacknowledged_ms,
        round_trip_us: segments.round_trip_us,
        segments_sent: segments.sent,
        segments_received: segments.received,
        sent_ms_ago: segments.sent_ms_ago,
        received_ms_ago: segments.received_ms_ago,
        acknowledged_ms_ago: segments.acknowledged_ms_ago,
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
