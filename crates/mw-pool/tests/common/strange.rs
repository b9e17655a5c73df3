//! Descriptors of every kind that a client might send to a server.

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, open,
};
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with, socketpair,
};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::pty::{OpenptFlags, openpt};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Descriptors with their kinds, and what keeps them as they are.
pub(crate) struct Strange {
    pub(crate) kinds: Vec<(&'static str, OwnedFd)>,
    peers: Vec<OwnedFd>,
}

impl Strange {
    /// One of each kind that this user can make.
    pub(crate) fn new() -> Self {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (lingering, peer) = lingering();
        let (laden, queue) = laden();
        let path = |path: &str, flags| open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let kinds = vec![
            ("pipe", reader),
            ("eventfd", eventfd(0, EventfdFlags::CLOEXEC).unwrap()),
            ("memfd", memfd(SealFlags::empty())),
            ("memfd-sealed", memfd(SealFlags::WRITE | SealFlags::SHRINK | SealFlags::SEAL)),
            ("pidfd", pidfd_open(getpid(), PidfdFlags::empty()).unwrap()),
            ("timerfd", timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap()),
            ("epoll", epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()),
            ("directory", path("/", OFlags::RDONLY | OFlags::DIRECTORY)),
            ("o-path", path("/etc/passwd", OFlags::PATH)),
            ("null", path("/dev/null", OFlags::RDWR)),
            ("proc", path("/proc/self/maps", OFlags::RDONLY)),
            ("pty", openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap()),
            ("socket-in-flight", laden),
            ("tcp-linger", lingering),
        ];
        let ring = mw_sys::testing::io_uring().map(|fd| ("io-uring", fd));
        let faults = mw_sys::testing::userfaultfd().map(|fd| ("userfaultfd", fd));
        let kinds = kinds.into_iter().chain(ring.ok()).chain(faults.ok()).collect();
        Self { kinds, peers: vec![writer, peer, queue] }
    }

    /// Closes the lingering connection here, so that only its receiver has it.
    pub(crate) fn renew(&mut self) {
        let (lingering, peer) = lingering();
        if let Some(kind) = self.kinds.iter_mut().find(|(kind, _)| *kind == "tcp-linger") {
            kind.1 = lingering;
        }
        self.peers.push(peer);
        // Closing the other end ends the wait.
        if self.peers.len() > 300 {
            self.peers.remove(3);
        }
    }
}

fn memfd(seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("strange", flags).unwrap();
    ftruncate(&file, 1 << 20).unwrap();
    if !seals.is_empty() {
        fcntl_add_seals(&file, seals).unwrap();
    }
    file
}

/// A connection whose last close waits for an hour (SO_LINGER): it has data that its other end never reads.
pub(crate) fn lingering() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    set_socket_send_buffer_size(&stream, 4096).unwrap();
    set_socket_recv_buffer_size(&peer, 4096).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
    (stream.into(), peer.into())
}

/// A socket with a descriptor in its queue.
fn laden() -> (OwnedFd, OwnedFd) {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (lingering, _peer) = lingering();
    send_with(&other, b"x", &[&lingering]).unwrap();
    (one, other)
}

/// A connection to a server.
pub(crate) fn connected(socket: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let to = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&to, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    to
}

/// Sends a message with descriptors.
pub(crate) fn send_with(
    to: &OwnedFd,
    bytes: &[u8],
    descriptors: &[&OwnedFd],
) -> rustix::io::Result<usize> {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags)
}
