//! Clients that lie, flood, send half a message or odd descriptors, hold on, or want what is not
//! theirs: bounded, counted, refused; others are served as before.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::strange::{connected, send_with};
use common::{MIB, Memory, Running, eventually, spec};
use mw_pool::protocol::{ClientRequest, MAX_MESSAGE_BYTES, Refusal, Reply};
use mw_pool::{Attach, Client, Error, Owners, PoolSpec};
use rustix::fs::{Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, fstat, ftruncate, open};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const USERS: [u32; 2] = [4001, 4002];

/// The next reply; none when the server has closed.
fn reply(from: &OwnedFd) -> Option<(Reply, Vec<OwnedFd>)> {
    let mut bytes = [0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(from, &mut parts, &mut control, flags).map_or(0, |got| got.bytes);
    let fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let fds = fds.collect();
    (got > 0).then(|| (Reply::decode(&bytes[..got]).unwrap(), fds))
}

fn refusal(reply: Option<(Reply, Vec<OwnedFd>)>) -> Refusal {
    match reply {
        Some((Reply::Refused(refusal, _), _)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Promise (The pool): Incomplete messages, floods, unexpected descriptors, malformed messages and permanent leases
/// are bounded, and other clients are served.
#[test]
fn malformed_messages_are_refused_and_the_next_client_is_served() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 16);
    let whole = ClientRequest::Attach { pool: pool.clone(), bytes: MIB, keep: None, segment: None }
        .encode();
    let mut long = whole.clone();
    long.resize(2 * MAX_MESSAGE_BYTES, 0);
    let mut other_version = whole.clone();
    other_version[4] = 77;
    for bytes in [&whole[..whole.len() / 2], &whole[..3], &[0xFF; 100], &long, &other_version] {
        let to = connected(&server.socket);
        send(&to, bytes, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(refusal(reply(&to)), Refusal::Protocol);
        assert!(reply(&to).is_none(), "the connection stays");
    }
    // Nothing at all, and gone; gone before the answer.
    send(connected(&server.socket), &[], SendFlags::NOSIGNAL).unwrap();
    drop(connected(&server.socket));
    send(connected(&server.socket), &whole, SendFlags::NOSIGNAL).unwrap();
    let state = server.client.server().unwrap();
    assert_eq!(state.bad_messages_total, 4);
    server.whole("db");
    drop(server.client.attach(&Attach::new(pool, 16 * MIB).wait(LONG)).unwrap());
}

#[test]
fn unexpected_descriptors_are_refused_or_dropped() {
    let server = Running::new(1 << 30);
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let many = vec![&null; 253];
    let mut refused = 0;
    for _ in 0..8 {
        let to = connected(&server.socket);
        let bytes = ClientRequest::Server.encode();
        match send_with(&to, &bytes, &many) {
            // Linux 6.16: the sender is told so.
            Err(rustix::io::Errno::PERM) => refused += 1,
            sent => {
                sent.unwrap();
                assert!(matches!(reply(&to), Some((Reply::Server(_), fds)) if fds.is_empty()));
            }
        }
    }
    let dropped = server.client.server().unwrap().stray_descriptors_total;
    assert_eq!(refused + dropped, 8);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let nulls = open
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == Path::new("/dev/null")));
    assert!(nulls.count() < 20, "they stay open");
}

#[test]
fn a_flood_is_refused_while_it_lasts() {
    let server = Running::new(1 << 30);
    let to = connected(&server.socket);
    let mut refused = false;
    for _ in 0..20_000 {
        if send(&to, &ClientRequest::Server.encode(), SendFlags::NOSIGNAL).is_err() {
            break;
        }
        match reply(&to) {
            Some((Reply::Server(_), _)) => {}
            Some((Reply::Refused(Refusal::Limit, _), _)) => refused = true,
            other => assert!(refused, "{other:?}"),
        }
    }
    assert!(refused);
    let crowd: Vec<OwnedFd> = (0..64).map(|_| connected(&server.socket)).collect();
    let error = server.client.server().unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::Limit, _)), "all connections: {error}");
    drop(crowd);
    eventually("others are served again", || {
        // Too many requests are refused.
        std::thread::sleep(Duration::from_millis(50));
        server.client.server().is_ok()
    });
    assert!(server.log.lock().unwrap().len() < 200, "the log is flooded");
}

