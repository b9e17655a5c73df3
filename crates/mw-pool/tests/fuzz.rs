//! Hostile users send messages, descriptors of every kind and half-closed, unread and idle connections to a
//! server, while another user sends requests: they are answered within a time limit, and the server ends
//! within one when it is told to.
//!
//! Each round has a server of its own; every other one emulates kernels before 6.16, where a server cannot
//! reject descriptors. `MW_POOL_FUZZ_S` is the duration in seconds,
//! and `MW_POOL_FUZZ_BOUND_S` the longest that a request may take, for a run beside other work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "common/process.rs"]
mod process;

use common::fuse::{self, Fuse};
use common::strange::{Strange, send_with};
use common::{MIB, eventually, spec};
use mw_pool::protocol::ClientRequest;
use mw_pool::{Attach, Client, Error, Owners, PoolSpec};
use process::{dir, role, serve, this_program};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, shutdown, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two owners of the pool, and two users without one.
const USERS: [u32; 4] = [4001, 4002, 4003, 4004];
/// The time limit for a reply, and for the end of the server, on a busy machine.
fn bound() -> Duration {
    let seconds = std::env::var("MW_POOL_FUZZ_BOUND_S").map_or(4, |s| s.parse().unwrap());
    Duration::from_secs(seconds)
}

/// Killed when it is dropped, with the process of this number that it has started.
struct Process<'a>(Child, Option<u32>, &'a Fuse);

impl Drop for Process<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What waits for the file system could not be killed.
            self.2.abort();
        }
        let has_ended = matches!(self.0.try_wait(), Ok(Some(_)));
        if let Some(traced) = self.1.filter(|_| !has_ended) {
            let _ = kill_process(pid(traced), Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

#[test]
#[ignore = "a process of the tests"]
fn fuse_process() {
    fuse::serve();
}

#[test]
#[ignore = "a process of the tests"]
fn server_process() {
    serve(&dir(), 256 * MIB, || {
        fs::write(dir().join("server"), std::process::id().to_string()).unwrap();
    });
}

/// Durations of the harmless user and of the server's end.
#[derive(Default)]
struct Measured {
    waits_ms: Vec<f64>,
    ends_ms: Vec<f64>,
    limits: usize,
    descriptors_max: usize,
    resident_max_kib: u64,
    sent: BTreeMap<String, u64>,
}

/// Promise (The pool): Descriptors of any kind, messages, and half-closed, unread or idle connections of hostile
/// users delay neither the server (on kernels with and without SO_PASSRIGHTS), nor its shutdown, nor other users.
#[test]
fn hostile_users_delay_neither_the_server_nor_other_users() {
    if !rustix::process::geteuid().is_root() {
        mw_test::skip("needs root");
        return;
    }
    let seconds = std::env::var("MW_POOL_FUZZ_S").map_or(6, |s| s.parse().unwrap());
    let round = Duration::from_secs((seconds / 2).clamp(3, 60));
    let fuse = Fuse::mount();
    let (start, mut measured, mut rounds) = (Instant::now(), Measured::default(), 0);
    while rounds < 2 || start.elapsed() < Duration::from_secs(seconds) {
        run_round(round, rounds, &fuse, &mut measured);
        rounds += 1;
        report(&measured, rounds, start.elapsed());
    }
    assert!(!fuse.is_hung(), "the server closed a file of FUSE");
}

fn report(measured: &Measured, rounds: u64, elapsed: Duration) {
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mut waits = measured.waits_ms.clone();
    waits.sort_by(f64::total_cmp);
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0.0);
    let text = format!(
        "{rounds} rounds in {} s: {} requests of the harmless user, p99 {p99:.2} ms, longest {:.2} ms, \
         {} refused for a limit; server ended in {:.0} ms at most, had {} descriptors and {} KiB at \
         most; sent: {:?}\n",
        elapsed.as_secs(),
        waits.len(),
        most(&waits),
        measured.limits,
        most(&measured.ends_ms),
        measured.descriptors_max,
        measured.resident_max_kib,
        measured.sent
    );
    match std::env::var_os("MW_POOL_FUZZ_REPORT") {
        Some(path) => fs::write(path, text).unwrap(),
        None => print!("{text}"),
    }
}

fn run_round(length: Duration, round: u64, fuse: &Fuse, measured: &mut Measured) {
    let dir = tempfile::tempdir().unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions(dir.path(), all).unwrap();
    let (server, process) = start_server(dir.path(), round % 2 == 1);
    let mut server = Process(server, Some(process), fuse);
    fuse.starve(process);
    let client = Client::new(dir.path().join("pool.sock"));
    let owners = Owners { users: USERS[..2].to_vec(), groups: Vec::new() };
    client.create(&PoolSpec { owners, ..spec("db", 64) }).unwrap();
    client.create(&spec("good", 16)).unwrap();
    // A pause, because too many requests are refused.
    let whole = |name: &str| {
        std::thread::sleep(Duration::from_millis(50));
        client.pool(&name.parse().unwrap()).unwrap().bytes.ready > 0
    };
    eventually("the pools are populated", || whole("db") && whole("good"));
    let hostile: Vec<Process<'_>> = USERS
        .iter()
        .zip(0..)
        .map(|(user, number)| {
            let mut command = role(this_program(), "hostile_process", dir.path());
            command.env("MW_POOL_SEED", (round * 8 + number + 1).to_string()).uid(*user).gid(*user);
            Process(command.stdin(fuse.open()).stderr(Stdio::null()).spawn().unwrap(), None, fuse)
        })
        .collect();
    let start = Instant::now();
    while start.elapsed() < length {
        ask(&client, measured);
        assert!(!fuse.is_hung(), "the server closed a file of FUSE");
        watch(process, measured);
        // The rate of the other user's requests.
        std::thread::sleep(Duration::from_millis(25));
    }
    kill_process(pid(process), Signal::TERM).unwrap();
    let start = Instant::now();
    let status = mw_test::exit_within(&mut server.0, bound()).unwrap();
    let status = status
        .unwrap_or_else(|| panic!("round {round}: the server does not end: {}", waits(process)));
    measured.ends_ms.push(start.elapsed().as_secs_f64() * 1e3);
    assert!(status.success(), "round {round}: {status}");
    assert!(!dir.path().join("pool.sock").exists(), "its socket was not removed");
    drop(hostile);
    for user in USERS {
        let counts =
            fs::read_to_string(dir.path().join(format!("sent-{user}"))).unwrap_or_default();
        for line in counts.lines() {
            let (kind, count) = line.split_once(' ').unwrap();
            *measured.sent.entry(kind.to_owned()).or_default() += count.parse::<u64>().unwrap();
        }
    }
}

/// Waits of the threads of a process in the kernel.
fn waits(process: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let text = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file));
    tasks
        .map(|task| {
            let of = |file| text(&task, file).unwrap_or_default();
            format!("{} in {}: {}{}", of("comm"), of("wchan"), of("syscall"), of("stack"))
        })
        .collect()
}

