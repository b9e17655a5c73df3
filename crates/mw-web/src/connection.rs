//! A connection that ends at a time, and never blocks.

use crate::config::ConnectionPolicy;
use crate::peer::{ConnectionPhase, EvictionOrder, PeerNetwork};
use crate::request::{self, HttpRequest, Response};
use crate::{MAX_HEAD_BYTES, MAX_TIME};
use rustix::event::PollFlags;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a response that the kernel holds, twice that with its own; it would be some MiB for a client that reads nothing.
const SEND_BYTES: usize = 128 << 10;

/// Bytes that are read after the response, so that the kernel does not discard it by a reset.
const MAX_LINGER_BYTES: usize = 64 << 10;
const LINGER: Duration = Duration::from_secs(1);

/// Reads from a socket before the other connections have their turn.
const MAX_READS: usize = 16;

pub(crate) struct HttpConnection {
    pub(crate) id: u64,
    pub(crate) state: ConnectionState,
    /// The configuration when the first byte arrived.
    pub(crate) policy: Option<Arc<ConnectionPolicy>>,
    socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
    peer: PeerNetwork,
    begun: Instant,
    end: Instant,
}

pub(crate) enum ConnectionState {
    /// The head of a request, as far as it has arrived.
    Receiving(Vec<u8>),
    /// A request whose password is being verified.
    Unverified(HttpRequest),
    /// A request that is answered as soon as there is something to answer it with.
    Pending(HttpRequest),
    Sending(OutgoingResponse),
    /// All is sent; what the client still sends is discarded.
    Lingering {
        discarded: usize,
    },
}

/// A response, and how much of it was sent.
pub(crate) struct OutgoingResponse {
    head: String,
    body: Arc<str>,
    sent: usize,
    has_closed_tls: bool,
}

impl HttpConnection {
    pub(crate) fn new(id: u64, socket: TcpStream, address: IpAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        set_socket_send_buffer_size(&socket, SEND_BYTES)?;
        let begun = Instant::now();
        Ok(Self {
            id,
            state: ConnectionState::Receiving(Vec::new()),
            policy: None,
            socket,
            tls: None,
            peer: PeerNetwork::new(address),
            begun,
            end: begun + MAX_TIME,
        })
    }

