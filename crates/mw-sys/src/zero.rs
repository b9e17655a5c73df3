//! Zeroing populated memory: the lower bound of the cost of populating it.

use crate::region::Region;
use std::io;
use std::ops::Range;

impl Region {
    /// Writes zeros as the kernel clears a page, with string stores where the CPU has them.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range.
    pub fn zero(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        zero(start, bytes);
        Ok(())
    }

    /// Writes zeros with stores that bypass the caches, which need not read a line before they
    /// write it.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range, `Unsupported` on architectures other than x86-64.
    pub fn zero_uncached(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        zero_uncached(start, bytes)
    }
}

#[cfg(target_arch = "x86_64")]
fn zero(start: *mut u8, bytes: usize) {
    // SAFETY: the caller checked that the range is its own; where nothing is mapped the store
    // raises SIGSEGV and breaks no memory. `rep stosb` writes rcx bytes at rdi upwards, the
    // direction flag is clear by the ABI (Intel SDM volume 2, STOS).
    #[allow(unsafe_code, reason = "memory that may be written by others at the same time")]
    unsafe {
        std::arch::asm!(
            "rep stosb",
            inout("rcx") bytes => _,
            inout("rdi") start => _,
            in("al") 0_u8,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn zero(start: *mut u8, bytes: usize) {
    // SAFETY: as above; the range is of whole pages.
    #[allow(unsafe_code, reason = "memory that this type owns")]
    unsafe {
        std::ptr::write_bytes(start, 0, bytes)
    };
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::unnecessary_wraps, reason = "other architectures refuse")]
fn zero_uncached(start: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: as in `zero`. The range is of whole pages, so that the loop, which writes 64 bytes a
    // turn, ends at its end; `sfence` orders the stores before what follows (Intel SDM volume 2,
    // MOVNTI).
    #[allow(unsafe_code, reason = "memory that may be written by others at the same time")]
    unsafe {
        std::arch::asm!(
            "2:",
            "movnti [{at}], {zero}",
            "movnti [{at} + 8], {zero}",
            "movnti [{at} + 16], {zero}",
            "movnti [{at} + 24], {zero}",
            "movnti [{at} + 32], {zero}",
            "movnti [{at} + 40], {zero}",
            "movnti [{at} + 48], {zero}",
            "movnti [{at} + 56], {zero}",
            "add {at}, 64",
            "cmp {at}, {end}",
            "jb 2b",
            "sfence",
            at = inout(reg) start => _,
            end = in(reg) start.wrapping_add(bytes),
            zero = in(reg) 0_u64,
            options(nostack)
        );
    }
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn zero_uncached(_: *mut u8, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_zero_all_of_it() {
        let _alone = crate::anonymous::tests::alone();
        let region = Region::reserve(16384, 4096, 4096).unwrap();
        let fd = rustix::fs::memfd_create("mw-sys-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        region.map_file(0..16384, std::os::fd::AsFd::as_fd(&fd), 0).unwrap();
        for uncached in [false, true] {
            rustix::io::pwrite(&fd, &[7; 16384], 0).unwrap();
            let zeroed =
                if uncached { region.zero_uncached(4096..12288) } else { region.zero(4096..12288) };
            if matches!(&zeroed, Err(error) if error.kind() == io::ErrorKind::Unsupported) {
                continue;
            }
            let mut seen = [1; 16384];
            rustix::io::pread(&fd, &mut seen[..], 0).unwrap();
            assert!(seen[4096..12288].iter().all(|byte| *byte == 0));
            assert!(seen[..4096].iter().chain(&seen[12288..]).all(|byte| *byte == 7));
        }
    }
}
