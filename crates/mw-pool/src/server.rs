//! The server: one loop, no thread a client.
//!
//! What must hold when it is killed at any moment, and the order that sees to it:
//! - a stripe is kept by the service manager before the book has it, so that no stripe of a book is
//!   lost; a stripe that no book has is dropped by the next server;
//! - the book says that a stripe is somebody's before the descriptors are sent, and that it is
//!   ready only after it is zero: the next server judges and zeroes again whatever is between;
//! - a lease's descriptor is kept before the client has the other end. One that is missing means a
//!   lease that has ended, and whether its memory is still somebody's the kernel says.

mod events;
mod freed;
mod replenish;

use crate::clients::Connection;
use crate::descriptor_store::{self, StoredName};
use crate::lease_table::{
    LeaseId, LeasePhase, LeaseTable, Ownership, PoolId, StripeId, StripeState,
};
use crate::linger::LingerUntil;
use crate::listener::Listener;
use crate::memory::{self, Memory};
use crate::peer::Rates;
use crate::protocol::ServerStatus;
use crate::spec::Spec;
use crate::state_file::StateFile;
use crate::workers::Workers;
use freed::Watches;
use mw_memory::PageSize;
use mw_sys::InterruptTimer;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The longest that the loop sleeps.
const TURN: Duration = Duration::from_secs(1);
/// The longest that dropping a client's descriptors takes.
const LONGEST_CLOSE: Duration = Duration::from_millis(1);
/// Memory that was given back is asked for after so long, then twice as long, up to the last.
const CHECK_FIRST: Duration = Duration::from_millis(1);
const CHECK_LAST: Duration = Duration::from_secs(1);
/// Where kernels with huge pages of 2 MiB have them.
const HUGETLB: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Notice,
    /// Something lacks.
    Warning,
    /// Something failed.
    Error,
}

/// Asked before memory is taken: a pool, and how many bytes more it is to have.
pub type Preflight = Box<dyn Fn(&Spec, u64) -> Result<(), String>>;

/// Told of what happens, a line at a time.
pub type Log = Box<dyn Fn(Level, &str)>;

/// What a server is told.
pub struct Config {
    /// Where its socket is; the folder must be there.
    pub socket: PathBuf,
    /// The bytes that all pools may have together.
    pub budget_bytes: u64,
    /// Pools that are to be there.
    pub pools: Vec<Spec>,
    /// Asked before memory is taken; what it says is why not.
    pub preflight: Preflight,
    /// Told of what happens.
    pub log: Log,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is one at that socket.
    #[error("a server answers at {0} already")]
    Running(PathBuf),
    /// A call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

pub(crate) fn system(what: impl fmt::Display) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { what: what.to_string(), source }
}

/// What this server knows of a pool beside the book.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    /// Why it is not whole.
    pub(crate) trouble: String,
    /// When it may be tried again.
    again: Option<Instant>,
    pub(crate) scrubbed_bytes: u64,
    pub(crate) unlocked: bool,
}

/// The server.
pub struct Server {
    pub(crate) config: Config,
    pub(crate) book: LeaseTable,
    /// The book as it was written last.
    written: LeaseTable,
    image: StateFile,
    pub(crate) memory: BTreeMap<StripeId, Arc<Memory>>,
    pub(crate) leases: BTreeMap<LeaseId, OwnedFd>,
    /// Stripes that a worker zeroes.
    scrubbing: BTreeSet<StripeId>,
    /// Leases that said what is no word, or too much: they are heard no more, but for their end.
    muted: BTreeSet<LeaseId>,
    /// Leases that go on without their descriptor.
    pub(crate) lingering: BTreeMap<LeaseId, LingerUntil>,
    pub(crate) aside: BTreeMap<PoolId, Aside>,
    workers: Workers,
    /// Of what was given up without proof that nobody has it.
    watches: Watches,
    /// Whether somebody is populating.
    populating: bool,
    pub(crate) listener: Listener,
    pub(crate) connections: Vec<Connection>,
    pub(crate) rates: Rates,
    /// When the kernel is asked next, and how long after that.
    judge: Option<(Instant, Duration)>,
    /// Whether the kernel says who has memory, by kind of file: shmem, hugetlb.
    proves: [bool; 2],
    pub(crate) lines: (Option<Instant>, u32),
    pub(crate) state: ServerStatus,
    /// Of the end: the last to be dropped, so that what clients have queued is dropped under it.
    wakeups: Option<InterruptTimer>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.wakeups = self.wakeups();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("book", &self.book).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts, with what an earlier server left.
    ///
    /// # Errors
    /// Where another one answers at the socket, or a call fails.
    pub fn start(config: Config) -> Result<Self, StartError> {
        // Opening a file whose lease this process has for a moment raises SIGIO.
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(Signal::IO.as_raw(), ignored).map_err(system("SIGIO"))?;
        raise_descriptor_limit();
        let mut left = descriptor_store::left();
        let image = left.remove(&StoredName::Book).and_then(StateFile::open);
        let (image, book) = match image {
            Some((image, book)) => (image, book),
            None => (StateFile::new().map_err(system("memfd_create"))?, LeaseTable::default()),
        };
        let listener = Listener::bind(&config.socket)?;
        let mut server = Self {
            written: LeaseTable::default(),
            book,
            image,
            memory: BTreeMap::new(),
            leases: BTreeMap::new(),
            scrubbing: BTreeSet::new(),
            muted: BTreeSet::new(),
            lingering: BTreeMap::new(),
            aside: BTreeMap::new(),
            workers: Workers::start().map_err(system("threads"))?,
            watches: Watches::new().map_err(system("inotify_init1"))?,
            populating: false,
            listener,
            connections: Vec::new(),
            rates: Rates::default(),
            judge: None,
            proves: [memory::proves(PageSize::Base), memory::proves(PageSize::HUGE_2M)],
            lines: (None, 0),
            state: ServerStatus::default(),
            wakeups: None,
            config,
        };
        server.describe();
        server.recover(left);
        server.configured();
        descriptor_store::keep(StoredName::Book, server.image.file())
            .map_err(system("the service manager"))?;
        server.save();
        Ok(server)
    }

