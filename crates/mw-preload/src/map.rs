//! mmap(2) and shmat(2): mappings are populated in parallel if the kernel would populate them or
//! `--prefault=now` was given, and in the background with `--prefault`.
//!
//! The kernel's mmap(2) does not fail if populating fails. The library can therefore map first, without
//! `MAP_POPULATE` or `MAP_LOCKED`, and populate then.

use crate::background;
use crate::helper_thread::on_helper_thread;
use crate::mmap_request::MmapRequest;
use crate::pool_memory::{self, PoolMapping};
use crate::populate;
use crate::settings::{self, ThpPolicy};
use crate::stats::CountedCall;
use crate::{kernel, lock, shm};
use mw_segment::Workers;
use mw_sys::{Fault, SignalHandlersBlocked, ThpAdvice};
use rustix::fs::{FileType, fstat, fstatfs};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// `TMPFS_MAGIC` and `HUGETLBFS_MAGIC` (linux/magic.h).
const MEMORY_FILESYSTEMS: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x9584_58f6];

/// Work after mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Preparation {
    /// The program passed `MAP_POPULATE`.
    populate: bool,
    /// The program passed `MAP_LOCKED`, which populates as well.
    lock: bool,
    /// A setting of `memwright run`.
    prefault: bool,
    /// A setting of `memwright run`.
    huge_pages: bool,
}

impl Preparation {
    /// None if nothing is to be done, or the system call must be made unchanged.
    fn from_request(request: &MmapRequest) -> Option<Self> {
        let anonymous = request.has(libc::MAP_ANONYMOUS);
        let reads = request.prot & libc::PROT_READ != 0;
        let writes = request.prot & libc::PROT_WRITE != 0;
        // The kernel populates some memory that may not be read; other threads cannot.
        let can_fault = reads || request.fault() == Fault::Write;
        let unusual = libc::MAP_GROWSDOWN | libc::MAP_NONBLOCK | libc::MAP_STACK;
        let unreserved = request.has(libc::MAP_HUGETLB) && request.has(libc::MAP_NORESERVE);
        if !can_fault || request.has(unusual) || unreserved || lock::is_future_locked() {
            return None;
        }
        let can_prefault = anonymous && writes && !request.has(libc::MAP_NORESERVE);
        let preparation = Self {
            populate: request.has(libc::MAP_POPULATE),
            lock: request.has(libc::MAP_LOCKED),
            prefault: can_prefault && settings::prefault(),
            huge_pages: anonymous && writes && settings::huge_pages() == ThpPolicy::Always,
        };
        let is_empty = !(preparation.populates() || preparation.huge_pages);
        // If MAP_LOCKED fails, the kernel leaves what MAP_FIXED would have replaced unchanged.
        let irrevocable = preparation.lock && request.has(libc::MAP_FIXED);
        let is_memory = anonymous || is_memory_file(request.fd);
        (!is_empty && !irrevocable && is_memory).then_some(preparation)
    }

    fn populates(self) -> bool {
        self.populate || self.lock || self.prefault
    }

    /// True if the program does not wait for populating.
    fn populates_later(self) -> bool {
        self.prefault && !self.populate && !self.lock && !settings::prefault_now()
    }
}

/// True if a descriptor is of a regular file on tmpfs or hugetlbfs.
fn is_memory_file(fd: c_int) -> bool {
    if fd < 0 {
        return false;
    }
    // SAFETY: it is used only within this call; an invalid number is an error.
    #[allow(unsafe_code, reason = "a descriptor of the program's")]
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let regular = fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
    regular && fstatfs(fd).is_ok_and(|fs| MEMORY_FILESYSTEMS.contains(&fs.f_type))
}

