#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use super::*;
use crate::KernelLog;
use mw_model::{Absence, EndKind};
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

/// Searches where that is due.
fn refresh(tracker: &mut ServiceTracker, connection: Option<&Connection>) {
    if let Some(search) = tracker.search(connection) {
        tracker.note(search.run(SEARCH_LIMIT));
    }
}

const PATIENCE: Duration = Duration::from_secs(10);

fn tcp(stream: &TcpStream) -> Connection {
    Connection::Tcp { local: stream.local_addr().ok(), peer: stream.peer_addr().unwrap() }
}

fn tracker() -> ServiceTracker {
    ServiceTracker::new(None).unwrap()
}

/// A server in Python that accepts connections in a child of its own; it ends with the test.
struct Forking(Child, SocketAddr);

impl Forking {
    fn start() -> Self {
        let program = "
import os, socket, sys
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(5)
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    if os.fork() == 0:
        s.close(); c.send(b'x'); c.recv(1); sys.exit()
    c.close()
";
        let mut command = Command::new("python3");
        let mut child =
            command.args(["-c", program]).stdout(Stdio::piped()).spawn().expect("python3");
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self(child, format!("127.0.0.1:{}", port.trim()).parse().unwrap())
    }

    /// A connection whose child no longer has the listening socket.
    fn connect(&self) -> TcpStream {
        let mut client = TcpStream::connect(self.1).unwrap();
        client.read_exact(&mut [0]).unwrap();
        client
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn refused(peer: SocketAddr) -> Connection {
    Connection::Tcp { local: None, peer }
}

#[test]
fn the_service_behind_a_connection_is_this_process() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let mut tracker = tracker();
    refresh(&mut tracker, Some(&tcp(&client)));
    let service = tracker.service().unwrap();
    assert_eq!(service.processes[0].pid, std::process::id());
    assert_eq!(service.found_by, format!("listens on {}", server.local_addr().unwrap()));
    assert!(service.cgroup.is_some(), "{service:?}");
    let _accepted = server.accept().unwrap();
    let mut tracker = self::tracker();
    refresh(&mut tracker, Some(&tcp(&client)));
    assert_eq!(tracker.service().unwrap().found_by, "peer of the probe's connection");
}

#[test]
fn a_unix_socket_leads_to_its_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = UnixListener::bind(&path).unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    let own = std::process::id();
    for listener in [Some(own), None] {
        let mut tracker = tracker();
        refresh(
            &mut tracker,
            Some(&Connection::Unix { path: path.clone(), inode: None, listener }),
        );
        assert_eq!(tracker.service().unwrap().processes[0].pid, own);
    }
    let connection = Connection::Unix { path, inode: None, listener: None };
    assert_eq!(listen_queue(&connection).unwrap().waiting, 1);
    drop(server);
}

/// Promise (The recorder): The service behind a probe's connection is found, and what became of it when it is gone.
#[test]
fn a_forked_server_is_found_with_its_listener_and_again_after_a_restart() {
    let server = Forking::start();
    let client = server.connect();
    let begun = Instant::now();
    // The child holds the connection alone once the parent has closed its copy.
    let (mut tracker, service) = loop {
        let mut tracker = tracker();
        refresh(&mut tracker, Some(&tcp(&client)));
        // On a busy machine a search may end without a result.
        let service = tracker.service().cloned();
        match service {
            Ok(service) if service.processes[0].pid != server.0.id() => break (tracker, service),
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    assert!(service.processes.iter().any(|process| process.pid == server.0.id()));
    assert!(service.processes[0].name.starts_with("python"), "{service:?}");
    // Another connection, to the same server.
    let other = server.connect();
    refresh(&mut tracker, Some(&tcp(&other)));
    assert!(tracker.service().is_ok());
    let (pid, address) = (server.0.id(), server.1);
    drop((client, other, server));
    refresh(&mut tracker, Some(&refused(address)));
    assert!(tracker.service().is_ok(), "it stays known");
    let mut log = KernelLog::open();
    let now = mw_sys::unix_ms();
    let begun = Instant::now();
    let outage = loop {
        let outage = tracker.outage(Some(&refused(address)), now, &mut log).unwrap();
        // A process that ends is not gone at once.
        if (!outage.listens && outage.ended.is_some()) || begun.elapsed() > PATIENCE {
            break outage;
        }
    };
    assert!(!outage.listens && outage.listener.is_none());
    assert!(tracker.has_ended());
    let ended = outage.ended.unwrap();
    assert_eq!(ended.process.pid, pid);
    let text = outage.text;
    assert!(text.starts_with(&format!("nothing listens on {address}; python3")), "{text}");
    match ended.how {
        EndKind::Signalled => assert!(text.ends_with("was killed by SIGKILL"), "{text}"),
        how => assert_eq!(how, EndKind::Unknown, "a kernel before 6.15"),
    }
}

#[test]
fn what_is_not_here_is_missing_with_the_reason() {
    let mut tracker = tracker();
    refresh(&mut tracker, None);
    assert!(tracker.service().unwrap_err().why.contains("service = "), "an exec: probe");
    assert_eq!(tracker.outage(None, 0, &mut KernelLog::open()), None);
    let mut tracker = self::tracker();
    // TEST-NET-1 (RFC 5737).
    let connection = Connection::Tcp {
        local: Some("10.1.2.3:4".parse().unwrap()),
        peer: "192.0.2.1:80".parse().unwrap(),
    };
    refresh(&mut tracker, Some(&connection));
    let missing = tracker.service().unwrap_err();
    assert_eq!(
        (missing.absence, missing.why.as_str()),
        (Absence::Skipped, "it is not on this machine")
    );
    let mut tracker = self::tracker();
    refresh(&mut tracker, Some(&refused("127.0.0.1:1".parse().unwrap())));
    assert_eq!(tracker.service().unwrap_err().why, "nothing listens there");
}

/// Promise (The recorder): A service that was started again is found as soon as the probe has a connection to it.
#[test]
fn a_search_that_failed_rests_until_there_is_another_connection() {
    let mut tracker = tracker();
    refresh(&mut tracker, None);
    assert!(tracker.search(None).is_none());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    refresh(&mut tracker, Some(&tcp(&client)));
    assert!(tracker.service().is_ok());
}

#[test]
fn a_full_queue_is_seen() {
    let server = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&server, &any).unwrap();
    rustix::net::listen(&server, 0).unwrap();
    let peer: SocketAddr = rustix::net::getsockname(&server).unwrap().try_into().unwrap();
    assert!(!listen_queue(&refused(peer)).unwrap().is_full());
    let _client = TcpStream::connect(peer).unwrap();
    assert!(listen_queue(&refused(peer)).unwrap().is_full());
}
