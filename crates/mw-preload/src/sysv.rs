//! System V segments from a pool (`memwright run --pool`): a large new segment is the kernel's own in
//! all but its memory, which is a pool's.
//!
//! ```text
//! shmget ─ the kernel's, marked, without a page ─ server: a lease that is tied to its number
//! shmat  ─ the kernel's ─ marked? ─ server ─→ stripes ─→ mapped instead; of the kernel's one page stays
//! shmdt  ─ both are unmapped
//! ```
//!
//! - **Number, key, rights, times, `IPC_RMID`, how often it is attached and by whom last** are the
//!   kernel's: the page that stays counts as the attachment, in every fork too. Memory is the lease's,
//!   which the server ends when the kernel has no such segment any more.
//! - **The mark is in the mode**: the group may execute, and nobody else. The kernel asks for that when
//!   memory is attached to be executed, and for nothing else (shmget(2)). Segments that programs make
//!   with such rights are left alone, and shmctl(2) neither shows the mark nor takes it away.
//! - **A marked segment without a lease** is one that is being made, and is waited for. Where the pool
//!   does not serve it, it is removed, and the kernel's own call makes another.
//! - **Who attaches it must run with the pool too.** Without, there is the kernel's memory: zeros.

use crate::helper_thread::on_helper_thread;
use crate::kernel;
use crate::lock::is_future_locked;
use crate::pooled::{self, Asked, Why, mapped};
use crate::settings::{self, Pool};
use libc::{key_t, shmid_ds};
use mw_pool::protocol::{Lease, Refusal};
use mw_pool::{Client, Error, Stripes};
use mw_segment::Workers;
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The rights to execute, of a mode, and those that say that a segment's memory is a pool's.
const EXECUTE: u32 = 0o111;
const MARK: u32 = 0o010;
/// Of a mode: it is removed, and goes with the last attachment (linux/shm.h).
const SHM_DEST: u32 = 0o1000;
/// What is for hugetlb pages of the flags of shmget(2); where their size is, as in mmap(2).
const HUGE: c_int = libc::SHM_HUGETLB | pooled::HUGE_MASK << pooled::HUGE_SHIFT;

/// How long a segment is waited for that is being made, beyond what its maker waits for the pool.
const WAIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

/// The most attachments of pools that a process has at a time.
const MAX_ATTACHED: usize = 256;

/// A place that is being taken: no address.
const WRITING: usize = 1;

/// Where a segment of a pool is attached. Forks have it as well.
struct Attached {
    /// 0: nowhere.
    at: AtomicUsize,
    bytes: AtomicUsize,
    /// The page of the kernel's attachment.
    anchor: AtomicUsize,
    /// The file that is mapped there.
    inode: AtomicUsize,
}

static ATTACHED: [Attached; MAX_ATTACHED] = [const {
    Attached {
        at: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        anchor: AtomicUsize::new(0),
        inode: AtomicUsize::new(0),
    }
}; MAX_ATTACHED];

/// shmget(2) of something large; none where the kernel's own call is to be made.
#[cold]
pub(crate) fn create(key: key_t, bytes: usize, flags: c_int) -> Option<c_int> {
    let pool = settings::pool()?;
    let makes = key == libc::IPC_PRIVATE || flags & libc::IPC_CREAT != 0;
    if !makes {
        return None;
    }
    let kept = kernel::Errno::kept();
    let why = match made(key, bytes, flags, pool)? {
        Ok(id) => return Some(id),
        Err(why) => why,
    };
    if pooled::may_use_kernel_memory(pool, &why) {
        return None;
    }
    drop(kept);
    kernel::set_errno(libc::ENOMEM);
    Some(-1)
}

