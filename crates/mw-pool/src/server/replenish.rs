//! How pools come to be whole: what workers are told to populate and zero, and what came of it.

use super::{Level, Server};
use crate::descriptor_store::{self, StoredName};
use crate::lease_table::{LeasePhase, PoolId, StripeId, StripeState};
use crate::memory::Memory;
use crate::workers::{Done, stripes_at_once};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is zeroed at once, a tenth of a second's work or so, before it is said to be ready.
const SCRUB_BYTES: u64 = 4 << 30;
/// A pool that could not be populated is tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(10);

impl Server {
    pub(super) fn hear_workers(&mut self) {
        for done in self.workers.done() {
            match done {
                Done::Populated { pool, stripes, files } => self.populated(pool, stripes, files),
                Done::Freed(stripe) => self.book.freed(stripe),
                Done::Locked(_, Ok(())) => {}
                Done::Locked(pool, Err(error)) => self.not_locked(pool, &error),
                Done::Scrubbed(results) => {
                    for (stripe, result) in results {
                        self.scrubbed(stripe, &result);
                    }
                }
            }
        }
    }

    fn populated(&mut self, pool: PoolId, stripes: u64, files: Result<Vec<OwnedFd>, String>) {
        self.populating = false;
        self.book.populated(pool, stripes);
        let Some(name) = self.book.pool(pool).map(|pool| pool.spec.name.clone()) else { return };
        let result =
            files.and_then(|files| files.into_iter().try_for_each(|file| self.take(pool, file)));
        let aside = self.aside.entry(pool).or_default();
        match result {
            Ok(()) => (aside.trouble, aside.again) = (String::new(), None),
            Err(error) => {
                let line = format!("pool '{name}' is not whole: {error}");
                aside.trouble = error;
                aside.again = Some(Instant::now() + TRY_AGAIN);
                self.log(Level::Error, &line);
            }
        }
    }

    /// Takes a stripe into its pool.
    fn take(&mut self, pool: PoolId, file: OwnedFd) -> Result<(), String> {
        let memory = self.adopt(pool, file).map_err(|error| error.to_string())?;
        let Some(id) = self.book.add(pool) else {
            self.workers.free(memory, None);
            return Ok(());
        };
        if let Err(error) = descriptor_store::keep(StoredName::Stripe(id), memory.file()) {
            self.log(Level::Error, &format!("the service manager does not keep it: {error}"));
        }
        self.memory.insert(id, memory);
        Ok(())
    }

    fn not_locked(&mut self, pool: PoolId, error: &io::Error) {
        let Some(name) = self.book.pool(pool).map(|pool| pool.spec.name.clone()) else { return };
        let aside = self.aside.entry(pool).or_default();
        if !std::mem::replace(&mut aside.unlocked, true) {
            self.log(Level::Warning, &format!("pool '{name}' is not locked in memory: {error}"));
        }
    }

    fn scrubbed(&mut self, stripe: StripeId, result: &io::Result<()>) {
        self.scrubbing.remove(&stripe);
        let pool = self.book.stripe(stripe).map(|stripe| stripe.pool);
        let bytes = pool.and_then(|id| Some(self.book.pool(id)?.stripe_bytes));
        if let (Some(pool), Some(bytes)) = (pool, bytes) {
            self.aside.entry(pool).or_default().scrubbed_bytes += bytes;
        }
        if let Err(error) = result {
            let line = format!("stripe {stripe} is exchanged: {error}");
            self.log(Level::Warning, &line);
        }
        self.book.scrubbed(stripe, result.is_ok());
    }

    pub(super) fn give_work(&mut self) {
        let pools: Vec<(PoolId, u64)> =
            self.book.pools.iter().map(|(id, pool)| (*id, pool.stripe_bytes)).collect();
        for (pool, stripe_bytes) in pools {
            self.scrub(pool, stripe_bytes);
        }
        let returned =
            self.book.stripes_that(|s| s.state == StripeState::Returned).next().is_some();
        if self.judge.is_none()
            && (returned || self.book.leases_in(LeasePhase::Draining).next().is_some())
        {
            self.check_owners_soon();
        }
        self.populate();
    }

    /// Has what is due of a pool zeroed, in portions after which each is ready.
    fn scrub(&mut self, pool: PoolId, stripe_bytes: u64) {
        let scrubbing = &self.scrubbing;
        let due = self.book.stripes_that(|s| s.pool == pool && s.state == StripeState::Scrubbing);
        let due: Vec<(StripeId, Arc<Memory>)> = due
            .filter(|id| !scrubbing.contains(id))
            .filter_map(|id| Some((id, Arc::clone(self.memory.get(&id)?))))
            .collect();
        self.scrubbing.extend(due.iter().map(|(id, _)| *id));
        let portion = usize::try_from(SCRUB_BYTES / stripe_bytes.max(1)).unwrap_or(1).max(1);
        for stripes in due.chunks(portion) {
            self.workers.scrub(stripes.to_vec());
        }
    }

    /// Has the next stripes populated, of the first pool that lacks some.
    fn populate(&mut self) {
        if self.populating {
            return;
        }
        let now = Instant::now();
        let may = |id: &PoolId| {
            let again = self.aside.get(id).and_then(|aside| aside.again);
            self.book.missing(*id) > 0 && again.is_none_or(|again| now >= again)
        };
        let Some(id) = self.book.pools.keys().copied().find(may) else { return };
        let Some(pool) = self.book.pool(id) else { return };
        let stripes = self.book.missing(id).min(stripes_at_once());
        let bytes = usize::try_from(pool.stripe_bytes).unwrap_or(usize::MAX);
        self.workers.populate(id, &pool.spec, bytes, stripes);
        self.book.populating(id, stripes);
        self.populating = true;
    }
}
