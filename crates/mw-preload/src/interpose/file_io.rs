//! Interposed functions that transfer data of files. Without `--direct-io` each costs one comparison more
//! than the C library's function, which it calls.

#![allow(unsafe_code, reason = "exported C functions")]

use crate::uncached::{self, Direction, Position, note_transfer};
use crate::{kernel, original};
use libc::{c_int, c_uint, iovec, loff_t, off_t, size_t, ssize_t};
use std::ffi::c_void;

/// Functions with one buffer.
macro_rules! single_buffer {
    ($($name:ident = $original:ident ($($offset:ident)?), $direction:ident unless $off:ident;)*) => {$(
        #[doc = concat!(stringify!($original), "(2).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, at: *mut c_void, bytes: size_t $(, $offset: off_t)?
        ) -> ssize_t {
            if uncached::$off() {
                // SAFETY: the caller's own request.
                return unsafe { original::$original(fd, at, bytes $(, $offset)?) };
            }
            let offset = None::<off_t>$(.or(Some($offset)))?;
            // SAFETY: the caller's own request.
            unsafe { transfer(Direction::$direction, fd, at, bytes, offset) }
        }
    )*};
}

single_buffer! {
    write = write(), Write unless is_off;
    pwrite = pwrite(offset), Write unless is_off;
    pwrite64 = pwrite(offset), Write unless is_off;
    read = read(), Read unless is_off_for_reads;
    pread = pread(offset), Read unless is_off_for_reads;
    pread64 = pread(offset), Read unless is_off_for_reads;
}

/// The largest transfer of the kernel (`MAX_RW_COUNT`).
const TRANSFER_MAX: usize = 0x7fff_f000;

/// Makes a transfer with one buffer, with `RWF_DONTCACHE` if it is large and the kernel supports it.
unsafe fn transfer(
    direction: Direction,
    fd: c_int,
    at: *mut c_void,
    bytes: size_t,
    offset: Option<off_t>,
) -> ssize_t {
    let is_plain = bytes > TRANSFER_MAX || offset.is_some_and(|offset| offset < 0);
    if !is_plain && let Some(start) = uncached::dontcache_start(direction, fd, bytes as u64, offset)
    {
        let position = offset.unwrap_or(-1);
        // SAFETY: the caller's own request.
        let done = unsafe { transfer_dontcache(direction, fd, at, bytes, position) };
        if let Some(done) = done {
            uncached::note_dontcache(direction, fd, start, done);
            return done;
        }
    }
    let done = match (direction, offset) {
        // SAFETY: the caller's own request.
        (Direction::Write, None) => unsafe { original::write(fd, at, bytes) },
        // SAFETY: as above.
        (Direction::Write, Some(offset)) => unsafe { original::pwrite(fd, at, bytes, offset) },
        // SAFETY: as above.
        (Direction::Read, None) => unsafe { original::read(fd, at, bytes) },
        // SAFETY: as above.
        (Direction::Read, Some(offset)) => unsafe { original::pread(fd, at, bytes, offset) },
    };
    note_transfer(direction, fd, done, offset.map_or(Position::Current, Position::At))
}

/// None if `RWF_DONTCACHE` is not supported; then nothing was transferred.
unsafe fn transfer_dontcache(
    direction: Direction,
    fd: c_int,
    at: *mut c_void,
    bytes: size_t,
    offset: off_t,
) -> Option<ssize_t> {
    let before = kernel::errno();
    let piece = iovec { iov_base: at, iov_len: bytes };
    let flags = libc::RWF_DONTCACHE;
    let done = match direction {
        // SAFETY: the caller's own request; an offset of -1 is the position of the descriptor.
        Direction::Write => unsafe { original::pwritev2(fd, &raw const piece, 1, offset, flags) },
        // SAFETY: as above.
        Direction::Read => unsafe { original::preadv2(fd, &raw const piece, 1, offset, flags) },
    };
    // A seccomp filter may refuse it and allow the plain call.
    let refusals = [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS, libc::EPERM];
    if done < 0 && refusals.contains(&kernel::errno()) {
        kernel::set_errno(before);
        uncached::note_no_dontcache(direction, fd);
        return None;
    }
    Some(done)
}

/// Functions with several buffers.
macro_rules! several_buffers {
    ($($name:ident = $original:ident ($($offset:ident: $kind:ty $(, $flags:ident)?)?),
        $direction:ident unless $off:ident;)*) => {$(
        #[doc = concat!(stringify!($original), "(2).")]
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, pieces: *const iovec, count: c_int
            $(, $offset: $kind $(, $flags: c_int)?)?
        ) -> ssize_t {
            // SAFETY: the caller's own request.
            let done = unsafe { original::$original(fd, pieces, count $(, $offset $(, $flags)?)?) };
            if uncached::$off() {
                return done;
            }
            let offset = None::<off_t>$(.or(Some($offset)))?;
            // For pwritev2 and preadv2, -1 is the position of the descriptor.
            let position = offset.filter(|offset| *offset >= 0).map_or(Position::Current, Position::At);
            note_transfer(Direction::$direction, fd, done, position)
        }
    )*};
}

several_buffers! {
    writev = writev(), Write unless is_off;
    pwritev = pwritev(offset: off_t), Write unless is_off;
    pwritev64 = pwritev(offset: off_t), Write unless is_off;
    pwritev2 = pwritev2(offset: off_t, flags), Write unless is_off;
    pwritev64v2 = pwritev2(offset: off_t, flags), Write unless is_off;
    readv = readv(), Read unless is_off_for_reads;
    preadv = preadv(offset: off_t), Read unless is_off_for_reads;
    preadv64 = preadv(offset: off_t), Read unless is_off_for_reads;
    preadv2 = preadv2(offset: off_t, flags), Read unless is_off_for_reads;
    preadv64v2 = preadv2(offset: off_t, flags), Read unless is_off_for_reads;
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
    let done = unsafe { original::sendfile(to, from, offset, bytes) };
    if uncached::is_off() {
        done
    } else {
        note_transfer(Direction::Write, to, done, Position::Current)
    }
}

/// sendfile(2), under the name for large files.
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
    let done = unsafe { original::copy_file_range(from, from_offset, to, to_offset, bytes, flags) };
    if uncached::is_off() || done <= 0 {
        return done;
    }
    // SAFETY: the kernel has just written it.
    let end = (!to_offset.is_null()).then(|| unsafe { to_offset.read() });
    note_transfer(Direction::Write, to, done, end.map_or(Position::Current, Position::End))
}
