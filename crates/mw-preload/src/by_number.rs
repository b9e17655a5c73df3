//! syscall(2), by which programs install what this library must know of past the C library's other
//! functions.
//!
//! It is the C library's, instruction by instruction, but for comparisons: nothing is pushed, so that
//! what is made with a stack of its own (clone(2)) finds there what it finds there without, and where
//! the number is no other's business the registers go to the kernel at once. The stack stays as the
//! caller left it, which is all that its unwind information has to say.

#![allow(unsafe_code, reason = "a name without mangling, and the kernel's convention")]

use crate::seccomp::Install;
use crate::{kernel, lock, own_locks, userfaultfd};
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
        "jmp {watched}",
        "3:",
        "mov rdi, rax",
        "jmp {answered}",
        ".cfi_endproc",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        userfaultfd = const libc::SYS_userfaultfd,
        mlock = const libc::SYS_mlock,
        mlock2 = const libc::SYS_mlock2,
        mlockall = const libc::SYS_mlockall,
        mmap = const libc::SYS_mmap,
        mremap = const libc::SYS_mremap,
        watched = sym watched,
        answered = sym answered,
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
        "b {watched}",
        "3:",
        "b {answered}",
        ".cfi_endproc",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        userfaultfd = const libc::SYS_userfaultfd,
        mlock = const libc::SYS_mlock,
        mlock2 = const libc::SYS_mlock2,
        mlockall = const libc::SYS_mlockall,
        mmap = const libc::SYS_mmap,
        mremap = const libc::SYS_mremap,
        watched = sym watched,
        answered = sym answered,
    )
}

/// What the C library's function returns for the kernel's result.
extern "C" fn answered(result: isize) -> c_long {
    kernel::answered(result)
}

/// The calls that are looked at, with the arguments of C: those that were not given are whatever is in
/// their place.
unsafe extern "C" fn watched(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's own request.
    let call = || kernel::answered(unsafe { mw_sys::system_call(number, [a, b, c, d, e, f]) });
    let install = match c_long::from(number as c_int) {
        libc::SYS_seccomp => Install::by_seccomp(a, b, c),
        libc::SYS_prctl => Install::by_prctl(a as c_int, b, c),
        libc::SYS_userfaultfd => return userfaultfd::made(call()),
        number => return locking(number, [a, b, c, d], call()),
    };
    match install {
        Some(install) => install.with(call),
        None => call(),
    }
}

/// After a call that may have locked something, with its first arguments.
fn locking(number: c_long, [a, b, c, d]: [usize; 4], result: c_long) -> c_long {
    if result == -1 {
        return result;
    }
    let (given, returned) = (kernel::pointer(a), kernel::pointer(result as usize));
    match number {
        libc::SYS_mlock | libc::SYS_mlock2 => own_locks::locked(given, b),
        libc::SYS_mlockall => {
            lock::note_all(a as c_int);
            own_locks::locked_all();
        }
        libc::SYS_mmap => own_locks::mapped(returned, b, d as c_int),
        libc::SYS_mremap => own_locks::moved(given, b, returned, c),
        _ => {}
    }
    result
}
