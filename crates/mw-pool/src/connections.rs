//! Connections of clients: who is let in, who makes room, and who stays until it has read.
//!
//! A reply that nobody has read keeps its descriptors in flight, where the kernel counts them
//! against this server's user (`ETOOMANYREFS`; unix(7)) and where closing this end of the
//! connection does not get them back. So a client gets no descriptors while it has some to read,
//! each user has a limit of them, and a connection with unread descriptors stays, unheard, until
//! they are read or the other end is closed.

use crate::clients::Connection;
use crate::peer::Peer;
use crate::server::Server;
use rustix::process::{Resource, getrlimit};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The most connections that are heard, and the most of one user, heard or not.
const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTIONS_PER_USER: usize = 32;
/// The most connections that stay only because descriptors are unread.
const MAX_RETAINED: usize = 512;
/// The most unread descriptors of one user, but for those of one more reply: four large leases.
const MAX_UNREAD_PER_USER: usize = 1024;
/// A connection on which nothing is said is closed.
const SILENCE: Duration = Duration::from_secs(10);

/// Whose connection is closed first where there are too many: that of a user who may use no pool,
/// then an owner's, an administrator's last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Stranger,
    Owner,
    Admin,
}

impl Server {
    fn class(&self, peer: &Peer) -> Class {
        match peer.admin {
            true => Class::Admin,
            false if self.book.next(None, &|spec| peer.may_use(spec)).is_some() => Class::Owner,
            false => Class::Stranger,
        }
    }

    /// Makes room for a connection of this peer, or says why there is none.
    pub(crate) fn make_room(&mut self, peer: &Peer) -> Result<(), &'static str> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for connection in &self.connections {
            *counts.entry(connection.peer.user).or_default() += 1;
        }
        let count = |user: u32| counts.get(&user).copied().unwrap_or(0);
        if count(peer.user) >= MAX_CONNECTIONS_PER_USER {
            return Err("this user has too many connections");
        }
        let heard = || self.connections.iter().enumerate().filter(|(_, c)| !c.is_retained());
        if heard().count() < MAX_CONNECTIONS {
            return Ok(());
        }
        let rank = |peer: &Peer| (self.class(peer), Reverse(count(peer.user)));
        let victim = heard().min_by_key(|(_, c)| (rank(&c.peer), c.heard));
        // One more of this peer's must not make it the next victim.
        let own = (self.class(peer), Reverse(count(peer.user) + 1));
        match victim.filter(|(_, c)| rank(&c.peer) < own).map(|(at, _)| at) {
            Some(at) => {
                self.connections.swap_remove(at);
                self.state.refused_total += 1;
                Ok(())
            }
            None => Err("too many connections; try later"),
        }
    }

    /// Closes connections that have been silent for too long, and those that stayed only to be read.
    pub(crate) fn review_connections(&mut self) {
        let now = Instant::now();
        self.connections.retain_mut(|connection| {
            let is_silent = now.saturating_duration_since(connection.heard) >= SILENCE;
            !(is_silent || connection.is_retained()) || connection.retain_if_unread()
        });
    }

    /// Whether descriptors may be sent over a connection now; why not otherwise.
    pub(crate) fn may_send_descriptors(&mut self, at: usize) -> Result<(), &'static str> {
        self.connections.iter_mut().for_each(Connection::note_read);
        let Some(connection) = self.connections.get(at) else { return Err("it is closed") };
        let peer = &connection.peer;
        let of_user = |c: &&Connection| c.peer.user == peer.user;
        let unread = |c: &Connection| c.unread_descriptors;
        let own: usize = self.connections.iter().filter(of_user).map(unread).sum();
        let all: usize = self.connections.iter().map(unread).sum();
        let retained = self.connections.iter().filter(|c| c.is_retained()).count();
        match () {
            () if connection.unread_descriptors > 0 => Err("the last reply is yet to be read"),
            () if own >= MAX_UNREAD_PER_USER => Err("this user's last replies are yet to be read"),
            () if peer.admin => Ok(()),
            () if all >= most_unread() || retained >= MAX_RETAINED => {
                Err("too many replies are yet to be read; try later")
            }
            () => Ok(()),
        }
    }
}

impl Connection {
    /// Whether it is heard no more and stays only until its descriptors are read.
    pub(crate) fn is_retained(&self) -> bool {
        self.is_over
    }

    /// Ends a connection, unless descriptors that were sent over it are unread: then it stays.
    pub(crate) fn retain_if_unread(&mut self) -> bool {
        self.note_read();
        self.is_over = true;
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

/// The most unread descriptors of all users, administrators aside: half of what the kernel lets this
/// server's user have in flight, which is its limit of open files.
fn most_unread() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 16);
    usize::try_from(limit / 2).unwrap_or(usize::MAX)
}
