//! A server in this process, and memory that can be looked into.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod fuse;
pub(crate) mod strange;

use mw_pool::{
    Attachment, Client, Level, NumaPolicy, Owners, PageSize, PoolName, PoolServerConfig, PoolSpec,
    Server,
};
use mw_sys::Region;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const MIB: u64 = 1 << 20;
/// Bytes that are read or written at a time.
const PIECE: usize = 64 << 10;

/// A server of its own socket, ended when it is dropped.
pub(crate) struct Running {
    pub(crate) client: Client,
    pub(crate) socket: PathBuf,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Running {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("pool.sock");
        let (stop, stopped) = UnixStream::pair().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let thread = {
            let (socket, log) = (socket.clone(), Arc::clone(&log));
            std::thread::spawn(move || {
                let config = PoolServerConfig {
                    socket,
                    budget_bytes,
                    pools: Vec::new(),
                    preflight: Box::new(|spec, _| match spec.name.as_ref() {
                        "refused" => Err("the machine has no room".to_owned()),
                        _ => Ok(()),
                    }),
                    log: Box::new(move |level: Level, line: &str| {
                        log.lock().unwrap().push(format!("{level:?}: {line}"));
                    }),
                };
                let mut server = Server::start(config).unwrap();
                server.run(stopped.as_fd(), &mut || ()).unwrap();
            })
        };
        let client = Client::new(&socket);
        eventually("the server answers", || client.server().is_ok());
        Self { client, socket, log, stop: Some(stop), thread: Some(thread), _dir: dir }
    }

    pub(crate) fn pool(&self, name: &str, mib: u64) -> PoolName {
        self.client.create(&spec(name, mib)).unwrap();
        self.whole(name);
        name.parse().unwrap()
    }

    /// Waits until all of a pool is ready.
    pub(crate) fn whole(&self, name: &str) {
        let name = name.parse().unwrap();
        eventually("it is whole", || {
            self.client.pool(&name).is_ok_and(|pool| pool.bytes.ready == pool.spec.bytes)
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

pub(crate) fn spec(name: &str, mib: u64) -> PoolSpec {
    PoolSpec {
        name: name.parse().unwrap(),
        bytes: mib * MIB,
        pages: PageSize::Base,
        nodes: NumaPolicy::Default,
        owners: Owners::default(),
        trusting: false,
    }
}

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// A value of the kernel's pool of huge pages.
pub(crate) fn huge_pages(file: &str) -> u64 {
    fs::read_to_string(format!("{HUGE_PAGES}/{file}")).unwrap().trim().parse().unwrap()
}

/// Far longer than anything takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two polls, which are two requests each (the connection and its message): well below the rate at
/// which the server refuses a user's requests.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    mw_test::wait_until(what, LIMIT, || {
        let holds = condition();
        if !holds {
            std::thread::sleep(POLL_INTERVAL);
        }
        holds
    });
}

/// Memory of a pool that is mapped.
pub(crate) trait Mapped {
    fn region(&self) -> &Region;
}

impl Mapped for Attachment {
    fn region(&self) -> &Region {
        self.region()
    }
}

impl Mapped for Region {
    fn region(&self) -> &Region {
        self
    }
}

/// Access to the memory of this process without references.
pub(crate) struct Memory(File);

impl Memory {
    pub(crate) fn own() -> Self {
        Self(File::options().read(true).write(true).open("/proc/self/mem").unwrap())
    }

    pub(crate) fn fill(&self, memory: &impl Mapped, byte: u8) {
        use std::os::unix::fs::FileExt;
        let bytes = vec![byte; PIECE];
        for offset in (0..memory.region().bytes()).step_by(bytes.len()) {
            self.0.write_all_at(&bytes, at(memory, offset)).unwrap();
        }
    }

    /// True if every byte is this one.
    pub(crate) fn is_all(&self, memory: &impl Mapped, byte: u8) -> bool {
        self.all(memory, &|seen| seen == [byte; PIECE])
    }

    /// True if every byte is this one or zero.
    pub(crate) fn has_only(&self, memory: &impl Mapped, byte: u8) -> bool {
        let own = |seen: &[u8]| seen.iter().all(|seen| *seen == byte || *seen == 0);
        self.all(memory, &|seen| seen == [byte; PIECE] || seen == [0; PIECE] || own(seen))
    }

    fn all(&self, memory: &impl Mapped, right: &dyn Fn(&[u8]) -> bool) -> bool {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; PIECE];
        (0..memory.region().bytes()).step_by(PIECE).all(|offset| {
            self.0.read_exact_at(&mut bytes, at(memory, offset)).unwrap();
            right(&bytes)
        })
    }
}

fn at(memory: &impl Mapped, offset: usize) -> u64 {
    (memory.region().as_ptr().as_ptr().expose_provenance() + offset) as u64
}
