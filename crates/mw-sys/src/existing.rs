//! Populating memory that other code has mapped, which changes no content.

use crate::region::ThpAdvice;
use rustix::io::Errno;
use rustix::mm::Advice;
use std::io;
use std::ops::Range;

/// The access that pages are populated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Reading (`MADV_POPULATE_READ`): shared pages do not become dirty.
    Read,
    /// Writing (`MADV_POPULATE_WRITE`): private pages are no longer shared.
    Write,
}

impl Fault {
    fn advice(self) -> Advice {
        match self {
            Self::Read => Advice::LinuxPopulateRead,
            Self::Write => Advice::LinuxPopulateWrite,
        }
    }
}

/// True if the kernel can populate memory by madvise(2) (5.14).
#[must_use]
pub fn can_populate() -> bool {
    let page = rustix::param::page_size();
    advise(page..page, Advice::LinuxPopulateWrite).is_ok()
}

/// Populates the pages at these addresses, of `huge` bytes each where that is given: the last base
/// page of each first, as [`Region::populate_huge`](crate::Region::populate_huge) explains.
///
/// # Errors
/// madvise(2)'s: `EINVAL` for addresses that are not of whole pages and where the fault is not
/// allowed, `ENOMEM` where nothing is mapped or memory is exhausted, `EFAULT` where a touch would raise
/// SIGBUS, `EHWPOISON`.
pub fn populate_existing(
    addresses: Range<usize>,
    fault: Fault,
    huge: Option<usize>,
) -> io::Result<()> {
    let base = rustix::param::page_size();
    if let Some(huge) = huge.filter(|huge| huge.is_power_of_two() && *huge > base) {
        let first = addresses.start.next_multiple_of(huge);
        for start in (first..addresses.end).step_by(huge) {
            let Some(end) = start.checked_add(huge).filter(|end| *end <= addresses.end) else {
                break;
            };
            advise(end - base..end, fault.advice())?;
        }
    }
    advise(addresses, fault.advice())
}

/// Enables or disables transparent huge pages at these addresses (`MADV_HUGEPAGE`, `MADV_NOHUGEPAGE`).
///
/// # Errors
/// madvise(2)'s: `EINVAL` on a kernel without them or for a mapping that cannot have them.
pub fn advise_thp_existing(addresses: Range<usize>, advice: ThpAdvice) -> io::Result<()> {
    advise(addresses, advice.into())
}

fn advise(addresses: Range<usize>, advice: Advice) -> io::Result<()> {
    let bytes = addresses.end.checked_sub(addresses.start).ok_or(Errno::INVAL)?;
    let start = std::ptr::with_exposed_provenance_mut(addresses.start);
    // SAFETY: the advice of this module changes no content and no right, so that it breaks
    // no borrow of any owner; the kernel checks the addresses (madvise(2)).
    #[allow(unsafe_code, reason = "addresses that somebody else answers for")]
    let done = unsafe { rustix::mm::madvise(start, bytes, advice) };
    Ok(done?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;
    use mw_memory::PageSize;

    const MIB: usize = 1 << 20;

    #[test]
    fn mapped_memory_is_populated_and_unmapped_memory_is_an_error() {
        let _alone = crate::anonymous::tests::alone();
        assert!(can_populate());
        let region = Region::anonymous(8 * MIB, PageSize::Thp).unwrap();
        let start = region.as_ptr().as_ptr().expose_provenance();
        advise_thp_existing(start..start + 8 * MIB, ThpAdvice::Enable).unwrap();
        let (odd, end) = (start + 4096, start + 8 * MIB);
        populate_existing(odd..end, Fault::Write, Some(2 * MIB)).unwrap();
        assert_eq!(region.absent_bytes(4096..8 * MIB).unwrap(), 0);
        populate_existing(start..end, Fault::Read, None).unwrap();
        drop(region);
        assert!(populate_existing(4096..8192, Fault::Read, None).is_err());
        assert!(populate_existing(start + 1..end, Fault::Read, None).is_err());
    }
}
