//! What the kernel is asked about files, by bare system calls: nothing here is a point where a
//! thread may be cancelled. The caller keeps `errno`.

#![allow(unsafe_code, reason = "system calls")]

use std::ffi::{CStr, c_int};
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr::null;

/// cachestat(2): the same number on every processor, kernel 6.5.
const SYS_CACHESTAT: libc::c_long = 451;

/// `SYNC_FILE_RANGE_WRITE` (sync_file_range(2)).
const WRITE: libc::c_uint = 2;

/// struct cachestat_range (linux/mman.h).
#[repr(C)]
struct Range {
    from: u64,
    bytes: u64,
}

/// struct cachestat (linux/mman.h).
#[repr(C)]
#[derive(Default)]
struct Cached {
    pages: u64,
    _dirty: u64,
    writeback: u64,
    _evicted: u64,
    _recently_evicted: u64,
}

/// Begins to write what is dirty of a range, without waiting for it.
pub(crate) fn begin_writing(fd: c_int, from: u64, bytes: u64) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_sync_file_range, fd, from, bytes, WRITE) };
}

/// Drops the clean pages of a range from the page cache.
pub(crate) fn drop_pages(fd: c_int, from: u64, bytes: u64) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_fadvise64, fd, from, bytes, libc::POSIX_FADV_DONTNEED) };
}

/// Whether something of a range is on its way to the disk; none where nobody says. What is dirty again
/// is somebody else's.
pub(crate) fn on_its_way(fd: c_int, from: u64, bytes: u64) -> Option<bool> {
    Some(cached(fd, from, bytes)?.writeback > 0)
}

/// How many pages of a range the page cache holds; none where the kernel does not say.
pub(crate) fn cached_pages(fd: c_int, from: u64, bytes: u64) -> Option<u64> {
    Some(cached(fd, from, bytes)?.pages)
}

fn cached(fd: c_int, from: u64, bytes: u64) -> Option<Cached> {
    let range = Range { from, bytes };
    let mut cached = Cached::default();
    // SAFETY: both live, and are of the kernel's kinds.
    let done =
        unsafe { libc::syscall(SYS_CACHESTAT, fd, &raw const range, &raw mut cached, 0_u32) };
    (done == 0).then_some(cached)
}

/// Whether a descriptor holds no lease (`F_SETLEASE`).
pub(crate) fn has_no_lease(fd: c_int) -> bool {
    // SAFETY: no memory is passed.
    let lease = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETLEASE) };
    lease == libc::c_long::from(libc::F_UNLCK)
}

/// Opens the file of one of the program's descriptors for reading.
pub(crate) fn open_again(fd: c_int) -> Option<c_int> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let name = descriptor(fd)?;
    // SAFETY: the name ends with a zero byte.
    let own = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags) };
    c_int::try_from(own).ok().filter(|own| *own >= 0)
}

/// Closes a descriptor that was opened here.
pub(crate) fn close(fd: c_int) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// The name in /proc of one of the program's descriptors, which ends with a zero byte.
fn descriptor(fd: c_int) -> Option<[u8; 32]> {
    let mut name = [0_u8; 32];
    let mut rest = name.as_mut_slice();
    write!(rest, "/proc/self/fd/{fd}").ok()?;
    Some(name)
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: no memory is passed.
    let user = unsafe { libc::syscall(libc::SYS_geteuid) };
    u32::try_from(user).unwrap_or(u32::MAX)
}

/// Sleeps so many microseconds, less than a second; false where a signal came.
pub(crate) fn pause(microseconds: u64) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: (microseconds * 1000).cast_signed() };
    let clock = libc::CLOCK_MONOTONIC;
    let left = null::<libc::timespec>();
    // SAFETY: the time lives, and what is left of it is not asked for.
    unsafe { libc::syscall(libc::SYS_clock_nanosleep, clock, 0, &raw const time, left) == 0 }
}

