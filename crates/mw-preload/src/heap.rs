//! This library's own memory: the program's allocator may be who called.
//!
//! An operation allocates little and frees all of it, so that small pieces are taken one after the
//! other from one arena, which starts anew whenever nothing of it is in use. What does not fit is
//! mapped. One atomic word holds it all: no lock that a fork(2) could copy in the locked state, or
//! that a signal handler could wait for.

use crate::kernel;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

const ARENA_BYTES: usize = 1 << 20;

/// The largest alignment that the arena and a mapping both have.
const ARENA_ALIGN: usize = 4096;

#[repr(C, align(4096))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: its bytes are handed out to one owner at a time by `STATE`.
#[allow(unsafe_code, reason = "memory to be handed out")]
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

/// Bytes handed out, above; pieces in use, below.
static STATE: AtomicU64 = AtomicU64::new(0);

/// How often something was mapped because it did not fit.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// Changes when something is mapped that is no memory of the program's.
pub(crate) fn mapped() -> u64 {
    MAPPED.load(Ordering::Relaxed)
}

pub(crate) struct Heap;

#[cfg(not(test))]
#[global_allocator]
static HEAP: Heap = Heap;

/// The state after one more piece, and where it starts; none where it does not fit.
fn take(state: u64, layout: Layout) -> Option<(u64, usize)> {
    let (used, pieces) = ((state >> 32) as usize, state as u32);
    let start = used.checked_next_multiple_of(layout.align())?;
    let end = start.checked_add(layout.size())?;
    let fits = end <= ARENA_BYTES && layout.align() <= ARENA_ALIGN;
    fits.then_some(((end as u64) << 32 | u64::from(pieces + 1), start))
}

/// The state after one piece less.
fn give_back(state: u64) -> u64 {
    if state as u32 <= 1 { 0 } else { state - 1 }
}

// SAFETY: a piece lies in the arena, at a place of its own until all pieces were given back, or is a
// mapping of its own, which is aligned to pages.
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut start = 0;
        let taken = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            let (next, at) = take(state, layout)?;
            start = at;
            Some(next)
        });
        if taken.is_ok() {
            return ARENA.0.get().cast::<u8>().wrapping_add(start);
        }
        if layout.align() > ARENA_ALIGN {
            return null_mut();
        }
        MAPPED.fetch_add(1, Ordering::Relaxed);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory at addresses that the kernel chooses (mmap(2)).
        let mapped = unsafe { kernel::mmap(null_mut(), layout.size(), prot, flags, -1, 0) };
        if mapped == libc::MAP_FAILED { null_mut() } else { mapped.cast() }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        let arena = ARENA.0.get().addr();
        if (arena..arena + ARENA_BYTES).contains(&piece.addr()) {
            let _ = STATE
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some(give_back(state)));
        } else {
            // SAFETY: it was mapped by `alloc` with this size, and nobody uses it any more.
            unsafe { kernel::munmap(piece.cast(), layout.size()) };
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code, clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_and_the_arena_starts_anew() {
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let sizes = [(1, 1), (100, 64), (4096, 4096), (ARENA_BYTES, 8), (1 << 20, 4096)];
        for _ in 0..3 {
            // SAFETY: the sizes are not zero.
            let pieces = sizes.map(|(size, align)| unsafe { Heap.alloc(layout(size, align)) });
            for (piece, (size, align)) in pieces.iter().zip(sizes) {
                assert!(!piece.is_null() && piece.addr().is_multiple_of(align));
                // SAFETY: the piece is of this size.
                unsafe { piece.write_bytes(7, size) };
            }
            assert!(pieces[1].addr() > pieces[0].addr());
            for (piece, (size, align)) in pieces.into_iter().zip(sizes) {
                // SAFETY: it came from `alloc` with this layout.
                unsafe { Heap.dealloc(piece, layout(size, align)) };
            }
            assert_eq!(STATE.load(Ordering::SeqCst), 0);
        }
        // SAFETY: the size is not zero.
        assert!(unsafe { Heap.alloc(layout(8, 1 << 20)) }.is_null());
    }
}
