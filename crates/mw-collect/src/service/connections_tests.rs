//! Connections of real processes: this test program again, on this machine and in a network namespace of its own.

use super::*;
use mw_model::PeerReply::{self, Acknowledgement, Answer, Connection};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

/// Instead of an address, where the other process has a network namespace of its own.
const OWN_NETWORK: &str = "own network";

const LIMIT: Duration = Duration::from_secs(10);

/// A process that runs a test of this file until its standard input ends.
struct OtherProcess(Child);

impl OtherProcess {
    fn start(mut command: Command, test: &str, address: &str) -> Self {
        let name = format!("service::connections::tests::{test}");
        let child = command
            .args(["--exact", &name, "--nocapture", "--ignored"])
            .env("ADDRESS", address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut other = Self(child);
        other.wait_for("asked");
        other
    }

    fn wait_for(&mut self, word: &str) {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        lines.map(Result::unwrap).find(|line| line == word).unwrap();
    }

    /// What it waits for, for how long, and on which connection.
    fn waits(&self) -> Vec<(PeerReply, u64, ServiceConnection)> {
        let found = waiting_connections(&[self.0.id()], LIMIT);
        assert_eq!(found.unseen, []);
        let awaited = |connection: ServiceConnection| {
            let (reply, ms) = connection.awaited().unwrap();
            assert_eq!(connection.process.pid, self.0.id());
            (reply, ms, connection)
        };
        found.connections.into_iter().map(awaited).collect()
    }

    fn replies(&self) -> Vec<PeerReply> {
        let mut replies: Vec<PeerReply> = self.waits().iter().map(|wait| wait.0).collect();
        replies.sort_unstable();
        replies
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn in_own_network() -> Command {
    let mut command = Command::new("unshare");
    command.arg("-n").arg(std::env::current_exe().unwrap());
    command
}

/// Prints `asked`, and waits for standard input to end.
fn stay() {
    println!("\nasked");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Waits for the next tick of the kernel's clock, of which there are at least 100 a second.
fn next_tick() {
    std::thread::sleep(Duration::from_millis(10));
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"?").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
#[ignore = "the other process of the tests below"]
fn asks() {
    let address: SocketAddr = std::env::var("ADDRESS").unwrap().parse().unwrap();
    let mut answered = TcpStream::connect(address).unwrap();
    ask(&mut answered);
    let mut asked = TcpStream::connect(address).unwrap();
    ask(&mut asked);
    next_tick();
    asked.write_all(b"?").unwrap();
    stay();
}

/// A service has an idle connection, and one on which it asks.
///
/// Promise (Tracing: why): The peer that a service waits for
/// is found by its connections, and one that has answered is not.
#[test]
fn who_does_not_answer_is_found() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let accept = std::thread::spawn(move || {
        let accept = || {
            let (mut stream, _) = server.accept().unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"!").unwrap();
            stream
        };
        (accept(), accept(), server)
    });
    let other = OtherProcess::start(this_program(), "asks", &at.to_string());
    let (idle, mut silent, server) = accept.join().unwrap();
    silent.read_exact(&mut [0]).unwrap();
    mw_test::wait_until("a wait that can be measured", LIMIT, || {
        other.waits().first().is_some_and(|wait| wait.1 >= 50)
    });
    let waits = other.waits();
    let [(Answer, ms, connection)] = waits.as_slice() else { panic!("{waits:?}") };
    assert_eq!((connection.peer, connection.local), (Some(at), silent.peer_addr().ok()));
    assert!((50..LIMIT.as_millis() as u64).contains(ms), "{ms}");
    assert_eq!((connection.unacknowledged, connection.timeouts), (0, 0), "{connection:?}");
    let own = waiting_connections(&[std::process::id()], LIMIT).connections;
    assert!(own.iter().all(|own| own.local != Some(at)), "it was accepted: {own:?}");
    silent.write_all(b"!").unwrap();
    mw_test::wait_until("the answer to arrive", LIMIT, || other.replies().is_empty());
    drop((idle, silent, server));
}

fn ip(arguments: &str) {
    let arguments = arguments.split(' ');
    assert!(Command::new("ip").args(arguments).status().unwrap().success());
}

fn connect_from(local: &str, peer: &str) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &local.parse::<SocketAddr>().unwrap()).unwrap();
    connect(&socket, &peer.parse::<SocketAddr>().unwrap()).unwrap();
    socket.into()
}

