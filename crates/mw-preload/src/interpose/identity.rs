//! Interposed functions that change the identity of all threads, or need a process with one thread: the
//! thread that populates in the background ends before them. It would keep the privileges that the program
//! gives up, because the C library does not know it.

#![allow(unsafe_code, reason = "exported C functions")]

use crate::{background, original};
use libc::{c_int, gid_t, size_t, uid_t};
use std::ffi::c_void;

macro_rules! without_background_thread {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[doc = concat!(stringify!($name), "(2).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> c_int {
            background::end();
            // SAFETY: the caller's own request.
            unsafe { original::$name($($argument),*) }
        }
    )*};
}

without_background_thread! {
    setuid(user: uid_t);
    seteuid(user: uid_t);
    setreuid(real: uid_t, user: uid_t);
    setresuid(real: uid_t, user: uid_t, saved: uid_t);
    setgid(group: gid_t);
    setegid(group: gid_t);
    setregid(real: gid_t, group: gid_t);
    setresgid(real: gid_t, group: gid_t, saved: gid_t);
    setgroups(count: size_t, groups: *const gid_t);
    capset(header: *mut c_void, data: *const c_void);
    unshare(flags: c_int);
    setns(fd: c_int, kind: c_int);
}
