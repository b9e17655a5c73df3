//! The connections of clients: which are accepted, evicted, and retained until descriptors are read.
//!
//! A reply that the client has not read keeps its descriptors in flight, where the kernel counts them
//! against this server's user (`ETOOMANYREFS`; unix(7)), and closing this end of the connection does
//! not get them back. So a client gets no descriptors while it has some to read, each user has a
//! limit of them, and a connection with unread descriptors is *retained*: not read from, until they
//! are read or the other end is closed.

use crate::config::{Level, LogFn};
use crate::listener::Listener;
use crate::peer::ClientPeer;
use crate::protocol::{ClientRequest, DecodeError, Refusal, Reply};
use crate::rate_limits::RateLimits;
use crate::socket;
use rustix::net::{SendFlags, SocketFlags, accept_with};
use rustix::process::{Resource, getrlimit};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connections that are accepted at a time.
const ACCEPTED_AT_ONCE: usize = 16;
/// The most connections that are not retained, and the most of one user, retained or not.
const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTIONS_PER_USER: usize = 32;
/// The most retained connections.
const MAX_RETAINED: usize = 512;
/// The most unread descriptors of one user, before the last reply: four large leases.
const MAX_UNREAD_PER_USER: usize = 1024;
/// A connection without a message for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines a second that clients can cause in the log.
const LOG_LINES_PER_S: u32 = 10;

/// Counters of the clients, for the server's status.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientCounters {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) bad_messages: u64,
    pub(crate) stray_descriptors: u64,
}

/// The order in which connections are closed if there are too many: those of users without a pool, then an
/// owner's, an administrator's last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionClass {
    Stranger,
    Owner,
    Admin,
}

impl ConnectionClass {
    fn new(peer: &ClientPeer, is_owner: &dyn Fn(&ClientPeer) -> bool) -> Self {
        if peer.admin {
            Self::Admin
        } else if is_owner(peer) {
            Self::Owner
        } else {
            Self::Stranger
        }
    }
}

/// State of a connection after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    Open,
    Closed,
}

/// The number of a connection.
pub(crate) type ClientId = u64;

#[derive(Debug)]
struct ClientConnection {
    socket: OwnedFd,
    peer: ClientPeer,
    last_message: Instant,
    /// Descriptors that were sent and may not have been read.
    unread_descriptors: usize,
    is_retained: bool,
}

#[derive(Debug)]
pub(crate) struct Clients {
    listener: Listener,
    connections: BTreeMap<ClientId, ClientConnection>,
    next_id: ClientId,
    rates: RateLimits,
    counters: ClientCounters,
    log_lines: LogLines,
}

/// Lines that clients have caused in the log in the current second.
#[derive(Debug, Default)]
struct LogLines {
    since: Option<Instant>,
    count: u32,
}

impl Clients {
    pub(crate) fn new(listener: Listener) -> Self {
        Self {
            listener,
            connections: BTreeMap::new(),
            next_id: 0,
            rates: RateLimits::default(),
            counters: ClientCounters::default(),
            log_lines: LogLines::default(),
        }
    }

    pub(crate) fn counters(&self) -> ClientCounters {
        self.counters
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The connections whose messages are read. A retained one whose other end is closed would be
    /// ready for ever: it is reviewed after each wait.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (ClientId, BorrowedFd<'_>)> {
        let open = self.connections.iter().filter(|(_, connection)| !connection.is_retained);
        open.map(|(id, connection)| (*id, connection.socket.as_fd()))
    }

