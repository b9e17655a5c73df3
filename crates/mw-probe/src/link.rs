//! A connection on which nothing waits longer than it may.
//!
//! The socket does not block; every wait is for it, for the end of the probe's time or for the end
//! of the prober, whichever comes first. What is read in answer to one question is bounded.

use crate::connection::ConnectionCell;
use mw_model::FailureKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, recv, send, socket_with, sockopt};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most that is read in answer to one question.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;
/// From one attempt to the next at a Unix socket whose queue is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(2);
/// From one look at the delivery of a request that is not answered to the next.
const DELIVERY_INTERVAL: Duration = Duration::from_millis(250);
const READ_BYTES: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// Nothing, or not everything, came in time.
    #[error("timed out while {0}")]
    TimedOut(&'static str),
    /// The prober is ending.
    #[error("stopped")]
    Stopped,
    /// The kernel's or the network's error.
    #[error("{what}: {}", plain_io(source))]
    Io { what: Cow<'static, str>, source: io::Error },
    /// The server ended the connection.
    #[error("the server closed the connection while {0}")]
    Closed(&'static str),
    /// The server answered that it cannot, or something that is no answer.
    #[error("{text}")]
    Answer { kind: FailureKind, text: String },
}

/// The kernel's words for an error, without the number.
fn plain_io(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

impl LinkError {
    pub(crate) fn io(what: impl Into<Cow<'static, str>>, error: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: error.into() }
    }

    pub(crate) fn answer(kind: FailureKind, text: impl Into<String>) -> Self {
        Self::Answer { kind, text: text.into() }
    }

    /// The reply is not of this protocol.
    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::answer(FailureKind::Malformed, text)
    }

    pub(crate) fn kind(&self) -> FailureKind {
        match self {
            Self::TimedOut(_) => FailureKind::TimedOut,
            Self::Stopped => FailureKind::Other,
            Self::Closed(_) => FailureKind::Closed,
            Self::Answer { kind, .. } => *kind,
            Self::Io { source, .. } => match source.kind() {
                // Without its socket's file, a server listens on it as little.
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => FailureKind::Refused,
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe => FailureKind::Reset,
                io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
                | io::ErrorKind::AddrNotAvailable => FailureKind::Unreachable,
                io::ErrorKind::OutOfMemory => FailureKind::OutOfMemory,
                io::ErrorKind::StorageFull => FailureKind::NoSpace,
                // The kernel gave up before the probe did.
                io::ErrorKind::TimedOut => FailureKind::TimedOut,
                _ => FailureKind::Other,
            },
        }
    }

    /// True if the connection may have ended before it was asked anything.
    pub(crate) fn is_of_old_connection(&self) -> bool {
        match self {
            Self::Closed(_) => true,
            Self::Io { source, .. } => {
                matches!(
                    source.kind(),
                    io::ErrorKind::ConnectionReset
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::ConnectionAborted
                )
            }
            _ => false,
        }
    }
}

/// Until when a probe may take, what ends it sooner, and where its connection is published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline<'a> {
    until: Instant,
    stop: BorrowedFd<'a>,
    pub(crate) connection: Option<&'a ConnectionCell>,
}

impl<'a> Deadline<'a> {
    pub(crate) fn after(timeout: Duration, stop: BorrowedFd<'a>) -> Self {
        Self { until: Instant::now() + timeout, stop, connection: None }
    }

    pub(crate) fn publishing(self, connection: &'a ConnectionCell) -> Self {
        Self { connection: Some(connection), ..self }
    }

    /// An earlier one: a share of what is left.
    fn share(&self, parts: u32) -> Self {
        let rest = self.until.saturating_duration_since(Instant::now());
        Self { until: Instant::now() + rest / parts.max(1), ..*self }
    }

    /// Waits until one of `wanted` is ready; `Ok(false)` when `at_most` passed before.
    pub(crate) fn wait_any(
        &self,
        wanted: &[(BorrowedFd<'_>, PollFlags)],
        at_most: Option<Duration>,
        what: &'static str,
    ) -> Result<bool, LinkError> {
        let sooner = at_most.and_then(|time| Instant::now().checked_add(time));
        let end = sooner.map_or(self.until, |sooner| sooner.min(self.until));
        let mut fds: Vec<PollFd<'_>> =
            wanted.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        fds.push(PollFd::from_borrowed_fd(self.stop, PollFlags::IN));
        loop {
            let now = Instant::now();
            if now >= self.until {
                return Err(LinkError::TimedOut(what));
            }
            let rest = Timespec::try_from(end.saturating_duration_since(now));
            match poll(&mut fds, rest.ok().as_ref()) {
                Err(Errno::INTR) => continue,
                Err(error) => return Err(LinkError::io(what, error)),
                Ok(_) => {}
            }
            if fds.last().is_some_and(|stop| !stop.revents().is_empty()) {
                return Err(LinkError::Stopped);
            }
            if fds.iter().any(|fd| !fd.revents().is_empty()) {
                return Ok(true);
            }
            if Instant::now() >= end && end < self.until {
                return Ok(false);
            }
        }
    }

    /// Waits until a socket is ready.
    fn wait(
        &self,
        fd: BorrowedFd<'_>,
        flags: PollFlags,
        what: &'static str,
    ) -> Result<(), LinkError> {
        let begun = self.connection.map(|connection| connection.delivery.begin_wait());
        loop {
            let is_ready = self.wait_any(&[(fd, flags)], Some(DELIVERY_INTERVAL), what);
            if let (Some(connection), Some(begun)) = (self.connection, &begun) {
                connection.delivery.note(fd, begun);
            }
            if is_ready? {
                return Ok(());
            }
        }
    }

    /// Waits for nothing but time.
    pub(crate) fn pause(&self, time: Duration, what: &'static str) -> Result<(), LinkError> {
        self.wait_any(&[], Some(time), what).map(drop)
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A host name or address, and a port.
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Endpoint {
    pub(crate) fn socket_path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(..) => None,
            Self::Unix(path) => Some(path),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes connections to an endpoint. A host's addresses are looked up again only after none of
/// them answered: the resolver is not what is probed.
#[derive(Debug)]
pub(crate) struct Connector {
    endpoint: Endpoint,
    addresses: Vec<SocketAddr>,
}

impl Connector {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, addresses: Vec::new() }
    }

    pub(crate) fn connect(&mut self, deadline: &Deadline<'_>) -> Result<Link, LinkError> {
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let what = || format!("connecting to {}", path.display());
                let address = SocketAddrUnix::new(path).map_err(|e| LinkError::io(what(), e))?;
                loop {
                    match open(AddressFamily::UNIX, &address, what, deadline) {
                        // unix(7): the queue of a server that accepts nobody is full.
                        Err(LinkError::Io { source, .. })
                            if source.kind() == io::ErrorKind::WouldBlock => {}
                        Ok(link) => {
                            if let Some(connection) = deadline.connection {
                                connection.connected_unix(&link.fd);
                            }
                            return Ok(link);
                        }
                        Err(failure) => return Err(failure),
                    }
                    deadline.pause(QUEUE_PAUSE, "connecting, its listen queue being full")?;
                }
            }
            Endpoint::Tcp(host, port) => {
                if self.addresses.is_empty() {
                    let found = (host.as_str(), *port).to_socket_addrs();
                    let found = found.map_err(|error| not_resolved(host, &error))?;
                    self.addresses = found.take(MAX_ADDRESSES).collect();
                }
                let link = any(&self.addresses, deadline);
                if link.is_err() {
                    self.addresses.clear();
                }
                link
            }
        }
    }
}

/// That a host's name has no address, in the resolver's words.
fn not_resolved(host: &str, error: &io::Error) -> LinkError {
    let text = plain_io(error);
    let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    LinkError::answer(FailureKind::NameResolution, format!("cannot resolve '{host}': {why}"))
}

/// Connects to the first address that takes the connection; each has its share of the time.
fn any(addresses: &[SocketAddr], deadline: &Deadline<'_>) -> Result<Link, LinkError> {
    let mut last = LinkError::answer(FailureKind::NameResolution, "the host has no address");
    for (at, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - at).unwrap_or(1);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        if let Some(connection) = deadline.connection {
            connection.connecting(*address);
        }
        let what = || format!("connecting to {address}");
        match open(family, address, what, &deadline.share(left)) {
            Err(LinkError::Stopped) => return Err(LinkError::Stopped),
            Err(failure) => last = failure,
            link => {
                if let Ok(link) = &link {
                    if let Some(connection) = deadline.connection {
                        connection.connected(&link.fd, *address);
                    }
                    // Questions are written whole: nothing is gained by holding them back.
                    let _ = sockopt::set_tcp_nodelay(&link.fd, true);
                }
                return link;
            }
        }
    }
    Err(last)
}

fn open(
    family: AddressFamily,
    address: &impl rustix::net::addr::SocketAddrArg,
    what: impl Fn() -> String,
    deadline: &Deadline<'_>,
) -> Result<Link, LinkError> {
    let failed = |error: Errno| LinkError::io(what(), error);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
    match connect(&fd, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            deadline.wait(fd.as_fd(), PollFlags::OUT, "connecting")?;
            sockopt::socket_error(&fd).map_err(failed)?.map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(Link { fd, input: Vec::new(), budget: MAX_ANSWER_BYTES, phase: "waiting for the answer" })
}

#[derive(Debug)]
pub(crate) struct Link {
    fd: OwnedFd,
    /// Bytes that were read and not yet taken.
    input: Vec<u8>,
    /// Bytes that may still be read before the next question.
    budget: usize,
    /// Wait, in the words of a failure: `waiting for the answer`.
    phase: &'static str,
}

impl Link {
    /// True if nothing came since the last answer: not even the end of the connection. No protocol
    /// here has a server speak unasked, but to say that it is going.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let answer = recv(&self.fd, &mut byte, flags);
        self.input.is_empty() && answer.is_err_and(|error| error == Errno::AGAIN)
    }

    /// Names what is waited for from now on.
    pub(crate) fn set_phase(&mut self, phase: &'static str) {
        self.phase = phase;
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], by: &Deadline<'_>) -> Result<(), LinkError> {
        const WHAT: &str = "asking";
        self.budget = MAX_ANSWER_BYTES;
        while !bytes.is_empty() {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN) => by.wait(self.fd.as_fd(), PollFlags::OUT, WHAT)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(LinkError::io(WHAT, error)),
            }
        }
        Ok(())
    }

    /// Reads on until there are `bytes`, and lends what there is.
    pub(crate) fn fill(&mut self, bytes: usize, by: &Deadline<'_>) -> Result<&[u8], LinkError> {
        while self.input.len() < bytes {
            self.read(by)?;
        }
        Ok(&self.input)
    }

    /// Takes `bytes` of the answer.
    pub(crate) fn take(&mut self, bytes: usize, by: &Deadline<'_>) -> Result<Vec<u8>, LinkError> {
        self.fill(bytes, by)?;
        Ok(self.input.drain(..bytes).collect())
    }

    /// Takes the answer up to and with `end`.
    pub(crate) fn take_until(
        &mut self,
        end: &[u8],
        by: &Deadline<'_>,
    ) -> Result<Vec<u8>, LinkError> {
        let mut seen = 0;
        loop {
            let from = seen;
            let unseen = self.input.get(from..).unwrap_or_default();
            if let Some(at) = unseen.windows(end.len()).position(|part| part == end) {
                return Ok(self.input.drain(..from + at + end.len()).collect());
            }
            seen = self.input.len().saturating_sub(end.len());
            self.read(by)?;
        }
    }

    fn read(&mut self, by: &Deadline<'_>) -> Result<(), LinkError> {
        let what = self.phase;
        let mut bytes = [0; READ_BYTES];
        let room = bytes.get_mut(..self.budget.min(READ_BYTES)).unwrap_or_default();
        if room.is_empty() {
            let limit = MAX_ANSWER_BYTES >> 10;
            return Err(LinkError::malformed(format!("the answer is longer than {limit} KiB")));
        }
        loop {
            match recv(&self.fd, &mut *room, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(LinkError::Closed(what)),
                Ok((_, got)) => {
                    self.budget -= got;
                    self.input.extend_from_slice(room.get(..got).unwrap_or_default());
                    return Ok(());
                }
                Err(Errno::AGAIN) => by.wait(self.fd.as_fd(), PollFlags::IN, what)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(LinkError::io(what, error)),
            }
        }
    }
}
