//! Whether a seccomp filter lets this library work: `memwright run` has a process of its own make all
//! the library's system calls. The filter may kill that process; calls that it merely refuses are left
//! to the kernel anyway.

use crate::interpose::memory;
use crate::{background, confinement, mapping_limit, settings, stats, uncached};
use std::ptr::null_mut;

const BYTES: usize = 64 << 20;

/// Makes every system call of the library once, and ends the process.
#[allow(unsafe_code, reason = "calls what the program would call")]
pub(crate) fn run() -> ! {
    confinement::ignore_filters();
    mapping_limit::ignore();
    settings::set_threshold(0);
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at addresses that the kernel chooses.
    let at = unsafe { memory::mmap(null_mut(), BYTES, prot, flags, -1, 0) };
    // SAFETY: that memory; it is no matter whether RLIMIT_MEMLOCK allows it.
    unsafe { memory::mlock(at, BYTES) };
    // SAFETY: that memory.
    unsafe { memory::madvise(at, BYTES, libc::MADV_POPULATE_WRITE) };
    let part = at.expose_provenance()..at.expose_provenance() + BYTES / 16;
    let is_populated = background::make_all_calls(part);
    // SAFETY: that memory, which nothing uses.
    unsafe { memory::munmap(at, BYTES) };
    if settings::stats() {
        stats::make_all_calls();
    }
    uncached::make_all_calls();
    // SAFETY: nothing of the program has run yet.
    unsafe { libc::_exit(if is_populated { 0 } else { 1 }) }
}
