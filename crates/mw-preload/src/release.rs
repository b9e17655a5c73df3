//! munmap(2), shmdt(2) and madvise(2): what is given back, or populated, in parallel.

use crate::helper_thread::on_helper_thread;
use crate::kernel;
use crate::large::{self, MAX_PARTS};
use crate::own_locks;
use crate::settings;
use crate::stats::{self, Call};
use crate::sysv;
use mw_segment::{MappedPart, MemoryType, Phase, Workers};
use mw_sys::{Fault, Region};
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;

/// What is emptied at a time: fewer rounds of telling all processors to forget the addresses.
const CHUNK_BYTES: usize = 16 << 20;

/// What page tables are moved by: those of one such block as a whole, where both places are equally
/// aligned (mm/mremap.c).
const TABLE_BYTES: usize = 2 << 20;

/// Pages that are looked at, to see whether there is something to give back.
const SAMPLES: usize = 16;

/// `MADV_DONTNEED_LOCKED` (linux/mman.h, kernel 5.18).
const DONTNEED_LOCKED: c_int = 24;

/// munmap(2) of something large; none where the kernel's own call is to be made.
///
/// It must not be emptied before it is known that it can be unmapped: sealed memory cannot. So it is
/// moved to addresses that nobody knows, which is refused for the same reasons and for more, and
/// costs little; then it is gone from where it was, and is emptied and unmapped there.
///
/// # Safety
/// As munmap(2).
#[cold]
#[allow(unsafe_code, reason = "passes on what the program asks for")]
pub(crate) unsafe fn unmap(at: *mut c_void, bytes: usize) -> Option<c_int> {
    let _errno = kernel::Errno::kept();
    let addresses = kernel::pages(at, bytes)?;
    if addresses.start != at.addr() || !is_resident(&addresses) {
        return None;
    }
    on_helper_thread(&|workers| unmap_in_parallel(workers, &addresses))
}

fn unmap_in_parallel(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<c_int> {
    one_of_memory(addresses)?;
    if !can_be_moved(addresses) {
        return None;
    }
    let region = place_for(addresses.len())?;
    // A fork(2) of another thread would keep what was moved for good. From here on it has none of it, as
    // after munmap(2).
    chunk(addresses.clone(), libc::MADV_DONTFORK).ok()?;
    match move_away(addresses, region) {
        Some(away) => empty(workers, away.addresses.clone(), Call::Unmap),
        None => unmap_in_place(addresses)?,
    }
    Some(0)
}

/// Whether the kernel would move it at all: it refuses to keep sealed memory where it is, too.
fn can_be_moved(addresses: &Range<usize>) -> bool {
    let (at, bytes) = (kernel::pointer(addresses.start), addresses.len());
    // SAFETY: the same size at the same place changes nothing (mremap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let stays = unsafe { kernel::mremap(at, bytes, bytes, 0, std::ptr::null_mut()) };
    stays == at
}

/// What could not be moved although nothing spoke against it. Where it cannot be unmapped either, forks
/// have it again.
fn unmap_in_place(addresses: &Range<usize>) -> Option<()> {
    let (at, bytes) = (kernel::pointer(addresses.start), addresses.len());
    // SAFETY: the program asks for it (munmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    if unsafe { kernel::munmap(at, bytes) } == 0 {
        return Some(());
    }
    let _ = chunk(addresses.clone(), libc::MADV_DOFORK);
    None
}

/// Memory that was moved; unmapped with the region that it was moved to.
struct Away {
    addresses: Range<usize>,
    _region: Region,
}

/// Addresses that so much can be moved to, wherever it starts; forks do not have them.
fn place_for(bytes: usize) -> Option<Region> {
    let more = bytes.checked_add(TABLE_BYTES)?;
    let region = Region::reserve(more, mw_sys::page_bytes(), TABLE_BYTES).ok()?;
    let start = region.as_ptr().as_ptr().expose_provenance();
    let _ = chunk(start..start + more, libc::MADV_DONTFORK);
    Some(region)
}

fn move_away(addresses: &Range<usize>, region: Region) -> Option<Away> {
    let bytes = addresses.len();
    let start = region.as_ptr().as_ptr().expose_provenance() + addresses.start % TABLE_BYTES;
    let (from, to) = (kernel::pointer(addresses.start), kernel::pointer(start));
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the program asked for these addresses to be unmapped; where they are moved to is a
    // region of ours that lends no references (mremap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let moved = unsafe { kernel::mremap(from, bytes, bytes, flags, to) };
    (moved == to).then(|| Away { addresses: start..start + bytes, _region: region })
}

/// madvise(2) of something large; none where the kernel's own call is to be made.
///
/// # Safety
/// As madvise(2).
#[cold]
#[allow(unsafe_code, reason = "passes on what the program asks for")]
pub(crate) unsafe fn advise(at: *mut c_void, bytes: usize, advice: c_int) -> Option<c_int> {
    let addresses = kernel::pages(at, bytes).filter(|range| range.start == at.addr())?;
    match advice {
        libc::MADV_POPULATE_READ => {
            on_helper_thread(&|workers| populate(workers, &addresses, Fault::Read))
        }
        libc::MADV_POPULATE_WRITE => {
            on_helper_thread(&|workers| populate(workers, &addresses, Fault::Write))
        }
        libc::MADV_DONTNEED => {
            let _errno = kernel::Errno::kept();
            if is_resident(&addresses) {
                on_helper_thread(&|workers| discard(workers, &addresses));
            }
            None
        }
        _ => None,
    }
}

