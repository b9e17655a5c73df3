//! The C library's own functions for the interposed names (`RTLD_NEXT`). Unlike direct system calls they
//! are cancellation points (pthreads(7)). They are resolved when the library is loaded; until then, while
//! other libraries are initialized, the system call is made directly.
//!
//! A cancelled thread is unwound through these functions. They are therefore `extern "C-unwind"`, and have
//! no values to drop.

#![allow(unsafe_code, reason = "calls of the C library by address")]

use libc::{FILE, c_int, c_long, gid_t, iovec, loff_t, off_t, size_t, ssize_t, uid_t};
use std::ffi::{c_ulong, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that calls the C library's function at its resolved address, for each name.
macro_rules! functions {
    ($($name:ident = $known:literal, $number:ident (
        $($argument:ident: $kind:ty),*; $($passed:expr),*
    ) -> $result:ty;)*) => {
        pub(crate) fn resolve() {
            $(resolved::$name.store(find($known), Ordering::Relaxed);)*
        }

        #[allow(non_upper_case_globals, reason = "named after the functions")]
        mod resolved {
            use super::{AtomicPtr, c_void, null_mut};
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(null_mut());)*
        }

        $(
            #[inline]
            pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
                let found = resolved::$name.load(Ordering::Relaxed);
                if found.is_null() {
                    // SAFETY: the caller is responsible, as for the C library's function.
                    return unsafe { libc::syscall(libc::$number, $($passed),*) } as $result;
                }
                type Function = unsafe extern "C-unwind" fn($($kind),*) -> $result;
                // SAFETY: the C library's function of this name has this signature.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(found) };
                // SAFETY: the caller is responsible for it.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

functions! {
    _exit = c"_exit", SYS_exit_group(status: c_int; status) -> c_int;
    write = c"write", SYS_write(
        fd: c_int, at: *const c_void, bytes: size_t; fd, at, bytes
    ) -> ssize_t;
    pwrite = c"pwrite64", SYS_pwrite64(
        fd: c_int, at: *const c_void, bytes: size_t, offset: off_t; fd, at, bytes, offset
    ) -> ssize_t;
    writev = c"writev", SYS_writev(
        fd: c_int, pieces: *const iovec, count: c_int; fd, pieces, count
    ) -> ssize_t;
    pwritev = c"pwritev64", SYS_pwritev(
        fd: c_int, pieces: *const iovec, count: c_int, offset: off_t; fd, pieces, count, offset, HIGH
    ) -> ssize_t;
    pwritev2 = c"pwritev64v2", SYS_pwritev2(
        fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int;
        fd, pieces, count, offset, HIGH, flags
    ) -> ssize_t;
    read = c"read", SYS_read(
        fd: c_int, at: *mut c_void, bytes: size_t; fd, at, bytes
    ) -> ssize_t;
    pread = c"pread64", SYS_pread64(
        fd: c_int, at: *mut c_void, bytes: size_t, offset: off_t; fd, at, bytes, offset
    ) -> ssize_t;
    readv = c"readv", SYS_readv(
        fd: c_int, pieces: *const iovec, count: c_int; fd, pieces, count
    ) -> ssize_t;
    preadv = c"preadv64", SYS_preadv(
        fd: c_int, pieces: *const iovec, count: c_int, offset: off_t; fd, pieces, count, offset, HIGH
    ) -> ssize_t;
    preadv2 = c"preadv64v2", SYS_preadv2(
        fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int;
        fd, pieces, count, offset, HIGH, flags
    ) -> ssize_t;
    ioctl = c"ioctl", SYS_ioctl(
        fd: c_int, request: c_ulong, argument: usize; fd, request, argument
    ) -> c_int;
    msync = c"msync", SYS_msync(
        at: *mut c_void, bytes: size_t, flags: c_int; at, bytes, flags
    ) -> c_int;
    sendfile = c"sendfile64", SYS_sendfile(
        to: c_int, from: c_int, offset: *mut off_t, bytes: size_t; to, from, offset, bytes
    ) -> ssize_t;
    setuid = c"setuid", SYS_setuid(user: uid_t; user) -> c_int;
    seteuid = c"seteuid", SYS_setresuid(user: uid_t; NONE, user, NONE) -> c_int;
    setreuid = c"setreuid", SYS_setreuid(real: uid_t, user: uid_t; real, user) -> c_int;
    setresuid = c"setresuid", SYS_setresuid(
        real: uid_t, user: uid_t, saved: uid_t; real, user, saved
    ) -> c_int;
    setgid = c"setgid", SYS_setgid(group: gid_t; group) -> c_int;
    setegid = c"setegid", SYS_setresgid(group: gid_t; NONE, group, NONE) -> c_int;
    setregid = c"setregid", SYS_setregid(real: gid_t, group: gid_t; real, group) -> c_int;
    setresgid = c"setresgid", SYS_setresgid(
        real: gid_t, group: gid_t, saved: gid_t; real, group, saved
    ) -> c_int;
    setgroups = c"setgroups", SYS_setgroups(
        count: size_t, groups: *const gid_t; count, groups
    ) -> c_int;
    capset = c"capset", SYS_capset(
        header: *mut c_void, data: *const c_void; header, data
    ) -> c_int;
    unshare = c"unshare", SYS_unshare(flags: c_int; flags) -> c_int;
    setns = c"setns", SYS_setns(fd: c_int, kind: c_int; fd, kind) -> c_int;
    copy_file_range = c"copy_file_range", SYS_copy_file_range(
        from: c_int, from_offset: *mut loff_t, to: c_int, to_offset: *mut loff_t, bytes: size_t,
        flags: libc::c_uint;
        from, from_offset, to, to_offset, bytes, flags
    ) -> ssize_t;
}

/// fclose(3), resolved when it is first called, because no system call can replace it.
pub(crate) unsafe fn fclose(stream: *mut FILE) -> c_int {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    if FOUND.load(Ordering::Relaxed).is_null() {
        FOUND.store(find(c"fclose"), Ordering::Relaxed);
    }
    type Function = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;
    // SAFETY: a program that closes a stream has loaded the C library, whose fclose has this signature.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, Function>(FOUND.load(Ordering::Relaxed)) };
    // SAFETY: the caller is responsible for it.
    unsafe { function(stream) }
}

/// An id that stays as it is (setresuid(2)).
const NONE: uid_t = uid_t::MAX;

/// The upper half of an offset, which 64-bit kernels ignore.
const HIGH: c_long = 0;

fn find(name: &std::ffi::CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte (dlsym(3)).
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}
