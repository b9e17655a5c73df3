//! Accepts connections and answers one request on each.

use crate::NICE;
use crate::auth::{AuthOutcome, CredentialCache};
use crate::config::{ConnectionPolicy, WebConfig};
use crate::connection::{ConnectionState, HttpConnection};
use crate::peer::{EvictionOrder, victim};
use crate::request::{HttpRequest, Response};
use crate::verifier::{Verifier, VerifyJob};
use crate::wake::Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Connections at a time; each takes up to 0.1 MiB of memory while it is encrypted.
pub const MAX_CONNECTIONS: usize = 128;

/// Connections that wait in the kernel: a client that finds no place tries again after a second.
const BACKLOG: i32 = 1024;

/// New connections before the others have their turn.
const MAX_ACCEPTED: usize = 64;

/// A pause after an accept(2) that failed, as without a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// From one question to a service that has nothing to answer with to the next, and the end of them.
const PENDING_INTERVAL: Duration = Duration::from_millis(50);
const MAX_PENDING: Duration = Duration::from_secs(5);

/// Answers requests; what it says goes to one who has to know it.
pub trait HttpService: Send + Sync + 'static {
    /// Must not block: all connections wait for it. None while there is nothing yet to answer with: it is asked again
    /// for some seconds.
    fn answer(&self, request: &HttpRequest) -> Option<Response>;
    /// A line about the configuration: what is wrong with it, or that it is right again.
    fn tell(&self, line: &str);
}

/// A server at work; dropping it closes the listener.
pub struct WebServer {
    control: Arc<ServerControl>,
    thread: Option<JoinHandle<()>>,
}

struct ServerControl {
    waker: Arc<Waker>,
    is_over: AtomicBool,
}

impl fmt::Debug for WebServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebServer").finish_non_exhaustive()
    }
}

impl WebServer {
    /// Serves in threads of its own.
    ///
    /// # Errors
    /// The kernel gives no thread or descriptor.
    pub fn start(
        listener: TcpListener,
        config: Option<WebConfig>,
        service: Arc<dyn HttpService>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let waker = Arc::new(Waker::new()?);
        let control =
            Arc::new(ServerControl { waker: Arc::clone(&waker), is_over: AtomicBool::default() });
        let remembered = Arc::new(CredentialCache::new()?);
        let verifier = Verifier::start(Arc::clone(&remembered), waker)?;
        let worker = ServerThread {
            listener,
            config,
            service,
            remembered,
            verifier,
            control: Arc::clone(&control),
            connections: Vec::new(),
            next_id: 0,
            accepts_from: Instant::now(),
            trouble: None,
        };
        let thread = Builder::new().name("mw-listen".to_owned()).spawn(move || worker.run())?;
        Ok(Self { control, thread: Some(thread) })
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.control.is_over.store(true, Ordering::Relaxed);
        self.control.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that serves.
struct ServerThread {
    listener: TcpListener,
    config: Option<WebConfig>,
    service: Arc<dyn HttpService>,
    remembered: Arc<CredentialCache>,
    verifier: Verifier,
    control: Arc<ServerControl>,
    connections: Vec<HttpConnection>,
    next_id: u64,
    accepts_from: Instant,
    /// Last message about the configuration.
    trouble: Option<String>,
}

impl ServerThread {
    fn run(mut self) {
        let _ = rustix::process::setpriority_process(None, NICE);
        while !self.control.is_over.load(Ordering::Relaxed) {
            let (ready, has_new) = self.wait();
            self.control.waker.clear();
            let verdicts: Vec<(u64, bool)> = self.verifier.verdicts().collect();
            let now = Instant::now();
            let mut index = 0;
            let mut connections = std::mem::take(&mut self.connections);
            connections.retain_mut(|connection| {
                let events = ready.get(index).copied().unwrap_or(PollFlags::empty());
                index += 1;
                let verdict = verdicts.iter().find(|(id, _)| *id == connection.id);
                let verdict = verdict.map(|(_, is_right)| *is_right);
                let goes_on =
                    now < connection.end() && self.go_on(connection, events, verdict, now);
                if !goes_on {
                    self.verifier.forget(connection.id);
                }
                goes_on
            });
            self.connections = connections;
            if has_new {
                self.accept();
            }
        }
    }

    /// Waits for an event: those of the connections, and whether there are new ones.
    fn wait(&self) -> (Vec<PollFlags>, bool) {
        let now = Instant::now();
        let listens = if now < self.accepts_from { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.control.waker, PollFlags::IN),
            PollFd::new(&self.listener, listens),
        ];
        fds.extend(self.connections.iter().map(|each| PollFd::new(each, each.events())));
        let ends = self.connections.iter().map(|each| match each.state {
            ConnectionState::Pending(_) => each.end().min(now + PENDING_INTERVAL),
            _ => each.end(),
        });
        let paused = (now < self.accepts_from).then_some(self.accepts_from);
        let left = ends.chain(paused).min().map(|end| end.saturating_duration_since(now));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut fds, timeout.as_ref()).is_err_and(|error| error != Errno::INTR) {
            // Without memory: it would be tried without a pause.
            std::thread::sleep(PAUSE);
        }
        let mut events = fds.iter().map(PollFd::revents).skip(1);
        let has_new = events.next().is_some_and(|events| !events.is_empty());
        (events.collect(), has_new)
    }

    fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTED {
            let (socket, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.accepts_from = Instant::now() + PAUSE;
                    return;
                }
            };
            // Without options of the socket it is closed.
            let Ok(new) = HttpConnection::new(self.next_id, socket, address.ip()) else { continue };
            self.next_id += 1;
            if self.connections.len() >= MAX_CONNECTIONS {
                let crowd: Vec<EvictionOrder> =
                    self.connections.iter().map(HttpConnection::standing).collect();
                if let Some(victim) = victim(&crowd) {
                    let closed = self.connections.swap_remove(victim);
                    self.verifier.forget(closed.id);
                }
            }
            self.connections.push(new);
        }
    }

    /// Does what can be done without waiting; false if the connection is to be closed.
    fn go_on(
        &mut self,
        connection: &mut HttpConnection,
        events: PollFlags,
        verdict: Option<bool>,
        now: Instant,
    ) -> bool {
        let is_ready = !events.is_empty();
        let done = match &connection.state {
            ConnectionState::Receiving(_) if is_ready => self.receive(connection),
            ConnectionState::Sending(_) if is_ready => connection.send(),
            ConnectionState::Lingering { .. } if is_ready => {
                return connection.linger().unwrap_or(false);
            }
            // Nothing but an error is polled for: the client has gone.
            ConnectionState::Unverified(_) | ConnectionState::Pending(_) if is_ready => {
                return false;
            }
            ConnectionState::Unverified(request) if verdict == Some(true) => {
                let request = request.clone();
                self.answer(connection, request, now)
            }
            ConnectionState::Unverified(request) if verdict == Some(false) => {
                let head_only = request.head_only;
                connection.respond(unauthorized(), head_only)
            }
            ConnectionState::Pending(request) => {
                let request = request.clone();
                self.answer(connection, request, now)
            }
            _ => Ok(()),
        };
        done.is_ok()
    }

    fn receive(&mut self, connection: &mut HttpConnection) -> io::Result<()> {
        let policy = match &connection.policy {
            Some(policy) => Arc::clone(policy),
            None => {
                let policy = self.policy().ok_or(ErrorKind::NotConnected)?;
                connection.set_policy(Arc::clone(&policy))?;
                policy
            }
        };
        let request = match connection.receive()? {
            None => return Ok(()),
            Some(Err(response)) => return connection.respond(response, false),
            Some(Ok(request)) => request,
        };
        if policy.users.is_empty() {
            return self.answer(connection, request, Instant::now());
        }
        match self.remembered.verdict(&policy, request.authorization.as_deref()) {
            AuthOutcome::Right => self.answer(connection, request, Instant::now()),
            AuthOutcome::Wrong => connection.respond(unauthorized(), request.head_only),
            AuthOutcome::Unverified(question) => {
                let (id, peer) = (connection.id, connection.peer());
                self.verifier.ask(VerifyJob { id, peer, question });
                connection.state = ConnectionState::Unverified(request);
                Ok(())
            }
        }
    }

    fn answer(
        &self,
        connection: &mut HttpConnection,
        request: HttpRequest,
        now: Instant,
    ) -> io::Result<()> {
        let is_late = now.saturating_duration_since(connection.begun()) >= MAX_PENDING;
        match self.service.answer(&request) {
            Some(response) => connection.respond(response, request.head_only),
            None if is_late => {
                let response = Response::plain(503, "not yet measured\n");
                connection.respond(response, request.head_only)
            }
            None => {
                connection.state = ConnectionState::Pending(request);
                Ok(())
            }
        }
    }

    /// None while the configuration is wrong, which is told once.
    fn policy(&mut self) -> Option<Arc<ConnectionPolicy>> {
        let Some(config) = &self.config else { return Some(Arc::default()) };
        let (policy, trouble) = match config.policy() {
            Ok(policy) => (Some(policy), None),
            Err(why) => (None, Some(why)),
        };
        if self.trouble != trouble {
            match &trouble {
                Some(why) => {
                    self.service
                        .tell(&format!("{why}; connections are closed until it is corrected"));
                }
                None => self.service.tell("the web configuration is right again"),
            }
            self.trouble = trouble;
        }
        policy
    }
}

fn unauthorized() -> Response {
    Response::plain(401, "Unauthorized\n")
}
