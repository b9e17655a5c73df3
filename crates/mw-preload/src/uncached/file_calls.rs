//! Direct system calls on files, which are not cancellation points. The caller preserves `errno`.

#![allow(unsafe_code, reason = "system calls")]

use std::ffi::{CStr, c_int};
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr::null;

/// cachestat(2), kernel 6.5: the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// `SYNC_FILE_RANGE_WRITE` (sync_file_range(2)).
const SYNC_FILE_RANGE_WRITE: libc::c_uint = 2;

/// struct cachestat_range (linux/mman.h).
#[repr(C)]
struct CachestatRange {
    from: u64,
    bytes: u64,
}

/// struct cachestat (linux/mman.h).
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    pages: u64,
    _dirty: u64,
    writeback: u64,
    _evicted: u64,
    _recently_evicted: u64,
}

/// Starts writeback of the dirty pages of a range, without waiting for it.
pub(super) fn start_writeback(fd: c_int, from: u64, bytes: u64) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_sync_file_range, fd, from, bytes, SYNC_FILE_RANGE_WRITE) };
}

/// Drops the clean pages of a range from the page cache.
pub(super) fn drop_pages(fd: c_int, from: u64, bytes: u64) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_fadvise64, fd, from, bytes, libc::POSIX_FADV_DONTNEED) };
}

/// True if pages of a range are under writeback; none if that is unknown. Pages that are dirty again do not
/// count: another writer has changed them.
pub(super) fn is_under_writeback(fd: c_int, from: u64, bytes: u64) -> Option<bool> {
    Some(cachestat(fd, from, bytes)?.writeback > 0)
}

/// The number of pages of a range in the page cache; none if that is unknown.
pub(super) fn cached_pages(fd: c_int, from: u64, bytes: u64) -> Option<u64> {
    Some(cachestat(fd, from, bytes)?.pages)
}

fn cachestat(fd: c_int, from: u64, bytes: u64) -> Option<Cachestat> {
    let range = CachestatRange { from, bytes };
    let mut result = Cachestat::default();
    // SAFETY: both are alive, and have the kernel's layout.
    let done =
        unsafe { libc::syscall(SYS_CACHESTAT, fd, &raw const range, &raw mut result, 0_u32) };
    (done == 0).then_some(result)
}

/// True if a descriptor has no lease (`F_SETLEASE`).
pub(super) fn has_no_lease(fd: c_int) -> bool {
    // SAFETY: no memory is passed.
    let lease = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETLEASE) };
    lease == libc::c_long::from(libc::F_UNLCK)
}

/// Opens the file of a descriptor of the program again, for reading.
pub(super) fn reopen(fd: c_int) -> Option<c_int> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let name = proc_path(fd)?;
    // SAFETY: the name ends with a zero byte.
    let own = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags) };
    c_int::try_from(own).ok().filter(|own| *own >= 0)
}

/// Closes a descriptor that this library opened.
pub(super) fn close(fd: c_int) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// The path of a descriptor in /proc, which ends with a zero byte.
fn proc_path(fd: c_int) -> Option<[u8; 32]> {
    let mut name = [0_u8; 32];
    let mut rest = name.as_mut_slice();
    write!(rest, "/proc/self/fd/{fd}").ok()?;
    Some(name)
}

pub(super) fn effective_user() -> u32 {
    // SAFETY: no memory is passed.
    let user = unsafe { libc::syscall(libc::SYS_geteuid) };
    u32::try_from(user).unwrap_or(u32::MAX)
}

/// Sleeps for less than a second; returns false if a signal arrived.
pub(super) fn sleep_us(microseconds: u64) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: (microseconds * 1000).cast_signed() };
    let clock = libc::CLOCK_MONOTONIC;
    let left = null::<libc::timespec>();
    // SAFETY: the time is alive, and the remaining time is not requested.
    unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, 0, &raw const time, left) == 0 }
}

/// fstat(2).
pub(super) fn stat(fd: c_int) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the kernel fills the buffer.
    let done = unsafe { libc::syscall(libc::SYS_fstat, fd, stat.as_mut_ptr()) };
    // SAFETY: it was filled.
    (done == 0).then(|| unsafe { stat.assume_init() })
}

/// The magic number of the filesystem that a file is on (statfs(2)).
pub(super) fn filesystem(fd: c_int) -> Option<i64> {
    let mut stat = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills the buffer.
    let done = unsafe { libc::syscall(libc::SYS_fstatfs, fd, stat.as_mut_ptr()) };
    // SAFETY: it was filled.
    (done == 0).then(|| unsafe { stat.assume_init() }.f_type)
}

/// The flags with which a file was opened (`O_…`).
pub(super) fn open_flags(fd: c_int) -> Option<c_int> {
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    c_int::try_from(flags).ok().filter(|flags| *flags >= 0)
}

/// The offset of the next read(2) or write(2).
pub(super) fn position(fd: c_int) -> Option<u64> {
    // SAFETY: no memory is passed.
    let position = unsafe { libc::syscall(libc::SYS_lseek, fd, 0_u64, libc::SEEK_CUR) };
    u64::try_from(position).ok()
}

/// The path of a file as the kernel knows it, in `buffer`.
pub(super) fn path(fd: c_int, buffer: &mut [u8]) -> Option<&[u8]> {
    let name = proc_path(fd)?;
    let at = libc::AT_FDCWD;
    // SAFETY: the name ends with a zero byte, and the length is that of the buffer.
    let length = unsafe {
        libc::syscall(libc::SYS_readlinkat, at, name.as_ptr(), buffer.as_mut_ptr(), buffer.len())
    };
    buffer.get(..usize::try_from(length).ok()?)
}

/// Identifies the root directory in one number; 0 if it is unknown.
pub(super) fn root() -> u64 {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    let (at, name) = (libc::AT_FDCWD, c"/".as_ptr());
    // SAFETY: the kernel fills the buffer.
    let done = unsafe { libc::syscall(libc::SYS_newfstatat, at, name, stat.as_mut_ptr(), 0) };
    if done != 0 {
        return 0;
    }
    // SAFETY: it was filled.
    let stat = unsafe { stat.assume_init() };
    stat.st_ino ^ stat.st_dev.rotate_left(32)
}

/// Reads the beginning of a file that only root or this user can have written, and returns the number of
/// bytes; none if there is no such file.
pub(super) fn read_file(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    let length = is_trusted(fd).then(|| {
        // SAFETY: the length is that of the buffer.
        unsafe { libc::syscall(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) }
    });
    close(fd);
    usize::try_from(length?).ok()
}

fn is_trusted(fd: c_int) -> bool {
    let is = |stat: libc::stat| {
        stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && mw_iotune::is_trusted(stat.st_uid, stat.st_mode, effective_user())
    };
    stat(fd).is_some_and(is)
}

/// Makes each system call of this module once.
pub(super) fn make_all_calls(fd: c_int) {
    let mut buffer = [0; 64];
    start_writeback(fd, 0, 1);
    drop_pages(fd, 0, 1);
    is_under_writeback(fd, 0, 1);
    effective_user();
    sleep_us(1);
    stat(fd);
    filesystem(fd);
    open_flags(fd);
    position(fd);
    path(fd, &mut buffer);
    root();
    read_file(c"/proc/self/comm", &mut buffer);
    let iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 0 };
    for call in [libc::SYS_pwritev2, libc::SYS_preadv2] {
        let flags = libc::RWF_DONTCACHE;
        // SAFETY: nothing is transferred.
        unsafe { libc::syscall(call, fd, &raw const iovec, 1, -1_i64, 0, flags) };
    }
}
