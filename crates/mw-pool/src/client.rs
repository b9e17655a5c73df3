//! The client: memory of a pool for a program.
//!
//! ```no_run
//! use mw_pool::{Attach, Client};
//!
//! let memory = Client::default().attach(&Attach::new("db".parse()?, 16 << 30))?;
//! println!("{} bytes at {:p}", memory.bytes(), memory.as_ptr());
//! drop(memory); // returned to the pool
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It starts no thread, needs no async runtime, and bounds every wait. After a fork both processes
//! have the memory, and it is returned when both have unmapped it: what counts is who has it, not who
//! requested it.

use crate::lease_table::{MAX_LEASES, MAX_POOLS, TABLE_BYTES};
use crate::protocol::{
    CONSISTENT, ClientRequest, Contents, Lease, LeaseStatus, MAX_STRIPES, PoolStatus, Refusal,
    Reply, ServerStatus,
};
use crate::socket::{self, ReceivedMessage};
use crate::spec::{PoolName, PoolSpec};
use mw_memory::format_bytes;
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

/// The default path of the server's socket: in a directory of the server's user, beside
/// /run/memwright, which is root's.
pub const SOCKET: &str = "/run/memwright-pool/pool.sock";

/// The longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for a list of pools or leases, which takes a request for each: a server takes microseconds for one.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two requests for memory that is not ready: the first pause, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// The reason why memory was not attached, or another request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server is reachable.
    #[error("no pool server answers at {}: {source}; start it with memwright pool serve", path.display())]
    NoServer {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The server refused the request.
    #[error("{1}")]
    Refused(Refusal, String),
    /// Too little memory became ready in time.
    #[error(
        "{} requested, {} ready; {} are being populated, zeroed or returned",
        format_bytes(*requested_bytes), format_bytes(*ready_bytes), format_bytes(*coming_bytes)
    )]
    NotReady {
        /// The requested size.
        requested_bytes: u64,
        /// Bytes that are ready.
        ready_bytes: u64,
        /// Bytes that are being populated, zeroed or returned.
        coming_bytes: u64,
    },
    /// The server's reply is malformed or unexpected.
    #[error("malformed reply from the pool server: {0}")]
    Protocol(&'static str),
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Of a server that answers each request in time, but never all of them.
const LATE: Error = Error::Protocol("the list does not end in time");

fn system<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::System { call, source: source.into() }
}

/// A request for memory of a pool.
#[derive(Debug, Clone)]
pub struct Attach {
    pool: PoolName,
    bytes: u64,
    keep: Option<PoolName>,
    segment: Option<u32>,
    wait: Duration,
    lock: bool,
}

impl Attach {
    /// Requests `bytes` of a pool, zeroed, without waiting.
    #[must_use]
    pub fn new(pool: PoolName, bytes: u64) -> Self {
        Self { pool, bytes, keep: None, segment: None, wait: Duration::ZERO, lock: true }
    }

    /// Keeps the contents under this name when the memory is returned, and attaches those that were
    /// kept under it, if they are of this user and size ([`Attachment::contents`]).
    #[must_use]
    pub fn keep(mut self, name: PoolName) -> Self {
        self.keep = Some(name);
        self
    }

    /// Makes it the memory of a System V segment (shmget(2)) that this process has just created: the
    /// lease lasts until the segment is removed, and other processes of this user get the memory by
    /// [`Client::segment`].
    #[must_use]
    pub fn segment(mut self, id: u32) -> Self {
        self.segment = Some(id);
        self
    }

    /// Time to wait for memory that is being populated, zeroed or returned.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whether to lock it in this process too, if that is permitted; its pages are mapped in either
    /// case.
    #[must_use]
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }
}

