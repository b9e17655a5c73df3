//! Whom processes ask: those at the other end of the connections that they opened to others of this machine.
//!
//! A client's socket is the one whose other end is an address at which somebody listens. Of TCP it is found in the
//! client's own network namespace (/proc/PID/net/tcp), so that it may be a container's. A connection that was not
//! accepted yet is that of whoever listens.

use super::processes::{family, leader, owners, sockets as sockets_of};
use super::sockets;
use mw_proc::net_tcp::{self, ESTABLISHED, LISTEN, SYN_SENT, TcpSocket};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Maximum number of hops from one process to the next.
const MAX_HOPS: usize = 2;
/// The most processes that are found.
const MAX_UPSTREAMS: usize = 64;
/// The most sockets of a process that are looked at.
const MAX_SOCKETS: usize = 4096;
/// The most Unix sockets of a process that the kernel is asked about: 20 µs each.
const MAX_UNIX: usize = 64;

/// Pairs of processes, of which the first opened a connection to the second: those of `processes`, and of whom they
/// ask. Takes about `limit` at most.
pub fn upstreams(processes: &[u32], limit: Duration) -> Vec<(u32, u32)> {
    let deadline = Instant::now() + limit;
    let mut pairs: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut known: BTreeSet<u32> = processes.iter().copied().collect();
    let mut clients = processes.to_vec();
    for _ in 0..MAX_HOPS {
        let mut next = Vec::new();
        for (client, server) in asked_by(&clients, deadline) {
            if pairs.len() < MAX_UPSTREAMS && client != server {
                pairs.insert((client, server));
                next.extend(known.insert(server).then_some(server));
            }
        }
        clients = next;
    }
    pairs.into_iter().collect()
}

/// The other end of a client's socket.
struct PeerSocket {
    client: u32,
    inode: u64,
    is_accepted: bool,
}

fn asked_by(clients: &[u32], deadline: Instant) -> Vec<(u32, u32)> {
    let mut namespaces: HashMap<PathBuf, TcpSockets> = HashMap::new();
    let mut ends: Vec<PeerSocket> = Vec::new();
    for client in clients {
        if Instant::now() > deadline {
            break;
        }
        let own: BTreeSet<u64> = sockets_of(*client).take(MAX_SOCKETS).collect();
        let namespace = mw_sys::kernel_file::read_link(format!("/proc/{client}/ns/net"));
        if let (false, Ok(namespace)) = (own.is_empty(), namespace) {
            let tcp = namespaces.entry(namespace).or_insert_with(|| TcpSockets::of(*client));
            ends.extend(tcp.ends(*client, &own));
            ends.extend(unix_ends(*client, own.difference(&tcp.inodes)));
        }
    }
    let inodes: BTreeSet<u64> = ends.iter().map(|end| end.inode).collect();
    let inodes: Vec<u64> = inodes.into_iter().collect();
    let (found, _) = owners(&inodes, clients, deadline);
    let found: HashMap<u64, u32> = found.into_iter().collect();
    let mut asked = Vec::new();
    for PeerSocket { client, inode, is_accepted } in ends {
        let Some(server) = found.get(&inode).copied() else { continue };
        asked.push((client, server));
        if !is_accepted {
            asked.extend(family(leader(server), deadline).into_iter().map(|pid| (client, pid)));
        }
    }
    asked
}

/// The TCP sockets of a network namespace.
#[derive(Default)]
struct TcpSockets {
    /// By the addresses of both ends.
    sockets: HashMap<(SocketAddr, SocketAddr), TcpSocket>,
    listeners: BTreeMap<u16, Vec<(IpAddr, u64)>>,
    inodes: BTreeSet<u64>,
}

impl TcpSockets {
    /// That of a process.
    fn of(pid: u32) -> Self {
        let mut tcp = Self::default();
        for name in ["tcp", "tcp6"] {
            let text = sockets::read(&format!("/proc/{pid}/net/{name}"));
            for (local, remote, socket) in net_tcp::sockets(&text) {
                tcp.inodes.insert(socket.inode);
                if socket.state == LISTEN {
                    let at = tcp.listeners.entry(local.port()).or_default();
                    at.push((local.ip(), socket.inode));
                } else {
                    tcp.sockets.insert((local, remote), socket);
                }
            }
        }
        tcp
    }

    /// The other ends of the sockets with the inodes `own` that were connected to somebody who listens here.
    fn ends(&self, client: u32, own: &BTreeSet<u64>) -> Vec<PeerSocket> {
        let is_client = |(_, socket): &(&(SocketAddr, SocketAddr), &TcpSocket)| {
            own.contains(&socket.inode) && [ESTABLISHED, SYN_SENT].contains(&socket.state)
        };
        let end = |(local, remote): (SocketAddr, SocketAddr)| {
            // What was accepted is somebody else's request, even if they listen at the port that they called from.
            let listener = self.listener(remote).filter(|_| self.listener(local).is_none())?;
            match self.sockets.get(&(remote, local)).map(|other| other.inode) {
                Some(inode) if inode > 0 => Some(PeerSocket { client, inode, is_accepted: true }),
                None if !remote.ip().is_loopback() && remote.ip() != local.ip() => None,
                _ => Some(PeerSocket { client, inode: listener, is_accepted: false }),
            }
        };
        let clients = self.sockets.iter().filter(is_client);
        clients.filter_map(|(addresses, _)| end(*addresses)).collect()
    }

