//! Huge pages that are reserved for the bench and given back at its end.

use crate::{Exit, Failure};
use std::fs;

/// Pages that were added to a pool. As many are taken away when it is dropped, whatever others did
/// to the pool meanwhile.
#[derive(Debug)]
pub(crate) struct Pool {
    file: String,
    added: u64,
}

impl Pool {
    /// Has the pool of this page size hold `bytes` more than it has promised.
    pub(crate) fn reserve(page_bytes: u64, bytes: u64) -> Result<Self, Failure> {
        let dir = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes >> 10);
        let file = format!("{dir}/nr_hugepages");
        let refused = |why: String| Failure::new(Exit::Refused, format!("{file}: {why}"));
        let read = |name: &str| number(&format!("{dir}/{name}"));
        let before = read("nr_hugepages").ok_or_else(|| refused("not there".to_owned()))?;
        let promised = read("resv_hugepages").unwrap_or(0);
        let free = read("free_hugepages").unwrap_or(0).saturating_sub(promised);
        let wanted = bytes.div_ceil(page_bytes).saturating_sub(free);
        fs::write(&file, (before + wanted).to_string()).map_err(|e| refused(e.to_string()))?;
        let added = number(&file).unwrap_or(0).saturating_sub(before);
        // From here on the guard gives back what was reached.
        let pool = Self { file, added };
        if added < wanted {
            return Err(Failure::new(
                Exit::Refused,
                format!("{}: only {added} of {wanted} pages could be had", pool.file),
            ));
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let left = number(&self.file).unwrap_or(self.added).saturating_sub(self.added);
        let _ = fs::write(&self.file, left.to_string());
    }
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
