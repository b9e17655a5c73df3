//! Keeps pools populated and zeroed: what the worker threads are given, and what comes of it.

use crate::config::{Level, LogFn};
use crate::descriptor_store::{DescriptorStore, StoredName};
use crate::lease_table::{LeaseTable, PoolId, StripeId, StripeState};
use crate::stripe_memory::StripeMemory;
use crate::stripes::Stripes;
use crate::workers::{JobResult, StripeWorkers, stripes_at_once};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are zeroed before they are reported as ready: about a tenth of a second's work.
const ZERO_BATCH_BYTES: u64 = 4 << 30;
/// Populating a pool is retried after this.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Facts about a pool that this server does not keep across restarts.
#[derive(Debug, Default)]
pub(crate) struct PoolHealth {
    /// The reason why the pool is not fully populated; empty if it is, or is about to be.
    pub(crate) trouble: String,
    pub(crate) zeroed_bytes: u64,
    retry_at: Option<Instant>,
    /// True if a failure to lock its memory was logged.
    unlocked: bool,
}

#[derive(Debug)]
pub(crate) struct Replenisher {
    workers: StripeWorkers,
    /// Stripes that a worker thread is zeroing.
    zeroing: BTreeSet<StripeId>,
    is_populating: bool,
    pools: BTreeMap<PoolId, PoolHealth>,
}