    /// Listener at an address, or at all of them.
    fn listener(&self, at: SocketAddr) -> Option<u64> {
        let listeners = self.listeners.get(&at.port())?;
        let exact = listeners.iter().find(|(ip, _)| *ip == at.ip());
        let listener = exact.or_else(|| listeners.iter().find(|(ip, _)| ip.is_unspecified()));
        listener.map(|(_, inode)| *inode)
    }
}

/// The other ends of Unix sockets that were connected to a path or name.
fn unix_ends<'a>(client: u32, sockets: impl Iterator<Item = &'a u64>) -> Vec<PeerSocket> {
    let peer = |inode: &u64| {
        let peer = sockets::unix_peer(*inode).filter(|peer| *peer > 0)?;
        // What was accepted has the name of the socket that listens; who connects has none.
        let is_client = !sockets::unix_has_name(*inode)? && sockets::unix_has_name(peer)?;
        is_client.then_some(PeerSocket { client, inode: peer, is_accepted: true })
    };
    sockets.take(MAX_UNIX).filter_map(peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    const LIMIT: Duration = Duration::from_secs(10);

    /// This test program again, as a process that connects and then waits for its standard input to end.
    fn proxy_to(address: &str) -> Child {
        let program = std::env::current_exe().unwrap();
        let mut proxy = Command::new(program)
            .args(["--exact", "service::upstreams::tests::connects", "--nocapture", "--ignored"])
            .env("ADDRESS", address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(proxy.stdout.as_mut().unwrap()).lines();
        lines.map(Result::unwrap).find(|line| line.contains("connected")).unwrap();
        proxy
    }

    #[test]
    #[ignore = "the other process of the tests below"]
    fn connects() {
        let address = std::env::var("ADDRESS").unwrap();
        let _tcp = address.parse().ok().map(|at: SocketAddr| TcpStream::connect(at).unwrap());
        let _unix = address.starts_with('/').then(|| UnixStream::connect(&address).unwrap());
        println!("\nconnected");
        let _ = std::io::stdin().read_line(&mut String::new());
    }

    /// A process that connects to `address` asks this one, which does not ask it.
    fn asked(address: &str, accept: impl FnOnce() -> Box<dyn std::any::Any>) {
        let (mut proxy, own) = (proxy_to(address), std::process::id());
        let asks = || upstreams(&[proxy.id()], LIMIT).contains(&(proxy.id(), own));
        assert!(asks(), "{address}, not accepted");
        let accepted = accept();
        assert!(asks(), "{address}");
        assert!(upstreams(&[own], LIMIT).iter().all(|(_, server)| *server != proxy.id()));
        drop((accepted, proxy.stdin.take()));
        proxy.wait().unwrap();
    }

    /// Promise (Tracing: why): Whom a process asks over TCP and Unix sockets is found by its connections.
    #[test]
    fn whom_a_process_asks_over_tcp() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            let server = TcpListener::bind(address).unwrap();
            let ip = if address.starts_with('[') { "[::1]" } else { "127.0.0.1" };
            let at = format!("{ip}:{}", server.local_addr().unwrap().port());
            asked(&at, || Box::new(server.accept().unwrap()));
        }
    }

    #[test]
    fn whom_a_process_asks_over_a_unix_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let server = UnixListener::bind(&path).unwrap();
        let mut proxy = proxy_to(path.to_str().unwrap());
        let accepted = server.accept().unwrap();
        let own = std::process::id();
        assert_eq!(upstreams(&[proxy.id()], LIMIT), [(proxy.id(), own)]);
        assert!(upstreams(&[own], LIMIT).iter().all(|(_, server)| *server != proxy.id()));
        drop((accepted, proxy.stdin.take()));
        proxy.wait().unwrap();
    }

    #[test]
    fn a_remote_end_is_nobody_here() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let socket = |inode| TcpSocket { state: ESTABLISHED, inode, waiting: 0, limit: None };
        let mut tcp = TcpSockets::default();
        tcp.listeners.insert(5432, vec![(at("0.0.0.0:1").ip(), 9)]);
        tcp.sockets.insert((at("10.0.0.1:40000"), at("10.0.0.5:5432")), socket(7));
        assert!(tcp.ends(1, &[7].into()).is_empty());
        tcp.sockets.insert((at("10.0.0.1:40001"), at("10.0.0.1:5432")), socket(8));
        let ends = tcp.ends(1, &[7, 8].into());
        assert_eq!(ends.iter().map(|end| end.inode).collect::<Vec<_>>(), [9]);
        tcp.listeners.insert(40001, vec![(at("10.0.0.1:1").ip(), 10)]);
        assert!(tcp.ends(1, &[8].into()).is_empty(), "it was accepted there");
    }

    #[test]
    fn who_is_gone_asks_nobody() {
        assert_eq!(upstreams(&[u32::MAX, 0], LIMIT), []);
        assert_eq!(upstreams(&[std::process::id()], Duration::ZERO), []);
    }
}
