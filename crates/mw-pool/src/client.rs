//! Taking memory from a pool: what a program links.
//!
//! ```no_run
//! use mw_pool::{Attach, Client};
//!
//! let memory = Client::default().attach(&Attach::new("db".parse()?, 16 << 30))?;
//! println!("{} bytes at {:p}", memory.bytes(), memory.as_ptr());
//! drop(memory); // given back
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No thread, no async runtime, every wait bounded. After a fork both processes have the memory,
//! and it is given back when both have let go: what counts is who maps it, not who asked.

use crate::lease_table::{MAX_LEASES, TABLE_BYTES};
use crate::protocol::{
    CONSISTENT, Contents, Lease, LeaseStatus, MAX_STRIPES, PoolStatus, Refusal, Reply, Request,
    ServerStatus,
};
use crate::socket::{self, Received};
use crate::spec::{Name, Spec};
use mw_sys::Region;
use rustix::fs::fstat;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    socket_with,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Where the server's socket is unless it is told otherwise: in a folder that is the server's user's,
/// beside /run/memwright, which is root's.
pub const SOCKET: &str = "/run/memwright-pool/pool.sock";
/// Where it was up to version 0.1. A client looks there when nothing is at [`SOCKET`].
const FORMER_SOCKET: &str = "/run/memwright/pool.sock";

/// The longest that a server takes to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions whether memory has become ready.
const ASK_FIRST: Duration = Duration::from_millis(1);
const ASK_LAST: Duration = Duration::from_millis(50);

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody answers.
    #[error("no pool server answers at {}: {source}; start it with memwright pool serve", path.display())]
    NoServer {
        /// The socket.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The server said no.
    #[error("{1}")]
    Refused(Refusal, String),
    /// Too little was ready in the time that there was.
    #[error(
        "{asked_bytes} bytes were not ready in time: {ready_bytes} were, and {coming_bytes} are on \
         their way"
    )]
    NotReady {
        /// PoolBytes asked for.
        asked_bytes: u64,
        /// PoolBytes that could be had.
        ready_bytes: u64,
        /// PoolBytes that are being populated, zeroed or given back.
        coming_bytes: u64,
    },
    /// The server's answer makes no sense.
    #[error("the pool server answers what is no answer: {0}")]
    Protocol(&'static str),
    /// A call failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

fn system<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System { call, source: source.into() }
}

/// What is wanted of a pool.
#[derive(Debug, Clone)]
pub struct Attach {
    pool: Name,
    bytes: u64,
    keep: Option<Name>,
    segment: Option<u32>,
    wait: Duration,
    lock: bool,
}

impl Attach {
    /// So many bytes of a pool, zeroed, at once or not at all.
    #[must_use]
    pub fn new(pool: Name, bytes: u64) -> Self {
        Self { pool, bytes, keep: None, segment: None, wait: Duration::ZERO, lock: true }
    }

    /// Keeps the contents under this name when it is given back, and takes those that were kept
    /// under it, if they are of this user and size ([`Attachment::contents`]).
    #[must_use]
    pub fn keep(mut self, name: Name) -> Self {
        self.keep = Some(name);
        self
    }

    /// Has it be the memory of a System V segment (shmget(2)) that this process has just made: it
    /// goes on until that segment is gone, and others of this user get it by
    /// [`Client::segment`].
    #[must_use]
    pub fn segment(mut self, id: u32) -> Self {
        self.segment = Some(id);
        self
    }

    /// How long to wait for memory that is being populated, zeroed or given back.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whether to lock it in this process as well, as far as that is allowed; its pages are mapped
    /// in either case.
    #[must_use]
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }
}

/// Who asks a server.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Default for Client {
    fn default() -> Self {
        Self::new(SOCKET)
    }
}

