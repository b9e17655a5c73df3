//! System calls by the CPU's instruction, without the C library.
//!
//! Sanitizers, profilers and allocators interpose functions of the C library (`clone`, `syscall`,
//! `mmap`), and expect a thread of the C library around each call. Code that runs inside another
//! program, in threads that the C library does not know, must not call them.

use std::ffi::{c_long, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes a system call with up to six arguments; returns the kernel's result, a negative errno(3) on
/// failure.
///
/// # Safety
/// As for that system call.
#[inline]
#[allow(unsafe_code, reason = "the caller answers for the call")]
pub unsafe fn system_call<const N: usize>(number: c_long, arguments: [usize; N]) -> isize {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
    // SAFETY: the caller answers for the call.
    unsafe { enter_kernel(number, std::array::from_fn(argument)) }
}

/// ioctl(2) with one structure.
///
/// # Safety
/// The structure must be that of the request.
///
/// # Errors
/// ioctl(2)'s.
#[allow(unsafe_code, reason = "the caller answers for the structure")]
pub(crate) unsafe fn control<T>(
    fd: BorrowedFd<'_>,
    request: c_ulong,
    argument: *mut T,
) -> io::Result<usize> {
    let fd = fd.as_raw_fd() as usize;
    // SAFETY: the caller answers for the structure.
    let done = unsafe {
        system_call(libc::SYS_ioctl, [fd, request as usize, argument.expose_provenance()])
    };
    usize::try_from(done).map_err(|_| io::Error::from_raw_os_error(-done as i32))
}

#[inline]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the caller answers for the call")]
unsafe fn enter_kernel(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the registers are those of the kernel's convention, and it changes rcx, r11 and the
    // result alone (syscall(2)); the caller answers for what it does to memory.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

#[inline]
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code, reason = "the caller answers for the call")]
unsafe fn enter_kernel(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result;
    // SAFETY: the registers are those of the kernel's convention, and it changes the result alone
    // (syscall(2)); the caller answers for what it does to memory.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
            options(nostack)
        );
    }
    result
}

/// On other architectures by the C library's wrapper.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "the caller answers for the call")]
unsafe fn enter_kernel(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    // SAFETY: the caller answers for the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    if result == -1 { -(error() as isize) } else { result as isize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_the_kernels() {
        // SAFETY: it takes no memory.
        #[allow(unsafe_code, reason = "what is tested")]
        let own = unsafe { system_call(libc::SYS_getpid, []) };
        // SAFETY: the descriptor is none.
        #[allow(unsafe_code, reason = "what is tested")]
        let bad = unsafe { system_call(libc::SYS_close, [usize::MAX]) };
        assert_eq!(own, std::process::id() as isize);
        assert_eq!(bad, -(libc::EBADF as isize));
    }

    #[test]
    fn all_six_arguments_arrive() {
        let page = rustix::param::page_size();
        let fd = rustix::fs::memfd_create("mw-sys-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, 2 * page as u64).unwrap();
        rustix::io::pwrite(&fd, b"second", page as u64).unwrap();
        let (prot, flags) = (libc::PROT_READ as usize, libc::MAP_SHARED as usize);
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd) as usize;
        // SAFETY: new memory at addresses that the kernel chooses.
        #[allow(unsafe_code, reason = "what is tested")]
        let at = unsafe { system_call(libc::SYS_mmap, [0, page, prot, flags, number, page]) };
        assert!(at > 0, "{at}");
        let mapped: *const u8 = std::ptr::with_exposed_provenance(at as usize);
        // SAFETY: the page that was mapped above.
        #[allow(unsafe_code, reason = "what is tested")]
        let seen = unsafe { mapped.read() };
        assert_eq!(seen, b's');
    }
}
