//! syscall(2), interposed to observe system calls that programs make without a C library function for them.
//!
//! It is the C library's function, instruction by instruction, with comparisons added. Nothing is pushed,
//! so that a child with a stack of its own (clone(2)) finds that stack unchanged; numbers that are not
//! observed go to the kernel immediately. The stack pointer never changes, which is all that the unwind
//! information has to describe.

#![allow(unsafe_code, reason = "an exported C function in assembly")]

use crate::seccomp::ConfiningCall;
use crate::{background, kernel, lock, program_locks, userfaultfd};
use libc::c_long;
use std::ffi::c_int;

/// syscall(2).
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() -> c_long {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "cmp edi, {seccomp}",
        "je 2f",
        "cmp edi, {prctl}",
        "je 2f",
        "cmp edi, {userfaultfd}",
        "je 2f",
        "cmp edi, {mlock}",
        "je 2f",
        "cmp edi, {mlock2}",
        "je 2f",
        "cmp edi, {mlockall}",
        "je 2f",
        "cmp edi, {mmap}",
        "je 2f",
        "cmp edi, {mremap}",
        "je 2f",
        "cmp edi, {munmap}",
        "je 2f",
        "cmp edi, {madvise}",
        "je 2f",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "2:",
        "jmp {observed}",
        "3:",
        "mov rdi, rax",
        "jmp {c_result}",
        ".cfi_endproc",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        userfaultfd = const libc::SYS_userfaultfd,
        mlock = const libc::SYS_mlock,
        mlock2 = const libc::SYS_mlock2,
        mlockall = const libc::SYS_mlockall,
        mmap = const libc::SYS_mmap,
        mremap = const libc::SYS_mremap,
        munmap = const libc::SYS_munmap,
        madvise = const libc::SYS_madvise,
        observed = sym observed,
        c_result = sym c_result,
    )
}

/// syscall(2).
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() -> c_long {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "cmp w0, {seccomp}",
        "b.eq 2f",
        "cmp w0, {prctl}",
        "b.eq 2f",
        "cmp w0, {userfaultfd}",
        "b.eq 2f",
        "cmp w0, {mlock}",
        "b.eq 2f",
        "cmp w0, {mlock2}",
        "b.eq 2f",
        "cmp w0, {mlockall}",
        "b.eq 2f",
        "cmp w0, {mmap}",
        "b.eq 2f",
        "cmp w0, {mremap}",
        "b.eq 2f",
        "cmp w0, {munmap}",
        "b.eq 2f",
        "cmp w0, {madvise}",
        "b.eq 2f",
        "mov w8, w0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "cmn x0, 4095",
        "b.cs 3f",
        "ret",
        "2:",
        "b {observed}",
        "3:",
        "b {c_result}",
        ".cfi_endproc",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        userfaultfd = const libc::SYS_userfaultfd,
        mlock = const libc::SYS_mlock,
        mlock2 = const libc::SYS_mlock2,
        mlockall = const libc::SYS_mlockall,
        mmap = const libc::SYS_mmap,
        mremap = const libc::SYS_mremap,
        munmap = const libc::SYS_munmap,
        madvise = const libc::SYS_madvise,
        observed = sym observed,
        c_result = sym c_result,
    )
}

extern "C" fn c_result(result: isize) -> c_long {
    kernel::c_result(result)
}

/// The observed calls. Arguments that the caller did not pass are undefined.
unsafe extern "C" fn observed(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's own request.
    let call = || kernel::c_result(unsafe { mw_sys::system_call(number, [a, b, c, d, e, f]) });
    let confining = match c_long::from(number as c_int) {
        libc::SYS_seccomp => ConfiningCall::from_seccomp(a, b, c),
        libc::SYS_prctl => ConfiningCall::from_prctl(a as c_int, b, c),
        libc::SYS_userfaultfd => return userfaultfd::note_created(call()),
        number => {
            forget_given_back(number, [a, b, c, d, e]);
            return note_memory_call(number, [a, b, c, d], call());
        }
    };
    match confining {
        Some(confining) => confining.make(call),
        None => call(),
    }
}

/// Before a call that may unmap or replace memory, with its first arguments.
fn forget_given_back(number: c_long, [a, b, c, d, e]: [usize; 5]) {
    match number {
        libc::SYS_munmap => background::forget(a, b),
        libc::SYS_madvise => background::forget_if_given_back(a, b, c as c_int),
        libc::SYS_mmap if d as c_int & libc::MAP_FIXED != 0 => background::forget(a, b),
        libc::SYS_mremap => {
            background::forget(a, b);
            if d as c_int & libc::MREMAP_FIXED != 0 {
                background::forget(e, c);
            }
        }
        _ => {}
    }
}

/// After a call that may have changed memory locks, with its first arguments.
fn note_memory_call(number: c_long, [a, b, c, d]: [usize; 4], result: c_long) -> c_long {
    if result == -1 {
        return result;
    }
    let (at, returned) = (kernel::pointer(a), kernel::pointer(result as usize));
    match number {
        libc::SYS_mlock | libc::SYS_mlock2 => program_locks::note_locked(at, b),
        libc::SYS_mlockall => {
            lock::note_mlockall(a as c_int);
            program_locks::note_all_locked();
        }
        libc::SYS_mmap => program_locks::note_mapped(returned, b, d as c_int),
        libc::SYS_mremap => program_locks::note_moved(at, b, returned, c),
        _ => {}
    }
    result
}