impl Client {
    /// Of the server at this socket.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned() }
    }

    /// Memory of a pool, mapped, locked as far as that is allowed, and every page in place.
    ///
    /// # Errors
    /// Where there is no server, where it refuses, or where memory is not ready in time.
    pub fn attach(&self, wanted: &Attach) -> Result<Attachment, Error> {
        Attachment::map(self.take(wanted)?, wanted.lock)
    }

    /// Memory of a pool that is not mapped yet: for who maps it where the program wants it.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn take(&self, wanted: &Attach) -> Result<Taken, Error> {
        let end = Instant::now().checked_add(wanted.wait);
        let mut pause = ASK_FIRST;
        loop {
            let request = Request::Attach {
                pool: wanted.pool.clone(),
                bytes: wanted.bytes,
                keep: wanted.keep.clone(),
                segment: wanted.segment,
            };
            let why = match self.call(&request) {
                Ok((Reply::Attached(lease), files)) => {
                    return Taken::of(lease, files);
                }
                Ok((Reply::Wait { ready_bytes, coming_bytes }, _)) => {
                    Error::NotReady { asked_bytes: wanted.bytes, ready_bytes, coming_bytes }
                }
                Ok(_) => return Err(Error::Protocol("another reply was due")),
                // A server that is started again is back in a moment.
                Err(error @ Error::NoServer { .. }) => error,
                Err(error) => return Err(error),
            };
            if end.is_none_or(|end| Instant::now() + pause > end) {
                return Err(why);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(ASK_LAST);
        }
    }

    /// The memory of a System V segment, as somebody took it ([`Attach::segment`]).
    ///
    /// # Errors
    /// Where there is no server, where it has no such segment, or where that is another user's.
    pub fn segment(&self, id: u32) -> Result<Stripes, Error> {
        match self.call(&Request::Segment(id))? {
            (Reply::Attached(lease), files) => Stripes::of(lease, files),
            _ => Err(Error::Protocol("another reply was due")),
        }
    }

    /// Has a pool made; it is populated in the background.
    ///
    /// # Errors
    /// Where there is no server, or where it refuses.
    pub fn create(&self, spec: &Spec) -> Result<(), Error> {
        self.order(&Request::Create(spec.clone()))
    }

    /// Has a pool removed. Who has memory of it keeps that.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn remove(&self, pool: &Name) -> Result<(), Error> {
        self.order(&Request::Remove(pool.clone()))
    }

    /// Has a pool be larger.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn grow(&self, pool: &Name, bytes: u64) -> Result<(), Error> {
        self.order(&Request::Grow(pool.clone(), bytes))
    }

    /// Has a pool be smaller, by memory that is not in use.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn shrink(&self, pool: &Name, bytes: u64) -> Result<(), Error> {
        self.order(&Request::Shrink(pool.clone(), bytes))
    }

    /// Has contents that are kept in a pool given up: one's own, or all if root asks.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn release(&self, pool: &Name) -> Result<(), Error> {
        self.order(&Request::Release(pool.clone()))
    }

    /// The pools that this user may have memory of.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn pools(&self) -> Result<Vec<PoolStatus>, Error> {
        let socket = self.connect()?;
        let mut pools: Vec<PoolStatus> = Vec::new();
        loop {
            let after = pools.last().map(|pool| pool.spec.name.clone());
            match self.ask(&socket, &Request::Next(after.clone()))?.0 {
                Reply::Pool(pool) if Some(&pool.spec.name) > after.as_ref() => pools.push(*pool),
                Reply::End => return Ok(pools),
                _ => return Err(Error::Protocol("the next pool was due")),
            }
        }
    }

    /// One of them.
    ///
    /// # Errors
    /// As [`create`](Self::create); where there is none of this name.
    pub fn pool(&self, name: &Name) -> Result<PoolStatus, Error> {
        let found = self.pools()?.into_iter().find(|pool| pool.spec.name == *name);
        let none =
            || format!("there is no pool '{name}' that is yours; memwright pool list shows those");
        found.ok_or_else(|| Error::Refused(Refusal::NoSuchPool, none()))
    }

    /// One's own leases; all of them if root asks.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn leases(&self) -> Result<Vec<LeaseStatus>, Error> {
        let socket = self.connect()?;
        let mut leases: Vec<LeaseStatus> = Vec::new();
        loop {
            let from = leases.last().map_or(0, |lease| lease.id.saturating_add(1));
            match self.ask(&socket, &Request::NextLease(from))?.0 {
                Reply::Lease(lease) if lease.id >= from && leases.len() < MAX_LEASES => {
                    leases.push(lease);
                }
                Reply::End => return Ok(leases),
                _ => return Err(Error::Protocol("the next lease was due")),
            }
        }
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn server(&self) -> Result<ServerStatus, Error> {
        match self.call(&Request::Server)?.0 {
            Reply::Server(state) => Ok(*state),
            _ => Err(Error::Protocol("another reply was due")),
        }
    }

    fn order(&self, request: &Request) -> Result<(), Error> {
        match self.call(request)?.0 {
            Reply::Done => Ok(()),
            _ => Err(Error::Protocol("another reply was due")),
        }
    }

    fn call(&self, request: &Request) -> Result<(Reply, Vec<OwnedFd>), Error> {
        self.ask(&self.connect()?, request)
    }

    fn no_server(&self) -> impl FnOnce(rustix::io::Errno) -> Error {
        let path = self.path.clone();
        move |error| Error::NoServer { path, source: error.into() }
    }

    fn connect(&self) -> Result<OwnedFd, Error> {
        let former = || Self::new(FORMER_SOCKET).connect_there();
        match self.connect_there() {
            Err(Error::NoServer { source, .. })
                if source.kind() == io::ErrorKind::NotFound && self.path == Path::new(SOCKET) =>
            {
                former().map_err(|_| Error::NoServer { path: self.path.clone(), source })
            }
            other => other,
        }
    }

    fn connect_there(&self) -> Result<OwnedFd, Error> {
        let address = SocketAddrUnix::new(&self.path).map_err(self.no_server())?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(system("socket"))?;
        for timeout in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, timeout, Some(PATIENCE)).map_err(system("setsockopt"))?;
        }
        connect(&socket, &address).map_err(self.no_server())?;
        Ok(socket)
    }

    fn ask(&self, socket: &OwnedFd, request: &Request) -> Result<(Reply, Vec<OwnedFd>), Error> {
        let lost = |source| Error::NoServer { path: self.path.clone(), source };
        // A server that has refused already closes: what it said is read all the same.
        let sent = socket::send(socket.as_fd(), &request.encode(), &[], SendFlags::empty());
        let receive = || socket::receive(socket.as_fd(), RecvFlags::empty());
        let Received { bytes, descriptors, cut } = match receive() {
            // One that closes without having read the question: its answer comes after the error.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(),
            other => other,
        }
        .map_err(lost)?;
        match Reply::decode(&bytes).filter(|_| !cut) {
            Some(Reply::Refused(refusal, why)) => Err(Error::Refused(refusal, why)),
            Some(reply) => Ok((reply, descriptors)),
            None if bytes.is_empty() => {
                Err(lost(sent.err().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())))
            }
            None => Err(Error::Protocol("another version, or none")),
        }
    }
}

