//! Huge pages that are reserved for a while.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;

const POOLS: &str = "/sys/kernel/mm/hugepages";

/// Whoever compares the size of a pool before and after keeps those away who add pages, for as long as this lives.
///
/// # Panics
/// Where the kernel has no huge pages.
#[must_use]
pub fn huge_pages_alone() -> File {
    let pools = File::open(POOLS).unwrap();
    flock(&pools, FlockOperation::LockExclusive).unwrap();
    pools
}

/// Huge pages that were added to the kernel's pool. Dropped, as many are taken away again as were
/// added, whatever others did to the pool meanwhile.
#[derive(Debug)]
pub struct HugePages {
    pool: PathBuf,
    added: u64,
    _turn: File,
}

impl HugePages {
    /// `pages` more of `page_bytes` each; none where the machine cannot give them all.
    #[must_use]
    pub fn more(page_bytes: usize, pages: u64) -> Option<Self> {
        let name = format!("hugepages-{}kB", page_bytes >> 10);
        let turn = File::open(POOLS).ok()?;
        flock(&turn, FlockOperation::LockShared).ok()?;
        let mut reserved = Self { pool: format!("{POOLS}/{name}").into(), added: 0, _turn: turn };
        let before = reserved.number("nr_hugepages")?;
        fs::write(reserved.pool.join("nr_hugepages"), (before + pages).to_string()).ok()?;
        reserved.added = reserved.number("nr_hugepages")?.saturating_sub(before);
        (reserved.added >= pages).then_some(reserved)
    }

    /// Number of the pool's pages that nobody has.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.number("free_hugepages").unwrap_or_default()
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.pool.join(file)).ok()?.trim().parse().ok()
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let left = self.number("nr_hugepages").unwrap_or_default().saturating_sub(self.added);
        if let Err(error) = fs::write(self.pool.join("nr_hugepages"), left.to_string()) {
            eprintln!("{} is not back at {left} pages: {error}", self.pool.display());
        }
    }
}
