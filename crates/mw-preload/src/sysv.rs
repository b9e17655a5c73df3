//! System V segments from a pool (`memwright run --pool`): a large new segment is the kernel's own except
//! for its memory, which comes from a pool.
//!
//! ```text
//! shmget ─ the kernel's, marked, without pages ─ server: a lease that is bound to its id
//! shmat  ─ the kernel's ─ marked? ─ server ─→ stripes ─→ mapped in its place; one page of it stays
//! shmdt  ─ both are unmapped
//! ```
//!
//! - **Id, key, permissions, times, `IPC_RMID`, attachment count and last user** are the kernel's: the page
//!   that stays counts as the attachment, also in every fork. The server ends the lease when the kernel
//!   no longer has the segment.
//! - **The mark is in the mode**: only the group may execute. The kernel checks this bit only
//!   when memory is attached with `SHM_EXEC` (shmget(2)). Segments that programs create with execute
//!   permissions are left alone; shmctl(2) neither shows the mark nor removes it.
//! - **A marked segment without a lease** is being created, so that attaching it waits. If the pool
//!   cannot serve it, it is removed, and the program's system call creates another.
//! - **All programs that attach it must run with the pool.** Without, they see the kernel's memory: zeros.

use crate::helper_thread::on_helper_thread;
use crate::lock::is_future_locked;
use crate::pool_memory::{self, PoolError, PoolRequest};
use crate::settings::{self, PoolSetting};
use crate::{kernel, shm};
use libc::{key_t, shmid_ds};
use mw_pool::protocol::{Lease, Refusal};
use mw_pool::{Client, Error, LeaseFiles};
use mw_segment::Workers;
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The execute permissions of a mode, and those that mark a segment of a pool.
const EXECUTE: u32 = 0o111;
const MARK: u32 = 0o010;
/// In a mode: the segment is marked for removal (linux/shm.h).
const SHM_DEST: u32 = 0o1000;
/// The flags of shmget(2) that request hugetlb pages and their size.
const HUGE: c_int = libc::SHM_HUGETLB | pool_memory::HUGE_MASK << pool_memory::HUGE_SHIFT;

/// Time that attaching waits for a segment that is being created, beyond the time that its creator waits
/// for the pool, and how often it checks.
const WAIT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The largest number of attached segments of pools in a process.
const MAX_ATTACHMENTS: usize = 256;

/// Claims a slot that is being filled; not an address.
const CLAIMED: usize = 1;

/// An attached segment of a pool. Forks inherit it.
struct PoolAttachment {
    /// 0: the slot is free.
    at: AtomicUsize,
    bytes: AtomicUsize,
    /// The page of the kernel's attachment.
    anchor: AtomicUsize,
    /// The inode of the first mapped file.
    inode: AtomicUsize,
}

static ATTACHMENTS: [PoolAttachment; MAX_ATTACHMENTS] = [const {
    PoolAttachment {
        at: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        anchor: AtomicUsize::new(0),
        inode: AtomicUsize::new(0),
    }
}; MAX_ATTACHMENTS];

/// A large shmget(2); none if the system call is to be made.
#[cold]
pub(crate) fn create(key: key_t, bytes: usize, flags: c_int) -> Option<c_int> {
    let pool = settings::pool()?;
    let creates = key == libc::IPC_PRIVATE || flags & libc::IPC_CREAT != 0;
    if !creates {
        return None;
    }
    let errno = kernel::ErrnoGuard::new();
    let error = match create_with_lease(key, bytes, flags, pool)? {
        Ok(id) => return Some(id),
        Err(error) => error,
    };
    if pool_memory::may_use_kernel(pool, &error) {
        return None;
    }
    drop(errno);
    kernel::set_errno(libc::ENOMEM);
    Some(-1)
}

