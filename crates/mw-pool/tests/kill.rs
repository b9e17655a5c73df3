//! Client, server or both are killed at random moments, again and again: no byte of one user is
//! seen by another, no memory is lost or left behind, and no lease is stuck.
//!
//! This process is the service manager: it keeps the server's descriptors and starts it again with
//! them. Server and clients are this same program once more. `MW_POOL_ROUNDS` sets how many rounds
//! there are.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "common/process.rs"]
mod process;

use common::{MIB, Memory, eventually, spec};
use mw_pool::protocol::Contents;
use mw_pool::{Attach, Client, Owners, PoolSpec};
use mw_sys::SysvSegment;
use mw_test::alone;
use process::{dir, role, serve, this_program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Users whose memory the others must not see; root, which runs this test, can be each of them.
const USERS: [u32; 3] = [4001, 4002, 4003];
const POOL_MIB: u64 = 64;
/// Numbers at which descriptors wait to become 3 and following.
const HIGH: i32 = 600;

/// Descriptors by name, as systemd keeps them.
type Kept = Arc<Mutex<Vec<(String, OwnedFd)>>>;

/// A service manager.
struct Manager {
    dir: tempfile::TempDir,
    kept: Kept,
    notify: Arc<UnixDatagram>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    server: Option<Child>,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Users reach the socket, and write down what they should not have seen.
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), all).unwrap();
        let notify = Arc::new(UnixDatagram::bind(dir.path().join("notify")).unwrap());
        notify.set_nonblocking(true).unwrap();
        let (kept, end) = (Kept::default(), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (notify, kept, end) = (Arc::clone(&notify), Arc::clone(&kept), Arc::clone(&end));
            std::thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let mut ready = [PollFd::new(&*notify, PollFlags::IN)];
                    let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                    let _ = poll(&mut ready, Some(&timeout));
                    receive(&notify, &mut kept.lock().unwrap());
                }
            })
        };
        let mut manager = Self { dir, kept, notify, end, thread: Some(thread), server: None };
        manager.start();
        manager
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("pool.sock")
    }

    fn client(&self) -> Client {
        Client::new(self.socket())
    }

    /// Starts the server with what is kept.
    fn start(&mut self) {
        let mut kept = self.kept.lock().unwrap();
        // What the last one said before it was killed is heard first.
        receive(&self.notify, &mut kept);
        let mut passed = Vec::new();
        let mut script = String::new();
        // systemd passes the newest first.
        for (number, (_, fd)) in kept.iter().rev().enumerate() {
            let high = fcntl_dupfd_cloexec(fd, HIGH).unwrap();
            fcntl_setfd(&high, FdFlags::empty()).unwrap();
            script +=
                &format!("exec {}<&{} {}<&-;", number + 3, high.as_raw_fd(), high.as_raw_fd());
            passed.push(high);
        }
        let names: Vec<&str> = kept.iter().rev().map(|(name, _)| name.as_str()).collect();
        script += "export LISTEN_PID=$$; exec \"$0\" \"$@\"";
        let mut command = Command::new("bash");
        command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
        command
            .args(["--exact", "server_process", "--ignored", "--nocapture"])
            .env("MW_POOL_DIR", self.dir.path())
            .env("NOTIFY_SOCKET", self.dir.path().join("notify"))
            .env("LISTEN_FDS", kept.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .stdout(Stdio::null());
        self.server = Some(command.spawn().unwrap());
    }

    fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill();
        }
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let file = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).unwrap();
    file(one) == file(other)
}

