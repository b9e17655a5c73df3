//! This library's own allocator: its caller may be the program's allocator.
//!
//! An operation allocates little and frees all of it. Small blocks are taken consecutively from one
//! arena, which is reset whenever no block is in use; what does not fit is mapped. The state is one atomic
//! word, without a lock that a fork(2) could copy in the locked state or a signal handler wait for.

use crate::kernel;
use mw_sys::system_call;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

const ARENA_BYTES: usize = 1 << 20;

/// The largest alignment that both the arena and a mapping provide.
const ARENA_ALIGN: usize = 4096;

#[repr(C, align(4096))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: `STATE` hands out each byte to one owner at a time.
#[allow(unsafe_code, reason = "memory to be handed out")]
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

/// The used bytes in the upper half, the number of blocks in the lower.
static STATE: AtomicU64 = AtomicU64::new(0);

/// Number of blocks that were mapped.
static MAPPINGS: AtomicU64 = AtomicU64::new(0);

/// Changes when the library maps a block, which then appears among the program's mappings.
pub(crate) fn mappings() -> u64 {
    MAPPINGS.load(Ordering::Relaxed)
}

pub(crate) struct Heap;

#[cfg(not(test))]
#[global_allocator]
static HEAP: Heap = Heap;

/// The state with one more block, and the offset of that block; none if it does not fit.
fn with_block(state: u64, layout: Layout) -> Option<(u64, usize)> {
    let (used, blocks) = ((state >> 32) as usize, state as u32);
    let start = used.checked_next_multiple_of(layout.align())?;
    let end = start.checked_add(layout.size())?;
    let fits = end <= ARENA_BYTES && layout.align() <= ARENA_ALIGN;
    fits.then_some(((end as u64) << 32 | u64::from(blocks + 1), start))
}

/// The state with one block less.
fn without_block(state: u64) -> u64 {
    if state as u32 <= 1 { 0 } else { state - 1 }
}

// SAFETY: a block is a mapping of its own, which is aligned to pages, or a part of the arena that is not
// reused until all blocks are freed.
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut start = 0;
        let taken = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            let (next, at) = with_block(state, layout)?;
            start = at;
            Some(next)
        });
        if taken.is_ok() {
            return ARENA.0.get().cast::<u8>().wrapping_add(start);
        }
        if layout.align() > ARENA_ALIGN {
            return null_mut();
        }
        MAPPINGS.fetch_add(1, Ordering::Relaxed);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory at addresses that the kernel chooses (mmap(2)).
        let mapped = unsafe {
            system_call(
                libc::SYS_mmap,
                [0, layout.size(), prot as usize, flags as usize, usize::MAX, 0],
            )
        };
        // Without `errno`, which the thread that populates in the background must not access.
        if mapped < 0 { null_mut() } else { kernel::pointer(mapped as usize).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let arena = ARENA.0.get().addr();
        if (arena..arena + ARENA_BYTES).contains(&block.addr()) {
            let _ = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                Some(without_block(state))
            });
        } else {
            // SAFETY: `alloc` mapped it with this size, and it is no longer in use.
            unsafe { system_call(libc::SYS_munmap, [block.expose_provenance(), layout.size()]) };
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code, clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_disjoint_and_the_arena_is_reset() {
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let sizes = [(1, 1), (100, 64), (4096, 4096), (ARENA_BYTES, 8), (1 << 20, 4096)];
        for _ in 0..3 {
            // SAFETY: the sizes are not zero.
            let blocks = sizes.map(|(size, align)| unsafe { Heap.alloc(layout(size, align)) });
            for (block, (size, align)) in blocks.iter().zip(sizes) {
                assert!(!block.is_null() && block.addr().is_multiple_of(align));
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(7, size) };
            }
            assert!(blocks[1].addr() > blocks[0].addr());
            for (block, (size, align)) in blocks.into_iter().zip(sizes) {
                // SAFETY: it came from `alloc` with this layout.
                unsafe { Heap.dealloc(block, layout(size, align)) };
            }
            assert_eq!(STATE.load(Ordering::SeqCst), 0);
        }
        // SAFETY: the size is not zero.
        assert!(unsafe { Heap.alloc(layout(8, 1 << 20)) }.is_null());
    }
}