/// Creates a segment with memory of the pool; none if the kernel does not create one.
fn create_with_lease(
    key: key_t,
    bytes: usize,
    flags: c_int,
    pool: PoolSetting,
) -> Option<Result<c_int, PoolError>> {
    let unsuitable = [
        (flags.cast_unsigned() & EXECUTE != 0, "its mode has execute permissions"),
        // Attaching would populate the kernel's segment.
        (is_future_locked(), "the program locks all that it maps (mlockall)"),
    ];
    if let Some((_, reason)) = unsuitable.into_iter().find(|(applies, _)| *applies) {
        return Some(Err(PoolError::new(reason)));
    }
    let new = libc::IPC_CREAT | libc::IPC_EXCL | libc::SHM_NORESERVE | MARK.cast_signed();
    // SAFETY: creates a segment, and accesses no memory (shmget(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let id = unsafe { kernel::shmget(key, bytes, flags & !HUGE | new) };
    // An error, for example because the key exists.
    let segment = u32::try_from(id).ok()?;
    let request =
        PoolRequest::from_flags(bytes, flags & HUGE, libc::SHM_HUGETLB).unmapped_by_address();
    let leased = on_helper_thread(&|_| Some(lease_for_segment(segment, pool, request)))
        .unwrap_or_else(|| Err(PoolError::no_thread()));
    if leased.is_err() {
        shm::control(id, libc::IPC_RMID, null_mut());
    }
    Some(leased.map(|()| id))
}

/// Leases the memory of a segment. The descriptors of the lease are closed: attaching requests them again.
fn lease_for_segment(
    segment: u32,
    pool: PoolSetting,
    request: PoolRequest,
) -> Result<(), PoolError> {
    let (client, attach, _) = pool_memory::attach_request(pool, request)?;
    client.lease(&attach.segment(segment)).map(drop).map_err(PoolError::new)
}

/// shmat(2); none if the system call is to be made.
#[cold]
pub(crate) fn attach(id: c_int, at: *const c_void, flags: c_int) -> Option<*mut c_void> {
    let pool = settings::pool()?;
    let status = shm::status(id).filter(is_marked)?;
    let read_only = flags & libc::SHM_RDONLY != 0;
    // Whether the kernel permits it, and permits this address.
    let anchor = KernelAttachment::new(id, null(), flags & libc::SHM_RDONLY)?;
    let place = if at.is_null() { None } else { Some(KernelAttachment::new(id, at, flags)?) };
    let request = AttachRequest {
        id,
        bytes: status.shm_segsz,
        place: place.as_ref().map(|place| place.at),
        anchor: anchor.at,
        read_only,
    };
    let error = match on_helper_thread(&|workers| Some(map_lease(workers, pool, request))) {
        Some(Ok(at)) => {
            let page = mw_sys::page_bytes();
            unmap(&(anchor.at + page..anchor.at + request.bytes.next_multiple_of(page)));
            protect(&(anchor.at..anchor.at + page), libc::PROT_NONE);
            std::mem::forget((anchor, place));
            return Some(kernel::pointer(at));
        }
        Some(Err(error)) => error,
        None => PoolError::no_thread(),
    };
    drop((anchor, place));
    // Its creator has removed it, because the pool cannot serve it.
    shm::status(id)?;
    pool_memory::notify(pool, format_args!("segment {id} is not attached: {error}"));
    kernel::set_errno(libc::EACCES);
    Some(libc::MAP_FAILED)
}

#[derive(Clone, Copy)]
struct AttachRequest {
    id: c_int,
    bytes: usize,
    /// The address that the kernel has granted; none: any.
    place: Option<usize>,
    /// The address of the kernel's attachment that counts.
    anchor: usize,
    read_only: bool,
}

/// Maps the memory of a segment's lease in place of the kernel's, and records it; returns its address.
fn map_lease(
    workers: &Workers<'_>,
    pool: PoolSetting,
    request: AttachRequest,
) -> Result<usize, PoolError> {
    let stripes = stripes_of_segment(pool, request)?;
    let Lease { granule_bytes, stripe_bytes, .. } = *stripes.lease();
    let size = |bytes: u64| usize::try_from(bytes).map_err(|_| PoolError::new("it is too large"));
    let (granule, stripe) = (size(granule_bytes)?.max(mw_sys::page_bytes()), size(stripe_bytes)?);
    let bytes = request.bytes.next_multiple_of(granule);
    if (bytes as u64) > stripes.lease().bytes {
        return Err(PoolError::new("its lease is smaller than the segment"));
    }
    let mapped = pool_memory::map_stripes(&stripes, bytes)?;
    let mut addresses = mapped.clone();
    if let Some(place) = request.place {
        addresses = place..place + bytes;
        if let Err(error) = move_stripes(&mapped, place, request.bytes, stripe) {
            unmap(&mapped);
            return Err(PoolError::Other(format!("not at {place:#x}: {error}")));
        }
    }
    let populates = granule > mw_sys::page_bytes() || settings::prefault();
    pool_memory::count_mapped(workers, &addresses, populates);
    if request.read_only {
        protect(&addresses, libc::PROT_READ);
    }
    if !record_attachment(&addresses, request.anchor) {
        unmap(&addresses);
        return Err(PoolError::new(format!("{MAX_ATTACHMENTS} segments are attached already")));
    }
    Ok(addresses.start)
}