    /// What it has and lacks.
    fn describe(&mut self) {
        let mut lacks = Vec::new();
        if !self.proves[0] {
            lacks.push("a kernel that says who has memory: what is given back is exchanged");
        }
        if self.proves == [true, false] && Path::new(HUGETLB).exists() {
            lacks.push("a kernel that says who has huge pages: those given back are exchanged");
        }
        let locks = mw_sys::has_capability(mw_sys::Capability::IpcLock);
        if !locks && mw_sys::memlock_limit_bytes().is_some() {
            lacks.push(
                "CAP_IPC_LOCK or an unlimited RLIMIT_MEMLOCK: small and transparent huge pages may \
                 be swapped out",
            );
        }
        if !descriptor_store::is_there() {
            lacks.push("a service manager: memory that nobody has goes when this server ends");
        }
        self.state.budget_bytes = self.config.budget_bytes;
        self.state.proves = self.proves[0];
        self.state.stored = descriptor_store::is_there();
        self.state.lacks = lacks.join("; ");
        for lack in lacks {
            self.log(Level::Warning, &format!("lacks {lack}"));
        }
    }

    /// Takes what an earlier server left as far as the book has it; the rest is nobody's.
    fn recover(&mut self, left: BTreeMap<StoredName, OwnedFd>) {
        for (kept, fd) in left {
            let known = match kept {
                StoredName::Book => false,
                StoredName::Lease(id) => {
                    let active = self.book.lease(id).is_some_and(|l| l.phase == LeasePhase::Active);
                    if active {
                        self.leases.insert(id, fd);
                    }
                    active
                }
                StoredName::Stripe(id) => self.recover_stripe(id, fd),
            };
            if !known {
                self.forget(kept);
            }
        }
        let (memory, leases) = (&self.memory, &self.leases);
        self.book.recover(&|id| memory.contains_key(&id), &|id| leases.contains_key(&id));
        let (stripes, leases) = (self.memory.len(), self.leases.len());
        if stripes > 0 {
            self.log(Level::Notice, &format!("took over {stripes} stripes and {leases} leases"));
        }
    }

    fn recover_stripe(&mut self, id: StripeId, fd: OwnedFd) -> bool {
        let Some(pool) = self.book.stripe(id).map(|stripe| stripe.pool) else { return false };
        match self.adopt(pool, fd) {
            Ok(memory) => {
                self.memory.insert(id, memory);
                true
            }
            Err(error) => {
                self.log(Level::Error, &format!("stripe {id} is lost: {error}"));
                false
            }
        }
    }

    fn adopt(&self, id: PoolId, fd: OwnedFd) -> io::Result<Arc<Memory>> {
        let pool = self.book.pool(id).ok_or(io::ErrorKind::NotFound)?;
        let bytes = usize::try_from(pool.stripe_bytes).map_err(io::Error::other)?;
        let memory = Arc::new(Memory::adopt(fd, bytes, pool.spec.pages, &pool.spec.nodes)?);
        self.workers.lock(id, &memory);
        Ok(memory)
    }

    /// Makes the pools of the configuration that are not there.
    fn configured(&mut self) {
        for spec in std::mem::take(&mut self.config.pools) {
            if self.book.find(&spec.name).is_none()
                && let Err((_, why)) = self.create(spec.clone())
            {
                self.log(Level::Error, &format!("pool '{}' is not made: {why}", spec.name));
            }
        }
    }

    /// Serves until `stop` is readable or its other end is closed, and calls `each_turn` at least
    /// once a second.
    ///
    /// # Errors
    /// poll(2)'s.
    pub fn run(&mut self, stop: BorrowedFd<'_>, each_turn: &mut dyn FnMut()) -> io::Result<()> {
        while !self.turn(stop)? {
            each_turn();
        }
        Ok(())
    }

