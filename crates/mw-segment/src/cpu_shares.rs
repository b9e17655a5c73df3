//! How many CPUs each operation may use: operations that run at the same time share them.
//!
//! An operation registers itself on every CPU that it may use. Its share is the sum over its CPUs of
//! one divided by the operations registered there. As others start and end, workers pause and resume
//! between two chunks. The caller's own thread always works, so that no operation starves.
//!
//! A fork copies the table but not the threads of the operations in it. Each entry therefore carries
//! the id of the process that wrote it, and the entries of another process count as zero. There is no
//! lock, which a fork could copy in the locked state.

use crate::sync::{AtomicU64, Ordering};

/// CPUs with numbers from here on share an entry with lower ones.
pub(crate) const MAX_CPUS: usize = 1024;

/// Operations by CPU: the process id in the upper half, the count in the lower.
#[derive(Debug)]
pub(crate) struct CpuShares<const CPUS: usize = MAX_CPUS> {
    entries: [AtomicU64; CPUS],
}

/// One CPU in fixed point: three thirds add up to one, but for rounding.
const WHOLE: u64 = 1 << 20;

impl<const CPUS: usize> CpuShares<CPUS> {
    #[allow(clippy::declare_interior_mutable_const, reason = "copied into each place of an array")]
    const EMPTY: AtomicU64 = AtomicU64::new(0);

    pub(crate) const fn new() -> Self {
        Self { entries: [Self::EMPTY; CPUS] }
    }

    /// Registers an operation of process `pid` on `cpus` until the registration is dropped.
    pub(crate) fn register<'a>(&'a self, pid: u32, cpus: &'a [u32]) -> Registration<'a, CPUS> {
        for cpu in cpus {
            self.change(*cpu, pid, |count| count.saturating_add(1));
        }
        Registration { shares: self, pid, cpus }
    }

    fn entry(&self, cpu: u32) -> Option<&AtomicU64> {
        self.entries.get(cpu as usize % CPUS.max(1))
    }

    /// Relaxed throughout: the counts are the only data handed over, and a stale share is corrected
    /// at the next chunk.
    fn change(&self, cpu: u32, pid: u32, to: impl Fn(u32) -> u32) {
        let Some(entry) = self.entry(cpu) else { return };
        let mut seen = entry.load(Ordering::Relaxed);
        loop {
            let next = pack(pid, to(count(seen, pid)));
            match entry.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }
}

fn pack(pid: u32, count: u32) -> u64 {
    u64::from(pid) << 32 | u64::from(count)
}

/// The operations that process `pid` has registered in an entry.
fn count(entry: u64, pid: u32) -> u32 {
    if entry >> 32 == u64::from(pid) { entry as u32 } else { 0 }
}

#[derive(Debug)]
pub(crate) struct Registration<'a, const CPUS: usize = MAX_CPUS> {
    shares: &'a CpuShares<CPUS>,
    pid: u32,
    cpus: &'a [u32],
}

impl<const CPUS: usize> Registration<'_, CPUS> {
    /// Number of threads that may work for this operation now: at least one.
    pub(crate) fn share(&self) -> usize {
        let part = |cpu: &u32| {
            let entry = self.shares.entry(*cpu).map_or(0, |entry| entry.load(Ordering::Relaxed));
            WHOLE / u64::from(count(entry, self.pid).max(1))
        };
        let sum: u64 = self.cpus.iter().map(part).sum();
        usize::try_from(sum / WHOLE).unwrap_or(1).max(1)
    }
}

impl<const CPUS: usize> Drop for Registration<'_, CPUS> {
    fn drop(&mut self) {
        for cpu in self.cpus {
            self.shares.change(*cpu, self.pid, |count| count.saturating_sub(1));
        }
    }
}