/// A server, and its process's number. As on older kernels, setting `SO_PASSRIGHTS` fails.
fn start_server(dir: &Path, older_kernel: bool) -> (Child, u32) {
    let command = match older_kernel {
        true => {
            let mut strace = Command::new("strace");
            strace.args([
                "-qq",
                "-f",
                "--seccomp-bpf",
                "-e",
                "trace=setsockopt",
                "-o",
                "/dev/null",
                "-e",
            ]);
            strace.arg("inject=setsockopt:error=ENOPROTOOPT").arg(std::env::current_exe().unwrap());
            strace
        }
        false => this_program(),
    };
    let mut command = role(command, "server_process", dir);
    let child = command.spawn();
    let child = child.unwrap_or_else(|error| panic!("strace(1), to play an older kernel: {error}"));
    let file = dir.join("server");
    eventually("it is there", || fs::read_to_string(&file).is_ok_and(|id| !id.is_empty()));
    (child, fs::read_to_string(&file).unwrap().parse().unwrap())
}

/// The other user, which is root: gets replies and memory.
fn ask(client: &Client, measured: &mut Measured) {
    let start = Instant::now();
    let answer = match measured.waits_ms.len() % 8 {
        0 => client
            .attach(&Attach::new("good".parse().unwrap(), 8 * MIB).wait(bound()).lock(false))
            .map(drop),
        1 => client.pools().map(drop),
        _ => client.server().map(drop),
    };
    let took = start.elapsed();
    assert!(took < bound(), "an answer took {took:?}: {answer:?}");
    match answer {
        Ok(()) => {}
        Err(Error::NotReady { .. }) => measured.limits += 1,
        Err(error) => panic!("the harmless user is not served: {error}"),
    }
    measured.waits_ms.push(took.as_secs_f64() * 1e3);
}

