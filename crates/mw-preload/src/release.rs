//! munmap(2), shmdt(2) and madvise(2): memory that is freed, or populated, in parallel.

use crate::helper_thread::on_helper_thread;
use crate::populate::{self, MAX_PARTS};
use crate::stats::{self, CountedCall};
use crate::{kernel, program_locks, settings, shm};
use mw_segment::{MappedPart, MemoryType, Phase, Workers};
use mw_sys::{Fault, Region};
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;

/// The chunk for discarding: large, because each chunk flushes the TLBs of all CPUs.
const CHUNK_BYTES: usize = 16 << 20;

/// The range of one page table, which mremap(2) moves as a whole if source and destination are equally
/// aligned (mm/mremap.c).
const TABLE_BYTES: usize = 2 << 20;

/// Number of pages that are sampled to find out whether a range is resident.
const SAMPLES: usize = 16;

/// `MADV_DONTNEED_LOCKED` (linux/mman.h, kernel 5.18).
const DONTNEED_LOCKED: c_int = 24;

/// A large munmap(2); none if the system call is to be made.
///
/// The range must not be discarded before it is certain that it can be unmapped: sealed memory cannot. It
/// is therefore moved to unused addresses, which is cheap and fails for the same reasons and more; it is
/// then discarded and unmapped there.
///
/// # Safety
/// As munmap(2).
#[cold]
#[allow(unsafe_code, reason = "passes on the program's request")]
pub(crate) unsafe fn unmap(at: *mut c_void, bytes: usize) -> Option<c_int> {
    let _errno = kernel::ErrnoGuard::new();
    let addresses = kernel::page_range(at, bytes)?;
    if addresses.start != at.addr() || !is_resident(&addresses) {
        return None;
    }
    on_helper_thread(&|workers| unmap_in_parallel(workers, &addresses))
}

fn unmap_in_parallel(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<c_int> {
    require_single_mapping(addresses)?;
    if !can_be_moved(addresses) {
        return None;
    }
    let destination = reserve_destination(addresses.len())?;
    // A fork(2) of another thread must not inherit the moved memory, which its program could not free.
    // From here on it inherits nothing of the range, as after munmap(2).
    advise_range(addresses.clone(), libc::MADV_DONTFORK).ok()?;
    match move_to(addresses, destination) {
        Some(moved) => discard_before_unmap(workers, moved.addresses.clone()),
        None => unmap_in_place(addresses)?,
    }
    Some(0)
}

/// True if mremap(2) accepts the range: it fails for sealed memory even if nothing changes.
fn can_be_moved(addresses: &Range<usize>) -> bool {
    let (at, bytes) = (kernel::pointer(addresses.start), addresses.len());
    // SAFETY: the same size at the same address changes nothing (mremap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let same = unsafe { kernel::mremap(at, bytes, bytes, 0, std::ptr::null_mut()) };
    same == at
}

/// If moving has failed after all. If unmapping fails too, forks inherit the range again.
fn unmap_in_place(addresses: &Range<usize>) -> Option<()> {
    let (at, bytes) = (kernel::pointer(addresses.start), addresses.len());
    // SAFETY: the program's own request (munmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    if unsafe { kernel::munmap(at, bytes) } == 0 {
        return Some(());
    }
    let _ = advise_range(addresses.clone(), libc::MADV_DOFORK);
    None
}

/// Memory that was moved; unmapped with the region that contains it.
struct MovedMemory {
    addresses: Range<usize>,
    _region: Region,
}

/// Reserves addresses for `bytes` at any alignment within a page table; forks do not inherit them.
fn reserve_destination(bytes: usize) -> Option<Region> {
    let more = bytes.checked_add(TABLE_BYTES)?;
    let region = Region::reserve(more, mw_sys::page_bytes(), TABLE_BYTES).ok()?;
    let start = region.as_ptr().as_ptr().expose_provenance();
    let _ = advise_range(start..start + more, libc::MADV_DONTFORK);
    Some(region)
}

fn move_to(addresses: &Range<usize>, region: Region) -> Option<MovedMemory> {
    let bytes = addresses.len();
    let start = region.as_ptr().as_ptr().expose_provenance() + addresses.start % TABLE_BYTES;
    let (from, to) = (kernel::pointer(addresses.start), kernel::pointer(start));
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the program requests that the source be unmapped; the destination is a region of ours
    // to which no reference exists (mremap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let moved = unsafe { kernel::mremap(from, bytes, bytes, flags, to) };
    (moved == to).then(|| MovedMemory { addresses: start..start + bytes, _region: region })
}

/// A large madvise(2); none if the system call is to be made.
///
/// # Safety
/// As madvise(2).
#[cold]
#[allow(unsafe_code, reason = "passes on the program's request")]
pub(crate) unsafe fn advise(at: *mut c_void, bytes: usize, advice: c_int) -> Option<c_int> {
    let addresses = kernel::page_range(at, bytes).filter(|range| range.start == at.addr())?;
    match advice {
        libc::MADV_POPULATE_READ => {
            on_helper_thread(&|workers| populate(workers, &addresses, Fault::Read))
        }
        libc::MADV_POPULATE_WRITE => {
            on_helper_thread(&|workers| populate(workers, &addresses, Fault::Write))
        }
        libc::MADV_DONTNEED => {
            let _errno = kernel::ErrnoGuard::new();
            if is_resident(&addresses) {
                on_helper_thread(&|workers| discard_before_advice(workers, &addresses));
            }
            None
        }
        _ => None,
    }
}