/// A new segment whose memory is the pool's; none where the kernel makes none either.
fn made(key: key_t, bytes: usize, flags: c_int, pool: Pool) -> Option<Result<c_int, Why>> {
    let unusual = [
        (flags.cast_unsigned() & EXECUTE != 0, "its mode has rights to execute"),
        // The kernel's segment would be populated as it is attached.
        (is_future_locked(), "the program has all locked that it maps (mlockall)"),
    ];
    if let Some((_, why)) = unusual.into_iter().find(|(is_so, _)| *is_so) {
        return Some(Err(Why::said(why)));
    }
    let new = libc::IPC_CREAT | libc::IPC_EXCL | libc::SHM_NORESERVE | MARK.cast_signed();
    // SAFETY: makes a segment and touches no memory (shmget(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let id = unsafe { kernel::shmget(key, bytes, flags & !HUGE | new) };
    // It is there, or may not be.
    let segment = u32::try_from(id).ok()?;
    let asked = Asked::new(bytes, flags & HUGE, libc::SHM_HUGETLB).whole();
    let tied =
        on_helper_thread(&|_| Some(tie(segment, pool, asked))).unwrap_or_else(|| Err(Why::alone()));
    if tied.is_err() {
        kernel_control(id, libc::IPC_RMID, null_mut());
    }
    Some(tied.map(|()| id))
}

/// Has the pool serve a segment. What the lease comes with is closed again: who attaches asks for it.
fn tie(segment: u32, pool: Pool, asked: Asked) -> Result<(), Why> {
    let (client, wanted, _) = pooled::wanted(pool, asked)?;
    client.lease(&wanted.segment(segment)).map(drop).map_err(Why::said)
}

/// shmat(2); none where the kernel's own call is to be made.
#[cold]
pub(crate) fn attach(id: c_int, at: *const c_void, flags: c_int) -> Option<*mut c_void> {
    let pool = settings::pool()?;
    let about = status(id).filter(is_marked)?;
    let read_only = flags & libc::SHM_RDONLY != 0;
    // The kernel's own answer to whether it may be attached, and attached there.
    let anchor = Held::new(id, null(), flags & libc::SHM_RDONLY)?;
    let place = if at.is_null() { None } else { Some(Held::new(id, at, flags)?) };
    let wanted = Wanted {
        id,
        bytes: about.shm_segsz,
        place: place.as_ref().map(|held| held.at),
        anchor: anchor.at,
        read_only,
    };
    let why = match on_helper_thread(&|workers| Some(overlay(workers, pool, wanted))) {
        Some(Ok(at)) => {
            let page = mw_sys::page_bytes();
            unmap(&(anchor.at + page..anchor.at + wanted.bytes.next_multiple_of(page)));
            protect(&(anchor.at..anchor.at + page), libc::PROT_NONE);
            std::mem::forget((anchor, place));
            return Some(kernel::pointer(at));
        }
        Some(Err(why)) => why,
        None => Why::alone(),
    };
    drop((anchor, place));
    // Its maker has removed it: the pool does not serve it.
    status(id)?;
    pooled::say(pool, format_args!("segment {id} is not attached: {why}"));
    kernel::set_errno(libc::EACCES);
    Some(libc::MAP_FAILED)
}

/// What is to be attached.
#[derive(Clone, Copy)]
struct Wanted {
    id: c_int,
    bytes: usize,
    /// The address that the kernel has granted; none: anywhere.
    place: Option<usize>,
    /// Where the kernel has attached it, to count.
    anchor: usize,
    read_only: bool,
}

/// Maps the memory of a segment's lease where the kernel's was to be, and notes it.
fn overlay(workers: &Workers<'_>, pool: Pool, wanted: Wanted) -> Result<usize, Why> {
    let stripes = lease_of(pool, wanted)?;
    let Lease { granule_bytes, stripe_bytes, .. } = *stripes.lease();
    let size = |bytes: u64| usize::try_from(bytes).map_err(|_| Why::said("it is too large"));
    let (granule, stripe) = (size(granule_bytes)?.max(mw_sys::page_bytes()), size(stripe_bytes)?);
    let bytes = wanted.bytes.next_multiple_of(granule);
    if (bytes as u64) > stripes.lease().bytes {
        return Err(Why::said("its memory is smaller than it"));
    }
    let mapped = mapped(&stripes, bytes)?;
    let mut addresses = mapped.clone();
    if let Some(place) = wanted.place {
        addresses = place..place + bytes;
        if let Err(error) = moved(&mapped, place, wanted.bytes, stripe) {
            unmap(&mapped);
            return Err(Why::Said(format!("not at {place:#x}: {error}")));
        }
    }
    let at_once = granule > mw_sys::page_bytes() || settings::prefault();
    pooled::arrived(workers, &addresses, at_once);
    if wanted.read_only {
        protect(&addresses, libc::PROT_READ);
    }
    if !note(&addresses, wanted.anchor) {
        unmap(&addresses);
        return Err(Why::said(format!("{MAX_ATTACHED} are attached, and no more can be")));
    }
    Ok(addresses.start)
}

