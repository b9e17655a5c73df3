//! What the server waits for, and what it does then.

use super::Server;
use crate::clients::{ClientId, MessageOutcome};
use crate::lease_sockets::LeaseMessage;
use crate::lease_table::LeaseId;
use crate::peer::ClientPeer;
use crate::protocol::{ClientRequest, DecodeError, Refusal, Reply, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The longest wait.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Ready event.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) stop: bool,
    listener: bool,
    leases: Vec<LeaseId>,
    clients: Vec<ClientId>,
}

/// A descriptor that is polled, and what it is of.
#[derive(Debug, Clone, Copy)]
enum EventSource {
    Stop,
    Listener,
    /// Handled by the next turn.
    Worker,
    Lease(LeaseId),
    Client(ClientId),
}

impl Server {
    /// Waits for events until it is time for other work.
    pub(super) fn wait(&self, stop: BorrowedFd<'_>) -> io::Result<Ready> {
        let until_check = self.reclaimer.until_check(Instant::now());
        let wait = until_check.map_or(MAX_WAIT, |check| check.min(MAX_WAIT));
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(1),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let (sources, mut polled): (Vec<EventSource>, Vec<PollFd<'_>>) = self.sources(stop).unzip();
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for (source, fd) in sources.into_iter().zip(&polled) {
            if fd.revents().is_empty() {
                continue;
            }
            match source {
                EventSource::Stop => ready.stop = true,
                EventSource::Listener => ready.listener = true,
                EventSource::Worker => {}
                EventSource::Lease(id) => ready.leases.push(id),
                EventSource::Client(id) => ready.clients.push(id),
            }
        }
        Ok(ready)
    }

    fn sources<'a>(
        &'a self,
        stop: BorrowedFd<'a>,
    ) -> impl Iterator<Item = (EventSource, PollFd<'a>)> {
        let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let own = [
            (EventSource::Stop, stop),
            (EventSource::Listener, self.clients.listener().as_fd()),
            (EventSource::Worker, self.replenisher.completions()),
            (EventSource::Worker, self.reclaimer.freed_events()),
        ];
        let leases = self.lease_sockets.iter().filter_map(|(id, socket, is_read)| {
            let events = if is_read { PollFlags::IN } else { PollFlags::empty() };
            let fd = match self.reclaimer.lingering(id) {
                Some(process) => PollFd::from_borrowed_fd(process?, PollFlags::IN),
                None => PollFd::from_borrowed_fd(socket, events),
            };
            Some((EventSource::Lease(id), fd))
        });
        let clients = self.clients.sockets().map(|(id, fd)| (EventSource::Client(id), fd));
        let with_input = |(source, fd)| (source, PollFd::from_borrowed_fd(fd, PollFlags::IN));
        own.into_iter()
            .map(move |(source, fd)| (source, input(fd)))
            .chain(leases)
            .chain(clients.map(with_input))
    }

    pub(super) fn handle(&mut self, ready: &Ready) {
        let _wakeups = self.wakeups();
        ready.leases.iter().for_each(|id| self.handle_lease(*id));
        ready.clients.iter().for_each(|id| self.handle_client(*id));
        if ready.listener {
            let table = &self.table;
            let is_owner =
                |peer: &ClientPeer| table.pools().any(|(_, pool)| peer.may_use(&pool.spec));
            self.clients.accept(&is_owner, &self.config.log);
        }
        self.clients.review();
    }

    fn handle_lease(&mut self, id: LeaseId) {
        if self.reclaimer.lingering(id).is_some() {
            return self.reclaimer.end(id, &mut self.table);
        }
        let stray_descriptors = match self.lease_sockets.receive(id) {
            LeaseMessage::Closed => {
                return self.reclaimer.socket_closed(id, &mut self.table, &self.stripes);
            }
            LeaseMessage::Nothing => return,
            LeaseMessage::Consistent { stray_descriptors } => {
                let user = self.table.lease(id).map_or(u32::MAX, |lease| lease.user);
                if self.clients.allow(user) {
                    self.table.mark_consistent(id);
                } else {
                    self.mute(id);
                }
                stray_descriptors
            }
            LeaseMessage::Malformed { stray_descriptors } => {
                self.mute(id);
                stray_descriptors
            }
        };
        if stray_descriptors {
            self.clients.count_stray_descriptors();
        }
    }

    fn mute(&mut self, id: LeaseId) {
        self.clients.count_bad_message();
        self.lease_sockets.mute(id);
    }

    /// Answers one request of a client.
    fn handle_client(&mut self, id: ClientId) {
        match self.clients.receive(id, &self.config.log) {
            None => self.clients.close(id),
            Some(None) => {}
            Some(Some((peer, request))) => {
                let (reply, files, after) = self.answer(id, &peer, request);
                let sent = self.clients.reply(id, &reply, &files, &self.config.log);
                if [sent, after].contains(&MessageOutcome::Closed) {
                    self.clients.close(id);
                }
            }
        }
    }

    /// The reply, its descriptors, and whether the connection may stay open.
    fn answer(
        &mut self,
        id: ClientId,
        peer: &ClientPeer,
        request: Result<ClientRequest, DecodeError>,
    ) -> (Reply, Vec<OwnedFd>, MessageOutcome) {
        let log = &self.config.log;
        let refuse = |refusal, why: String| {
            (Reply::Refused(refusal, why), Vec::new(), MessageOutcome::Closed)
        };
        let request = match request {
            Err(DecodeError::Malformed) => {
                self.clients.count_bad_message();
                self.clients.log_peer(peer, "sent a malformed request", log);
                return refuse(Refusal::Protocol, "malformed request".to_owned());
            }
            Err(DecodeError::Version(other)) => {
                let why =
                    format!("unsupported protocol version {other} (this server has {VERSION})");
                return refuse(Refusal::Protocol, why);
            }
            Ok(_) if !self.clients.allow(peer.user) => {
                self.clients.log_peer(peer, "sent too many requests", log);
                return refuse(Refusal::Limit, "too many requests; try again later".to_owned());
            }
            Ok(request) => request,
        };
        let may_send = match request {
            ClientRequest::Attach { .. } | ClientRequest::Segment(_) => {
                self.clients.may_send_descriptors(id)
            }
            _ => Ok(()),
        };
        let outcome = may_send
            .map_err(|why| (Refusal::Limit, why.to_owned()))
            .and_then(|()| self.serve(peer, request));
        let (reply, files) =
            outcome.unwrap_or_else(|(refusal, why)| (Reply::Refused(refusal, why), Vec::new()));
        (reply, files, MessageOutcome::Open)
    }
}