/// The memory of a segment's lease. Waits if its creator is requesting the lease at the moment.
fn stripes_of_segment(pool: PoolSetting, request: AttachRequest) -> Result<LeaseFiles, PoolError> {
    let client = Client::new(pool.socket);
    let id = u32::try_from(request.id).map_err(PoolError::new)?;
    let wait = WAIT + PoolRequest::from_flags(request.bytes, 0, libc::SHM_HUGETLB).wait();
    let end = Instant::now() + wait;
    loop {
        let error = match client.segment(id) {
            Ok(stripes) => return Ok(stripes),
            Err(error) => error,
        };
        let is_temporary = match &error {
            Error::NoServer { .. } | Error::Refused(Refusal::Limit, _) => true,
            Error::Refused(Refusal::NoSuchSegment, _) => is_being_created(request.id, wait),
            _ => false,
        };
        if !is_temporary || Instant::now() > end {
            return Err(PoolError::new(error));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// True if a segment was created less than `wait` ago, and has not been removed.
fn is_being_created(id: c_int, wait: Duration) -> bool {
    let Some(status) = shm::status(id).filter(|status| mode(status) & SHM_DEST == 0) else {
        return false;
    };
    let since = UNIX_EPOCH + Duration::from_secs(u64::try_from(status.shm_ctime).unwrap_or(0));
    // shm_ctime is in whole seconds.
    since.elapsed().is_ok_and(|age| age < wait + Duration::from_secs(1))
}

/// Moves mapped stripes over the kernel's attachment at `place`; their last page may extend beyond it.
fn move_stripes(from: &Range<usize>, place: usize, bytes: usize, stripe: usize) -> io::Result<()> {
    let granted = bytes.next_multiple_of(mw_sys::page_bytes());
    let beyond = from.len().saturating_sub(granted);
    if beyond > 0 {
        reserve(place + granted, beyond)?;
    }
    for start in (0..from.len()).step_by(stripe) {
        let bytes = stripe.min(from.len() - start);
        let (old, new) = (kernel::pointer(from.start + start), kernel::pointer(place + start));
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the stripes were mapped here. The destination is the kernel's attachment, of which
        // the program does not know yet, and what was reserved behind it (mremap(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let moved = unsafe { kernel::mremap(old, bytes, bytes, flags, new) };
        if moved != new {
            unmap(&(place..place + from.len()));
            return Err(io::Error::from_raw_os_error(kernel::errno()));
        }
    }
    Ok(())
}

/// Reserves addresses if they are free.
fn reserve(at: usize, bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is replaced (mmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let mapped = unsafe { kernel::mmap(kernel::pointer(at), bytes, libc::PROT_NONE, flags, -1, 0) };
    if mapped == kernel::pointer(at) { Ok(()) } else { Err(io::ErrorKind::AddrInUse.into()) }
}

/// shmdt(2); none if the system call is to be made.
#[cold]
pub(crate) fn detach(at: *const c_void) -> Option<c_int> {
    settings::pool()?;
    let at = at.addr();
    let is_at = |slot: &&PoolAttachment| slot.at.load(Ordering::Acquire) == at && at > CLAIMED;
    let attachment = ATTACHMENTS.iter().find(is_at)?;
    let _errno = kernel::ErrnoGuard::new();
    let [bytes, anchor, recorded_inode] =
        [&attachment.bytes, &attachment.anchor, &attachment.inode]
            .map(|field| field.load(Ordering::Relaxed));
    let is_mapped = on_helper_thread(&|_| Some(inode(at) == recorded_inode)).unwrap_or(true);
    if is_mapped {
        unmap(&(at..at + bytes));
    }
    attachment.at.store(0, Ordering::Release);
    drop(KernelAttachment { at: anchor });
    // If the program has unmapped it itself, shmdt(2) fails without the library as well.
    is_mapped.then_some(0)
}

/// shmctl(2), which hides the mark and keeps it.
pub(crate) fn control(id: c_int, command: c_int, buffer: *mut shmid_ds) -> c_int {
    let has_pool = settings::pool().is_some();
    if has_pool && command == libc::IPC_SET && shm::status(id).as_ref().is_some_and(is_marked) {
        let Some(mut status) = read_buffer(buffer) else {
            kernel::set_errno(libc::EFAULT);
            return -1;
        };
        let marked = mode(&status) & !EXECUTE | MARK;
        set_mode(&mut status, marked);
        return shm::control(id, command, &raw mut status);
    }
    let done = shm::control(id, command, buffer);
    if has_pool && command == libc::IPC_STAT && done == 0 {
        // SAFETY: the kernel has just filled it.
        #[allow(unsafe_code, reason = "a pointer of the program's")]
        let status = unsafe { &mut *buffer };
        if is_marked(status) {
            let unmarked = mode(status) & !EXECUTE;
            set_mode(status, unmarked);
        }
    }
    done
}

/// A copy of the program's buffer, made by the kernel, which checks the address.
fn read_buffer(buffer: *const shmid_ds) -> Option<shmid_ds> {
    let mut status = std::mem::MaybeUninit::<shmid_ds>::uninit();
    let bytes = size_of::<shmid_ds>();
    let to = libc::iovec { iov_base: status.as_mut_ptr().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: buffer.cast_mut().cast(), iov_len: bytes };
    // SAFETY: writes at most the size of the destination; an invalid source is an error
    // (process_vm_readv(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let read = unsafe {
        kernel::process_vm_readv(std::process::id(), &raw const to, 1, &raw const from, 1, 0)
    };
    if read == bytes.cast_signed() {
        // SAFETY: all of it was written.
        #[allow(unsafe_code, reason = "filled by the kernel")]
        return Some(unsafe { status.assume_init() });
    }
    if read >= 0 || kernel::errno() == libc::EFAULT {
        return None;
    }
    // The kernel does not have that system call.
    // SAFETY: the program passes a pointer to a shmid_ds (shmctl(2)).
    #[allow(unsafe_code, reason = "a pointer of the program's")]
    Some(unsafe { *buffer })
}

/// A segment that the kernel has attached; detached when it is dropped.
struct KernelAttachment {
    at: usize,
}

impl KernelAttachment {
    fn new(id: c_int, at: *const c_void, flags: c_int) -> Option<Self> {
        // SAFETY: the program requests that it be attached there (shmat(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let attached = unsafe { kernel::shmat(id, at, flags) };
        (attached != libc::MAP_FAILED).then(|| Self { at: attached.expose_provenance() })
    }
}

impl Drop for KernelAttachment {
    fn drop(&mut self) {
        // SAFETY: the program does not know of it, or has detached it.
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::shmdt(kernel::pointer(self.at))
        };
    }
}

/// Returns false if all slots are in use.
fn record_attachment(addresses: &Range<usize>, anchor: usize) -> bool {
    let claim = |slot: &&PoolAttachment| {
        slot.at.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(attachment) = ATTACHMENTS.iter().find(claim) else { return false };
    attachment.bytes.store(addresses.len(), Ordering::Relaxed);
    attachment.anchor.store(anchor, Ordering::Relaxed);
    attachment.inode.store(inode(addresses.start), Ordering::Relaxed);
    attachment.at.store(addresses.start, Ordering::Release);
    true
}

/// The inode of the file whose mapping starts at an address; 0 if there is none.
fn inode(at: usize) -> usize {
    let mapping = mw_segment::mapping_at(at).ok().flatten();
    mapping.and_then(|mapping| usize::try_from(mapping.inode).ok()).unwrap_or(0)
}

fn unmap(addresses: &Range<usize>) {
    if addresses.is_empty() {
        return;
    }
    // SAFETY: this library has mapped it, and the program does not know of it or has detached it.
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::munmap(kernel::pointer(addresses.start), addresses.len())
    };
}

fn protect(addresses: &Range<usize>, prot: c_int) {
    // SAFETY: this library has mapped it, and the program does not know of it yet (mprotect(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::mprotect(kernel::pointer(addresses.start), addresses.len(), prot)
    };
}

fn mode(status: &shmid_ds) -> u32 {
    status.shm_perm.mode.into()
}

fn set_mode(status: &mut shmid_ds, mode: u32) {
    // 16 bits on x86-64, 32 on others.
    status.shm_perm.mode = mode as _;
}

fn is_marked(status: &shmid_ds) -> bool {
    mode(status) & EXECUTE == MARK
}
