//! Sockets by address, through sock_diag(7), or from /proc/net/tcp where the kernel lacks it.

use mw_proc::net_tcp::{self, TcpSocket};
use mw_sys::kernel_file;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// The kernel answers at once.
const ANSWER_LIMIT: Duration = Duration::from_millis(20);
/// Limit of bytes read of a file in /proc/net: 25,000 sockets.
const MAX_FILE_BYTES: u64 = 4 << 20;
const ANSWER_BYTES: usize = 8192;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const HEADER_BYTES: usize = 16;
pub(super) const IPPROTO_TCP: u8 = 6;
const AF_UNIX: u8 = 1;
pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;
const ANY_STATE: u32 = u32::MAX;
/// No cookie (INET_DIAG_NOCOOKIE).
pub(super) const NO_COOKIE: [u8; 8] = [0xff; 8];

/// The socket of `local` that is connected to `remote`, or that listens there.
pub(super) fn tcp(local: SocketAddr, remote: Option<SocketAddr>) -> Option<TcpSocket> {
    match exchange(&tcp_request(local, remote), NLM_F_REQUEST) {
        Ok(answer) => tcp_answer(&answer).filter(|socket| {
            // Where there is no such connection the kernel tells of who listens.
            (socket.state == net_tcp::LISTEN) == remote.is_none()
        }),
        Err(Errno::NOENT) if has_tcp_diag() => None,
        Err(_) => ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .find_map(|path| net_tcp::find(&read(path), local, remote)),
    }
}

/// struct inet_diag_req_v2 (linux/inet_diag.h).
fn tcp_request(local: SocketAddr, remote: Option<SocketAddr>) -> Vec<u8> {
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut request = vec![family, IPPROTO_TCP, 0, 0];
    request.extend(ANY_STATE.to_ne_bytes());
    request.extend(local.port().to_be_bytes());
    request.extend(remote.map_or(0, |remote| remote.port()).to_be_bytes());
    request.extend(words(Some(local.ip())));
    request.extend(words(remote.map(|remote| remote.ip())));
    request.extend([0; 4]);
    request.extend(NO_COOKIE);
    request
}

/// True if the kernel knows of TCP sockets here. Without its module (tcp_diag) it says of each that there is none.
fn has_tcp_diag() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let of_no_state = || {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut request = tcp_request(any, None);
        request[4..8].fill(0);
        exchange(&request, NLM_F_REQUEST | NLM_F_DUMP)
    };
    *HAS.get_or_init(|| of_no_state() != Err(Errno::NOENT))
}

/// An address as four words in network order.
fn words(address: Option<IpAddr>) -> [u8; 16] {
    match address {
        Some(IpAddr::V6(address)) => address.octets(),
        Some(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        None => [0; 16],
    }
}

/// struct inet_diag_msg: family, state, two of timers, the socket's id (48), expiry, receive queue, send
/// queue, user, inode. The receive queue of a listening socket is what waits to be accepted.
fn tcp_answer(message: &[u8]) -> Option<TcpSocket> {
    let word = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
    Some(TcpSocket {
        state: *message.get(1)?,
        inode: word(68)?.into(),
        waiting: word(56)?,
        limit: word(60),
    })
}

/// The inode of the socket at the other end of a Unix connection.
pub(super) fn unix_peer(inode: u64) -> Option<u64> {
    const UDIAG_SHOW_PEER: u32 = 4;
    const UNIX_DIAG_PEER: u16 = 2;
    let answer = exchange(&unix_request(inode, UDIAG_SHOW_PEER)?, NLM_F_REQUEST).ok()?;
    let peer = attribute(answer.get(16..)?, UNIX_DIAG_PEER)?;
    Some(u32::from_ne_bytes(peer.try_into().ok()?).into())
}

/// True if a Unix socket is bound to a path or name.
pub(super) fn unix_has_name(inode: u64) -> Option<bool> {
    const UDIAG_SHOW_NAME: u32 = 1;
    const UNIX_DIAG_NAME: u16 = 0;
    let answer = exchange(&unix_request(inode, UDIAG_SHOW_NAME)?, NLM_F_REQUEST).ok()?;
    Some(attribute(answer.get(16..)?, UNIX_DIAG_NAME).is_some())
}

/// Connections that wait to be accepted at a listening Unix socket, and how many there may be.
pub(super) fn unix_queue(inode: u64) -> Option<(u32, u32)> {
    const UDIAG_SHOW_RQLEN: u32 = 16;
    const UNIX_DIAG_RQLEN: u16 = 4;
    let answer = exchange(&unix_request(inode, UDIAG_SHOW_RQLEN)?, NLM_F_REQUEST).ok()?;
    let queue = attribute(answer.get(16..)?, UNIX_DIAG_RQLEN)?;
    let word = |at: usize| Some(u32::from_ne_bytes(queue.get(at..at + 4)?.try_into().ok()?));
    Some((word(0)?, word(4)?))
}

/// The inode of the socket that listens at a path, from /proc/net/unix.
pub(super) fn unix_listener(path: &Path) -> Option<u64> {
    const LISTENS: &str = "00010000";
    let text = read("/proc/net/unix");
    let text = String::from_utf8_lossy(&text);
    let path = path.to_str()?;
    text.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = fields.get(3) == Some(&LISTENS) && fields.get(7) == Some(&path);
        is_it.then(|| fields.get(6)?.parse().ok()).flatten()
    })
}

