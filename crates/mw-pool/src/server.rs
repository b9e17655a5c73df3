//! The server: one loop, without a thread per client.
//!
//! Invariants for a server that is killed at any moment:
//! - The service manager has a stripe before the lease table has it, so that no stripe of a table is
//!   lost; a stripe that is in no table is dropped by the next server.
//! - The state file says that a stripe is leased before its descriptors are sent, and that it is ready
//!   only after it was zeroed: the next server checks and zeroes again what is in between.
//! - The service manager has a lease's socket before the client has the other end. If it is missing,
//!   the lease has ended, and the kernel reports whether its memory is still in use.

mod events;
mod requests;

use crate::clients::Clients;
use crate::config::{Level, PoolServerConfig, StartError, system};
use crate::descriptor_store::{DescriptorStore, StoredName};
use crate::lease_sockets::LeaseSockets;
use crate::lease_table::{LeaseTable, Ownership, StripeId, StripeState};
use crate::listener::Listener;
use crate::reclaimer::Reclaimer;
use crate::replenisher::Replenisher;
use crate::state_file::StateFile;
use crate::stripes::Stripes;
use mw_memory::format_count;
use mw_sys::InterruptTimer;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The longest that dropping a client's descriptors takes.
const MAX_CLOSE: Duration = Duration::from_millis(1);
/// Exists on kernels with huge pages of 2 MiB.
const HUGETLB: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// A pool server.
pub struct Server {
    config: PoolServerConfig,
    table: LeaseTable,
    state_file: StateFile,
    store: DescriptorStore,
    stripes: Stripes,
    lease_sockets: LeaseSockets,
    reclaimer: Reclaimer,
    replenisher: Replenisher,
    clients: Clients,
    leases_total: u64,
    /// Shortage of the server, in words.
    lacks: String,
    /// The last field to be dropped, so that what clients have queued is dropped under it.
    wakeups: Option<InterruptTimer>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.wakeups = self.wakeups();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts with what an earlier server left.
    ///
    /// # Errors
    /// If another server listens at the socket, or a call fails.
    pub fn start(config: PoolServerConfig) -> Result<Self, StartError> {
        // Opening a file on which this process just has a lease raises SIGIO.
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(Signal::IO.as_raw(), ignored).map_err(system("SIGIO"))?;
        raise_descriptor_limit();
        let (store, mut stored) = DescriptorStore::open();
        let (state_file, table) =
            match stored.remove(&StoredName::StateFile).and_then(StateFile::open) {
                Some(opened) => opened,
                None => {
                    // One of another version stays in the store beside the new one, of the same name.
                    store.remove(StoredName::StateFile).map_err(system("the service manager"))?;
                    (StateFile::new().map_err(system("memfd_create"))?, LeaseTable::default())
                }
            };
        let listener = Listener::bind(&config.socket)?;
        let mut server = Self {
            table,
            state_file,
            store,
            stripes: Stripes::new(),
            lease_sockets: LeaseSockets::default(),
            reclaimer: Reclaimer::new().map_err(system("inotify_init1"))?,
            replenisher: Replenisher::new().map_err(system("threads"))?,
            clients: Clients::new(listener),
            leases_total: 0,
            lacks: String::new(),
            wakeups: None,
            config,
        };
        server.find_lacks();
        server.recover(stored);
        server.create_configured();
        let file = server.state_file.file();
        server.store.keep(StoredName::StateFile, file).map_err(system("the service manager"))?;
        server.save();
        Ok(server)
    }

    /// Finds out what the machine or the service manager does not provide.
    fn find_lacks(&mut self) {
        let mut lacks = Vec::new();
        if !self.stripes.shmem_owners_known() {
            lacks.push("a kernel that reports who has memory (returned memory is exchanged)");
        } else if !self.stripes.hugetlb_owners_known() && Path::new(HUGETLB).exists() {
            lacks.push("a kernel that reports who has huge pages (returned ones are exchanged)");
        }
        let may_lock = mw_sys::has_capability(mw_sys::Capability::IpcLock);
        if !may_lock && mw_sys::memlock_limit_bytes().is_some() {
            lacks.push(
                "CAP_IPC_LOCK or an unlimited RLIMIT_MEMLOCK (base pages and transparent huge pages \
                 may be swapped out)",
            );
        }
        if !self.store.has_manager() {
            lacks.push("a service manager (unused memory is lost when this server ends)");
        }
        self.lacks = lacks.join("; ");
        for lack in lacks {
            self.log(Level::Warning, &format!("lacks {lack}"));
        }
    }

