//! Whether a filter of system calls lets this library work: `memwright run` has a process of its own
//! find out, which the filter may end. What the filter only refuses is left to the kernel anyway.

use crate::{interpose, settings, stats, uncached};
use std::ptr::null_mut;

const BYTES: usize = 64 << 20;

/// Does everything once, and ends the process.
#[allow(unsafe_code, reason = "calls what the program would call")]
pub(crate) fn run() -> ! {
    settings::try_everything();
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at addresses that the kernel chooses.
    let at = unsafe { interpose::mmap(null_mut(), BYTES, prot, flags, -1, 0) };
    // SAFETY: that memory; the limit of locked memory may be lower, which is no matter.
    unsafe { interpose::mlock(at, BYTES) };
    // SAFETY: that memory.
    unsafe { interpose::madvise(at, BYTES, libc::MADV_POPULATE_WRITE) };
    // SAFETY: that memory, which nobody uses.
    unsafe { interpose::munmap(at, BYTES) };
    if settings::stats() {
        stats::try_everything();
    }
    uncached::try_everything();
    // SAFETY: nothing of the program has run yet.
    unsafe { libc::_exit(0) }
}
