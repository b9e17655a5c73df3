//! A connection that ends at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// What is read after the response, so that the kernel does not discard it by a reset.
const MAX_LINGER_BYTES: usize = 64 << 10;
const LINGER: Duration = Duration::from_secs(1);

/// Reads and writes until a deadline.
#[derive(Debug)]
pub(crate) struct Timed {
    socket: TcpStream,
    end: Instant,
}

impl Timed {
    pub(crate) fn new(socket: TcpStream, time: Duration) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, end: Instant::now() + time })
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Ends the connection; the peer gets all that was written.
    pub(crate) fn finish(mut self) {
        self.end = self.end.min(Instant::now() + LINGER);
        if self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let mut rest = [0; 1024];
        for _ in 0..MAX_LINGER_BYTES / rest.len() {
            if !matches!(self.read(&mut rest), Ok(1..)) {
                return;
            }
        }
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(bytes)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