/// A client of a server.
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
    /// A client of the server at this socket.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned() }
    }

    /// Leases memory of a pool and maps it, with every page present, and locked if that is permitted.
    ///
    /// # Errors
    /// If there is no server, it refuses, or the memory is not ready in time.
    pub fn attach(&self, wanted: &Attach) -> Result<Attachment, Error> {
        Attachment::map(self.lease(wanted)?, wanted.lock)
    }

    /// Leases memory of a pool without mapping it, for a caller that chooses the address.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn lease(&self, wanted: &Attach) -> Result<LeasedStripes, Error> {
        let end = Instant::now().checked_add(wanted.wait);
        let mut pause = FIRST_PAUSE;
        loop {
            let request = ClientRequest::Attach {
                pool: wanted.pool.clone(),
                bytes: wanted.bytes,
                keep: wanted.keep.clone(),
                segment: wanted.segment,
            };
            let why = match self.call(&request) {
                Ok((Reply::Attached(lease), files)) => {
                    return LeasedStripes::new(lease, files);
                }
                Ok((Reply::Wait { ready_bytes, coming_bytes }, _)) => {
                    Error::NotReady { requested_bytes: wanted.bytes, ready_bytes, coming_bytes }
                }
                Ok(_) => return Err(Error::Protocol("unexpected type")),
                // A server that is being restarted is back in a moment.
                Err(error @ Error::NoServer { .. }) => error,
                Err(error) => return Err(error),
            };
            if end.is_none_or(|end| Instant::now() + pause > end) {
                return Err(why);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// The memory of a System V segment that another process leased ([`Attach::segment`]).
    ///
    /// # Errors
    /// If there is no server, it does not have the segment, or the segment is another user's.
    pub fn segment(&self, id: u32) -> Result<LeaseFiles, Error> {
        match self.call(&ClientRequest::Segment(id))? {
            (Reply::Attached(lease), files) => LeaseFiles::new(lease, files),
            _ => Err(Error::Protocol("unexpected type")),
        }
    }

    /// Creates a pool, which is populated in the background.
    ///
    /// # Errors
    /// If there is no server, or it refuses.
    pub fn create(&self, spec: &PoolSpec) -> Result<(), Error> {
        self.order(&ClientRequest::Create(spec.clone()))
    }

    /// Removes a pool. Programs keep the memory that they have.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn remove(&self, pool: &PoolName) -> Result<(), Error> {
        self.order(&ClientRequest::Remove(pool.clone()))
    }

    /// Makes a pool larger.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn grow(&self, pool: &PoolName, bytes: u64) -> Result<(), Error> {
        self.order(&ClientRequest::Grow(pool.clone(), bytes))
    }

    /// Makes a pool smaller, by memory that is not in use.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn shrink(&self, pool: &PoolName, bytes: u64) -> Result<(), Error> {
        self.order(&ClientRequest::Shrink(pool.clone(), bytes))
    }

    /// Discards the contents that are kept in a pool: this user's own, or for root all of them.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn release(&self, pool: &PoolName) -> Result<(), Error> {
        self.order(&ClientRequest::Release(pool.clone()))
    }

    /// The pools that this user may use.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn pools(&self) -> Result<Vec<PoolStatus>, Error> {
        let socket = self.connect()?;
        let end = Instant::now() + LIST_TIMEOUT;
        let mut pools: Vec<PoolStatus> = Vec::new();
        loop {
            let after = pools.last().map(|pool| pool.spec.name.clone());
            match self.ask(&socket, &ClientRequest::Next(after.clone()))?.0 {
                Reply::End => return Ok(pools),
                _ if pools.len() == MAX_POOLS => return Err(Error::Protocol("too many pools")),
                _ if Instant::now() > end => return Err(LATE),
                Reply::Pool(pool) if Some(&pool.spec.name) > after.as_ref() => pools.push(*pool),
                _ => return Err(Error::Protocol("not the next pool")),
            }
        }
    }

    /// The pool of this name.
    ///
    /// # Errors
    /// As [`create`](Self::create), and if this user may use no such pool.
    pub fn pool(&self, name: &PoolName) -> Result<PoolStatus, Error> {
        let found = self.pools()?.into_iter().find(|pool| pool.spec.name == *name);
        let none = || format!("no pool '{name}' for this user (memwright pool list shows them)");
        found.ok_or_else(|| Error::Refused(Refusal::NoSuchPool, none()))
    }

    /// This user's leases; for root all of them.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn leases(&self) -> Result<Vec<LeaseStatus>, Error> {
        let socket = self.connect()?;
        let end = Instant::now() + LIST_TIMEOUT;
        let mut leases: Vec<LeaseStatus> = Vec::new();
        loop {
            let from = leases.last().map_or(0, |lease| lease.id.saturating_add(1));
            match self.ask(&socket, &ClientRequest::NextLease(from))?.0 {
                Reply::End => return Ok(leases),
                _ if leases.len() == MAX_LEASES => return Err(Error::Protocol("too many leases")),
                _ if Instant::now() > end => return Err(LATE),
                Reply::Lease(lease) if lease.id >= from => leases.push(lease),
                _ => return Err(Error::Protocol("not the next lease")),
            }
        }
    }

    /// The server's status.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn server(&self) -> Result<ServerStatus, Error> {
        match self.call(&ClientRequest::Server)?.0 {
            Reply::Server(state) => Ok(*state),
            _ => Err(Error::Protocol("unexpected type")),
        }
    }

    fn order(&self, request: &ClientRequest) -> Result<(), Error> {
        match self.call(request)?.0 {
            Reply::Done => Ok(()),
            _ => Err(Error::Protocol("unexpected type")),
        }
    }

    fn call(&self, request: &ClientRequest) -> Result<(Reply, Vec<OwnedFd>), Error> {
        self.ask(&self.connect()?, request)
    }

    fn no_server(&self) -> impl FnOnce(rustix::io::Errno) -> Error {
        let path = self.path.clone();
        move |error| Error::NoServer { path, source: error.into() }
    }

    fn connect(&self) -> Result<OwnedFd, Error> {
        let address = SocketAddrUnix::new(&self.path).map_err(self.no_server())?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(system("socket"))?;
        for timeout in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, timeout, Some(REPLY_TIMEOUT))
                .map_err(system("setsockopt"))?;
        }
        connect(&socket, &address).map_err(self.no_server())?;
        Ok(socket)
    }

    fn ask(
        &self,
        socket: &OwnedFd,
        request: &ClientRequest,
    ) -> Result<(Reply, Vec<OwnedFd>), Error> {
        let lost = |source| Error::NoServer { path: self.path.clone(), source };
        // A server that has already refused closes the connection: its reply is read all the same.
        let sent = socket::send(socket.as_fd(), &request.encode(), &[], SendFlags::empty());
        let receive = || socket::receive(socket.as_fd(), RecvFlags::empty());
        let ReceivedMessage { bytes, descriptors, truncated } = match receive() {
            // It closed without reading the request: its reply comes after the error.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(),
            other => other,
        }
        .map_err(lost)?;
        match Reply::decode(&bytes).filter(|_| !truncated) {
            Some(Reply::Refused(refusal, why)) => Err(Error::Refused(refusal, why)),
            Some(reply) => Ok((reply, descriptors)),
            None if bytes.is_empty() => {
                Err(lost(sent.err().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())))
            }
            None => Err(Error::Protocol("another protocol version, or malformed")),
        }
    }
}

