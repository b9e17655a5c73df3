//! The names that stand in for the C library's. Below the threshold each is one comparison more
//! than the system call.

#![allow(unsafe_code, reason = "names without mangling, and calls that C answers for")]

use crate::map::{self, Request};
use crate::seccomp::{Install, Working};
use crate::{kernel, lock, next, own_locks, release, settings, stats, sysv, userfaultfd};
use libc::{FILE, c_int, c_long, off_t, size_t};
use std::ffi::{c_ulong, c_void};
use std::ptr::null_mut;

/// Whether so many bytes are worked on here, which may then be begun.
#[inline]
fn large(bytes: usize, threshold: usize) -> Option<Working> {
    if bytes < threshold { None } else { working() }
}

/// Work on memory, where nobody handles the faults of it.
fn working() -> Option<Working> {
    if userfaultfd::is_used() { None } else { Working::begin() }
}

/// mlock(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(at: *const c_void, bytes: size_t) -> c_int {
    if let Some(_working) = large(bytes, settings::threshold()) {
        lock::prepare(at, bytes);
    }
    // SAFETY: the caller's own request.
    let done = unsafe { kernel::mlock(at, bytes) };
    if done == 0 {
        own_locks::locked(at, bytes);
    }
    done
}

/// mlock2(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(at: *const c_void, bytes: size_t, flags: libc::c_uint) -> c_int {
    if flags == 0
        && let Some(_working) = large(bytes, settings::threshold())
    {
        lock::prepare(at, bytes);
    }
    // SAFETY: the caller's own request.
    let done = unsafe { kernel::mlock2(at, bytes, flags.cast_signed()) };
    if done == 0 {
        own_locks::locked(at, bytes);
    }
    done
}

/// mlockall(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    if let Some(_working) = working() {
        lock::prepare_all(flags);
    }
    // SAFETY: the caller's own request.
    let done = unsafe { kernel::mlockall(flags) };
    if done == 0 {
        lock::note_all(flags);
        own_locks::locked_all();
    }
    done
}

/// mmap(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    bytes: size_t,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let request = Request { at, bytes, prot, flags, fd, offset };
    // SAFETY: the caller's own request.
    let mapped = unsafe { mapped(request) };
    if mapped != libc::MAP_FAILED {
        own_locks::mapped(mapped, bytes, flags);
    }
    mapped
}

#[inline]
unsafe fn mapped(request: Request) -> *mut c_void {
    let Request { bytes, flags, .. } = request;
    if let Some(_working) = large(bytes, settings::threshold()) {
        // SAFETY: the caller's own request.
        if let Some(mapped) = unsafe { map::map(request) } {
            return mapped;
        }
    }
    // SAFETY: the caller's own request.
    unsafe { request.map(flags) }
}

/// mmap(2) by the name that programs with large files know it by.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: size_t,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's own request.
    unsafe { mmap(at, bytes, prot, flags, fd, offset) }
}

/// munmap(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, bytes: size_t) -> c_int {
    let mut done = None;
    if let Some(_working) = large(bytes, settings::release_threshold()) {
        // SAFETY: the caller's own request.
        done = unsafe { release::unmap(at, bytes) };
    }
    // SAFETY: the caller's own request.
    let done = done.unwrap_or_else(|| unsafe { kernel::munmap(at, bytes) });
    if done == 0 {
        own_locks::renewed(at, bytes);
    }
    done
}

/// mremap(2), whose last argument is given with some flags alone.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    at: *mut c_void,
    before: size_t,
    bytes: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let placed = flags & (libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) != 0;
    let to = if placed { to } else { null_mut() };
    // SAFETY: the caller's own request.
    let moved = unsafe { kernel::mremap(at, before, bytes, flags, to) };
    if moved != libc::MAP_FAILED {
        own_locks::moved(at, before, moved, bytes);
    }
    moved
}

/// madvise(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(at: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    if let Some(_working) = large(bytes, settings::threshold()) {
        // SAFETY: the caller's own request.
        if let Some(done) = unsafe { release::advise(at, bytes, advice) } {
            return done;
        }
    }
    own_locks::advise(at, bytes, advice)
}

/// msync(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msync(at: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    // SAFETY: the caller's own request.
    let call = |at, bytes| unsafe { next::msync(at, bytes, flags) };
    if !settings::lock() || flags & libc::MS_INVALIDATE == 0 {
        return call(at, bytes);
    }
    // SAFETY: as above.
    let again = |at, bytes| unsafe { kernel::msync(at, bytes, flags) };
    own_locks::unless_refused(at, bytes, libc::EBUSY, call, again)
}

/// shmget(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmget(key: libc::key_t, bytes: size_t, flags: c_int) -> c_int {
    if let Some(_working) = large(bytes, settings::threshold())
        && let Some(id) = sysv::create(key, bytes, flags)
    {
        return id;
    }
    // SAFETY: the caller's own request.
    unsafe { kernel::shmget(key, bytes, flags) }
}

/// shmctl(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, buffer: *mut libc::shmid_ds) -> c_int {
    sysv::control(id, command, buffer)
}

/// shmat(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void {
    if let Some(attached) = sysv::attach(id, at, flags) {
        return attached;
    }
    // SAFETY: the caller's own request.
    let attached = unsafe { kernel::shmat(id, at, flags) };
    if settings::prefault()
        && attached != libc::MAP_FAILED
        && let Some(_working) = working()
    {
        map::attached(id, attached);
    }
    attached
}

/// shmdt(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(at: *const c_void) -> c_int {
    if let Some(done) = sysv::detach(at) {
        return done;
    }
    if let Some(_working) = working() {
        release::before_detaching(at);
    }
    // SAFETY: the caller's own request.
    unsafe { kernel::shmdt(at) }
}

/// ioctl(2), whose third argument is one word at most.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    // SAFETY: the caller's own request.
    let done = unsafe { next::ioctl(fd, request, argument) };
    if userfaultfd::is_about(request) {
        userfaultfd::made(done.into());
    }
    done
}

/// prctl(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int {
    // SAFETY: the caller's own request.
    let call = || unsafe { kernel::prctl(option, a, b, c, d) };
    match Install::by_prctl(option, a as usize, b as usize) {
        Some(install) => install.with(|| call().into()) as c_int,
        None => call(),
    }
}

unsafe extern "C" {
    /// The stream of standard error.
    static stderr: *mut FILE;
}

/// fclose(3). GNU's programs close standard error as they end, before libraries are told of the end: what
/// `--stats` has to say is said then.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fclose(stream: *mut FILE) -> c_int {
    // SAFETY: it is set while the C library is loaded and from then on by the program alone.
    if settings::stats() && stream == unsafe { stderr } {
        stats::end();
    }
    // SAFETY: the caller's own request.
    unsafe { next::fclose(stream) }
}

/// _exit(2), by which shells end: libraries are not told of that.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> c_int {
    stats::end_of_command();
    // SAFETY: the caller's own request.
    unsafe { next::_exit(status) }
}

/// _Exit(3), the same under the name that ISO C gives it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(status: c_int) -> c_int {
    // SAFETY: the caller's own request.
    unsafe { _exit(status) }
}