/// fstat(2).
pub(crate) fn stat(fd: c_int) -> Option<libc::stat> {
    let mut stat = MaybeUninit::uninit();
    // SAFETY: the kernel fills what it is pointed to.
    let done = unsafe { libc::syscall(libc::SYS_fstat, fd, stat.as_mut_ptr()) };
    // SAFETY: it was filled.
    (done == 0).then(|| unsafe { stat.assume_init() })
}

/// The kind of filesystem that a file is on.
pub(crate) fn filesystem(fd: c_int) -> Option<i64> {
    let mut stat = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills what it is pointed to.
    let done = unsafe { libc::syscall(libc::SYS_fstatfs, fd, stat.as_mut_ptr()) };
    // SAFETY: it was filled.
    (done == 0).then(|| unsafe { stat.assume_init() }.f_type)
}

/// The flags that a file was opened with (`O_…`).
pub(crate) fn open_flags(fd: c_int) -> Option<c_int> {
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    c_int::try_from(flags).ok().filter(|flags| *flags >= 0)
}

/// Where the next read(2) or write(2) begins.
pub(crate) fn position(fd: c_int) -> Option<u64> {
    // SAFETY: no memory is passed.
    let position = unsafe { libc::syscall(libc::SYS_lseek, fd, 0_u64, libc::SEEK_CUR) };
    u64::try_from(position).ok()
}

/// The path that the kernel knows a file by, in `room`.
pub(crate) fn path(fd: c_int, room: &mut [u8]) -> Option<&[u8]> {
    let name = descriptor(fd)?;
    let at = libc::AT_FDCWD;
    // SAFETY: the name ends with a zero byte, and the room is as long as is said.
    let length = unsafe {
        libc::syscall(libc::SYS_readlinkat, at, name.as_ptr(), room.as_mut_ptr(), room.len())
    };
    room.get(..usize::try_from(length).ok()?)
}

/// Who / is, in one number; 0 where nobody says.
pub(crate) fn root() -> u64 {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    let (at, name) = (libc::AT_FDCWD, c"/".as_ptr());
    // SAFETY: the kernel fills what it is pointed to.
    let done = unsafe { libc::syscall(libc::SYS_newfstatat, at, name, stat.as_mut_ptr(), 0) };
    if done != 0 {
        return 0;
    }
    // SAFETY: it was filled.
    let stat = unsafe { stat.assume_init() };
    stat.st_ino ^ stat.st_dev.rotate_left(32)
}

/// Reads the beginning of a file that only root or this user can have written, and says how much it
/// read; none where there is no such file.
pub(crate) fn read_file(path: &CStr, room: &mut [u8]) -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    let fd = c_int::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    let length = is_trusted(fd).then(|| {
        // SAFETY: the room is as long as is said.
        unsafe { libc::syscall(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) }
    });
    close(fd);
    usize::try_from(length?).ok()
}

fn is_trusted(fd: c_int) -> bool {
    let is = |stat: libc::stat| {
        stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && mw_iotune::is_trusted(stat.st_uid, stat.st_mode, user())
    };
    stat(fd).is_some_and(is)
}

/// Asks all of it once, about standard output: a filter of system calls may end the process.
pub(crate) fn try_everything() {
    let fd = libc::STDOUT_FILENO;
    let mut room = [0; 64];
    begin_writing(fd, 0, 1);
    drop_pages(fd, 0, 1);
    on_its_way(fd, 0, 1);
    user();
    super::residency::try_everything(fd);
    let _ = mw_sys::SignalHandlersBlocked::brief().is_signal_pending();
    pause(1);
    stat(fd);
    filesystem(fd);
    open_flags(fd);
    position(fd);
    path(fd, &mut room);
    root();
    read_file(c"/proc/self/comm", &mut room);
    let piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: 0 };
    for call in [libc::SYS_pwritev2, libc::SYS_preadv2] {
        let flags = libc::RWF_DONTCACHE;
        // SAFETY: nothing is transferred.
        unsafe { libc::syscall(call, fd, &raw const piece, 1, -1_i64, 0, flags) };
    }
}