/// struct unix_diag_req (linux/unix_diag.h).
fn unix_request(inode: u64, show: u32) -> Option<Vec<u8>> {
    let mut request = vec![AF_UNIX, 0, 0, 0];
    request.extend(ANY_STATE.to_ne_bytes());
    request.extend(u32::try_from(inode).ok()?.to_ne_bytes());
    request.extend(show.to_ne_bytes());
    request.extend(NO_COOKIE);
    Some(request)
}

/// The payload of the first attribute of a type.
pub(super) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let bytes = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let payload = attributes.get(4..bytes)?;
        if kind == wanted {
            return Some(payload);
        }
        attributes = attributes.get(bytes.next_multiple_of(4)..)?;
    }
}

/// Sends one request and returns the message of its answer.
fn exchange(payload: &[u8], flags_of_request: u16) -> Result<Vec<u8>, Errno> {
    let socket = open()?;
    send(&socket, &request(payload, flags_of_request)?, SendFlags::empty())?;
    let mut answer = [0; ANSWER_BYTES];
    let (_, received) = recv(&socket, &mut answer, RecvFlags::empty())?;
    message(answer.get(..received).unwrap_or_default())
}

/// A socket that asks about the network namespace of the thread that opens it.
pub(super) fn open() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_LIMIT))?;
    Ok(socket)
}

/// The message of a request.
pub(super) fn request(payload: &[u8], flags: u16) -> Result<Vec<u8>, Errno> {
    let bytes = u32::try_from(HEADER_BYTES + payload.len()).map_err(|_| Errno::INVAL)?;
    let mut request = bytes.to_ne_bytes().to_vec();
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence and port: there is one request under way, and the kernel knows who asks.
    request.extend([0; 8]);
    request.extend(payload);
    Ok(request)
}

fn message(answer: &[u8]) -> Result<Vec<u8>, Errno> {
    let bytes = answer.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    let end = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    let message = answer.get(HEADER_BYTES..end).ok_or(Errno::BADMSG)?;
    if kind == Some(NLMSG_ERROR) {
        let error = message.get(..4).and_then(|error| error.try_into().ok());
        return Err(Errno::from_raw_os_error(-error.map_or(-1, i32::from_ne_bytes)));
    }
    Ok(message.to_vec())
}

pub(super) fn read(path: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let file = kernel_file::open(path).map(|file| file.take(MAX_FILE_BYTES));
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(socket: &impl std::os::fd::AsRawFd) -> u64 {
        std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino()
    }

    fn both_ways(address: &str) {
        let server = TcpListener::bind(address).unwrap();
        let at = server.local_addr().unwrap();
        let ip = if at.is_ipv4() { "127.0.0.1" } else { "::1" };
        let at = SocketAddr::new(ip.parse().unwrap(), at.port());
        let listener = tcp(at, None).unwrap();
        assert_eq!((listener.inode, listener.waiting), (inode(&server), 0));
        let client = TcpStream::connect(at).unwrap();
        let own = client.local_addr().unwrap();
        let waiting = tcp(at, None).unwrap();
        assert_eq!((waiting.waiting, waiting.limit), (1, Some(128)));
        assert_eq!(tcp(at, Some(own)).map(|socket| socket.inode), Some(0), "not accepted");
        let (accepted, _) = server.accept().unwrap();
        assert_eq!(tcp(at, Some(own)).map(|socket| socket.inode), Some(inode(&accepted)));
        drop((server, accepted));
        assert_eq!(tcp(at, None), None);
    }

    #[test]
    fn without_the_kernels_module_the_file_is_read() {
        // Whether this kernel has it is known by other means.
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let answers = exchange(&tcp_request(at, None), NLM_F_REQUEST).is_ok();
        assert_eq!(has_tcp_diag(), answers);
        assert_eq!(
            net_tcp::find(&read("/proc/net/tcp"), at, None),
            tcp(at, None).map(|known| { TcpSocket { limit: None, ..known } })
        );
    }

    #[test]
    fn tcp_sockets_are_found() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            both_ways(address);
        }
    }

    #[test]
    fn unix_sockets_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let server = UnixListener::bind(&path).unwrap();
        assert_eq!(unix_listener(&path), Some(inode(&server)));
        let client = UnixStream::connect(&path).unwrap();
        assert_eq!(unix_queue(inode(&server)).map(|queue| queue.0), Some(1));
        let (accepted, _) = server.accept().unwrap();
        assert_eq!(unix_peer(inode(&client)), Some(inode(&accepted)));
    }

    #[test]
    fn answers_are_read_whatever_they_are() {
        assert_eq!(message(&[]), Err(Errno::BADMSG));
        let mut error = [0; 20];
        error[0] = 20;
        error[4] = 2;
        error[16..].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(message(&error), Err(Errno::NOENT));
        assert_eq!(tcp_answer(&[0; 10]), None);
        assert_eq!(attribute(&[4, 0, 2, 0], 1), None);
        assert_eq!(attribute(&[3, 0, 1, 0], 1), None);
    }
}