impl Replenisher {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            workers: StripeWorkers::start()?,
            zeroing: BTreeSet::new(),
            is_populating: false,
            pools: BTreeMap::new(),
        })
    }

    pub(crate) fn health(&self, pool: PoolId) -> Option<&PoolHealth> {
        self.pools.get(&pool)
    }

    /// Readable when a worker thread has completed something.
    pub(crate) fn completions(&self) -> BorrowedFd<'_> {
        self.workers.wakeup()
    }

    /// Takes over a stripe's file, and has its pages locked in memory.
    pub(crate) fn adopt(
        &self,
        pool: PoolId,
        file: OwnedFd,
        table: &LeaseTable,
    ) -> io::Result<Arc<StripeMemory>> {
        let about = table.pool(pool).ok_or(io::ErrorKind::NotFound)?;
        let bytes = usize::try_from(about.stripe_bytes).map_err(io::Error::other)?;
        let memory = StripeMemory::adopt(file, bytes, about.spec.pages, &about.spec.nodes)?;
        let memory = Arc::new(memory);
        self.workers.lock(pool, &memory);
        Ok(memory)
    }

    /// Notes what the worker threads have completed since the last call.
    pub(crate) fn note_completed(
        &mut self,
        table: &mut LeaseTable,
        stripes: &mut Stripes,
        store: &DescriptorStore,
        log: &LogFn,
    ) {
        for completed in self.workers.completed() {
            match completed {
                JobResult::Populated { pool, stripes: count, files } => {
                    self.is_populating = false;
                    table.end_populating(pool, count);
                    let add = |file| self.add(pool, file, table, stripes, store, log);
                    let result = files.and_then(|files| files.into_iter().try_for_each(add));
                    self.note_populated(pool, result, table, log);
                }
                JobResult::Freed(stripe) => table.freed(stripe),
                JobResult::Locked(_, Ok(())) => {}
                JobResult::Locked(pool, Err(error)) => self.note_unlocked(pool, &error, table, log),
                JobResult::Zeroed(results) => {
                    for (stripe, result) in results {
                        self.note_zeroed(stripe, &result, table, log);
                    }
                }
            }
        }
    }

    /// Adds a populated stripe to its pool.
    fn add(
        &self,
        pool: PoolId,
        file: OwnedFd,
        table: &mut LeaseTable,
        stripes: &mut Stripes,
        store: &DescriptorStore,
        log: &LogFn,
    ) -> Result<(), String> {
        let memory = self.adopt(pool, file, table).map_err(|error| error.to_string())?;
        let Some(id) = table.add_stripe(pool) else {
            self.workers.free(memory, None);
            return Ok(());
        };
        if let Err(error) = store.keep(StoredName::Stripe(id), memory.file()) {
            log(Level::Error, &format!("the service manager does not keep stripe {id}: {error}"));
        }
        stripes.insert(id, memory);
        Ok(())
    }

    fn note_populated(
        &mut self,
        pool: PoolId,
        result: Result<(), String>,
        table: &LeaseTable,
        log: &LogFn,
    ) {
        let Some(name) = table.pool(pool).map(|pool| &pool.spec.name) else { return };
        let health = self.pools.entry(pool).or_default();
        match result {
            Ok(()) => (health.trouble, health.retry_at) = (String::new(), None),
            Err(error) => {
                log(Level::Error, &format!("pool '{name}' is not fully populated: {error}"));
                health.trouble = error;
                health.retry_at = Some(Instant::now() + RETRY_INTERVAL);
            }
        }
    }

    fn note_unlocked(&mut self, pool: PoolId, error: &io::Error, table: &LeaseTable, log: &LogFn) {
        let Some(name) = table.pool(pool).map(|pool| &pool.spec.name) else { return };
        let health = self.pools.entry(pool).or_default();
        if !std::mem::replace(&mut health.unlocked, true) {
            log(Level::Warning, &format!("pool '{name}' is not locked in memory: {error}"));
        }
    }

    fn note_zeroed(
        &mut self,
        stripe: StripeId,
        result: &io::Result<()>,
        table: &mut LeaseTable,
        log: &LogFn,
    ) {
        self.zeroing.remove(&stripe);
        let pool = table.stripe(stripe).map(|stripe| stripe.pool);
        let bytes = pool.and_then(|id| Some(table.pool(id)?.stripe_bytes));
        match result {
            Ok(()) => {
                if let (Some(pool), Some(bytes)) = (pool, bytes) {
                    self.pools.entry(pool).or_default().zeroed_bytes += bytes;
                }
            }
            Err(error) => log(Level::Warning, &format!("stripe {stripe} is exchanged: {error}")),
        }
        table.end_zeroing(stripe, result.is_ok());
    }

    /// Gives the worker threads what is due.
    pub(crate) fn give_work(&mut self, table: &mut LeaseTable, stripes: &Stripes) {
        let pools: Vec<(PoolId, u64)> =
            table.pools().map(|(id, pool)| (id, pool.stripe_bytes)).collect();
        for (pool, stripe_bytes) in pools {
            self.zero(pool, stripe_bytes, table, stripes);
        }
        self.populate(table);
        self.pools.retain(|pool, _| table.pool(*pool).is_some());
    }

    /// Has the stripes of a pool that are due zeroed, in batches after each of which they are ready.
    fn zero(&mut self, pool: PoolId, stripe_bytes: u64, table: &LeaseTable, stripes: &Stripes) {
        let zeroing = &self.zeroing;
        let is_due =
            |s: &crate::lease_table::Stripe| s.pool == pool && s.state == StripeState::Zeroing;
        let due: Vec<(StripeId, Arc<StripeMemory>)> = table
            .stripes_that(is_due)
            .filter(|id| !zeroing.contains(id))
            .filter_map(|id| Some((id, Arc::clone(stripes.get(id)?))))
            .collect();
        self.zeroing.extend(due.iter().map(|(id, _)| *id));
        let batch = usize::try_from(ZERO_BATCH_BYTES / stripe_bytes.max(1)).unwrap_or(1).max(1);
        for stripes in due.chunks(batch) {
            self.workers.zero(stripes.to_vec());
        }
    }

    /// Has the next stripes populated, of the first pool that lacks some.
    fn populate(&mut self, table: &mut LeaseTable) {
        if self.is_populating {
            return;
        }
        let now = Instant::now();
        let is_due = |id: &PoolId| {
            let retry_at = self.pools.get(id).and_then(|health| health.retry_at);
            table.missing(*id) > 0 && retry_at.is_none_or(|at| now >= at)
        };
        let Some(id) = table.pools().map(|(id, _)| id).find(is_due) else { return };
        let Some(pool) = table.pool(id) else { return };
        let stripes = table.missing(id).min(stripes_at_once());
        let bytes = usize::try_from(pool.stripe_bytes).unwrap_or(usize::MAX);
        self.workers.populate(id, &pool.spec, bytes, stripes);
        table.begin_populating(id, stripes);
        self.is_populating = true;
    }

    /// Frees a stripe's memory; reported as freed if `is_free` returns that no other process has it.
    pub(crate) fn free(&mut self, id: StripeId, memory: Arc<StripeMemory>, is_free: bool) {
        self.zeroing.remove(&id);
        self.workers.free(memory, is_free.then_some(id));
    }
}
