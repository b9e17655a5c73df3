//! The names that stand in for the C library's functions of files. Where no direct I/O is asked for
//! each is one comparison more than the C library's, which is called.

#![allow(unsafe_code, reason = "names without mangling, and calls that C answers for")]

use crate::uncached::{self, Place, Way, transferred};
use crate::{kernel, next};
use libc::{c_int, c_uint, iovec, loff_t, off_t, size_t, ssize_t};
use std::ffi::c_void;

/// Functions that transfer one piece.
macro_rules! pieces {
    ($($name:ident = $next:ident ($($offset:ident)?), $way:ident unless $off:ident;)*) => {$(
        #[doc = concat!(stringify!($next), "(2).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, at: *mut c_void, bytes: size_t $(, $offset: off_t)?
        ) -> ssize_t {
            if uncached::$off() {
                // SAFETY: the caller's own request.
                return unsafe { next::$next(fd, at, bytes $(, $offset)?) };
            }
            let offset = None::<off_t>$(.or(Some($offset)))?;
            // SAFETY: the caller's own request.
            unsafe { piece(Way::$way, fd, at, bytes, offset) }
        }
    )*};
}

pieces! {
    write = write(), Write unless is_off;
    pwrite = pwrite(offset), Write unless is_off;
    pwrite64 = pwrite(offset), Write unless is_off;
    read = read(), Read unless are_reads_off;
    pread = pread(offset), Read unless are_reads_off;
    pread64 = pread(offset), Read unless are_reads_off;
}

/// The most that the kernel transfers at once (`MAX_RW_COUNT`).
const TRANSFER_MAX: usize = 0x7fff_f000;

/// Makes a transfer of one piece, uncached at once where it is large and that can be.
unsafe fn piece(
    way: Way,
    fd: c_int,
    at: *mut c_void,
    bytes: size_t,
    offset: Option<off_t>,
) -> ssize_t {
    let is_plain = bytes > TRANSFER_MAX || offset.is_some_and(|offset| offset < 0);
    if !is_plain && let Some(start) = uncached::is_uncached_at_once(way, fd, bytes as u64, offset) {
        // SAFETY: the caller's own request.
        if let Some(done) = unsafe { at_once(way, fd, at, bytes, offset.unwrap_or(-1)) } {
            uncached::done_at_once(way, fd, start, done);
            return done;
        }
    }
    let done = match (way, offset) {
        // SAFETY: the caller's own request.
        (Way::Write, None) => unsafe { next::write(fd, at, bytes) },
        // SAFETY: as above.
        (Way::Write, Some(offset)) => unsafe { next::pwrite(fd, at, bytes, offset) },
        // SAFETY: as above.
        (Way::Read, None) => unsafe { next::read(fd, at, bytes) },
        // SAFETY: as above.
        (Way::Read, Some(offset)) => unsafe { next::pread(fd, at, bytes, offset) },
    };
    transferred(way, fd, done, offset.map_or(Place::Position, Place::At))
}

/// Makes it with `RWF_DONTCACHE`; none where that cannot be, and then nothing was done.
unsafe fn at_once(
    way: Way,
    fd: c_int,
    at: *mut c_void,
    bytes: size_t,
    offset: off_t,
) -> Option<ssize_t> {
    let before = kernel::errno();
    let piece = iovec { iov_base: at, iov_len: bytes };
    let flags = libc::RWF_DONTCACHE;
    let done = match way {
        // SAFETY: the caller's own request; an offset of -1 is the descriptor's position.
        Way::Write => unsafe { next::pwritev2(fd, &raw const piece, 1, offset, flags) },
        // SAFETY: as above.
        Way::Read => unsafe { next::preadv2(fd, &raw const piece, 1, offset, flags) },
    };
    // A filter of system calls may refuse it where it allows the plain call.
    let refusals = [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS, libc::EPERM];
    if done < 0 && refusals.contains(&kernel::errno()) {
        kernel::set_errno(before);
        uncached::refused(way, fd);
        return None;
    }
    Some(done)
}

/// Functions that transfer several pieces.
macro_rules! several {
    ($($name:ident = $next:ident ($($offset:ident: $kind:ty $(, $flags:ident)?)?),
        $way:ident unless $off:ident;)*) => {$(
        #[doc = concat!(stringify!($next), "(2).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, pieces: *const iovec, count: c_int
            $(, $offset: $kind $(, $flags: c_int)?)?
        ) -> ssize_t {
            // SAFETY: the caller's own request.
            let done = unsafe { next::$next(fd, pieces, count $(, $offset $(, $flags)?)?) };
            if uncached::$off() {
                return done;
            }
            let offset = None::<off_t>$(.or(Some($offset)))?;
            // pwritev2 and preadv2 take -1 for the descriptor's position.
            let place = offset.filter(|offset| *offset >= 0).map_or(Place::Position, Place::At);
            transferred(Way::$way, fd, done, place)
        }
    )*};
}

several! {
    writev = writev(), Write unless is_off;
    pwritev = pwritev(offset: off_t), Write unless is_off;
    pwritev64 = pwritev(offset: off_t), Write unless is_off;
    pwritev2 = pwritev2(offset: off_t, flags), Write unless is_off;
    pwritev64v2 = pwritev2(offset: off_t, flags), Write unless is_off;
    readv = readv(), Read unless are_reads_off;
    preadv = preadv(offset: off_t), Read unless are_reads_off;
    preadv64 = preadv(offset: off_t), Read unless are_reads_off;
    preadv2 = preadv2(offset: off_t, flags), Read unless are_reads_off;
    preadv64v2 = preadv2(offset: off_t, flags), Read unless are_reads_off;
}

/// sendfile(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the caller's own request.
    let done = unsafe { next::sendfile(to, from, offset, bytes) };
    if uncached::is_off() { done } else { transferred(Way::Write, to, done, Place::Position) }
}

/// sendfile(2) by the name that programs with large files know it by.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the caller's own request.
    unsafe { sendfile(to, from, offset, bytes) }
}

/// copy_file_range(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn copy_file_range(
    from: c_int,
    from_offset: *mut loff_t,
    to: c_int,
    to_offset: *mut loff_t,
    bytes: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller's own request.
    let done = unsafe { next::copy_file_range(from, from_offset, to, to_offset, bytes, flags) };
    if uncached::is_off() || done <= 0 {
        return done;
    }
    // SAFETY: the kernel has just written it.
    let end = (!to_offset.is_null()).then(|| unsafe { to_offset.read() });
    transferred(Way::Write, to, done, end.map_or(Place::Position, Place::End))
}
