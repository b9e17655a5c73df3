//! The server's ends of the leases' sockets: each ends its lease when the other end is closed by the
//! last process that has it, and carries one message, [`CONSISTENT`].

use crate::lease_table::LeaseId;
use crate::protocol::CONSISTENT;
use crate::socket;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Message on a lease's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseMessage {
    Consistent { stray_descriptors: bool },
    Malformed { stray_descriptors: bool },
    Closed,
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct LeaseSockets {
    sockets: BTreeMap<LeaseId, OwnedFd>,
    /// Leases that sent a malformed message or too many: only their end is still noticed.
    muted: BTreeSet<LeaseId>,
}

impl LeaseSockets {
    /// A new pair: the server's end and the client's.
    pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // Before Linux 6.16 the kernel drops them as they are read (socket.rs).
        let _ = mw_sys::refuse_descriptors(own.as_fd());
        Ok((own, other))
    }

    pub(crate) fn insert(&mut self, id: LeaseId, own: OwnedFd) {
        self.sockets.insert(id, own);
    }

    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.sockets.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Each socket, and whether its messages are read.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LeaseId, BorrowedFd<'_>, bool)> {
        self.sockets.iter().map(|(id, fd)| (*id, fd.as_fd(), !self.muted.contains(id)))
    }

    pub(crate) fn receive(&self, id: LeaseId) -> LeaseMessage {
        let Some(socket) = self.sockets.get(&id) else { return LeaseMessage::Nothing };
        if self.muted.contains(&id) {
            return LeaseMessage::Closed;
        }
        match socket::receive_without_descriptors(socket.as_fd()) {
            Ok(message) if message.bytes.is_empty() => LeaseMessage::Closed,
            Ok(message) if message.bytes == [CONSISTENT] => {
                LeaseMessage::Consistent { stray_descriptors: message.had_descriptors }
            }
            Ok(message) => LeaseMessage::Malformed { stray_descriptors: message.had_descriptors },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => LeaseMessage::Nothing,
            Err(_) => LeaseMessage::Closed,
        }
    }

    /// Reads no more messages of a lease.
    pub(crate) fn mute(&mut self, id: LeaseId) {
        if let Some(socket) = self.sockets.get(&id) {
            discard_messages(socket);
            self.muted.insert(id);
        }
    }

    /// Closes the sockets of leases that are not `active`. Returns which.
    pub(crate) fn close_ended(&mut self, active: impl Fn(LeaseId) -> bool) -> Vec<LeaseId> {
        let ended: Vec<LeaseId> = self.sockets.keys().copied().filter(|id| !active(*id)).collect();
        for id in &ended {
            self.muted.remove(id);
            if let Some(socket) = self.sockets.remove(id) {
                discard_messages(&socket);
            }
        }
        ended
    }
}

/// Shuts a socket down for reading and drops what is queued: the service manager has this end too,
/// and the last close would wait for the descriptors in the queue.
fn discard_messages(socket: &OwnedFd) {
    let _ = shutdown(socket, Shutdown::Read);
    let receive = || socket::receive_without_descriptors(socket.as_fd());
    while receive().is_ok_and(|message| !message.bytes.is_empty()) {}
}
