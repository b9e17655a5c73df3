//! mmap(2) and shmat(2): what is mapped is populated in parallel, where the kernel would populate it
//! or `memwright run` was told to.
//!
//! The kernel's mmap(2) populates what it has mapped whether that succeeds or not, so that it can be
//! mapped first, without `MAP_POPULATE` or `MAP_LOCKED`, and populated then.

use crate::helper_thread::on_helper_thread;
use crate::large;
use crate::pooled::{self, Pooled};
use crate::settings::{self, Huge};
use crate::stats::Call;
use crate::{kernel, lock, sysv};
use libc::off_t;
use mw_segment::Workers;
use mw_sys::{Fault, SignalHandlersBlocked};
use rustix::fs::{FileType, fstat, fstatfs};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// `TMPFS_MAGIC` and `HUGETLBFS_MAGIC` (linux/magic.h).
const MEMORY_FILES: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x9584_58f6];

/// What mmap(2) is asked.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) at: *mut c_void,
    pub(crate) bytes: usize,
    pub(crate) prot: c_int,
    pub(crate) flags: c_int,
    pub(crate) fd: c_int,
    pub(crate) offset: off_t,
}

/// What is done beyond mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wanted {
    /// The kernel was asked to populate it.
    populate: bool,
    /// The kernel was asked to lock it, and so to populate it.
    locked: bool,
    /// `memwright run` was told to populate it.
    prefault: bool,
    /// `memwright run` was told to ask for huge pages.
    huge: bool,
}

impl Request {
    fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// What is done with it; none where that is nothing, or the kernel's own call is needed.
    fn wanted(&self) -> Option<Wanted> {
        let anonymous = self.has(libc::MAP_ANONYMOUS);
        let (reads, writes) = (self.prot & libc::PROT_READ != 0, self.prot & libc::PROT_WRITE != 0);
        // What the kernel populates although it may not be read cannot be populated by others.
        let can_fault = reads || self.fault() == Fault::Write;
        let unusual = libc::MAP_GROWSDOWN | libc::MAP_NONBLOCK | libc::MAP_STACK;
        let unreserved = self.has(libc::MAP_HUGETLB) && self.has(libc::MAP_NORESERVE);
        if !can_fault || self.has(unusual) || unreserved || lock::is_future_locked() {
            return None;
        }
        let own = anonymous && writes && !self.has(libc::MAP_NORESERVE);
        let wanted = Wanted {
            populate: self.has(libc::MAP_POPULATE),
            locked: self.has(libc::MAP_LOCKED),
            prefault: own && settings::prefault(),
            huge: anonymous && writes && settings::huge() == Huge::Always,
        };
        let nothing = !(wanted.populate || wanted.locked || wanted.prefault || wanted.huge);
        // Refused, MAP_LOCKED leaves alone what MAP_FIXED would have replaced.
        let irrevocable = wanted.locked && self.has(libc::MAP_FIXED);
        (!nothing && !irrevocable && (anonymous || is_memory(self.fd))).then_some(wanted)
    }

    /// What the kernel populates it for (mm/gup.c, populate_vma_page_range).
    fn fault(&self) -> Fault {
        let private = self.flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
        let writes = self.prot & libc::PROT_WRITE != 0;
        if private && writes { Fault::Write } else { Fault::Read }
    }

    /// The kernel's own call.
    #[allow(unsafe_code, reason = "passes on what the program asks for")]
    pub(crate) unsafe fn map(&self, flags: c_int) -> *mut c_void {
        // SAFETY: the caller answers for it.
        unsafe { kernel::mmap(self.at, self.bytes, self.prot, flags, self.fd, self.offset) }
    }
}

/// Whether the file is one of memory.
fn is_memory(fd: c_int) -> bool {
    if fd < 0 {
        return false;
    }
    // SAFETY: it is looked at within this call; a number that is no descriptor is an error.
    #[allow(unsafe_code, reason = "a descriptor of the program's")]
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let regular = fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
    regular && fstatfs(fd).is_ok_and(|fs| MEMORY_FILES.contains(&fs.f_type))
}

