//! What the process that looks holds itself: /proc/self/statm, through a descriptor that stays open.

use crate::source::{Source, read_all};
use mw_model::Missing;
use std::os::fd::OwnedFd;

/// Follows this process's resident memory.
#[derive(Debug)]
pub struct OwnMemory {
    file: Result<OwnedFd, Missing>,
    page_bytes: u64,
    buffer: Vec<u8>,
}

impl OwnMemory {
    pub fn open(source: &Source) -> Self {
        Self {
            file: source.open("/proc/self/statm"),
            page_bytes: rustix::param::page_size() as u64,
            buffer: Vec::new(),
        }
    }

    /// Resident bytes now; allocates nothing after the first call.
    pub fn resident_bytes(&mut self) -> Option<u64> {
        read_all(self.file.as_ref().ok()?, &mut self.buffer).ok()?;
        let pages = self.buffer.split(|byte| *byte == b' ').nth(1)?;
        Some(mw_proc::number::parse_u64(pages).ok()?.saturating_mul(self.page_bytes))
    }
}
