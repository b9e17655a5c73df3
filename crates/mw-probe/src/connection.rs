//! The connection of a probe, published for readers on other threads without a lock.

use crate::delivery::DeliveryCell;
use mw_model::Connection;
use rustix::net::getsockname;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Number of times that a reader tries to catch a connection between two writes.
const TRIES: usize = 8;

/// The last connection; written by the thread that probes alone. Writing costs two system calls that do not
/// wait, about 1 µs, and only where a connection is made. `version` is odd while it is written.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCell {
    version: AtomicU64,
    local: AddressCell,
    peer: AddressCell,
    /// Of a Unix socket: its inode, and the process that listens.
    inode: AtomicU64,
    listener: AtomicU32,
    /// The process of an `exec:` probe's command.
    command: AtomicU32,
    /// Of the request under way, or of the last one.
    pub(crate) delivery: DeliveryCell,
}

/// An address and a port; port 0 is none. An address of version 4 is kept as its mapped form.
#[derive(Debug, Default)]
struct AddressCell {
    high: AtomicU64,
    low: AtomicU64,
    port: AtomicU32,
}

impl AddressCell {
    fn store(&self, address: Option<SocketAddr>) {
        let bits = match address.map(|address| address.ip()) {
            Some(IpAddr::V4(address)) => address.to_ipv6_mapped().to_bits(),
            Some(IpAddr::V6(address)) => address.to_bits(),
            None => 0,
        };
        // Two halves of 64 bits.
        self.high.store((bits >> 64) as u64, SeqCst);
        self.low.store(bits as u64, SeqCst);
        self.port.store(address.map_or(0, |address| address.port().into()), SeqCst);
    }

    fn load(&self) -> Option<SocketAddr> {
        let bits = u128::from(self.high.load(SeqCst)) << 64 | u128::from(self.low.load(SeqCst));
        let port = u16::try_from(self.port.load(SeqCst)).ok().filter(|port| *port > 0)?;
        Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical(), port))
    }
}

impl ConnectionCell {
    /// A connection to `peer` is being made.
    pub(crate) fn connecting(&self, peer: SocketAddr) {
        self.delivery.begin_connection();
        self.write(|| {
            self.local.store(None);
            self.peer.store(Some(peer));
        });
    }

    pub(crate) fn connected(&self, socket: &OwnedFd, peer: SocketAddr) {
        let local = getsockname(socket).ok().and_then(|address| address.try_into().ok());
        self.write(|| {
            self.local.store(local);
            self.peer.store(Some(peer));
        });
    }

    pub(crate) fn connected_unix(&self, socket: &OwnedFd) {
        let inode = rustix::fs::fstat(socket).map_or(0, |stat| stat.st_ino);
        let listener = mw_sys::peer_credentials(socket.as_fd()).ok();
        let listener = listener.and_then(|listener| listener.process).unwrap_or(0);
        self.write(|| {
            self.inode.store(inode, SeqCst);
            self.listener.store(listener, SeqCst);
        });
    }

    /// A command was started.
    pub(crate) fn started(&self, command: u32) {
        self.command.store(command, SeqCst);
    }

    /// The command that was started last.
    pub(crate) fn command(&self) -> Option<u32> {
        Some(self.command.load(SeqCst)).filter(|pid| *pid > 0)
    }

    fn write(&self, store: impl FnOnce()) {
        self.version.fetch_add(1, SeqCst);
        store();
        self.version.fetch_add(1, SeqCst);
    }

    /// The last connection; `path` is the Unix socket of the target.
    pub(crate) fn read(&self, path: Option<&Path>) -> Option<Connection> {
        (0..TRIES).find_map(|_| {
            let version = self.version.load(SeqCst);
            let connection = match path {
                Some(path) => Some(Connection::Unix {
                    path: path.to_owned(),
                    inode: Some(self.inode.load(SeqCst)).filter(|inode| *inode > 0),
                    listener: Some(self.listener.load(SeqCst)).filter(|pid| *pid > 0),
                }),
                None => {
                    let local = self.local.load();
                    self.peer.load().map(|peer| Connection::Tcp { local, peer })
                }
            };
            let is_whole = version.is_multiple_of(2) && self.version.load(SeqCst) == version;
            is_whole.then_some(connection)
        })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept() {
        let cell = ConnectionCell::default();
        assert_eq!(cell.read(None), None);
        for text in ["127.0.0.1:5432", "[2001:db8::1]:80", "[::1]:65535"] {
            let peer: SocketAddr = text.parse().unwrap();
            cell.connecting(peer);
            assert_eq!(cell.read(None), Some(Connection::Tcp { local: None, peer }));
        }
        let path = Path::new("/run/s");
        let unix = Connection::Unix { path: path.to_owned(), inode: None, listener: None };
        assert_eq!(cell.read(Some(path)), Some(unix));
    }

    #[test]
    fn a_connection_is_seen_whole_while_others_are_made() {
        let cell = ConnectionCell::default();
        let peers = ["10.0.0.1:1", "[fe80::1]:2"].map(|text| text.parse().unwrap());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for turn in 0..100_000 {
                    cell.connecting(peers[turn % 2]);
                }
            });
            while !writer.is_finished() {
                let Some(Connection::Tcp { peer, .. }) = cell.read(None) else { continue };
                assert!(peers.contains(&peer), "{peer}");
            }
        });
    }
}