/// Populates all of the range; none if that fails, so that the system call returns the error.
fn populate(workers: &Workers<'_>, addresses: &Range<usize>, fault: Fault) -> Option<c_int> {
    let mut parts = populate::populatable_prefix(addresses)?;
    if parts.last()?.addresses.end != addresses.end || !populate::is_worthwhile(&parts) {
        return None;
    }
    for part in &mut parts {
        part.fault = Some(fault);
    }
    populate::populate(workers, CountedCall::Advise, &parts).ok().map(|()| 0)
}

/// Before `MADV_DONTNEED`. It is one mapping, so that what the kernel refuses for one chunk it refuses for
/// each, without an effect.
fn discard_before_advice(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<()> {
    require_single_mapping(addresses)?;
    let is_unlocked = program_locks::is_locked_only_by_setting(addresses);
    let advice = if is_unlocked { DONTNEED_LOCKED } else { libc::MADV_DONTNEED };
    discard(workers, addresses, CountedCall::Advise, advice).ok()
}

/// Whether the range is exactly one mapping of memory. Discarding a shared mapping empties only the page
/// tables; the data stays in its file.
fn require_single_mapping(addresses: &Range<usize>) -> Option<()> {
    let parts = populate::mapped_parts(addresses, MAX_PARTS)?;
    let [MappedPart { addresses: found, memory: MemoryType::Anonymous | MemoryType::Shmem, .. }] =
        parts.as_slice()
    else {
        return None;
    };
    (found == addresses).then_some(())
}

/// Before shmdt(2). It identifies a segment by its address, so that the segment is discarded in place,
/// which loses no data.
#[cold]
pub(crate) fn discard_before_detach(at: *const c_void) {
    let _errno = kernel::ErrnoGuard::new();
    let (least, at) = (kernel::page_range(at, settings::release_threshold()), at.addr());
    if least.is_some_and(|least| least.start == at && is_resident(&least)) {
        on_helper_thread(&|workers| discard_segment(workers, at));
    }
}

fn discard_segment(workers: &Workers<'_>, at: usize) -> Option<()> {
    let mapping = mw_segment::mapping_at(at).ok()??;
    // The inode of a segment is its id (ipc/shm.c). shmdt(2) fails for any other mapping.
    let id = c_int::try_from(mapping.inode).ok().filter(|_| mapping.shared)?;
    let bytes = shm::status(id)?.shm_segsz.checked_next_multiple_of(mapping.page_bytes)?;
    let is_whole = mapping.addresses.len() == bytes && bytes >= settings::release_threshold();
    is_whole.then(|| discard_before_unmap(workers, mapping.addresses))
}

/// Discards what is unmapped next, which frees what is left after an error.
fn discard_before_unmap(workers: &Workers<'_>, addresses: Range<usize>) {
    let is_supported = advise_range(addresses.start..addresses.start, DONTNEED_LOCKED).is_ok();
    let advice = if is_supported { DONTNEED_LOCKED } else { libc::MADV_DONTNEED };
    let _ = discard(workers, &addresses, CountedCall::Unmap, advice);
}

/// Discards pages in parallel, and counts it as `call`.
fn discard(
    workers: &Workers<'_>,
    addresses: &Range<usize>,
    call: CountedCall,
    advice: c_int,
) -> io::Result<()> {
    stats::measure(
        call,
        addresses.len(),
        &|sample| {
            let part = addresses.start..addresses.start + sample;
            advise_range(part, advice).ok().map(|()| sample)
        },
        &|| {
            let work = |range| advise_range(range, advice);
            workers.each_chunk(Phase::Destroy, addresses.clone(), CHUNK_BYTES, &work).map(drop)
        },
    )
}

fn advise_range(addresses: Range<usize>, advice: c_int) -> io::Result<()> {
    let at = kernel::pointer(addresses.start);
    // SAFETY: the program requests that the content of these addresses be discarded, or has unmapped
    // them (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let done = unsafe { kernel::madvise(at, addresses.len(), advice) };
    // Not `errno`, which all workers share; no caller needs the reason.
    if done == 0 { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// True if the range reaches the threshold and at least half of it is resident. With few pages unmapping
/// is cheap, and creating threads is not.
fn is_resident(addresses: &Range<usize>) -> bool {
    let page = mw_sys::page_bytes();
    let interval = addresses.len() / page / SAMPLES * page;
    let is_page_resident = |sample: usize| {
        let mut resident = 0_u8;
        let at = kernel::pointer(addresses.start + sample * interval);
        // SAFETY: the result for one page is one byte (mincore(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let done = unsafe { kernel::mincore(at, page, &raw mut resident) };
        done == 0 && resident & 1 != 0
    };
    addresses.len() >= settings::release_threshold()
        && (0..SAMPLES).filter(|sample| is_page_resident(*sample)).count() * 2 >= SAMPLES
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_segment::PageSize;

    #[test]
    fn a_single_mapping_is_recognized() {
        let region = Region::anonymous(1 << 20, PageSize::Base).unwrap();
        let start = region.as_ptr().as_ptr().expose_provenance();
        // Other tests map and unmap memory next to it; an operation would then be left to the kernel.
        let is_single = || require_single_mapping(&(start..start + (1 << 20))).is_some();
        assert!((0..100).any(|_| is_single()));
        assert_eq!(require_single_mapping(&(4096..8192)), None);
    }
}