fn watch(process: u32, measured: &mut Measured) {
    let open = fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
    measured.descriptors_max = measured.descriptors_max.max(open);
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let anon = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let anon = anon.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    measured.resident_max_kib = measured.resident_max_kib.max(anon.unwrap_or(0));
    assert!(open < 4096, "the server has {open} descriptors");
    assert!(measured.resident_max_kib < 256 << 10, "the server grows");
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

/// A hostile user.
struct Hostile {
    random: Random,
    socket: PathBuf,
    strange: Strange,
    connections: Vec<OwnedFd>,
    /// Messages to it: lease descriptors and memory.
    had: Vec<OwnedFd>,
    sent: BTreeMap<String, u64>,
}

#[test]
#[ignore = "a process of the tests"]
fn hostile_process() {
    let seed: u64 = std::env::var("MW_POOL_SEED").unwrap().parse().unwrap();
    let mut strange = Strange::new();
    strange.kinds.push(("fuse", rustix::stdio::stdin().try_clone_to_owned().unwrap()));
    let mut hostile = Hostile {
        random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
        socket: dir().join("pool.sock"),
        strange,
        connections: Vec::new(),
        had: Vec::new(),
        sent: BTreeMap::new(),
    };
    let path = dir().join(format!("sent-{}", rustix::process::getuid().as_raw()));
    for turn in 0_u64.. {
        hostile.turn();
        if turn % 256 == 0 {
            let counts = hostile.sent.iter().map(|(kind, count)| format!("{kind} {count}\n"));
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(counts.collect::<String>().as_bytes()).unwrap();
        }
        // A random rate.
        std::thread::sleep(Duration::from_micros(500 + hostile.random.next() % 4000));
    }
}

impl Hostile {
    fn count(&mut self, what: &str) {
        *self.sent.entry(what.to_owned()).or_default() += 1;
    }

    fn turn(&mut self) {
        match self.random.below(16) {
            0..=3 => self.connect(),
            4..=10 => self.send(),
            11 => self.half_close(),
            12 | 15 => self.read(),
            13 => self.talk_over_a_lease(),
            14 if !self.connections.is_empty() => {
                let at = self.random.below(self.connections.len());
                self.connections.swap_remove(at);
            }
            _ if self.had.len() > 100 => self.had.clear(),
            _ => {}
        }
    }

    fn connect(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let to = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let connected = connect(&to, &SocketAddrUnix::new(&self.socket).unwrap());
        self.count(if connected.is_ok() { "connected" } else { "not-connected" });
        if connected.is_ok() {
            self.connections.push(to);
        }
        if self.connections.len() > 40 {
            let at = self.random.below(40);
            self.connections.swap_remove(at);
        }
    }

    fn send(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let at = self.random.below(self.connections.len());
        let bytes = self.message();
        let to = self.connections.swap_remove(at);
        self.send_over(&to, &bytes);
        self.connections.push(to);
    }

    fn send_over(&mut self, to: &OwnedFd, bytes: &[u8]) {
        let count = match self.random.below(8) {
            0..=2 => 0,
            3..=5 => 1 + self.random.below(4),
            6 => 1 + self.random.below(64),
            _ => 253,
        };
        let (kind, one) = {
            let at = self.random.below(self.strange.kinds.len() + 2);
            let of = self.strange.kinds.get(at).map(|(kind, fd)| (*kind, fd));
            let own = self.had.last().map(|fd| ("lease", fd));
            of.or(own).unwrap_or(("connection", to))
        };
        let mixed = self.random.0.is_multiple_of(3);
        let all: Vec<&OwnedFd> = self.strange.kinds.iter().map(|(_, fd)| fd).collect();
        let with: Vec<&OwnedFd> =
            (0..count).map(|at| if mixed { all[at % all.len()] } else { one }).collect();
        let all_kinds = all.len();
        let sent = send_with(to, bytes, &with);
        let kind = match count {
            0 => "plain",
            _ if mixed => "mixed",
            _ => kind,
        };
        let result = if sent.is_ok() { "sent" } else { "refused" };
        self.count(&format!("{kind}-{result}"));
        // Only the last close waits.
        if sent.is_ok() && (kind == "tcp-linger" || kind == "mixed" && count >= all_kinds) {
            self.strange.renew();
        }
    }

    /// A request, one that was changed, or noise.
    fn message(&mut self) -> Vec<u8> {
        let pool = ["db", "good", "none"][self.random.below(3)].parse().unwrap();
        let bytes = (self.random.next() % 40) * MIB;
        let number = u32::try_from(self.random.next() % 64).unwrap();
        let keep = (self.random.below(3) == 0).then(|| "kept".parse().unwrap());
        let segment = (self.random.below(4) == 0).then_some(number);
        let request = match self.random.below(10) {
            0..=3 => ClientRequest::Attach { pool, bytes, keep, segment },
            4 => ClientRequest::Segment(number),
            5 => ClientRequest::Next(None),
            6 => ClientRequest::NextLease(u64::from(number)),
            7 => ClientRequest::Server,
            8 => ClientRequest::Release(pool),
            _ => ClientRequest::Grow(pool, bytes),
        };
        let mut message = request.encode();
        match self.random.below(5) {
            0 => {
                let at = self.random.below(message.len());
                message[at] = self.random.next().to_le_bytes()[0];
            }
            1 => message.truncate(self.random.below(message.len())),
            2 => message.resize(self.random.below(6000), 0xA5),
            _ => {}
        }
        message
    }

    fn half_close(&mut self) {
        let Some(connection) = self.connections.last() else { return };
        let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][(self.random.0 % 3) as usize];
        let _ = shutdown(connection, how);
        self.count("half-closed");
    }

    /// Reads one reply; most are never read.
    fn read(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let at = self.random.below(self.connections.len());
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let _ = recvmsg(self.connections[at].as_fd(), &mut parts, &mut control, flags);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.had.extend(fds);
            }
        }
        self.count("read");
    }

    /// Nonsense over what may be a lease's descriptor, with descriptors.
    fn talk_over_a_lease(&mut self) {
        if self.had.is_empty() {
            return;
        }
        let at = self.random.below(self.had.len());
        let to = self.had.swap_remove(at);
        let bytes = [[b'C', b'x'][self.random.below(2)]];
        self.send_over(&to, &bytes);
        self.count("over-lease");
        if self.random.below(2) == 0 {
            self.had.push(to);
        }
    }
}