#[test]
fn a_permanent_lease_with_malformed_messages_is_bounded() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 16);
    let held = server.client.attach(&Attach::new(pool.clone(), 8 * MIB)).unwrap();
    for _ in 0..10_000 {
        if send(held.token(), b"nonsense", SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
            break;
        }
    }
    let other = server.client.attach(&Attach::new(pool.clone(), 8 * MIB).wait(LONG)).unwrap();
    drop(other);
    eventually("it is heard no more", || {
        (1..100).contains(&server.client.server().unwrap().bad_messages_total)
    });
    drop(held);
    server.whole("db");
    let again = server.client.attach(&Attach::new(pool, 16 * MIB).wait(LONG)).unwrap();
    assert!(Memory::own().is_all(&again, 0));
}

#[test]
fn one_user_has_a_limited_number_of_leases() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 512);
    let mut held = Vec::new();
    let error = loop {
        match server.client.attach(&Attach::new(pool.clone(), MIB).lock(false)) {
            Ok(lease) => held.push(lease),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Refused(Refusal::Limit, _)), "{error}");
    assert_eq!(held.len(), 64, "{error}");
}

/// Runs a test of this program as another user; `out` is its standard output.
fn as_user(user: u32, role: &str, socket: &Path, out: Stdio) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]).env("MW_POOL_SOCKET", socket);
    command.stdout(out).uid(user).gid(user).status().unwrap().success()
}

fn given_socket() -> PathBuf {
    PathBuf::from(std::env::var_os("MW_POOL_SOCKET").unwrap())
}

fn shared(trusting: bool) -> PoolSpec {
    let owners = Owners { users: USERS.to_vec(), groups: Vec::new() };
    PoolSpec { owners, trusting, ..spec("db", 8) }
}

fn of_users(spec: &PoolSpec) -> Option<Running> {
    if !rustix::process::geteuid().is_root() {
        mw_test::skip("needs root");
        return None;
    }
    let server = Running::new(1 << 30);
    let dir = server.socket.parent().unwrap();
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    server.client.create(spec).unwrap();
    server.whole("db");
    Some(server)
}

/// Promise (The pool): Users without a pool see and change nothing, and owners cannot make memory unusable or reopen
/// it.
#[test]
fn users_without_access_see_and_change_nothing() {
    let Some(server) = of_users(&shared(false)) else { return };
    assert!(as_user(4001, "owner_process", &server.socket, Stdio::null()));
    let name = "db".parse().unwrap();
    let held = server.client.attach(&Attach::new(name, MIB).wait(LONG)).unwrap();
    assert!(as_user(4003, "stranger_process", &server.socket, Stdio::null()));
    drop(held);
    server.whole("db");
}

#[test]
#[ignore = "a process of the tests"]
fn stranger_process() {
    let client = Client::new(given_socket());
    let name = || "db".parse().unwrap();
    assert!(client.pools().unwrap().is_empty());
    assert!(client.leases().unwrap().is_empty());
    let no = |error: Error| match error {
        Error::Refused(refusal, _) => refusal,
        other => panic!("{other}"),
    };
    let attach = client.attach(&Attach::new(name(), MIB));
    assert_eq!(no(attach.unwrap_err()), Refusal::NoSuchPool);
    assert_eq!(no(client.remove(&name()).unwrap_err()), Refusal::Denied);
    assert_eq!(no(client.grow(&name(), MIB).unwrap_err()), Refusal::Denied);
    assert_eq!(no(client.shrink(&name(), MIB).unwrap_err()), Refusal::Denied);
    assert_eq!(no(client.create(&spec("mine", 8)).unwrap_err()), Refusal::Denied);
    assert_eq!(no(client.release(&name()).unwrap_err()), Refusal::NoSuchPool);
}