    /// Does the work that is due, waits for events, and handles them. Returns whether to stop.
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        self.hear_workers();
        for stripe in self.watches.freed() {
            self.book.freed(stripe);
        }
        self.check_owners();
        self.save();
        self.let_go();
        self.give_work();
        self.save();
        let ready = self.wait(stop, TURN)?;
        if ready.stop {
            return Ok(true);
        }
        let _wakeups = self.wakeups();
        self.hear_leases(&ready.leases);
        self.hear_clients(&ready.clients);
        if ready.listener {
            self.accept();
        }
        self.review_connections();
        Ok(false)
    }

    /// What the kernel says of a stripe.
    pub(crate) fn verdict(
        memory: &BTreeMap<StripeId, Arc<Memory>>,
        proves: [bool; 2],
        id: StripeId,
    ) -> Ownership {
        let ask = |memory: &Arc<Memory>| memory.verdict(proves[usize::from(memory.is_hugetlb())]);
        memory.get(&id).map_or(Ownership::Unknown, ask)
    }

    pub(crate) fn proves(&self) -> [bool; 2] {
        self.proves
    }

    /// Asks the kernel of what was given back, and of what nobody may have any more, when it is time.
    fn check_owners(&mut self) {
        let Some((at, after)) = self.judge else { return };
        let now = Instant::now();
        if now < at {
            return;
        }
        self.review_lingering();
        let (memory, proves) = (&self.memory, self.proves);
        let held = self.book.check_owners(&mut |id| Self::verdict(memory, proves, id));
        self.judge = (held || !self.lingering.is_empty())
            .then(|| (now + after, (after * 2).min(CHECK_LAST)));
    }

    fn check_owners_soon(&mut self) {
        self.judge = Some((Instant::now(), CHECK_FIRST));
    }

    /// Writes the book if it has changed; false where that failed.
    pub(crate) fn save(&mut self) -> bool {
        if self.book == self.written {
            return true;
        }
        match self.image.write(&self.book) {
            Ok(()) => {
                self.written = self.book.clone();
                true
            }
            Err(error) => {
                self.log(Level::Error, &format!("the book is not written: {error}"));
                false
            }
        }
    }

    /// Lets go of what the book has no more.
    fn let_go(&mut self) {
        let _wakeups = self.wakeups();
        let book = &self.book;
        let is_had =
            |id: &StripeId| book.stripe(*id).is_some_and(|s| s.state != StripeState::Exchanged);
        let gone: Vec<StripeId> = self.memory.keys().copied().filter(|id| !is_had(id)).collect();
        let active = |id: &LeaseId| book.lease(*id).is_some_and(|l| l.phase == LeasePhase::Active);
        let ended: Vec<LeaseId> = self.leases.keys().copied().filter(|id| !active(id)).collect();
        self.aside.retain(|pool, _| book.pool(*pool).is_some());
        gone.into_iter().for_each(|id| self.let_go_of(id));
        for id in ended {
            let own = self.leases.remove(&id);
            self.muted.remove(&id);
            self.lingering.remove(&id);
            own.inspect(events::hang_up);
            self.forget(StoredName::Lease(id));
        }
    }

    /// Gives a stripe up. Where the kernel does not say that nobody has it, it says when nobody has
    /// any more; what cannot be watched stays.
    fn let_go_of(&mut self, id: StripeId) {
        let is_free = Self::verdict(&self.memory, self.proves, id) == Ownership::Free;
        let Some(memory) = self.memory.get(&id) else { return };
        if !is_free && let Err(error) = self.watches.add(id, memory.file()) {
            let line = format!("stripe {id} is not exchanged: inotify_add_watch: {error}");
            return self.log(Level::Error, &line);
        }
        self.scrubbing.remove(&id);
        self.forget(StoredName::Stripe(id));
        if let Some(memory) = self.memory.remove(&id) {
            self.workers.free(memory, is_free.then_some(id));
        }
    }

    /// While clients can send descriptors, which end here when their messages do: what their owners
    /// have the kernel wait for at the end does not hold this thread up for longer than this.
    fn wakeups(&self) -> Option<InterruptTimer> {
        let needed = !self.listener.refuses_descriptors();
        needed.then(|| InterruptTimer::new(LONGEST_CLOSE, Signal::IO.as_raw()).ok()).flatten()
    }

    fn forget(&mut self, kept: StoredName) {
        if let Err(error) = descriptor_store::forget(kept) {
            self.log(Level::Error, &format!("the service manager keeps {kept:?}: {error}"));
        }
    }

    pub(crate) fn over(&mut self, id: LeaseId) {
        self.book.ended(id);
        self.lingering.remove(&id);
        self.check_owners_soon();
    }

    pub(crate) fn log(&self, level: Level, line: &str) {
        (self.config.log)(level, line);
    }
}

/// A stripe is a descriptor, and those of a client that is served are as many again.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, a lease fails that would need more.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
