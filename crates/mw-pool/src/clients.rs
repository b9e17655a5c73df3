//! What clients say, and what they are told: connections, limits, bad messages.

use crate::peer::Peer;
use crate::protocol::{NoRequest, Refusal, Reply, Request, VERSION};
use crate::server::{Level, Server};
use crate::socket;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most connections, and of one user.
const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTIONS_PER_USER: usize = 32;
/// A connection on which nothing is said is closed.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// Lines a second that clients can have logged.
const LINES_PER_S: u32 = 10;

/// A client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) heard: Instant,
}

impl Server {
    pub(crate) fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener, flags) else { return };
        let Ok(peer) = Peer::of(&socket) else { return };
        let same = self.connections.iter().filter(|c| c.peer.user == peer.user).count();
        let why = match () {
            () if !self.rates.allow(peer.user, Instant::now()) => "too many requests; try later",
            () if same >= MAX_CONNECTIONS_PER_USER => "this user has too many connections",
            () if self.connections.len() >= MAX_CONNECTIONS => "too many connections; try later",
            () => {
                self.connections.push(Connection { socket, peer, heard: Instant::now() });
                return;
            }
        };
        self.state.refused_total += 1;
        self.log_of(&peer, why);
        let reply = Reply::Refused(Refusal::Limit, why.to_owned());
        let _ = socket::send(socket.as_fd(), &reply.encode(), &[], SendFlags::DONTWAIT);
    }

    /// One request of each.
    pub(crate) fn hear_clients(&mut self, ready: &[usize]) {
        let mut closed = BTreeSet::new();
        for at in ready {
            if !self.hear(*at) {
                closed.insert(*at);
            }
        }
        let mut at = 0;
        self.connections.retain(|_| {
            at += 1;
            !closed.contains(&(at - 1))
        });
    }

    /// Whether the connection is to stay.
    fn hear(&mut self, at: usize) -> bool {
        let Some(connection) = self.connections.get_mut(at) else { return false };
        let peer = connection.peer.clone();
        let received = match socket::receive(connection.socket.as_fd(), RecvFlags::DONTWAIT) {
            Ok(received) => received,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        connection.heard = Instant::now();
        let strays = received.descriptors.len();
        if strays > 0 {
            self.state.stray_descriptors_total += strays as u64;
            self.log_of(&peer, &format!("sent {strays} descriptors; they were closed"));
        }
        drop(received.descriptors);
        if received.bytes.is_empty() {
            return false;
        }
        let request = match received.cut {
            true => Err(NoRequest::Garbled),
            false => Request::decode(&received.bytes),
        };
        let (reply, files, stays) = self.answer(&peer, request);
        let Some(connection) = self.connections.get(at) else { return false };
        let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let flags = SendFlags::DONTWAIT;
        let sent = socket::send(connection.socket.as_fd(), &reply.encode(), &files, flags);
        if let (Err(error), false) = (&sent, files.is_empty()) {
            self.log_of(&peer, &format!("a lease did not reach it: {error}"));
        }
        sent.is_ok() && stays
    }

    /// The answer, the descriptors that go with it, and whether the connection is to stay.
    fn answer(
        &mut self,
        peer: &Peer,
        request: Result<Request, NoRequest>,
    ) -> (Reply, Vec<OwnedFd>, bool) {
        let bad = |why: String| (Reply::Refused(Refusal::Protocol, why), Vec::new(), false);
        let answer = match request {
            Err(NoRequest::Garbled) => {
                self.state.bad_messages_total += 1;
                self.log_of(peer, "sent what is no request");
                bad("that is no request".to_owned())
            }
            Err(NoRequest::Version(other)) => {
                bad(format!("this server speaks version {VERSION}, not {other}"))
            }
            Ok(_) if !self.rates.allow(peer.user, Instant::now()) => {
                self.log_of(peer, "asks too often");
                let why = "too many requests; try later".to_owned();
                (Reply::Refused(Refusal::Limit, why), Vec::new(), false)
            }
            Ok(request) => {
                let (reply, files) = match self.grant(peer, request) {
                    Ok(granted) => granted,
                    Err((refusal, why)) => (Reply::Refused(refusal, why), Vec::new()),
                };
                (reply, files, true)
            }
        };
        self.state.requests_total += 1;
        self.state.refused_total += u64::from(matches!(answer.0, Reply::Refused(..)));
        answer
    }

    /// Says what a client did wrong, a few times a second at most.
    fn log_of(&mut self, peer: &Peer, what: &str) {
        let now = Instant::now();
        let (since, lines) = &mut self.lines;
        if since.is_none_or(|since| now.saturating_duration_since(since).as_secs() > 0) {
            (*since, *lines) = (Some(now), 0);
        }
        *lines += 1;
        if *lines <= LINES_PER_S {
            let Peer { user, process, .. } = peer;
            self.log(Level::Warning, &format!("process {process} of user {user}: {what}"));
        }
    }
}
