//! How the C library's allocator keeps memory that was freed.

/// Allocations from this size on are mappings of their own, which are given back when they are freed.
const MMAP_BYTES: libc::c_int = 64 << 10;

/// What may stay free at the end of the heap.
const TRIM_BYTES: libc::c_int = 128 << 10;

/// Has freed memory given back to the kernel, at the cost of time: for a program that lives long,
/// allocates much now and then, and has its memory locked. glibc gives a thread a heap of its own,
/// which grows to the most that the thread ever had, and shrinks by `madvise(MADV_DONTNEED)` alone,
/// which the kernel refuses on locked memory; so all threads share the one that shrinks by brk(2).
/// To be called before threads are made. Another C library is left as it is.
#[allow(unsafe_code, reason = "no safe wrapper of mallopt(3)")]
pub fn give_freed_memory_back() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, MMAP_BYTES),
        (libc::M_TRIM_THRESHOLD, TRIM_BYTES),
    ] {
        // SAFETY: mallopt(3) takes two numbers and changes the allocator's parameters under its lock.
        unsafe { libc::mallopt(parameter, value) };
    }
}