    /// Takes over what an earlier server left, as far as it is in the lease table.
    fn recover(&mut self, stored: BTreeMap<StoredName, OwnedFd>) {
        for (name, fd) in stored {
            let is_known = match name {
                StoredName::StateFile => false,
                StoredName::Lease(id) => {
                    let is_active = self.table.is_active(id);
                    if is_active {
                        self.lease_sockets.insert(id, fd);
                    }
                    is_active
                }
                StoredName::Stripe(id) => self.recover_stripe(id, fd),
            };
            if !is_known {
                self.forget(name);
            }
        }
        let (stripes, sockets) = (&self.stripes, &self.lease_sockets);
        self.table.recover(&|id| stripes.contains(id), &|id| sockets.contains(id));
        let (stripes, leases) = (stripes.len(), sockets.len());
        if stripes > 0 {
            let (stripes, leases) =
                (format_count(stripes, "stripe"), format_count(leases, "lease"));
            self.log(Level::Notice, &format!("took over {stripes} and {leases}"));
        }
    }

    fn recover_stripe(&mut self, id: StripeId, fd: OwnedFd) -> bool {
        let Some(pool) = self.table.stripe(id).map(|stripe| stripe.pool) else { return false };
        match self.replenisher.adopt(pool, fd, &self.table) {
            Ok(memory) => {
                self.stripes.insert(id, memory);
                true
            }
            Err(error) => {
                self.log(Level::Error, &format!("stripe {id} is lost: {error}"));
                false
            }
        }
    }

    /// Creates the pools of the configuration that do not exist.
    fn create_configured(&mut self) {
        for spec in std::mem::take(&mut self.config.pools) {
            if self.table.find(&spec.name).is_none()
                && let Err((_, why)) = self.create(spec.clone())
            {
                self.log(Level::Error, &format!("pool '{}' was not created: {why}", spec.name));
            }
        }
    }

    /// Serves until `stop` is readable or its other end is closed, and calls `each_turn` at least
    /// once a second.
    ///
    /// # Errors
    /// poll(2)'s.
    pub fn run(&mut self, stop: BorrowedFd<'_>, each_turn: &mut dyn FnMut()) -> io::Result<()> {
        loop {
            self.do_due_work();
            let ready = self.wait(stop)?;
            if ready.stop {
                return Ok(());
            }
            self.handle(&ready);
            each_turn();
        }
    }

    /// Does what has become due since the last wait.
    fn do_due_work(&mut self) {
        let Self { table, stripes, store, reclaimer, replenisher, config, .. } = self;
        replenisher.note_completed(table, stripes, store, &config.log);
        reclaimer.note_freed(table);
        reclaimer.check_owners(table, stripes);
        self.save();
        self.give_up_memory();
        self.replenisher.give_work(&mut self.table, &self.stripes);
        if !self.reclaimer.has_check() && self.table.awaits_owners() {
            self.reclaimer.check_owners_soon();
        }
        self.save();
    }

    /// Writes the lease table if it has changed. Returns whether it is written.
    fn save(&mut self) -> bool {
        let saved = self.state_file.save(&self.table);
        if let Err(error) = &saved {
            self.log(Level::Error, &format!("cannot write the state file: {error}"));
        }
        saved.is_ok()
    }

    /// Gives up stripes and lease sockets that are not in the lease table any more.
    fn give_up_memory(&mut self) {
        let _wakeups = self.wakeups();
        let table = &self.table;
        let is_kept = |id: &StripeId| {
            table.stripe(*id).is_some_and(|stripe| stripe.state != StripeState::Exchanged)
        };
        let given_up: Vec<StripeId> = self.stripes.ids().filter(|id| !is_kept(id)).collect();
        let ended = self.lease_sockets.close_ended(|id| table.is_active(id));
        given_up.into_iter().for_each(|id| self.give_up_stripe(id));
        for id in ended {
            self.reclaimer.forget(id);
            self.forget(StoredName::Lease(id));
        }
    }

    /// Gives up a stripe. If it may be in use, its end is watched; one that cannot be watched
    /// stays.
    fn give_up_stripe(&mut self, id: StripeId) {
        let is_free = self.stripes.ownership(id) == Ownership::Free;
        let Some(memory) = self.stripes.get(id) else { return };
        if !is_free && let Err(error) = self.reclaimer.watch_freed(id, memory.file()) {
            let line = format!("stripe {id} is not exchanged: inotify_add_watch: {error}");
            return self.log(Level::Error, &line);
        }
        self.forget(StoredName::Stripe(id));
        if let Some(memory) = self.stripes.remove(id) {
            self.replenisher.free(id, memory, is_free);
        }
    }

    /// While clients can send descriptors: those are dropped here with their messages, and a wait
    /// that their owners impose on the kernel then is interrupted after this long.
    fn wakeups(&self) -> Option<InterruptTimer> {
        let needed = !self.clients.listener().refuses_descriptors();
        needed.then(|| InterruptTimer::new(MAX_CLOSE, Signal::IO.as_raw()).ok()).flatten()
    }

    fn forget(&self, name: StoredName) {
        if let Err(error) = self.store.remove(name) {
            self.log(Level::Error, &format!("the service manager still has {name:?}: {error}"));
        }
    }

    fn log(&self, level: Level, line: &str) {
        (self.config.log)(level, line);
    }
}

/// Each stripe is a descriptor, and a reply to a client has as many again for a moment.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, a lease that needs more fails.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
