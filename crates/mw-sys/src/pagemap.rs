//! Scanning page tables (ioctl_pagemap_scan(2)).

use crate::direct::control;
use crate::direct_file::DirectFile;
use std::io;
use std::os::fd::AsFd;

/// `_IOWR('f', 16, struct pm_scan_arg)`, kernel 6.7.
const PAGEMAP_SCAN: libc::c_ulong = 0xC060_6610;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// The maximum number of ranges of one call.
const REGIONS: usize = 64;

/// `struct pm_scan_arg` (linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PmScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` (linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// Bytes from `start` on that are mapped by huge pages, transparent or hugetlb.
pub(crate) fn huge_bytes(start: usize, bytes: usize) -> io::Result<usize> {
    count(start, bytes, PmScanArg { category_mask: PAGE_IS_HUGE, ..PmScanArg::default() })
}

/// Bytes from `start` on that have no page in the page tables.
pub(crate) fn absent_bytes(start: usize, bytes: usize) -> io::Result<usize> {
    let absent = PmScanArg {
        category_mask: PAGE_IS_PRESENT,
        category_inverted: PAGE_IS_PRESENT,
        ..PmScanArg::default()
    };
    count(start, bytes, absent)
}

/// Bytes that match the categories of `scan`.
fn count(start: usize, bytes: usize, scan: PmScanArg) -> io::Result<usize> {
    let pagemap = DirectFile::open("/proc/self/pagemap")?;
    let end = start.checked_add(bytes).ok_or(io::ErrorKind::InvalidInput)? as u64;
    let (mut at, mut matching) = (start as u64, 0);
    while at < end {
        let mut found = [PageRegion::default(); REGIONS];
        let mut scan = PmScanArg {
            size: size_of::<PmScanArg>() as u64,
            start: at,
            end,
            vec: found.as_mut_ptr().expose_provenance() as u64,
            vec_len: REGIONS as u64,
            return_mask: scan.category_mask,
            ..scan
        };
        // SAFETY: `scan` is as the kernel defines it and says its size; `vec` points to as many
        // regions as `vec_len` says, alive over the call; the scan changes no page
        // (ioctl_pagemap_scan(2)).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        let count = unsafe { control(pagemap.as_fd(), PAGEMAP_SCAN, &raw mut scan) }?;
        matching += found.iter().take(count).map(|found| found.end - found.start).sum::<u64>();
        if scan.walk_end <= at {
            break;
        }
        at = scan.walk_end;
    }
    usize::try_from(matching).map_err(io::Error::other)
}
