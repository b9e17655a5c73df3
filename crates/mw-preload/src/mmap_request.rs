//! The arguments of mmap(2).

use crate::kernel;
use libc::off_t;
use mw_sys::Fault;
use std::ffi::{c_int, c_void};

#[derive(Clone, Copy)]
pub(crate) struct MmapRequest {
    pub(crate) at: *mut c_void,
    pub(crate) bytes: usize,
    pub(crate) prot: c_int,
    pub(crate) flags: c_int,
    pub(crate) fd: c_int,
    pub(crate) offset: off_t,
}

impl MmapRequest {
    pub(crate) fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// The fault by which the kernel populates it (mm/gup.c, populate_vma_page_range).
    pub(crate) fn fault(&self) -> Fault {
        let private = self.flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
        let writes = self.prot & libc::PROT_WRITE != 0;
        if private && writes { Fault::Write } else { Fault::Read }
    }

    /// Makes the system call, with these flags.
    ///
    /// # Safety
    /// As mmap(2).
    #[allow(unsafe_code, reason = "passes on the program's request")]
    pub(crate) unsafe fn map(&self, flags: c_int) -> *mut c_void {
        // SAFETY: the caller is responsible for it.
        unsafe { kernel::mmap(self.at, self.bytes, self.prot, flags, self.fd, self.offset) }
    }
}
