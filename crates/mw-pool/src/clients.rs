//! What clients say, and what they are told: connections, limits, bad messages.

use crate::peer::Peer;
use crate::protocol::{DecodeError, Refusal, Reply, Request, VERSION};
use crate::server::{Level, Server};
use crate::socket;
use rustix::net::{SendFlags, SocketFlags, accept_with};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Connections that are accepted at a time.
const ACCEPTED_AT_ONCE: usize = 16;
/// Lines a second that clients can have logged.
const LINES_PER_S: u32 = 10;

/// A client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) heard: Instant,
    /// Descriptors that were sent and may not have been read.
    pub(crate) unread_descriptors: usize,
    /// Whether it is heard no more.
    pub(crate) is_over: bool,
}

impl Server {
    pub(crate) fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(&self.listener, flags) else { return };
            if let Ok(peer) = Peer::of(&socket) {
                self.admit(socket, peer);
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, peer: Peer) {
        let heard = Instant::now();
        let room = match self.rates.allow(peer.user, heard) {
            true => self.make_room(&peer),
            false => Err("too many requests; try later"),
        };
        let Err(why) = room else {
            let connection =
                Connection { socket, peer, heard, unread_descriptors: 0, is_over: false };
            return self.connections.push(connection);
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
            let stays = self.hear(*at);
            let connection = self.connections.get_mut(*at);
            if !stays && connection.is_some_and(|connection| !connection.retain_if_unread()) {
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
        if connection.is_over {
            return false;
        }
        let peer = connection.peer.clone();
        let received = match socket::receive_plain(connection.socket.as_fd()) {
            Ok(received) => received,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        connection.heard = Instant::now();
        if received.had_descriptors {
            self.state.stray_descriptors_total += 1;
            self.log_of(&peer, "sent descriptors, which the kernel dropped");
        }
        if received.bytes.is_empty() {
            return false;
        }
        let request = match received.cut {
            true => Err(DecodeError::Garbled),
            false => Request::decode(&received.bytes),
        };
        let (reply, files, stays) = self.answer(at, &peer, request);
        let Some(connection) = self.connections.get_mut(at) else { return false };
        let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let flags = SendFlags::DONTWAIT;
        let sent = socket::send(connection.socket.as_fd(), &reply.encode(), &descriptors, flags);
        match &sent {
            Ok(()) => connection.unread_descriptors += files.len(),
            Err(error) if !files.is_empty() => {
                self.log_of(&peer, &format!("a lease did not reach it: {error}"));
            }
            Err(_) => {}
        }
        sent.is_ok() && stays
    }

    /// The answer, the descriptors that go with it, and whether the connection is to stay.
    fn answer(
        &mut self,
        at: usize,
        peer: &Peer,
        request: Result<Request, DecodeError>,
    ) -> (Reply, Vec<OwnedFd>, bool) {
        let bad = |why: String| (Reply::Refused(Refusal::Protocol, why), Vec::new(), false);
        let answer = match request {
            Err(DecodeError::Garbled) => {
                self.state.bad_messages_total += 1;
                self.log_of(peer, "sent what is no request");
                bad("that is no request".to_owned())
            }
            Err(DecodeError::Version(other)) => {
                bad(format!("this server speaks version {VERSION}, not {other}"))
            }
            Ok(_) if !self.rates.allow(peer.user, Instant::now()) => {
                self.log_of(peer, "asks too often");
                let why = "too many requests; try later".to_owned();
                (Reply::Refused(Refusal::Limit, why), Vec::new(), false)
            }
            Ok(request) => {
                let may = match request {
                    Request::Attach { .. } | Request::Segment(_) => self.may_send_descriptors(at),
                    _ => Ok(()),
                };
                let granted = may
                    .map_err(|why| (Refusal::Limit, why.to_owned()))
                    .and_then(|()| self.grant(peer, request));
                let (reply, files) = match granted {
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