/// The alignment of a mapping of stripes of this size: a whole page table of huge pages, or a huge page.
pub(crate) fn alignment(stripe_bytes: usize) -> usize {
    let table = usize::try_from(TABLE_BYTES).unwrap_or(1 << 30);
    if stripe_bytes.is_multiple_of(table) { table } else { 2 << 20 }
}

/// The memory of a lease, not mapped.
#[derive(Debug)]
pub struct LeaseFiles {
    lease: Lease,
    files: Vec<OwnedFd>,
}

impl LeaseFiles {
    fn new(lease: Lease, files: Vec<OwnedFd>) -> Result<Self, Error> {
        let bytes = lease.stripe_bytes.checked_mul(files.len() as u64);
        if files.is_empty() || files.len() > MAX_STRIPES || bytes != Some(lease.bytes) {
            return Err(Error::Protocol("its size does not match its descriptors"));
        }
        for file in &files {
            let had = fstat(file).map_err(system("fstat"))?.st_size;
            if u64::try_from(had) != Ok(lease.stripe_bytes) {
                return Err(Error::Protocol("a stripe of the wrong size"));
            }
        }
        Ok(Self { lease, files })
    }

    /// The lease.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Maps all [`Lease::bytes`] in one piece, aligned for its pages.
    ///
    /// # Errors
    /// mmap(2)'s: `ENOMEM` if the address space is full.
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

/// Leased memory that is not mapped. When it is dropped, memory that is not mapped is returned.
#[derive(Debug)]
pub struct LeasedStripes {
    /// Its memory.
    pub stripes: LeaseFiles,
    /// The lease's socket: closing it in the last process that has it ends the lease.
    token: OwnedFd,
}

impl LeasedStripes {
    fn new(lease: Lease, mut files: Vec<OwnedFd>) -> Result<Self, Error> {
        if files.is_empty() {
            return Err(Error::Protocol("a lease without its socket"));
        }
        let token = files.remove(0);
        Ok(Self { stripes: LeaseFiles::new(lease, files)?, token })
    }
}

/// Memory of a pool, mapped in one piece; returned when it is dropped, here and in every fork.
#[derive(Debug)]
pub struct Attachment {
    region: Region,
    lease: Lease,
    token: OwnedFd,
    locked: bool,
}

impl Attachment {
    fn map(leased: LeasedStripes, lock: bool) -> Result<Self, Error> {
        let LeasedStripes { stripes, token } = leased;
        let region = stripes.map().map_err(system("mmap"))?;
        let lease = stripes.lease;
        let all = 0..region.bytes();
        // The server has the pages locked: this process's own lock is a second one, and without
        // permission for it the pages are mapped all the same.
        let locked = lock && region.lock(all.clone()).is_ok();
        if !locked {
            region.populate(all).map_err(system("madvise"))?;
        }
        Ok(Self { region, lease, token, locked })
    }

    /// Its address. No reference into it may outlive it.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    /// Its size in bytes: the requested size, rounded up to whole stripes of the pool.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// Its mapping.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Its contents when it was attached.
    #[must_use]
    pub fn contents(&self) -> Contents {
        self.lease.contents
    }

    /// The number of the lease.
    #[must_use]
    pub fn lease(&self) -> u64 {
        self.lease.id
    }

    /// True if this process has locked it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// True if the server has its pages locked in memory.
    #[must_use]
    pub fn is_locked_by_server(&self) -> bool {
        self.lease.locked
    }

    /// The lease's socket: closing it in the last process that has it ends the lease.
    #[must_use]
    pub fn token(&self) -> BorrowedFd<'_> {
        self.token.as_fd()
    }

    /// Reports that its contents may be used after the lease: without this, kept contents are reported
    /// as dirty when they are attached again.
    ///
    /// # Errors
    /// If the server that granted the lease is gone for good.
    pub fn mark_consistent(&self) -> Result<(), Error> {
        socket::send(self.token.as_fd(), &[CONSISTENT], &[], SendFlags::DONTWAIT)
            .map_err(system("send"))
    }
}