/// All of it, or the kernel's own call finds out what is wrong.
fn populate(workers: &Workers<'_>, addresses: &Range<usize>, fault: Fault) -> Option<c_int> {
    let mut parts = large::beginning(addresses)?;
    if parts.last()?.addresses.end != addresses.end || !large::is_worth_it(&parts) {
        return None;
    }
    for part in &mut parts {
        part.fault = Some(fault);
    }
    large::populate(workers, Call::Advise, &parts).ok().map(|()| 0)
}

/// What is refused for one chunk is refused for each, with nothing done: the mapping is one.
fn discard(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<()> {
    one_of_memory(addresses)?;
    let ours = own_locks::is_ours(addresses);
    let advice = if ours { DONTNEED_LOCKED } else { libc::MADV_DONTNEED };
    stats::noted(
        Call::Advise,
        addresses.len(),
        &|sample| discard_range(addresses.start..addresses.start + sample, advice),
        &|| {
            let work = |range| chunk(range, advice);
            workers.each_chunk(Phase::Destroy, addresses.clone(), CHUNK_BYTES, &work).map(drop)
        },
    )
    .ok()
}

/// The range, where it is of one mapping of memory. What others share stays in its file, and only
/// its addresses are emptied.
fn one_of_memory(addresses: &Range<usize>) -> Option<()> {
    let parts = large::parts(addresses, MAX_PARTS)?;
    let [MappedPart { addresses: found, memory: MemoryType::Anonymous | MemoryType::Shmem, .. }] =
        parts.as_slice()
    else {
        return None;
    };
    (found == addresses).then_some(())
}

/// Before shmdt(2), which finds a segment by where it is attached: it is emptied in place, and loses
/// nothing by that.
#[cold]
pub(crate) fn before_detaching(at: *const c_void) {
    let _errno = kernel::Errno::kept();
    let (least, at) = (kernel::pages(at, settings::release_threshold()), at.addr());
    if least.is_some_and(|least| least.start == at && is_resident(&least)) {
        on_helper_thread(&|workers| empty_segment(workers, at));
    }
}

fn empty_segment(workers: &Workers<'_>, at: usize) -> Option<()> {
    let mapping = mw_segment::mapping_at(at).ok()??;
    // A segment's inode is its number (ipc/shm.c). Whatever else is there is not detached either.
    let id = c_int::try_from(mapping.inode).ok().filter(|_| mapping.shared)?;
    let bytes = sysv::status(id)?.shm_segsz.checked_next_multiple_of(mapping.page_bytes)?;
    let is_whole = mapping.addresses.len() == bytes && bytes >= settings::release_threshold();
    is_whole.then(|| empty(workers, mapping.addresses, Call::Unmap))
}

/// Empties what is unmapped afterwards, whatever comes of it.
fn empty(workers: &Workers<'_>, addresses: Range<usize>, call: Call) {
    let advice = if discard_range(addresses.start..addresses.start, DONTNEED_LOCKED).is_some() {
        DONTNEED_LOCKED
    } else {
        libc::MADV_DONTNEED
    };
    let _ = stats::noted(
        call,
        addresses.len(),
        &|sample| discard_range(addresses.start..addresses.start + sample, advice),
        &|| {
            let work = |range| chunk(range, advice);
            workers.each_chunk(Phase::Destroy, addresses.clone(), CHUNK_BYTES, &work).map(drop)
        },
    );
}

fn discard_range(addresses: Range<usize>, advice: c_int) -> Option<usize> {
    let bytes = addresses.len();
    chunk(addresses, advice).ok().map(|()| bytes)
}

fn chunk(addresses: Range<usize>, advice: c_int) -> io::Result<()> {
    let at = kernel::pointer(addresses.start);
    // SAFETY: the program asked for the content of these addresses to be given back, or they are
    // those of memory that it has unmapped (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let done = unsafe { kernel::madvise(at, addresses.len(), advice) };
    // Who directs looks for no reason: errno is not one thread's own here.
    if done == 0 { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Whether at least half of some pages are there: where there are few, unmapping costs next to
/// nothing, and looking for threads more.
fn is_resident(addresses: &Range<usize>) -> bool {
    let page = mw_sys::page_bytes();
    let apart = addresses.len() / page / SAMPLES * page;
    let is_there = |sample: usize| {
        let mut resident = 0_u8;
        let at = kernel::pointer(addresses.start + sample * apart);
        // SAFETY: one page is asked about, which is one byte of answer (mincore(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let asked = unsafe { kernel::mincore(at, page, &raw mut resident) };
        asked == 0 && resident & 1 != 0
    };
    addresses.len() >= settings::release_threshold()
        && (0..SAMPLES).filter(|sample| is_there(*sample)).count() * 2 >= SAMPLES
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_segment::PageSize;

    #[test]
    fn one_mapping_of_memory_is_told_from_others() {
        let region = Region::anonymous(1 << 20, PageSize::Base).unwrap();
        let start = region.as_ptr().as_ptr().expose_provenance();
        // A look may meet other tests that map and unmap next to it, and is then left to the kernel.
        let is_told = || one_of_memory(&(start..start + (1 << 20))).is_some();
        assert!((0..100).any(|_| is_told()));
        assert_eq!(one_of_memory(&(4096..8192)), None);
    }
}
