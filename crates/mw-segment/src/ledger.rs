//! Who uses which processors: operations that run at the same time share them.
//!
//! An operation enters itself at every processor that it may use. Its share is what it gets when
//! each of those is divided by the operations that entered there; as others come and go, helpers
//! sit down and stand up between two chunks. The caller's own thread always works, so that none
//! starves.
//!
//! A fork copies the ledger but not the threads of the operations in it: an entry therefore
//! carries the number of the process that made it, and another process's entries count for
//! nothing. There is no lock, which a fork could copy in the locked state.

use crate::sync::{AtomicU64, Ordering};

/// The most processors that are told apart; those from here on share an entry with others.
pub(crate) const MAX_CPUS: usize = 1024;

/// Operations by processor: the process above, the count below.
#[derive(Debug)]
pub(crate) struct Ledger<const CPUS: usize = MAX_CPUS> {
    entries: [AtomicU64; CPUS],
}

/// One processor, divisible: three thirds of one are one, but for rounding.
const WHOLE: u64 = 1 << 20;

impl<const CPUS: usize> Ledger<CPUS> {
    #[allow(clippy::declare_interior_mutable_const, reason = "copied into each place of an array")]
    const EMPTY: AtomicU64 = AtomicU64::new(0);

    pub(crate) const fn new() -> Self {
        Self { entries: [Self::EMPTY; CPUS] }
    }

    /// Enters an operation of process `pid` at `cpus`, until the entry is dropped.
    pub(crate) fn enter<'a>(&'a self, pid: u32, cpus: &'a [u32]) -> Entry<'a, CPUS> {
        for cpu in cpus {
            self.change(*cpu, pid, |count| count.saturating_add(1));
        }
        Entry { ledger: self, pid, cpus }
    }

    fn slot(&self, cpu: u32) -> Option<&AtomicU64> {
        self.entries.get(cpu as usize % CPUS.max(1))
    }

    /// Relaxed throughout: the counts are all that is handed over, and a share that is out of date
    /// is put right at the next chunk.
    fn change(&self, cpu: u32, pid: u32, to: impl Fn(u32) -> u32) {
        let Some(slot) = self.slot(cpu) else { return };
        let mut seen = slot.load(Ordering::Relaxed);
        loop {
            let next = pack(pid, to(count(seen, pid)));
            match slot.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }
}

fn pack(pid: u32, count: u32) -> u64 {
    u64::from(pid) << 32 | u64::from(count)
}

/// What process `pid` has entered.
fn count(entry: u64, pid: u32) -> u32 {
    if entry >> 32 == u64::from(pid) { entry as u32 } else { 0 }
}

/// An operation in the ledger.
#[derive(Debug)]
pub(crate) struct Entry<'a, const CPUS: usize = MAX_CPUS> {
    ledger: &'a Ledger<CPUS>,
    pid: u32,
    cpus: &'a [u32],
}

impl<const CPUS: usize> Entry<'_, CPUS> {
    /// How many threads may work for this operation now: at least one.
    pub(crate) fn share(&self) -> usize {
        let part = |cpu: &u32| {
            let entry = self.ledger.slot(*cpu).map_or(0, |slot| slot.load(Ordering::Relaxed));
            WHOLE / u64::from(count(entry, self.pid).max(1))
        };
        let sum: u64 = self.cpus.iter().map(part).sum();
        usize::try_from(sum / WHOLE).unwrap_or(1).max(1)
    }
}

impl<const CPUS: usize> Drop for Entry<'_, CPUS> {
    fn drop(&mut self) {
        for cpu in self.cpus {
            self.ledger.change(*cpu, self.pid, |count| count.saturating_sub(1));
        }
    }
}
