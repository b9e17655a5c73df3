//! What the server waits for, and what becomes of leases.

use super::Server;
use crate::clients::Connection;
use crate::lease_table::LeaseId;
use crate::linger::LingerUntil;
use crate::protocol::CONSISTENT;
use crate::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) stop: bool,
    pub(super) listener: bool,
    pub(super) leases: Vec<LeaseId>,
    /// Places of connections.
    pub(super) clients: Vec<usize>,
}

fn input(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

impl Server {
    /// Waits for something to happen.
    pub(super) fn wait(&mut self, stop: BorrowedFd<'_>, most: Duration) -> io::Result<Ready> {
        let now = Instant::now();
        let judge = self.judge.map(|(at, _)| at.saturating_duration_since(now));
        let wait = judge.map_or(most, |judge| judge.min(most));
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(1),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let (leases, heard): (Vec<LeaseId>, Vec<PollFd<'_>>) = self.heard().unzip();
        let mut polled: Vec<PollFd<'_>> =
            [stop, self.listener.as_fd(), self.workers.bell(), self.watches.as_fd()]
                .map(input)
                .into();
        polled.extend(heard);
        // What has ended at the other end would be ready for ever: it is reviewed at each turn.
        let heard = |(_, connection): &(usize, &Connection)| !connection.is_retained();
        let connections = || self.connections.iter().enumerate().filter(heard);
        polled.extend(connections().map(|(_, connection)| input(connection.socket.as_fd())));
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let mut rang = polled.iter().map(|fd| !fd.revents().is_empty());
        let stop = rang.next().unwrap_or(false);
        let listener = rang.next().unwrap_or(false);
        // The bell and what was freed are heard at the next turn.
        rang.next();
        rang.next();
        let leases = leases.into_iter().filter(|_| rang.next().unwrap_or(false)).collect();
        let clients = connections().zip(rang).filter(|(_, rang)| *rang).map(|((at, _), _)| at);
        let clients = clients.collect();
        Ok(Ready { stop, listener, leases, clients })
    }

    /// What says that something has become of a lease.
    fn heard(&self) -> impl Iterator<Item = (LeaseId, PollFd<'_>)> {
        self.leases.iter().filter_map(|(id, lease)| {
            let muted = self.muted.contains(id);
            let heard = match (self.lingering.get(id), muted) {
                (Some(LingerUntil::Process(process)), _) => input(process.as_fd()),
                (Some(LingerUntil::Segment), _) => return None,
                (None, true) => PollFd::from_borrowed_fd(lease.as_fd(), PollFlags::empty()),
                (None, false) => input(lease.as_fd()),
            };
            Some((*id, heard))
        })
    }

    /// Leases say a word, or are over when nobody has the other end.
    pub(super) fn hear_leases(&mut self, ready: &[LeaseId]) {
        for id in ready {
            let has_ended = self.lingering.contains_key(id);
            let is_closed = has_ended || self.muted.contains(id) || self.hear_lease(*id);
            if has_ended || is_closed && !self.lingers(*id) {
                self.over(*id);
            } else if is_closed {
                self.check_owners_soon();
            }
        }
    }

    /// Whether it is over.
    fn hear_lease(&mut self, id: LeaseId) -> bool {
        let Some(lease) = self.leases.get(&id) else { return false };
        let word = match socket::receive_plain(lease.as_fd()) {
            Ok(word) if word.bytes.is_empty() => return true,
            Ok(word) => word,
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        };
        let user = self.book.lease(id).map_or(u32::MAX, |lease| lease.user);
        self.state.stray_descriptors_total += u64::from(word.had_descriptors);
        if word.bytes == [CONSISTENT] && self.rates.allow(user, Instant::now()) {
            self.book.consistent(id);
        } else {
            self.state.bad_messages_total += 1;
            hang_up(lease);
            self.muted.insert(id);
        }
        false
    }
}

/// Takes no more messages from a lease's holder, and drops those that are queued: the service
/// manager has this end too, and whoever closes it last would have to wait for what is in them.
pub(super) fn hang_up(lease: &OwnedFd) {
    let _ = shutdown(lease, Shutdown::Read);
    while socket::receive_plain(lease.as_fd()).is_ok_and(|word| !word.bytes.is_empty()) {}
}
