//! Memory that can be populated ahead of its use, without reclaim and without approaching a limit. It is
//! checked again and again by a thread that populates in the background, through files that stay open.

use crate::cgroup;
use mw_memory::MachineMemory;
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_sys::DirectFile;
use std::path::Path;
use std::time::{Duration, Instant};

/// The share of a cgroup's limit, and of the machine's memory, that is left alone: a tenth.
const RESERVE: u64 = 10;

/// The most groups above our own that are checked.
const MAX_GROUPS: usize = 16;

/// Stalls on memory are counted over at least this time.
const STALL_WINDOW: Duration = Duration::from_millis(50);

/// If tasks have waited for memory for more than this share of the window, memory is short: a tenth.
const STALL_SHARE: u32 = 10;

/// Longer files are not read: meminfo has about 1,600 bytes.
const FILE_BYTES: usize = 4096;

/// The reason why memory must not be populated ahead of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scarcity {
    /// Less than a tenth of the machine's memory would stay available.
    Machine,
    /// Less than a tenth of a memory cgroup's limit would stay unused.
    Cgroup,
    /// Tasks wait for memory (/proc/pressure/memory), and less than a tenth of the machine's memory is free.
    Stalls,
    /// /proc/meminfo cannot be read.
    Unknown,
}

/// The open files.
#[derive(Debug)]
pub struct Headroom {
    meminfo: DirectFile,
    groups: [Option<GroupFiles>; MAX_GROUPS],
    stalls: Option<StallCounter>,
}

/// The files of a cgroup: how much it uses, and its limits.
#[derive(Debug)]
struct GroupFiles {
    usage: DirectFile,
    limits: [Option<DirectFile>; 2],
}

/// Time at which stalls were counted, and their microseconds.
#[derive(Debug)]
struct StallCounter {
    file: DirectFile,
    counted: Instant,
    total_us: u64,
}

impl Headroom {
    /// Opens the files; none without /proc/meminfo.
    #[must_use]
    pub fn open() -> Option<Self> {
        let meminfo = DirectFile::open("/proc/meminfo").ok()?;
        let (dirs, limits, usage) = cgroup::own_memory_dirs();
        let mut opened = dirs.iter().filter_map(|dir| GroupFiles::open(dir, limits, usage));
        let groups = std::array::from_fn(|_| opened.next());
        Some(Self { meminfo, groups, stalls: StallCounter::open() })
    }

    /// Whether `bytes` may be populated now. It allocates nothing.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&mut self, bytes: u64) -> Result<(), Scarcity> {
        let meminfo = read(&self.meminfo, |text| Meminfo::parse(text).ok());
        let meminfo = meminfo.ok_or(Scarcity::Unknown)?;
        let available = MachineMemory::of_meminfo(&meminfo).available_bytes().unwrap_or(0);
        let total = meminfo.mem_total_bytes.ok_or(Scarcity::Unknown)?;
        if available < (total / RESERVE).saturating_add(bytes) {
            return Err(Scarcity::Machine);
        }
        if self.groups.iter().flatten().any(|group| !group.has_room(bytes)) {
            return Err(Scarcity::Cgroup);
        }
        // While much is free, it is other cgroups that wait, at a limit of theirs.
        let is_low = meminfo.mem_free_bytes.is_none_or(|free| free < total / RESERVE);
        let stalls = self.stalls.as_mut().is_some_and(StallCounter::are_frequent);
        if is_low && stalls { Err(Scarcity::Stalls) } else { Ok(()) }
    }
}

impl GroupFiles {
    fn open(dir: &Path, limits: &[&str], usage: &str) -> Option<Self> {
        let mut files = limits.iter().map(|name| DirectFile::open(dir.join(name)).ok());
        let limits = std::array::from_fn(|_| files.next().flatten());
        Some(Self { usage: DirectFile::open(dir.join(usage)).ok()?, limits })
    }

    /// Page cache counts as used: beyond the limit it would be reclaimed.
    fn has_room(&self, bytes: u64) -> bool {
        let limit = |file| read(file, |text| mw_proc::cgroup::parse_limit(text).ok().flatten());
        let Some(limit) = self.limits.iter().flatten().filter_map(limit).min() else { return true };
        let usage = read(&self.usage, |text| std::str::from_utf8(text).ok()?.trim().parse().ok());
        let usage: u64 = usage.unwrap_or(limit);
        fits(bytes, limit, usage)
    }
}

/// True if a tenth of the limit stays unused.
fn fits(bytes: u64, limit: u64, usage: u64) -> bool {
    usage.saturating_add(bytes) <= limit - limit / RESERVE
}

impl StallCounter {
    /// None on a kernel without pressure stall information.
    fn open() -> Option<Self> {
        let file = DirectFile::open("/proc/pressure/memory").ok()?;
        let total_us = Self::total_us(&file)?;
        Some(Self { file, counted: Instant::now(), total_us })
    }

    fn total_us(file: &DirectFile) -> Option<u64> {
        read(file, |text| Some(Pressure::parse(text).ok()?.some.total_us))
    }

    /// True if tasks waited for memory for a large part of the time since the last window.
    fn are_frequent(&mut self) -> bool {
        let elapsed = self.counted.elapsed();
        if elapsed < STALL_WINDOW {
            return false;
        }
        let Some(total_us) = Self::total_us(&self.file) else { return false };
        let stalled = Duration::from_micros(total_us.saturating_sub(self.total_us));
        (self.counted, self.total_us) = (Instant::now(), total_us);
        stalled > elapsed / STALL_SHARE
    }
}

/// Reads a file from its start.
fn read<T>(file: &DirectFile, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let mut text = [0_u8; FILE_BYTES];
    let length = rustix::io::pread(file, &mut text, 0).ok()?;
    parse(text.get(..length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_machines_memory_stays_available() {
        let mut headroom = Headroom::open().unwrap();
        let meminfo = crate::machine::meminfo().unwrap();
        assert!(headroom.check(u64::MAX).is_err());
        let total = meminfo.mem_total_bytes.unwrap();
        assert!(headroom.check(total - total / RESERVE).is_err());
    }

    #[test]
    fn a_tenth_of_a_groups_limit_stays_unused() {
        assert!(fits(100, 1000, 800) && !fits(101, 1000, 800));
        assert!(!fits(1, 1000, 2000) && !fits(u64::MAX, 1000, 0));
    }
}