/// What a mapping of stripes of this size starts at a multiple of: whole tables of huge pages, or
/// huge pages.
pub(crate) fn alignment(stripe_bytes: usize) -> usize {
    let table = usize::try_from(TABLE_BYTES).unwrap_or(1 << 30);
    if stripe_bytes.is_multiple_of(table) { table } else { 2 << 20 }
}

/// Memory of a lease, which is not mapped yet.
#[derive(Debug)]
pub struct Stripes {
    lease: Lease,
    files: Vec<OwnedFd>,
}

impl Stripes {
    fn of(lease: Lease, files: Vec<OwnedFd>) -> Result<Self, Error> {
        let bytes = lease.stripe_bytes.checked_mul(files.len() as u64);
        if files.is_empty() || files.len() > MAX_STRIPES || bytes != Some(lease.bytes) {
            return Err(Error::Protocol("descriptors and sizes do not fit"));
        }
        for file in &files {
            let had = fstat(file).map_err(system("fstat"))?.st_size;
            if u64::try_from(had) != Ok(lease.stripe_bytes) {
                return Err(Error::Protocol("a stripe of another size"));
            }
        }
        Ok(Self { lease, files })
    }

    /// What it is of.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Maps all of it in one piece: [`Lease::bytes`], at an address that suits its pages.
    ///
    /// # Errors
    /// mmap(2)'s: `ENOMEM` without address space.
    pub fn map(&self) -> io::Result<Region> {
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory);
        let (bytes, stripe) = (size(self.lease.bytes)?, size(self.lease.stripe_bytes)?);
        let region = Region::reserve(bytes, mw_sys::page_bytes(), alignment(stripe))?;
        for (number, file) in self.files.iter().enumerate() {
            region.map_file(number * stripe..(number + 1) * stripe, file.as_fd(), 0)?;
        }
        Ok(region)
    }
}