/// A large mmap(2); none if the system call is to be made unchanged.
///
/// # Safety
/// As mmap(2).
#[cold]
#[allow(unsafe_code, reason = "passes on the program's request")]
pub(crate) unsafe fn map(request: MmapRequest) -> Option<*mut c_void> {
    match pool_memory::map(&request) {
        PoolMapping::Mapped(at) => {
            let _errno = kernel::ErrnoGuard::new();
            if request.has(libc::MAP_LOCKED) || settings::lock() {
                // SAFETY: locking changes no content; as in mmap(2), a failure is ignored.
                unsafe { kernel::mlock(at, request.bytes) };
            }
            return Some(at);
        }
        PoolMapping::Failed => {
            kernel::set_errno(libc::ENOMEM);
            return Some(libc::MAP_FAILED);
        }
        PoolMapping::UseKernel => {}
    }
    let _errno = kernel::ErrnoGuard::new();
    let preparation = Preparation::from_request(&request)?;
    // As in the kernel's mmap(2), no signal handler runs, and possibly never returns, before it is done.
    let _blocked = SignalHandlersBlocked::new();
    let flags = request.flags & !(libc::MAP_POPULATE | libc::MAP_LOCKED);
    // SAFETY: the caller is responsible for it.
    let at = unsafe { request.map(flags) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: nothing uses the new mapping yet, and MAP_FIXED was not passed.
    if preparation.lock && !unsafe { lock_on_fault_or_unmap(at, request.bytes) } {
        return None;
    }
    prepare(at, &request, preparation);
    if preparation.lock || settings::lock() && preparation.prefault {
        // SAFETY: locking changes no content; as in mmap(2), what cannot be populated is no error.
        unsafe { kernel::mlock(at, request.bytes) };
    }
    Some(at)
}

/// Locks a new mapping on fault, or unmaps it; returns whether it is locked.
///
/// # Safety
/// Nothing may use the mapping.
#[allow(unsafe_code, reason = "system calls")]
unsafe fn lock_on_fault_or_unmap(at: *mut c_void, bytes: usize) -> bool {
    // SAFETY: locking changes no content.
    if unsafe { kernel::mlock2(at, bytes, libc::MLOCK_ONFAULT as c_int) } == 0 {
        return true;
    }
    // SAFETY: the caller guarantees that nothing uses it.
    unsafe { kernel::munmap(at, bytes) };
    false
}

fn prepare(at: *mut c_void, request: &MmapRequest, preparation: Preparation) {
    let Some(addresses) = kernel::page_range(at, request.bytes) else { return };
    if preparation.huge_pages {
        let _ = mw_sys::advise_thp_existing(addresses.clone(), ThpAdvice::Enable);
    }
    if !preparation.populates() {
        return;
    }
    if preparation.populates_later() {
        let shared = request.flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        return populate_later(addresses, shared);
    }
    let done = on_helper_thread(&|workers| populate_in_parallel(workers, &addresses));
    if done.is_none() && preparation.populate {
        // As in the kernel's mmap(2), a failure is ignored.
        let _ = mw_sys::populate_existing(addresses, request.fault(), None);
    }
}

fn populate_later(addresses: Range<usize>, shared: bool) {
    if settings::huge_pages() == ThpPolicy::Auto {
        on_helper_thread(&|_| {
            populate::request_free_huge_pages(&addresses, shared);
            Some(())
        });
    }
    background::populate_later(addresses, shared);
}

fn populate_in_parallel(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<()> {
    let parts = populate::populatable_prefix(addresses)?;
    if parts.last()?.addresses.end != addresses.end || !populate::is_worthwhile(&parts) {
        return None;
    }
    populate::populate(workers, CountedCall::Map, &parts).ok()
}

/// After shmat(2) of a System V segment.
#[cold]
pub(crate) fn populate_attached(id: c_int, at: *mut c_void) {
    let Some(bytes) = shm::status(id)
        .map(|status| status.shm_segsz)
        .filter(|bytes| *bytes >= settings::threshold())
    else {
        return;
    };
    let Some(addresses) = kernel::page_range(at, bytes) else { return };
    if !settings::prefault_now() {
        return populate_later(addresses, true);
    }
    let done = on_helper_thread(&|workers| populate_in_parallel(workers, &addresses));
    if done.is_some() && settings::lock() {
        // SAFETY: locking changes no content (mlock(2)).
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::mlock(at, bytes)
        };
    }
}
