//! Populating on kernels without `MADV_POPULATE_WRITE` (before 5.14).

use std::io;

/// `FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)`: or with zero (futex(2)).
const OR_ZERO: u32 = 2 << 28;

/// Makes the kernel write to every page without changing it: `FUTEX_WAKE_OP` is an atomic
/// read-modify-write that faults the page in for writing and returns an error where a store would
/// raise a signal. Concurrent stores of other threads are kept. No thread waits on these words; one
/// that did would see a spurious wake-up, which futex(2) allows.
///
/// # Errors
/// `EFAULT` where a store would raise SIGBUS or SIGSEGV, `ENOMEM`, `EHWPOISON`; `ENOSYS` where
/// the kernel has no futexes.
pub(crate) fn touch(start: *mut u8, bytes: usize, page: usize) -> io::Result<()> {
    for offset in (0..bytes).step_by(page) {
        touch_word(start.wrapping_add(offset))?;
    }
    Ok(())
}

fn touch_word(word: *mut u8) -> io::Result<()> {
    loop {
        // SAFETY: the kernel checks the address itself and answers EFAULT for a bad one; or-ing
        // with zero changes no memory (futex(2), FUTEX_WAKE_OP). The timeout's place holds the
        // second count.
        #[allow(unsafe_code, reason = "no wrapper of it takes an address that may be bad")]
        let done = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
                0,
                0usize,
                word,
                OR_ZERO,
            )
        };
        if done >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_address_is_an_error_and_no_signal() {
        let error = touch(std::ptr::null_mut(), 4096, 4096).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn the_content_of_memory_does_not_change() {
        let mut words = vec![0x1234_5678_u32; 4096];
        touch(words.as_mut_ptr().cast(), 4096 * 4, 1024).unwrap();
        assert!(words.iter().all(|word| *word == 0x1234_5678));
    }
}