/// Memory of a pool that is not mapped yet. Dropped, it is given back, but for what is mapped.
#[derive(Debug)]
pub struct Taken {
    /// Its memory.
    pub stripes: Stripes,
    /// Closed by the last process that has it, it tells the server that the lease is over.
    token: OwnedFd,
}

impl Taken {
    fn of(lease: Lease, mut files: Vec<OwnedFd>) -> Result<Self, Error> {
        if files.is_empty() {
            return Err(Error::Protocol("a lease without its descriptor"));
        }
        let token = files.remove(0);
        Ok(Self { stripes: Stripes::of(lease, files)?, token })
    }
}

/// Memory of a pool, mapped in one piece; given back when it is dropped, here and in every fork.
#[derive(Debug)]
pub struct Attachment {
    region: Region,
    lease: Lease,
    token: OwnedFd,
    locked: bool,
}

impl Attachment {
    fn map(taken: Taken, lock: bool) -> Result<Self, Error> {
        let Taken { stripes, token } = taken;
        let region = stripes.map().map_err(system("mmap"))?;
        let lease = stripes.lease;
        let all = 0..region.bytes();
        // The pages are in the server's hands: a lock of this process's own is a second one, and
        // who may not have it has the pages mapped all the same.
        let locked = lock && region.lock(all.clone()).is_ok();
        if !locked {
            region.populate(all).map_err(system("madvise"))?;
        }
        Ok(Self { region, lease, token, locked })
    }

    /// Where it starts. References made from it must be gone before it is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    /// Its size in bytes: what was asked for, rounded up to whole stripes of the pool.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// Its mapping, for whoever works on it as a whole.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// What was in it when it came.
    #[must_use]
    pub fn contents(&self) -> Contents {
        self.lease.contents
    }

    /// The number of the lease.
    #[must_use]
    pub fn lease(&self) -> u64 {
        self.lease.id
    }

    /// Whether this process has it locked.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Whether the server keeps its pages in memory.
    #[must_use]
    pub fn is_locked_by_server(&self) -> bool {
        self.lease.locked
    }

    /// What ends the lease when the last process that has it closes it.
    #[must_use]
    pub fn token(&self) -> BorrowedFd<'_> {
        self.token.as_fd()
    }

    /// Says that what is in it now may be used after the lease: without it, contents that are kept
    /// are called dirty when they are handed out again.
    ///
    /// # Errors
    /// Where the server that gave it is gone for good.
    pub fn mark_consistent(&self) -> Result<(), Error> {
        socket::send(self.token.as_fd(), &[CONSISTENT], &[], SendFlags::DONTWAIT)
            .map_err(system("send"))
    }
}
