//! Free memory that is fragmented for a while.

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use std::fs;
use std::os::fd::OwnedFd;

const MIB: usize = 1 << 20;
/// From this order on a block serves a huge page.
const HUGE_ORDER: usize = 9;
/// Every 2 MiB of the memfd have one hole; its size in KiB by turns, so that each size of folios is free
/// and no huge page.
const HOLES_KIB: [usize; 8] = [1024, 1024, 512, 1024, 1536, 256, 1024, 1536];

/// A memfd that takes memory in base pages, with holes of 256 KiB to 1.5 MiB. Dropped, it is free again.
#[derive(Debug)]
pub struct FragmentedMemory {
    _file: OwnedFd,
}

impl FragmentedMemory {
    /// Takes `mib` of memory and punches the holes.
    ///
    /// # Panics
    /// Without so much memory.
    #[must_use]
    pub fn new(mib: usize) -> Self {
        let file = memfd_create("fragmented", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, (mib * MIB) as u64).unwrap();
        let zeros = vec![0; MIB];
        for number in 0..mib {
            assert_eq!(rustix::io::pwrite(&file, &zeros, (number * MIB) as u64).unwrap(), MIB);
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (number, kib) in (0..mib / 2).zip(HOLES_KIB.into_iter().cycle()) {
            fallocate(&file, hole, (number * 2 * MIB) as u64, (kib << 10) as u64).unwrap();
        }
        Self { _file: file }
    }
}

/// Free memory in MiB, and the share of it that cannot serve a huge page (the kernel's unusable free
/// space index at the order of a huge page).
///
/// # Panics
/// Without /proc/buddyinfo.
#[must_use]
pub fn free_mib() -> (usize, f64) {
    let text = fs::read_to_string("/proc/buddyinfo").unwrap();
    let blocks = |line: &str| -> Vec<u64> {
        line.split_whitespace().skip(4).map(|count| count.parse().unwrap()).collect()
    };
    let zones: Vec<_> = text.lines().map(blocks).collect();
    let pages = |from: usize| -> u64 {
        zones.iter().flat_map(|zone| zone.iter().enumerate().skip(from)).map(|(o, n)| n << o).sum()
    };
    let (all, huge) = (pages(0), pages(HUGE_ORDER));
    (all as usize / 256, 1.0 - huge as f64 / all as f64)
}

/// Direct compactions and wake-ups of kcompactd since boot, of all programs.
///
/// # Panics
/// Without /proc/vmstat.
#[must_use]
pub fn compactions() -> [u64; 2] {
    let text = fs::read_to_string("/proc/vmstat").unwrap();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
    };
    ["compact_stall", "compact_daemon_wake"].map(value)
}
