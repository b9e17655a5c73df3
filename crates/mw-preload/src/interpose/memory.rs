//! Interposed functions that work on memory. Below the threshold each costs one comparison more than the
//! system call.

#![allow(unsafe_code, reason = "exported C functions")]

use crate::background;
use crate::confinement::OperationGuard;
use crate::map;
use crate::mmap_request::MmapRequest;
use crate::{
    kernel, lock, mapping_limit, original, populate, program_locks, release, settings, sysv,
    userfaultfd,
};
use libc::{c_int, off_t, size_t};
use std::ffi::c_void;
use std::ptr::null_mut;

/// None if the call is below the threshold, or must be left to the kernel.
#[inline]
fn enter_if_large(bytes: usize, threshold: usize) -> Option<OperationGuard> {
    if bytes < threshold { None } else { enter() }
}

/// None if the program handles its own page faults, is confined, or has a limit on what it maps: while an operation lasts,
/// its stacks would count, and another thread's mmap(2) could fail.
fn enter() -> Option<OperationGuard> {
    if userfaultfd::is_in_use() {
        return None;
    }
    OperationGuard::enter().filter(|_| !mapping_limit::is_set())
}

/// mlock(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(at: *const c_void, bytes: size_t) -> c_int {
    if let Some(_guard) = enter_if_large(bytes, settings::threshold()) {
        lock::populate_before_mlock(at, bytes);
    }
    // SAFETY: the caller's own request.
    let done = unsafe { kernel::mlock(at, bytes) };
    if done == 0 {
        program_locks::note_locked(at, bytes);
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
        && let Some(_guard) = enter_if_large(bytes, settings::threshold())
    {
        lock::populate_before_mlock(at, bytes);
    }
    // SAFETY: the caller's own request.
    let done = unsafe { kernel::mlock2(at, bytes, flags.cast_signed()) };
    if done == 0 {
        program_locks::note_locked(at, bytes);
    }
    done
}

/// mlockall(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    if let Some(_guard) = enter() {
        lock::populate_before_mlockall(flags);
    }
    // SAFETY: the caller's own request.
    let done = unsafe { kernel::mlockall(flags) };
    if done == 0 {
        lock::note_mlockall(flags);
        program_locks::note_all_locked();
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
    let request = MmapRequest { at, bytes, prot, flags, fd, offset };
    if flags & libc::MAP_FIXED != 0 {
        background::forget(at.addr(), bytes);
    }
    // SAFETY: the caller's own request.
    let mapped = unsafe { map_request(request) };
    if mapped != libc::MAP_FAILED {
        program_locks::note_mapped(mapped, bytes, flags);
    }
    mapped
}

#[inline]
unsafe fn map_request(request: MmapRequest) -> *mut c_void {
    let MmapRequest { bytes, flags, .. } = request;
    if let Some(_guard) = enter_if_large(bytes, settings::threshold()) {
        // SAFETY: the caller's own request.
        if let Some(mapped) = unsafe { map::map(request) } {
            return mapped;
        }
    }
    // SAFETY: the caller's own request.
    unsafe { request.map(flags) }
}

/// mmap(2), under the name for large files.
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
    background::forget(at.addr(), bytes);
    let mut done = None;
    if let Some(_guard) = enter_if_large(bytes, settings::release_threshold()) {
        // SAFETY: the caller's own request.
        done = unsafe { release::unmap(at, bytes) };
    }
    // SAFETY: the caller's own request.
    let done = done.unwrap_or_else(|| unsafe { kernel::munmap(at, bytes) });
    if done == 0 {
        program_locks::note_replaced(at, bytes);
    }
    done
}

/// mremap(2), whose last argument is passed only with some flags.
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
    background::forget(at.addr(), before);
    background::forget(to.addr(), if placed { bytes } else { 0 });
    // SAFETY: the caller's own request.
    let moved = unsafe { kernel::mremap(at, before, bytes, flags, to) };
    if moved != libc::MAP_FAILED {
        program_locks::note_moved(at, before, moved, bytes);
    }
    moved
}

/// madvise(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(at: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    populate::note_advice(advice);
    background::forget_if_given_back(at.addr(), bytes, advice);
    if let Some(_guard) = enter_if_large(bytes, settings::threshold()) {
        // SAFETY: the caller's own request.
        if let Some(done) = unsafe { release::advise(at, bytes, advice) } {
            return done;
        }
    }
    program_locks::advise(at, bytes, advice)
}

/// msync(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msync(at: *mut c_void, bytes: size_t, flags: c_int) -> c_int {
    // SAFETY: the caller's own request.
    let call = |at, bytes| unsafe { original::msync(at, bytes, flags) };
    if !settings::lock() || flags & libc::MS_INVALIDATE == 0 {
        return call(at, bytes);
    }
    // SAFETY: as above.
    let again = |at, bytes| unsafe { kernel::msync(at, bytes, flags) };
    program_locks::retry_unlocked(at, bytes, libc::EBUSY, call, again)
}

/// shmget(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmget(key: libc::key_t, bytes: size_t, flags: c_int) -> c_int {
    if let Some(_guard) = enter_if_large(bytes, settings::threshold())
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
    if flags & libc::SHM_REMAP != 0 {
        // The size of what is replaced is not known.
        background::end();
    }
    if let Some(attached) = sysv::attach(id, at, flags) {
        return attached;
    }
    // SAFETY: the caller's own request.
    let attached = unsafe { kernel::shmat(id, at, flags) };
    if settings::prefault()
        && attached != libc::MAP_FAILED
        && let Some(_guard) = enter()
    {
        map::populate_attached(id, attached);
    }
    attached
}

/// shmdt(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(at: *const c_void) -> c_int {
    background::forget_segments();
    if let Some(done) = sysv::detach(at) {
        return done;
    }
    if let Some(_guard) = enter() {
        release::discard_before_detach(at);
    }
    // SAFETY: the caller's own request.
    unsafe { kernel::shmdt(at) }
}
