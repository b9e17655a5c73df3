//! System calls with the conventions of the C library: -1 and `errno` if they fail. They are made
//! directly, so that no symbol has to be resolved, no call returns to this library, and no interposer of
//! the C library's functions (sanitizers, profilers) sees them.

use libc::{c_int, c_long, c_void, off_t};
use mw_sys::system_call;
use std::ops::Range;

/// Functions with the arguments and results of the C library's functions of these names.
macro_rules! calls {
    ($($name:ident = $number:ident ($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        #[allow(unsafe_code, reason = "passes on the program's request")]
        pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
            // SAFETY: the caller is responsible, as for the C library's function.
            let result = unsafe { system_call(libc::$number, [$($argument as usize),*]) };
            c_result(result) as $result
        }
    )*};
}

calls! {
    mlock = SYS_mlock(at: *const c_void, bytes: usize) -> c_int;
    mlock2 = SYS_mlock2(at: *const c_void, bytes: usize, flags: c_int) -> c_int;
    munlock = SYS_munlock(at: *mut c_void, bytes: usize) -> c_int;
    mlockall = SYS_mlockall(flags: c_int) -> c_int;
    mmap = SYS_mmap(
        at: *mut c_void, bytes: usize, prot: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void;
    munmap = SYS_munmap(at: *mut c_void, bytes: usize) -> c_int;
    madvise = SYS_madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    mremap = SYS_mremap(
        at: *mut c_void, old: usize, new: usize, flags: c_int, to: *mut c_void
    ) -> *mut c_void;
    msync = SYS_msync(at: *mut c_void, bytes: usize, flags: c_int) -> c_int;
    mincore = SYS_mincore(at: *mut c_void, bytes: usize, resident: *mut u8) -> c_int;
    mprotect = SYS_mprotect(at: *mut c_void, bytes: usize, prot: c_int) -> c_int;
    shmget = SYS_shmget(key: libc::key_t, bytes: usize, flags: c_int) -> c_int;
    shmat = SYS_shmat(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void;
    shmdt = SYS_shmdt(at: *const c_void) -> c_int;
    shmctl = SYS_shmctl(id: c_int, command: c_int, buffer: *mut libc::shmid_ds) -> c_int;
    process_vm_readv = SYS_process_vm_readv(
        process: u32, to: *const libc::iovec, pieces: usize, from: *const libc::iovec,
        from_pieces: usize, flags: usize
    ) -> isize;
    prctl = SYS_prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int;
    openat = SYS_openat(at: c_int, path: *const std::ffi::c_char, flags: c_int) -> c_int;
    read = SYS_read(fd: c_int, at: *mut u8, bytes: usize) -> isize;
    close = SYS_close(fd: c_int) -> c_int;
    geteuid = SYS_geteuid() -> u32;
    close_range = SYS_close_range(first: u32, last: u32, flags: u32) -> c_int;
}

/// The largest error number (linux/err.h).
const MAX_ERRNO: isize = 4095;

/// Converts the kernel's result to that of the C library, and sets `errno`.
pub(crate) fn c_result(result: isize) -> c_long {
    if (-MAX_ERRNO..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result as c_long
}

/// The whole pages of a range, as mlock(2) and munmap(2) round it; none if it overflows.
pub(crate) fn page_range(at: *const c_void, bytes: usize) -> Option<Range<usize>> {
    let page = mw_sys::page_bytes();
    let start = at.addr() - at.addr() % page;
    let end = at.addr().checked_add(bytes)?.checked_next_multiple_of(page)?;
    Some(start..end)
}

pub(crate) fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Restores `errno` when it is dropped: a call that succeeds must not change it.
pub(crate) struct ErrnoGuard(c_int);

impl ErrnoGuard {
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library's pointer to this thread's own variable (errno(3)).
    #[allow(unsafe_code, reason = "errno has no safe wrapper")]
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    #[allow(unsafe_code, reason = "errno has no safe wrapper")]
    unsafe {
        *place = value;
    }
}

/// A number that identifies the calling thread: the address of its `errno`. Helper threads and workers
/// share that of the thread that they work for.
pub(crate) fn thread_identity() -> usize {
    // SAFETY: the C library's pointer to this thread's own variable (errno(3)).
    #[allow(unsafe_code, reason = "errno has no safe wrapper")]
    let place = unsafe { libc::__errno_location() };
    place.addr()
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the C library's pointer to this thread's own variable (errno(3)).
    #[allow(unsafe_code, reason = "errno has no safe wrapper")]
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    #[allow(unsafe_code, reason = "errno has no safe wrapper")]
    unsafe {
        *place
    }
}
