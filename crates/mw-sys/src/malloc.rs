//! Settings of the C library's allocator.

/// Allocations of this size or more by libraries in C get a mapping of their own, which is unmapped when they are freed;
/// those of Rust do in any case ([`Allocator`](crate::Allocator)).
#[cfg(target_env = "gnu")]
const MMAP_BYTES: libc::c_int = 64 << 10;

/// Free memory at the end of the heap above which the heap shrinks.
#[cfg(target_env = "gnu")]
const TRIM_BYTES: libc::c_int = 128 << 10;

/// Makes the allocator return freed memory to the kernel, at the cost of time: for a long-running
/// program with locked memory that allocates much at times. glibc gives each thread a heap of its own,
/// which grows to the thread's peak and shrinks only by `madvise(MADV_DONTNEED)`, which the kernel
/// refuses for locked memory; so all threads share the heap that shrinks by brk(2). Call it before
/// threads are created. Does nothing with other C libraries.
#[allow(unsafe_code, reason = "no safe wrapper of mallopt(3)")]
pub fn return_freed_memory_to_kernel() {
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