/// The descriptors of a lease of the pool, its own first.
fn raw_lease(socket: &Path) -> Vec<OwnedFd> {
    let to = connected(socket);
    let request = ClientRequest::Attach {
        pool: "db".parse().unwrap(),
        bytes: 8 * MIB,
        keep: None,
        segment: None,
    };
    send(&to, &request.encode(), SendFlags::NOSIGNAL).unwrap();
    match reply(&to) {
        Some((Reply::Attached(_), fds)) => fds,
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "a process of the tests"]
fn owner_process() {
    let fds = raw_lease(&given_socket());
    let stripe = &fds[1];
    // Otherwise a client could open it again, and keep it after the lease by a description that is not
    // counted.
    let path = format!("/proc/self/fd/{}", stripe.as_raw_fd());
    let uncounted = open(path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    for path in [path, format!("/proc/self/fd/{}", uncounted.as_raw_fd())] {
        for flags in [OFlags::RDWR, OFlags::RDONLY] {
            assert!(open(path.as_str(), flags, Mode::empty()).is_err());
        }
    }
    assert!(fchmod(stripe, Mode::from_raw_mode(0o777)).is_err());
    assert!(fcntl_add_seals(stripe, SealFlags::WRITE).is_err());
    assert!(ftruncate(stripe, 0).is_err());
    assert!(ftruncate(stripe, 1 << 40).is_err());
    let pools = Client::new(given_socket()).pools().unwrap();
    assert_eq!(pools[0].bytes.leased, 8 * MIB);
    assert!(Client::new(given_socket()).remove(&pools[0].spec.name).is_err());
}

/// `O_PATH` descriptors are not counted: one of exchanged memory leads to an empty file.
#[test]
fn a_path_to_exchanged_memory_keeps_none_of_it() {
    let Some(server) = of_users(&shared(false)) else { return };
    let fds = raw_lease(&server.socket);
    rustix::io::pwrite(&fds[1], &[0x11; 4096], 0).unwrap();
    let path = format!("/proc/self/fd/{}", fds[1].as_raw_fd());
    let path = open(path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    assert!(fstat(&path).unwrap().st_blocks > 0);
    drop(fds);
    assert!(as_user(USERS[0], "secret_process", &server.socket, Stdio::null()));
    assert_eq!(fstat(&path).unwrap().st_blocks, 0, "its pages are kept");
}

/// A page in a pipe stays with the owner of the pipe, after mapping, descriptor and lease have gone.
///
/// Promise (The pool): Pages that a former user holds in a pipe are never handed to the next user.
#[test]
fn pages_in_a_pipe_do_not_show_the_next_users_data() {
    let Some(server) = of_users(&shared(false)) else { return };
    let (mut reader, writer) = std::io::pipe().unwrap();
    assert!(as_user(USERS[0], "splice_process", &server.socket, writer.into()));
    server.whole("db");
    assert!(as_user(USERS[1], "secret_process", &server.socket, Stdio::null()));
    let mut seen = Vec::new();
    reader.read_to_end(&mut seen).unwrap();
    // The test program's own words come first.
    let page = &seen[seen.len().saturating_sub(4096)..];
    assert!(page.contains(&0x11) || page.contains(&0), "{page:?}");
    assert!(!seen.contains(&0xEE), "another user's memory is in the pipe");
}

#[test]
#[ignore = "a process of the tests"]
fn splice_process() {
    let fds = raw_lease(&given_socket());
    rustix::io::pwrite(&fds[1], &[0x11; 4096], 0).unwrap();
    let out = rustix::stdio::stdout();
    let mut from = 0;
    let flags = rustix::pipe::SpliceFlags::empty();
    rustix::pipe::splice(&fds[1], Some(&mut from), out, None, 4096, flags).unwrap();
    // Nothing is said after it.
    std::process::exit(0);
}

#[test]
#[ignore = "a process of the tests"]
fn secret_process() {
    let client = Client::new(given_socket());
    // Contents are kept; otherwise they would be zeroed before the check.
    let wanted = Attach::new("db".parse().unwrap(), 8 * MIB).keep("secret".parse().unwrap());
    let memory = client.attach(&wanted.wait(LONG)).unwrap();
    Memory::own().fill(&memory, 0xEE);
}
