//! Accepts connections and answers one request on each.

use crate::MAX_TIME;
use crate::auth::Authentication;
use crate::config::{Policy, WebConfig};
use crate::connection::Timed;
use crate::request::{self, Request, Response};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::{ServerConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Connections at a time; beyond that the oldest is closed.
pub const MAX_CONNECTIONS: usize = 16;

/// Threads at a time: those of closed connections are on their way out.
const MAX_THREADS: usize = 2 * MAX_CONNECTIONS;

const STACK_BYTES: usize = 256 << 10;

/// The lowest priority: the machine is not there for its metrics.
const NICE: i32 = 19;

/// A pause after an accept(2) that failed, as without a free descriptor, and the longest wait for a thread.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests; what it says goes to one who has to know it.
pub trait Service: Send + Sync + 'static {
    fn answer(&self, request: &Request) -> Response;
    /// A line about the configuration: what is wrong with it, or that it is right again.
    fn tell(&self, line: &str);
}

/// A server at work; dropping it closes the listener.
pub struct Server {
    /// Its end wakes the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Serves in threads of its own.
    ///
    /// # Errors
    /// The kernel gives no thread or socket.
    pub fn start(
        listener: TcpListener,
        config: Option<WebConfig>,
        service: Arc<dyn Service>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (end, woken) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            config,
            service,
            authentication: Authentication::default(),
            open: Mutex::default(),
            ended: Condvar::new(),
            trouble: Mutex::default(),
        });
        let accept = move || accept(&listener, &woken, &shared);
        let thread = Builder::new().name("mw-listen".to_owned()).spawn(accept)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Shared {
    config: Option<WebConfig>,
    service: Arc<dyn Service>,
    authentication: Authentication,
    open: Mutex<Open>,
    /// A thread has ended.
    ended: Condvar,
    /// What was told last of the configuration.
    trouble: Mutex<Option<String>>,
}

/// The connections, the oldest first.
#[derive(Default)]
struct Open {
    next: u64,
    threads: usize,
    sockets: Vec<(u64, TcpStream)>,
}

fn accept(listener: &TcpListener, woken: &UnixStream, shared: &Arc<Shared>) {
    let _ = rustix::process::setpriority_process(None, NICE);
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return close_all(shared);
        }
        match listener.accept() {
            Ok((socket, _)) => begin(socket, shared),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn close_all(shared: &Shared) {
    for (_, socket) in &shared.open().sockets {
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Makes room and starts a thread; without one the connection is closed.
fn begin(socket: TcpStream, shared: &Arc<Shared>) {
    let Ok(known) = socket.try_clone() else { return };
    let mut open = shared.open();
    if open.sockets.len() >= MAX_CONNECTIONS {
        let (_, oldest) = open.sockets.remove(0);
        let _ = oldest.shutdown(Shutdown::Both);
    }
    // Threads of closed connections end soon; clients wait in the kernel's queue meanwhile.
    let waited = shared.ended.wait_timeout_while(open, PAUSE, |open| open.threads >= MAX_THREADS);
    (open, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if open.threads >= MAX_THREADS {
        return;
    }
    let id = open.next;
    open.next += 1;
    let theirs = Arc::clone(shared);
    let serve = move || {
        let _ = rustix::process::setpriority_process(None, NICE);
        // The peer has gone, or was too slow.
        let _ = theirs.serve(socket);
        let mut open = theirs.open();
        open.threads -= 1;
        open.sockets.retain(|(other, _)| *other != id);
        theirs.ended.notify_one();
    };
    let thread = Builder::new().name("mw-scrape".to_owned()).stack_size(STACK_BYTES).spawn(serve);
    if thread.is_ok() {
        open.threads += 1;
        open.sockets.push((id, known));
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, socket: TcpStream) -> io::Result<()> {
        let Some(policy) = self.policy() else { return Ok(()) };
        let mut socket = Timed::new(socket, MAX_TIME)?;
        let Some(tls) = &policy.tls else {
            self.exchange(&policy, &mut socket)?;
            socket.finish();
            return Ok(());
        };
        let connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        self.exchange(&policy, &mut stream)?;
        stream.conn.send_close_notify();
        stream.flush()?;
        stream.sock.finish();
        Ok(())
    }

    fn exchange<S: Read + Write>(&self, policy: &Policy, stream: &mut S) -> io::Result<()> {
        let request = match request::read(stream)? {
            Ok(request) => request,
            Err(response) => return response.write(false, stream),
        };
        let header = request.authorization.as_deref();
        let is_allowed =
            policy.users.is_empty() || self.authentication.is_right(&policy.users, header);
        let response = if is_allowed {
            self.service.answer(&request)
        } else {
            Response::plain(401, "Unauthorized\n")
        };
        response.write(request.head_only, stream)
    }

    /// None while the configuration is wrong, which is told once.
    fn policy(&self) -> Option<Arc<Policy>> {
        let Some(config) = &self.config else { return Some(Arc::default()) };
        let (policy, trouble) = match config.policy() {
            Ok(policy) => (Some(policy), None),
            Err(why) => (None, Some(why)),
        };
        let mut told = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != trouble {
            match &trouble {
                Some(why) => {
                    self.service
                        .tell(&format!("{why}; connections are closed until it is corrected"));
                }
                None => self.service.tell("the web configuration is right again"),
            }
            *told = trouble;
        }
        policy
    }
}