/// A client and its server; the network between them loses everything from then on.
#[test]
#[ignore = "the other process of the test below"]
fn loses_packets() {
    // Run by itself, it would change the network of this machine.
    assert_eq!(std::env::var("ADDRESS").as_deref(), Ok(OWN_NETWORK));
    for arguments in
        ["link set lo up", "addr add 10.9.9.1/32 dev lo", "addr add 10.9.9.2/32 dev lo"]
    {
        ip(arguments);
    }
    let server = TcpListener::bind("10.9.9.1:5432").unwrap();
    let mut client = connect_from("10.9.9.2:0", "10.9.9.1:5432");
    let (mut accepted, _) = server.accept().unwrap();
    client.write_all(b"?").unwrap();
    accepted.read_exact(&mut [0]).unwrap();
    accepted.write_all(b"!").unwrap();
    client.read_exact(&mut [0]).unwrap();
    // What arrives for an address that nobody has is dropped.
    ip("addr del 10.9.9.1/32 dev lo");
    ip("route add 10.9.9.1/32 dev lo src 10.9.9.2");
    client.write_all(b"?").unwrap();
    std::thread::spawn(|| TcpStream::connect("10.9.9.1:5432"));
    let resolver = UdpSocket::bind("10.9.9.2:0").unwrap();
    resolver.connect("10.9.9.1:53").unwrap();
    let log = UdpSocket::bind("10.9.9.2:0").unwrap();
    log.connect("10.9.9.1:514").unwrap();
    stay();
}

/// Promise (Tracing: why): Connections of a service in another network namespace are read there: what is not
/// acknowledged, what is not established, and questions to a name server.
#[test]
fn lost_packets_are_found_in_another_network_namespace() {
    if !mw_test::is_root() {
        return;
    }
    let other = OtherProcess::start(in_own_network(), "loses_packets", OWN_NETWORK);
    mw_test::wait_until("segments to be sent again", LIMIT, || {
        other.replies() == [Acknowledgement, Connection, Answer]
            && other.waits().iter().all(|wait| wait.1 >= 600 || wait.0 == Answer)
    });
    for (reply, ms, connection) in other.waits() {
        let port = connection.peer.unwrap().port();
        assert_eq!(port, if reply == Answer { 53 } else { 5432 }, "{connection:?}");
        assert_eq!(connection.is_connecting, reply == Connection);
        match reply {
            Answer => assert_eq!((connection.transport, ms), (Transport::Udp, 0)),
            Acknowledgement => {
                assert!(connection.timeouts > 0 && connection.retransmitted > 0, "{connection:?}");
            }
            Connection => assert!(ms < LIMIT.as_millis() as u64, "{connection:?}"),
        }
    }
    let elsewhere = waiting_connections(&[std::process::id()], LIMIT).connections;
    let lost: SocketAddr = "10.9.9.1:5432".parse().unwrap();
    assert!(elsewhere.iter().all(|found| found.peer != Some(lost)), "{elsewhere:?}");
}

/// A connection that the kernel drops because of a full listen queue is not lost on the network.
#[test]
#[ignore = "the other process of the test below"]
fn fills_a_queue() {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    let server = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&server, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    listen(&server, 0).unwrap();
    let server = TcpListener::from(server);
    let at = server.local_addr().unwrap();
    let _queued = TcpStream::connect(at).unwrap();
    std::thread::spawn(move || TcpStream::connect(at));
    mw_test::wait_until("a SYN", LIMIT, || {
        let sent = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let peer = format!("0100007F:{:04X} 02", at.port());
        sent.contains(&peer)
    });
    stay();
}

#[test]
fn a_full_queue_is_not_the_network() {
    let other = OtherProcess::start(this_program(), "fills_a_queue", "");
    assert_eq!(other.replies(), []);
}

#[test]
fn who_is_gone_waits_for_nobody() {
    let found = waiting_connections(&[u32::MAX, 0], LIMIT);
    assert!(found.connections.is_empty() && found.unseen.is_empty(), "{found:?}");
    let own = [std::process::id()];
    let late = waiting_connections(&own, Duration::ZERO);
    assert!(late.connections.is_empty() && late.unseen.len() == 1, "{late:?}");
}

/// CPU time of a reading of this process: without connections, and with 1,000 sockets of which one waits.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_reading() {
    let measure = |what: &str| {
        let mut costs: Vec<Duration> = (0..50)
            .map(|_| {
                let before = mw_sys::thread_time();
                waiting_connections(&[std::process::id()], LIMIT);
                mw_sys::thread_time().saturating_sub(before)
            })
            .collect();
        costs.sort_unstable();
        println!("{what}: {:?} ({:?} to {:?})", costs[25], costs[0], costs[49]);
    };
    measure("idle");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        (client, server.accept().unwrap())
    };
    let mut pairs: Vec<_> = (0..500).map(|_| connect()).collect();
    next_tick();
    pairs[0].0.write_all(b"?").unwrap();
    measure("1,000 sockets");
}