    /// Accepts waiting connections. Those of a peer who may use a pool, says `is_owner`, have
    /// precedence over others.
    pub(crate) fn accept(&mut self, is_owner: &dyn Fn(&ClientPeer) -> bool, log: &LogFn) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(&self.listener, flags) else { return };
            let Ok(peer) = ClientPeer::from_socket(&socket) else { continue };
            match self.admit(&peer, is_owner) {
                Ok(()) => self.insert(socket, peer),
                Err(why) => {
                    self.counters.refused += 1;
                    self.log_peer(&peer, why, log);
                    let reply = Reply::Refused(Refusal::Limit, why.to_owned()).encode();
                    let _ = socket::send(socket.as_fd(), &reply, &[], SendFlags::DONTWAIT);
                }
            }
        }
    }

    fn admit(
        &mut self,
        peer: &ClientPeer,
        is_owner: &dyn Fn(&ClientPeer) -> bool,
    ) -> Result<(), &'static str> {
        if self.rates.allow(peer.user, Instant::now()) {
            self.make_room(peer, is_owner)
        } else {
            Err("too many requests; try again later")
        }
    }

    fn insert(&mut self, socket: OwnedFd, peer: ClientPeer) {
        let last_message = Instant::now();
        let connection = ClientConnection {
            socket,
            peer,
            last_message,
            unread_descriptors: 0,
            is_retained: false,
        };
        self.connections.insert(self.next_id, connection);
        self.next_id += 1;
    }

    /// Makes room for a connection of this peer.
    fn make_room(
        &mut self,
        peer: &ClientPeer,
        is_owner: &dyn Fn(&ClientPeer) -> bool,
    ) -> Result<(), &'static str> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for connection in self.connections.values() {
            *counts.entry(connection.peer.user).or_default() += 1;
        }
        let count = |user: u32| counts.get(&user).copied().unwrap_or(0);
        if count(peer.user) >= MAX_CONNECTIONS_PER_USER {
            return Err("this user has too many connections");
        }
        let open = || self.connections.iter().filter(|(_, c)| !c.is_retained);
        if open().count() < MAX_CONNECTIONS {
            return Ok(());
        }
        let class = |peer: &ClientPeer| ConnectionClass::new(peer, is_owner);
        let rank = |peer: &ClientPeer| (class(peer), Reverse(count(peer.user)));
        let victim = open().min_by_key(|(_, c)| (rank(&c.peer), c.last_message));
        // One more of this peer's must not make it the next victim.
        let own = (class(peer), Reverse(count(peer.user) + 1));
        match victim.filter(|(_, c)| rank(&c.peer) < own).map(|(id, _)| *id) {
            Some(id) => {
                self.connections.remove(&id);
                self.counters.refused += 1;
                Ok(())
            }
            None => Err("too many connections; try again later"),
        }
    }

    /// Reads one message of a connection. `None` closes it.
    pub(crate) fn receive(
        &mut self,
        id: ClientId,
        log: &LogFn,
    ) -> Option<Option<(ClientPeer, Result<ClientRequest, DecodeError>)>> {
        let connection = self.connections.get_mut(&id).filter(|c| !c.is_retained)?;
        let peer = connection.peer.clone();
        let message = match socket::receive_without_descriptors(connection.socket.as_fd()) {
            Ok(message) => message,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(None),
            Err(_) => return None,
        };
        connection.last_message = Instant::now();
        if message.had_descriptors {
            self.counters.stray_descriptors += 1;
            self.log_peer(&peer, "sent descriptors, which the kernel dropped", log);
        }
        if message.bytes.is_empty() {
            return None;
        }
        let request = match message.truncated {
            true => Err(DecodeError::Malformed),
            false => ClientRequest::decode(&message.bytes),
        };
        Some(Some((peer, request)))
    }

    /// Counts a request, if this user may make one now.
    pub(crate) fn allow(&mut self, user: u32) -> bool {
        self.rates.allow(user, Instant::now())
    }

    pub(crate) fn count_bad_message(&mut self) {
        self.counters.bad_messages += 1;
    }

    pub(crate) fn count_stray_descriptors(&mut self) {
        self.counters.stray_descriptors += 1;
    }

    /// Whether descriptors may be sent over a connection now.
    pub(crate) fn may_send_descriptors(&mut self, id: ClientId) -> Result<(), &'static str> {
        self.connections.values_mut().for_each(ClientConnection::note_read);
        let Some(connection) = self.connections.get(&id) else {
            return Err("the connection is closed");
        };
        let peer = &connection.peer;
        let of_user = |c: &&ClientConnection| c.peer.user == peer.user;
        let unread = |c: &ClientConnection| c.unread_descriptors;
        let own: usize = self.connections.values().filter(of_user).map(unread).sum();
        let all: usize = self.connections.values().map(unread).sum();
        let retained = self.connections.values().filter(|c| c.is_retained).count();
        if connection.unread_descriptors > 0 {
            Err("the client has not read the last reply")
        } else if own >= MAX_UNREAD_PER_USER {
            Err("this user has not read the last replies")
        } else if !peer.admin && (all >= max_unread() || retained >= MAX_RETAINED) {
            Err("too many replies are unread; try again later")
        } else {
            Ok(())
        }
    }

    /// Sends the reply to a request, and returns whether the connection may stay open.
    pub(crate) fn reply(
        &mut self,
        id: ClientId,
        reply: &Reply,
        files: &[OwnedFd],
        log: &LogFn,
    ) -> MessageOutcome {
        self.counters.requests += 1;
        self.counters.refused += u64::from(matches!(reply, Reply::Refused(..)));
        let Some(connection) = self.connections.get_mut(&id) else { return MessageOutcome::Closed };
        let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let flags = SendFlags::DONTWAIT;
        match socket::send(connection.socket.as_fd(), &reply.encode(), &descriptors, flags) {
            Ok(()) => {
                connection.unread_descriptors += files.len();
                MessageOutcome::Open
            }
            Err(error) => {
                if !files.is_empty() {
                    let peer = connection.peer.clone();
                    self.log_peer(&peer, &format!("a lease was not delivered: {error}"), log);
                }
                MessageOutcome::Closed
            }
        }
    }

    /// Closes a connection, as soon as its descriptors are read.
    pub(crate) fn close(&mut self, id: ClientId) {
        if self.connections.get_mut(&id).is_some_and(|connection| !connection.retain_if_unread()) {
            self.connections.remove(&id);
        }
    }

    /// Closes connections that were idle for too long, and those that were retained and are read.
    pub(crate) fn review(&mut self) {
        let now = Instant::now();
        self.connections.retain(|_, connection| {
            let idle = now.saturating_duration_since(connection.last_message);
            let stays = idle < IDLE_TIMEOUT && !connection.is_retained;
            stays || connection.retain_if_unread()
        });
    }

    /// Logs what a client did, a few times a second at most.
    pub(crate) fn log_peer(&mut self, peer: &ClientPeer, what: &str, log: &LogFn) {
        if self.log_lines.may_log(Instant::now()) {
            let ClientPeer { user, process, .. } = peer;
            log(Level::Warning, &format!("process {process} of user {user}: {what}"));
        }
    }
}

impl LogLines {
    fn may_log(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.saturating_duration_since(since).as_secs() > 0) {
            *self = Self { since: Some(now), count: 0 };
        }
        self.count += 1;
        self.count <= LOG_LINES_PER_S
    }
}

impl ClientConnection {
    /// Reads no more messages. Returns whether it stays, since descriptors sent over it are unread.
    fn retain_if_unread(&mut self) -> bool {
        self.note_read();
        self.is_retained = true;
        self.unread_descriptors > 0
    }

    fn note_read(&mut self) {
        if self.unread_descriptors > 0
            && mw_sys::unread_bytes(self.socket.as_fd()).is_ok_and(|bytes| bytes == 0)
        {
            self.unread_descriptors = 0;
        }
    }
}

/// The most unread descriptors of all users but administrators: half of what the kernel lets this
/// server's user have in flight, which is its limit of open files.
fn max_unread() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 16);
    usize::try_from(limit / 2).unwrap_or(usize::MAX)
}