/// All messages of sd_notify(3) that are there.
fn receive(socket: &UnixDatagram, kept: &mut Vec<(String, OwnedFd)>) {
    loop {
        let mut bytes = [0_u8; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let Ok(got) = recvmsg(socket, &mut parts, &mut control, flags) else { return };
        let text = String::from_utf8(bytes[..got.bytes].to_vec()).unwrap();
        let fds = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME=")).map(str::to_owned);
        if text.lines().any(|line| line == "FDSTOREREMOVE=1") {
            let name = name.unwrap();
            kept.retain(|(other, _)| *other != name);
        } else if text.lines().any(|line| line == "FDSTORE=1") {
            let name = name.unwrap();
            assert!(text.lines().any(|line| line == "FDPOLL=0"), "dropped at a hangup: {text}");
            // systemd stores the same file once, and others of the same name beside each other.
            for fd in fds {
                if !kept.iter().any(|(_, other)| is_same(other, &fd)) {
                    kept.push((name.clone(), fd));
                }
            }
        }
    }
}

#[test]
#[ignore = "a process of the tests"]
fn server_process() {
    serve(&dir(), 1 << 30, || ());
}

/// Takes memory, looks whether it is zero or its user's own, fills it, gives it back, and again.
#[test]
#[ignore = "a process of the tests"]
fn client_process() {
    let client =
        Client::new(Path::new(&std::env::var_os("MW_POOL_DIR").unwrap()).join("pool.sock"));
    let user = rustix::process::getuid().as_raw();
    let own = user.to_le_bytes()[0];
    let seed: u64 = std::env::var("MW_POOL_SEED").unwrap().parse().unwrap();
    let memory = Memory::own();
    for turn in seed.. {
        let wanted = Attach::new("db".parse().unwrap(), (8 + turn % 3 * 8) * MIB).lock(false);
        if turn % 5 == 4 {
            use_segment(&client, wanted, own, &memory);
            continue;
        }
        let wanted = match turn % 2 {
            0 => wanted.keep("cache".parse().unwrap()),
            _ => wanted,
        };
        let Ok(attached) = client.attach(&wanted.wait(Duration::from_millis(500))) else {
            continue;
        };
        let seen = match attached.contents() {
            Contents::Zeroed => memory.is_all(&attached, 0),
            // It was killed while it wrote: what is there is its own all the same.
            Contents::Kept { .. } => memory.has_only(&attached, own),
        };
        if !seen {
            saw(&format!("user {user} turn {turn}: {:?}", attached.contents()));
        }
        memory.fill(&attached, own);
    }
}

/// Says that memory was not what it should have been.
fn saw(what: &str) {
    let dir = std::env::var_os("MW_POOL_DIR").unwrap();
    std::fs::write(Path::new(&dir).join("seen"), what).unwrap();
}

/// Makes a segment whose memory is the pool's, uses it, and removes it.
fn use_segment(client: &Client, wanted: Attach, own: u8, memory: &Memory) {
    let segment = SysvSegment::create(0, 8 << 20, None).unwrap();
    let id = segment.id().try_into().unwrap();
    let tied = client.lease(&wanted.segment(id).wait(Duration::from_millis(500)));
    if tied.is_ok()
        && let Ok(mapped) = client.segment(id)
    {
        let mapped = mapped.map().unwrap();
        if !memory.is_all(&mapped, 0) {
            saw(&format!("user {own}: segment {id} is not zero"));
        }
        memory.fill(&mapped, own);
    }
    segment.remove().unwrap();
}

/// Removes the segments that clients left which were killed (proc_sysvipc_shm(5): key, number, mode,
/// size, two processes, attachments, user).
fn remove_segments(user: u32) {
    let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    for line in all.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields[7].parse() == Ok(user) {
            let _ = SysvSegment::from_id(fields[1].parse().unwrap()).remove();
        }
    }
}

/// Clients, ended when they are dropped.
struct Clients(Vec<Child>);

impl Clients {
    fn end(&mut self, at: usize) {
        self.0[at].kill().unwrap();
        self.0[at].wait().unwrap();
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        (0..self.0.len()).for_each(|at| self.end(at));
    }
}

