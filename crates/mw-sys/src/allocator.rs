//! The program's allocator: the C library's for small blocks, the kernel for large ones, with a clean end where there is
//! no memory.

use crate::page_bytes;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// A block of this size or more is a mapping of its own. glibc would map it, too, with its heap locked meanwhile: while
/// memory is short, every other thread that allocates would wait for that.
const LARGE_BYTES: usize = 64 << 10;

/// The end of the program.
struct ExitMessage {
    line: String,
    exit_code: i32,
}

static END: OnceLock<ExitMessage> = OnceLock::new();

/// Allocates small blocks with malloc(3) and large ones with mmap(2). Rust ends a program that gets no memory by SIGABRT;
/// once [`exit_without_memory`] was called, the program ends with a line on standard error and an exit code instead.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator;

/// From now on the program ends with this line and this exit code where it gets no memory: one that has limited itself
/// ([`limit_data_bytes`](crate::limit_data_bytes)) because of what it reads. The first call counts.
pub fn exit_without_memory(line: &str, exit_code: u8) {
    let end = ExitMessage { line: format!("{line}\n"), exit_code: i32::from(exit_code) };
    let _ = END.set(end);
}

/// True for a block that is a mapping of its own. No page is aligned to more than its size.
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_BYTES && layout.align() <= page_bytes()
}

/// Maps zeroed memory; null where there is none.
fn mapped(bytes: usize) -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory at addresses that the kernel chooses (mmap(2)).
    #[allow(unsafe_code, reason = "an allocator")]
    let memory = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE) };
    memory.map_or(null_mut(), |memory| memory.cast())
}

// SAFETY: a large block is a mapping of its own, which is aligned to pages and zeroed, until it is unmapped or moved with
// the size that it has; every other call is passed on to the C library's allocator with what the caller has promised, and
// its answer is returned as it is (GlobalAlloc). A block is large by its size and alignment alone, in every call.
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return checked(mapped(layout.size()));
        }
        // SAFETY: the caller's promise (GlobalAlloc::alloc).
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: `alloc` or `realloc` mapped it with this size, and it is no longer in use. Nothing can be done where
            // the kernel refuses, as for a process with the most mappings that would have to split one.
            let _ = unsafe { munmap(memory.cast(), layout.size()) };
            return;
        }
        // SAFETY: the caller's promise (GlobalAlloc::dealloc).
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return checked(mapped(layout.size()));
        }
        // SAFETY: the caller's promise (GlobalAlloc::alloc_zeroed).
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the size is not zero and does not overflow when rounded up (GlobalAlloc::realloc).
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (is_large(layout), is_large(wanted)) {
            // SAFETY: the caller's promise (GlobalAlloc::realloc).
            (false, false) => checked(unsafe { System.realloc(memory, layout, bytes) }),
            (true, true) => {
                // SAFETY: the block is a mapping of this size, of which nothing else refers to a part.
                let moved =
                    unsafe { mremap(memory.cast(), layout.size(), bytes, MremapFlags::MAYMOVE) };
                checked(moved.map_or(null_mut(), |memory| memory.cast()))
            }
            _ => {
                // SAFETY: `wanted` has a size that is not zero.
                let moved = unsafe { self.alloc(wanted) };
                if !moved.is_null() {
                    // SAFETY: the two blocks do not overlap, and each has these bytes.
                    unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(bytes)) };
                    // SAFETY: the block has this layout, and the caller does not use it again.
                    unsafe { self.dealloc(memory, layout) };
                }
                moved
            }
        }
    }
}

/// The memory that was allocated; the program ends where that is nothing, and that was agreed.
fn checked(memory: *mut u8) -> *mut u8 {
    if memory.is_null()
        && let Some(end) = END.get()
    {
        let _ = rustix::io::write(rustix::stdio::stderr(), end.line.as_bytes());
        // SAFETY: it does not return, and runs nothing of the program (_exit(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of _exit(2)")]
        unsafe {
            libc::_exit(end.exit_code)
        }
    }
    memory
}

#[cfg(test)]
#[allow(unsafe_code, clippy::unwrap_used, clippy::multiple_unsafe_ops_per_block, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_bytes_while_it_becomes_large_and_small_again() {
        let sizes = [100, LARGE_BYTES - 1, LARGE_BYTES, 40 << 20, LARGE_BYTES + 5, 1000, 7];
        let mut layout = Layout::from_size_align(7, 8).unwrap();
        // SAFETY: each block has the layout that it was last allocated with, and is freed once.
        unsafe {
            let mut block = Allocator.alloc(layout);
            block.copy_from_nonoverlapping(b"memory!".as_ptr(), 7);
            for bytes in sizes {
                block = Allocator.realloc(block, layout, bytes);
                layout = Layout::from_size_align(bytes, 8).unwrap();
                assert_eq!(std::slice::from_raw_parts(block, 7), b"memory!");
                assert!(!is_large(layout) || block.addr().is_multiple_of(page_bytes()));
                block.add(bytes - 1).write(block.add(bytes - 1).read());
            }
            Allocator.dealloc(block, layout);
        }
    }

    #[test]
    fn zeroed_blocks_are_zero() {
        for bytes in [500, 1 << 20] {
            let layout = Layout::from_size_align(bytes, 64).unwrap();
            // SAFETY: the block has this layout, and is freed once.
            unsafe {
                let block = Allocator.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(block, bytes).iter().all(|byte| *byte == 0));
                Allocator.dealloc(block, layout);
            }
        }
    }

    #[test]
    fn no_memory_is_null() {
        let layout = Layout::from_size_align(1 << 62, 8).unwrap();
        // SAFETY: nothing is allocated.
        assert!(unsafe { Allocator.alloc(layout) }.is_null());
    }
}
