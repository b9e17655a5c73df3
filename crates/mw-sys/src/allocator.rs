//! The program's allocator: the C library's, with a clean end where there is no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;

/// The end of the program.
struct ExitMessage {
    line: String,
    exit_code: i32,
}

static END: OnceLock<ExitMessage> = OnceLock::new();

/// The C library's allocator. Rust ends a program that gets no memory by SIGABRT; once [`exit_without_memory`] was
/// called, the program ends with a line on standard error and an exit code instead.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator;

/// From now on the program ends with this line and this exit code where it gets no memory: one that has limited itself
/// ([`limit_data_bytes`](crate::limit_data_bytes)) because of what it reads. The first call counts.
pub fn exit_without_memory(line: &str, exit_code: u8) {
    let end = ExitMessage { line: format!("{line}\n"), exit_code: i32::from(exit_code) };
    let _ = END.set(end);
}

// SAFETY: every call is passed on to the C library's allocator with what the caller has promised, and its answer is
// returned as it is (GlobalAlloc).
#[allow(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise (GlobalAlloc::alloc).
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise (GlobalAlloc::dealloc).
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise (GlobalAlloc::alloc_zeroed).
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise (GlobalAlloc::realloc).
        checked(unsafe { System.realloc(memory, layout, bytes) })
    }
}

/// The memory that the C library gave; the program ends where that is nothing, and that was agreed.
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