    pub(crate) fn peer(&self) -> PeerNetwork {
        self.peer
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    pub(crate) fn standing(&self) -> EvictionOrder {
        let phase = match self.state {
            ConnectionState::Receiving(_) => ConnectionPhase::Receiving,
            ConnectionState::Unverified(_)
            | ConnectionState::Pending(_)
            | ConnectionState::Sending(_) => ConnectionPhase::Requested,
            ConnectionState::Lingering { .. } => ConnectionPhase::Answered,
        };
        EvictionOrder { peer: self.peer, phase, begun: self.begun }
    }

    /// Events that it waits for. An error of the socket is reported in any case.
    pub(crate) fn events(&self) -> PollFlags {
        let wants_write = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        match self.state {
            ConnectionState::Receiving(_) if wants_write => PollFlags::IN | PollFlags::OUT,
            ConnectionState::Receiving(_) | ConnectionState::Lingering { .. } => PollFlags::IN,
            ConnectionState::Unverified(_) | ConnectionState::Pending(_) => PollFlags::empty(),
            ConnectionState::Sending(_) => PollFlags::OUT,
        }
    }

    /// Before the first byte is read.
    pub(crate) fn set_policy(&mut self, policy: Arc<ConnectionPolicy>) -> io::Result<()> {
        if let Some(tls) = &policy.tls {
            let connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
            self.tls = Some(Box::new(connection));
        }
        self.policy = Some(policy);
        Ok(())
    }

    /// Reads what has arrived: the request, or the response to one that is wrong. None while it is incomplete.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Result<HttpRequest, Response>>> {
        for _ in 0..MAX_READS {
            let is_open = match self.fill()? {
                ReadOutcome::Nothing => return Ok(None),
                ReadOutcome::Some => true,
                ReadOutcome::End => false,
            };
            let ConnectionState::Receiving(head) = &self.state else { return Ok(None) };
            if let Some(request) = request::parse(head) {
                return Ok(Some(request));
            }
            if !is_open {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(None)
    }

    /// Reads once from the socket, and adds what it brought to the head.
    fn fill(&mut self) -> io::Result<ReadOutcome> {
        let ConnectionState::Receiving(head) = &mut self.state else {
            return Ok(ReadOutcome::Nothing);
        };
        let before = head.len();
        let Some(tls) = &mut self.tls else {
            let read = read_into(head, &mut self.socket);
            return match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(ReadOutcome::Nothing),
                Err(error) => Err(error),
                Ok(()) if head.len() == before => Ok(ReadOutcome::End),
                Ok(()) => Ok(ReadOutcome::Some),
            };
        };
        let is_open = match tls.read_tls(&mut self.socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                write_some(tls, &mut self.socket)?;
                return Ok(ReadOutcome::Nothing);
            }
            Err(error) => return Err(error),
            Ok(count) => count > 0,
        };
        let processed = tls.process_new_packets();
        // An alert that says why it is closed, or what the handshake needs.
        let written = write_some(tls, &mut self.socket);
        processed.map_err(io::Error::other)?;
        written?;
        loop {
            let before = head.len();
            match read_into(head, &mut tls.reader()) {
                Ok(()) if head.len() > before => {}
                Ok(()) => return Ok(ReadOutcome::End),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(if is_open { ReadOutcome::Some } else { ReadOutcome::End })
    }

    /// Sends a response as far as the socket takes it now.
    pub(crate) fn respond(&mut self, response: Response, head_only: bool) -> io::Result<()> {
        let head = response.head();
        let body = if head_only { Arc::default() } else { response.body };
        self.state = ConnectionState::Sending(OutgoingResponse {
            head,
            body,
            sent: 0,
            has_closed_tls: false,
        });
        self.send()
    }

    /// Goes on sending; afterwards the client gets all that was written, before the socket is closed.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        let ConnectionState::Sending(outgoing) = &mut self.state else { return Ok(()) };
        let sent = match &mut self.tls {
            Some(tls) => outgoing.send_encrypted(tls, &mut self.socket),
            None => outgoing.send(&mut self.socket),
        };
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        self.socket.shutdown(Shutdown::Write)?;
        self.end = self.end.min(Instant::now() + LINGER);
        self.state = ConnectionState::Lingering { discarded: 0 };
        Ok(())
    }

    /// Discards what arrives after the response; false when the connection is over.
    pub(crate) fn linger(&mut self) -> io::Result<bool> {
        let ConnectionState::Lingering { discarded } = &mut self.state else { return Ok(true) };
        let mut rest = [0; 4096];
        for _ in 0..MAX_READS {
            match self.socket.read(&mut rest) {
                Ok(0) => return Ok(false),
                Ok(count) => *discarded += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            if *discarded > MAX_LINGER_BYTES {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl AsFd for HttpConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

enum ReadOutcome {
    Nothing,
    Some,
    /// The client sends no more.
    End,
}

/// Adds what can be read, up to the limit of a head, once. Nothing is added at the end.
fn read_into(head: &mut Vec<u8>, from: &mut dyn Read) -> io::Result<()> {
    let mut bytes = [0; MAX_HEAD_BYTES];
    let room = MAX_HEAD_BYTES.saturating_sub(head.len());
    let count = from.read(bytes.get_mut(..room).unwrap_or_default())?;
    head.extend(bytes.iter().take(count));
    Ok(())
}

/// Writes what TLS has to send, as far as the socket takes it.
fn write_some(tls: &mut ServerConnection, socket: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl OutgoingResponse {
    /// Bytes that were not sent yet; empty at the end.
    fn rest(&self) -> &[u8] {
        match self.head.as_bytes().get(self.sent..) {
            Some(head) if !head.is_empty() => head,
            _ => {
                let sent = self.sent.saturating_sub(self.head.len());
                self.body.as_bytes().get(sent..).unwrap_or_default()
            }
        }
    }

    fn send(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        while !self.rest().is_empty() {
            self.sent += written(socket.write(self.rest()))?;
        }
        Ok(())
    }

    fn send_encrypted(
        &mut self,
        tls: &mut ServerConnection,
        socket: &mut TcpStream,
    ) -> io::Result<()> {
        loop {
            while tls.wants_write() {
                written(tls.write_tls(socket))?;
            }
            if !self.rest().is_empty() {
                self.sent += written(tls.writer().write(self.rest()))?;
            } else if self.has_closed_tls {
                return Ok(());
            } else {
                tls.send_close_notify();
                self.has_closed_tls = true;
            }
        }
    }
}

/// Nothing written is an error: it would be tried for ever.
fn written(count: io::Result<usize>) -> io::Result<usize> {
    match count {
        Ok(0) => Err(ErrorKind::WriteZero.into()),
        other => other,
    }
}