fn start_client(manager: &Manager, user: u32, seed: u64) -> Child {
    let mut command = role(this_program(), "client_process", manager.dir.path());
    command
        .env("MW_POOL_SEED", seed.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .uid(user)
        .gid(user);
    command.spawn().unwrap()
}

/// xorshift64*.
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

fn shmem_kib() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

fn shared_pool(trusting: bool) -> PoolSpec {
    let owners = Owners { users: USERS.to_vec(), groups: Vec::new() };
    PoolSpec { owners, trusting, ..spec("db", POOL_MIB) }
}

fn used(manager: &Manager) -> Option<mw_pool::protocol::PoolBytes> {
    manager.client().pools().ok()?.first().map(|pool| pool.bytes)
}

/// Everybody has let go: all of the pool is there, zeroed, and no lease.
fn all_is_back(manager: &Manager) -> bool {
    let name = "db".parse().unwrap();
    let _ = manager.client().release(&name);
    used(manager).is_some_and(|bytes| bytes.ready == POOL_MIB * MIB)
}

fn campaign(trusting: bool, rounds: u64) {
    if !rustix::process::geteuid().is_root() {
        mw_test::skip("needs root");
        return;
    }
    let _alone = alone();
    let before = shmem_kib();
    let mut manager = Manager::new();
    eventually("the server answers", || manager.client().server().is_ok());
    manager.client().create(&shared_pool(trusting)).unwrap();
    eventually("it is whole", || all_is_back(&manager));
    let mut state = 0x9E37_79B9_7F4A_7C15 + u64::from(trusting);
    let mut start_next = |user| start_client(&manager, user, random(&mut state) % 6);
    let mut clients = Clients(USERS.map(&mut start_next).into());
    let start = Instant::now();
    for round in 0..rounds {
        // A random moment.
        std::thread::sleep(Duration::from_micros(random(&mut state) % 100_000));
        let what = random(&mut state) % 4;
        if what != 0 {
            let at = usize::try_from(random(&mut state) % 3).unwrap();
            clients.end(at);
            remove_segments(USERS[at]);
            clients.0[at] = start_client(&manager, USERS[at], random(&mut state) % 6);
        }
        if what < 2 {
            manager.kill();
            manager.start();
        }
        nothing_was_seen(&manager);
        if round % 50 == 49 {
            // The stored stripes are those of the lease table.
            eventually("the server answers", || used(&manager).is_some());
        }
    }
    let leases = eventually_leases(&manager);
    drop(clients);
    USERS.into_iter().for_each(remove_segments);
    eventually("all of it is back", || all_is_back(&manager));
    nothing_was_seen(&manager);
    let pool = manager.client().pools().unwrap().remove(0);
    assert_eq!(pool.leases, 0, "a lease is stuck");
    eprintln!("{rounds} rounds in {:.0?}, {leases} leases, trusting {trusting}", start.elapsed());
    // The book and eight stripes; what the server says is heard a moment later.
    eventually("the manager keeps what there is", || manager.kept.lock().unwrap().len() == 9);
    manager.client().remove(&"db".parse().unwrap()).unwrap();
    eventually("the manager keeps no memory", || manager.kept.lock().unwrap().len() == 1);
    // Others on this machine may have some of their own.
    eventually("nothing is left", || shmem_kib() - before < 32 << 10);
    drop(manager);
}

fn nothing_was_seen(manager: &Manager) {
    let seen = std::fs::read_to_string(manager.dir.path().join("seen"));
    assert!(seen.is_err(), "{seen:?}");
}

fn eventually_leases(manager: &Manager) -> u64 {
    let mut leases = 0;
    eventually("the server answers", || {
        let pools = manager.client().pools();
        pools.is_ok_and(|pools| {
            leases = pools[0].leases_total;
            true
        })
    });
    leases
}

fn rounds(usual: u64) -> u64 {
    std::env::var("MW_POOL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Promise (The pool): If client, server or both are killed at any moment, no byte of one user is seen by another, no
/// memory is lost or left behind, and no lease is stuck.
#[test]
fn killed_at_any_moment_nothing_is_leaked_lost_or_stuck() {
    campaign(false, rounds(40));
}

#[test]
fn killed_at_any_moment_in_a_trusting_pool() {
    campaign(true, rounds(40));
}

/// Promise (The pool): A restart of the server disturbs no client and keeps contents.
#[test]
fn a_restart_disturbs_no_client_and_keeps_contents() {
    let mut manager = Manager::new();
    let client = manager.client();
    // Before there is a pool, too.
    eventually("the server answers", || client.server().is_ok());
    manager.kill();
    manager.start();
    eventually("the next server answers", || client.server().is_ok());
    client.create(&spec("db", POOL_MIB)).unwrap();
    eventually("it is whole", || all_is_back(&manager));
    let memory = Memory::own();
    let wait = Duration::from_secs(30);
    let name = || "db".parse().unwrap();
    let wanted = Attach::new(name(), 16 * MIB).keep("cache".parse().unwrap()).wait(wait);
    let kept = client.attach(&wanted).unwrap();
    memory.fill(&kept, 5);
    let held = client.attach(&Attach::new(name(), 16 * MIB)).unwrap();
    memory.fill(&held, 6);
    let segment = SysvSegment::create(0, 8 << 20, None).unwrap();
    let id = segment.id().try_into().unwrap();
    drop(client.lease(&Attach::new(name(), 8 * MIB).segment(id)).unwrap());
    memory.fill(&client.segment(id).unwrap().map().unwrap(), 7);
    // A daemon that has closed the lease's descriptor, and goes on with the memory.
    let mapped_only = client.lease(&Attach::new(name(), 8 * MIB)).unwrap().stripes.map().unwrap();
    manager.kill();
    assert!(memory.is_all(&held, 6) && memory.is_all(&kept, 5));
    kept.mark_consistent().unwrap();
    drop(kept);
    manager.start();
    let kept = client.attach(&wanted).unwrap();
    assert_eq!(kept.contents(), Contents::Kept { generation: 1, dirty: false });
    assert!(memory.is_all(&kept, 5));
    let mapped = client.segment(id).unwrap().map().unwrap();
    segment.remove().unwrap();
    assert!(memory.is_all(&mapped, 7));
    drop(mapped);
    eventually("the segment's is back", || used(&manager).unwrap().leased == 40 * MIB);
    drop(mapped_only);
    eventually("what was mapped is back", || used(&manager).unwrap().leased == 32 * MIB);
    assert!(client.server().unwrap().stored);
    drop((kept, held));
    eventually("all of it is back", || all_is_back(&manager));
}