/// mmap(2) of something large; none where the kernel's own call is to be made.
///
/// # Safety
/// As mmap(2).
#[cold]
#[allow(unsafe_code, reason = "passes on what the program asks for")]
pub(crate) unsafe fn map(request: Request) -> Option<*mut c_void> {
    match pooled::map(&request) {
        Pooled::Mapped(at) => {
            let _errno = kernel::Errno::kept();
            if request.has(libc::MAP_LOCKED) || settings::lock() {
                // SAFETY: locking changes no content; as of mmap(2), what cannot be locked is no
                // error.
                unsafe { kernel::mlock(at, request.bytes) };
            }
            return Some(at);
        }
        Pooled::Refused => {
            kernel::set_errno(libc::ENOMEM);
            return Some(libc::MAP_FAILED);
        }
        Pooled::Plain => {}
    }
    let _errno = kernel::Errno::kept();
    let wanted = request.wanted()?;
    // As the kernel populates what it maps: no handler runs, and leaves, before that is done.
    let _held = SignalHandlersBlocked::new();
    let plain = request.flags & !(libc::MAP_POPULATE | libc::MAP_LOCKED);
    // SAFETY: the caller answers for it.
    let at = unsafe { request.map(plain) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: what was mapped above is known to nobody else yet, and MAP_FIXED was not given.
    if wanted.locked && !unsafe { lock_on_fault(at, request.bytes) } {
        return None;
    }
    populate(at, &request, wanted);
    if wanted.locked || settings::lock() && wanted.prefault {
        // SAFETY: locking changes no content; as of mmap(2), what cannot be populated is no error.
        unsafe { kernel::mlock(at, request.bytes) };
    }
    Some(at)
}

/// Locks what was just mapped, or unmaps it.
#[allow(unsafe_code, reason = "system calls")]
unsafe fn lock_on_fault(at: *mut c_void, bytes: usize) -> bool {
    // SAFETY: locking changes no content.
    if unsafe { kernel::mlock2(at, bytes, libc::MLOCK_ONFAULT as c_int) } == 0 {
        return true;
    }
    // SAFETY: the caller answers for nobody using it.
    unsafe { kernel::munmap(at, bytes) };
    false
}

fn populate(at: *mut c_void, request: &Request, wanted: Wanted) {
    let Some(addresses) = kernel::pages(at, request.bytes) else { return };
    if wanted.huge {
        let _ = mw_sys::advise_huge_pages(addresses.clone());
    }
    if !(wanted.populate || wanted.locked || wanted.prefault) {
        return;
    }
    let done = on_helper_thread(&|workers| in_parallel(workers, &addresses));
    if done.is_none() && wanted.populate {
        // As the kernel populates what it maps, whatever comes of it.
        let _ = mw_sys::populate_existing(addresses, request.fault(), None);
    }
}

fn in_parallel(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<()> {
    let parts = large::beginning(addresses)?;
    if parts.last()?.addresses.end != addresses.end || !large::is_worth_it(&parts) {
        return None;
    }
    large::populate(workers, Call::Map, &parts).ok()
}

/// After shmat(2) of a System V segment.
#[cold]
pub(crate) fn attached(id: c_int, at: *mut c_void) {
    let Some(bytes) = sysv::status(id)
        .map(|about| about.shm_segsz)
        .filter(|bytes| *bytes >= settings::threshold())
    else {
        return;
    };
    let Some(addresses) = kernel::pages(at, bytes) else { return };
    let done = on_helper_thread(&|workers| in_parallel(workers, &addresses));
    if done.is_some() && settings::lock() {
        // SAFETY: locking changes no content (mlock(2)).
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::mlock(at, bytes)
        };
    }
}