/// The memory of a segment's lease; its maker may be asking for it just now.
fn lease_of(pool: Pool, wanted: Wanted) -> Result<Stripes, Why> {
    let client = Client::new(pool.socket);
    let id = u32::try_from(wanted.id).map_err(Why::said)?;
    let wait = WAIT + Asked::new(wanted.bytes, 0, libc::SHM_HUGETLB).wait();
    let end = Instant::now() + wait;
    loop {
        let error = match client.segment(id) {
            Ok(stripes) => return Ok(stripes),
            Err(error) => error,
        };
        let passes = match &error {
            Error::NoServer { .. } | Error::Refused(Refusal::Limit, _) => true,
            Error::Refused(Refusal::NoSuchSegment, _) => is_being_made(wanted.id, wait),
            _ => false,
        };
        if !passes || Instant::now() > end {
            return Err(Why::said(error));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a segment was made less than this ago, and has not been removed.
fn is_being_made(id: c_int, wait: Duration) -> bool {
    let Some(about) = status(id).filter(|about| mode(about) & SHM_DEST == 0) else { return false };
    let since = UNIX_EPOCH + Duration::from_secs(u64::try_from(about.shm_ctime).unwrap_or(0));
    // shm_ctime is in seconds, cut off.
    since.elapsed().is_ok_and(|age| age < wait + Duration::from_secs(1))
}

/// Moves stripes to a place of the kernel's attachment; pages of theirs may reach beyond it.
fn moved(from: &Range<usize>, place: usize, bytes: usize, stripe: usize) -> io::Result<()> {
    let granted = bytes.next_multiple_of(mw_sys::page_bytes());
    let beyond = from.len().saturating_sub(granted);
    if beyond > 0 {
        reserve(place + granted, beyond)?;
    }
    for start in (0..from.len()).step_by(stripe) {
        let bytes = stripe.min(from.len() - start);
        let (old, new) = (kernel::pointer(from.start + start), kernel::pointer(place + start));
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the stripes were mapped here; the place is the kernel's attachment, of which the
        // program does not know yet, and what was reserved behind it (mremap(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let moved = unsafe { kernel::mremap(old, bytes, bytes, flags, new) };
        if moved != new {
            unmap(&(place..place + from.len()));
            return Err(io::Error::from_raw_os_error(kernel::errno()));
        }
    }
    Ok(())
}

/// Takes addresses, if nobody has them.
fn reserve(at: usize, bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is replaced (mmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let mapped = unsafe { kernel::mmap(kernel::pointer(at), bytes, libc::PROT_NONE, flags, -1, 0) };
    if mapped == kernel::pointer(at) { Ok(()) } else { Err(io::ErrorKind::AddrInUse.into()) }
}

/// shmdt(2); none where the kernel's own call is to be made.
#[cold]
pub(crate) fn detach(at: *const c_void) -> Option<c_int> {
    settings::pool()?;
    let at = at.addr();
    let is_at = |attached: &&Attached| attached.at.load(Ordering::Acquire) == at && at > WRITING;
    let attached = ATTACHED.iter().find(is_at)?;
    let _errno = kernel::Errno::kept();
    let [bytes, anchor, known] =
        [&attached.bytes, &attached.anchor, &attached.inode].map(|of| of.load(Ordering::Relaxed));
    let is_there = on_helper_thread(&|_| Some(inode(at) == known)).unwrap_or(true);
    if is_there {
        unmap(&(at..at + bytes));
    }
    attached.at.store(0, Ordering::Release);
    drop(Held { at: anchor });
    // What the program has unmapped itself is nothing to detach, for the kernel either.
    is_there.then_some(0)
}

/// shmctl(2): the mark is not shown, and stays.
pub(crate) fn control(id: c_int, command: c_int, buffer: *mut shmid_ds) -> c_int {
    let has_pool = settings::pool().is_some();
    if has_pool && command == libc::IPC_SET && status(id).as_ref().is_some_and(is_marked) {
        let Some(mut about) = copied(buffer) else {
            kernel::set_errno(libc::EFAULT);
            return -1;
        };
        let marked = mode(&about) & !EXECUTE | MARK;
        set_mode(&mut about, marked);
        return kernel_control(id, command, &raw mut about);
    }
    let done = kernel_control(id, command, buffer);
    if has_pool && command == libc::IPC_STAT && done == 0 {
        // SAFETY: the kernel has just filled it.
        #[allow(unsafe_code, reason = "a pointer of the program's")]
        let about = unsafe { &mut *buffer };
        if is_marked(about) {
            let unmarked = mode(about) & !EXECUTE;
            set_mode(about, unmarked);
        }
    }
    done
}

/// What a program points to, copied by the kernel, which knows whether there is anything.
fn copied(buffer: *const shmid_ds) -> Option<shmid_ds> {
    let mut about = std::mem::MaybeUninit::<shmid_ds>::uninit();
    let bytes = size_of::<shmid_ds>();
    let to = libc::iovec { iov_base: about.as_mut_ptr().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: buffer.cast_mut().cast(), iov_len: bytes };
    // SAFETY: as much is written as there is room for, and what is read is this process's or an error
    // (process_vm_readv(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let read = unsafe {
        kernel::process_vm_readv(std::process::id(), &raw const to, 1, &raw const from, 1, 0)
    };
    if read == bytes.cast_signed() {
        // SAFETY: all of it was written.
        #[allow(unsafe_code, reason = "filled by the kernel")]
        return Some(unsafe { about.assume_init() });
    }
    if read >= 0 || kernel::errno() == libc::EFAULT {
        return None;
    }
    // A kernel without that call.
    // SAFETY: the program says that it is a shmid_ds (shmctl(2)).
    #[allow(unsafe_code, reason = "a pointer of the program's")]
    Some(unsafe { *buffer })
}

/// A segment that the kernel has attached; detached when it is dropped.
struct Held {
    at: usize,
}

impl Held {
    fn new(id: c_int, at: *const c_void, flags: c_int) -> Option<Self> {
        // SAFETY: the program asks for it to be attached there (shmat(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let attached = unsafe { kernel::shmat(id, at, flags) };
        (attached != libc::MAP_FAILED).then(|| Self { at: attached.expose_provenance() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the program does not know of it, or has given it up.
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::shmdt(kernel::pointer(self.at))
        };
    }
}

/// Notes what is attached; false where there is no place for it.
fn note(addresses: &Range<usize>, anchor: usize) -> bool {
    let claim = |attached: &&Attached| {
        attached.at.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(attached) = ATTACHED.iter().find(claim) else { return false };
    attached.bytes.store(addresses.len(), Ordering::Relaxed);
    attached.anchor.store(anchor, Ordering::Relaxed);
    attached.inode.store(inode(addresses.start), Ordering::Relaxed);
    attached.at.store(addresses.start, Ordering::Release);
    true
}

/// The number of the file that is mapped from an address on; 0 if there is none.
fn inode(at: usize) -> usize {
    let mapping = mw_segment::mapping_at(at).ok().flatten();
    mapping.and_then(|mapping| usize::try_from(mapping.inode).ok()).unwrap_or(0)
}

fn unmap(addresses: &Range<usize>) {
    if addresses.is_empty() {
        return;
    }
    // SAFETY: this library has mapped it, and the program does not know of it or has given it up.
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

/// What the kernel says of a segment, where it may be said.
pub(crate) fn status(id: c_int) -> Option<shmid_ds> {
    let _errno = kernel::Errno::kept();
    // SAFETY: plain numbers, for which all bits zero is a value.
    #[allow(unsafe_code, reason = "a structure of C")]
    let mut about: shmid_ds = unsafe { std::mem::zeroed() };
    (kernel_control(id, libc::IPC_STAT, &raw mut about) == 0).then_some(about)
}

fn kernel_control(id: c_int, command: c_int, buffer: *mut shmid_ds) -> c_int {
    // SAFETY: what is read or written is what the caller says that it is (shmctl(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::shmctl(id, command, buffer)
    }
}

fn mode(about: &shmid_ds) -> u32 {
    about.shm_perm.mode.into()
}

fn set_mode(about: &mut shmid_ds, mode: u32) {
    // 16 bits on x86-64, 32 on others.
    about.shm_perm.mode = mode as _;
}

fn is_marked(about: &shmid_ds) -> bool {
    mode(about) & EXECUTE == MARK
}
