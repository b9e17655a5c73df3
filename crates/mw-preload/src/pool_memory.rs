//! Shared memory from a pool (`memwright run --pool`): a large shared anonymous mmap(2) maps memory that
//! a pool server keeps populated, instead of new memory.
//!
//! ```text
//! mmap(SHARED | ANONYMOUS) ─ server ─→ descriptors of stripes ─→ mapped side by side ─→ result
//!           │                         (the helper thread's table)
//!           └─ no server, no room, wrong page size ─→ one line of notice, the kernel's own mmap
//! ```
//!
//! - **It behaves as the program expects**: zeroed, shared with every fork, freed with the last mapping.
//!   The server reclaims it once the kernel reports that no process has it; the mapping itself keeps the
//!   lease alive, so that the program holds no descriptor for it.
//! - **If the pool has hugetlb pages**, the size must be whole pages, or the program could not unmap it by
//!   the size that it knows. A program that requests a page size that the pool does not have is
//!   left to the kernel without a notice: such programs retry without huge pages.
//! - **Huge pages are mapped immediately**, at almost no cost; base pages when they are touched, or
//!   immediately if the program or `memwright run` requests it.
//! - **Fixed addresses** (`MAP_FIXED`) and protections other than read and write are left to the kernel.

use crate::helper_thread::on_helper_thread;
use crate::message;
use crate::mmap_request::MmapRequest;
use crate::settings::{self, PoolSetting};
use crate::stats::{self, CountedCall};
use crate::{kernel, populate};
use mw_pool::{Attach, Client, LeaseFiles, PageSize, PoolName};
use mw_segment::Workers;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time to wait for memory that is being returned and zeroed, for example after a kill. Zeroing takes
/// a fraction of the time of allocating.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_PER_GIB: Duration = Duration::from_millis(100);

/// `MAP_HUGE_SHIFT` and `MAP_HUGE_MASK` (mmap(2)), which are also those of shmget(2).
pub(crate) const HUGE_SHIFT: c_int = 26;
pub(crate) const HUGE_MASK: c_int = 0x3f;

/// Requests addresses below 2 GiB, on x86-64 only (mmap(2)).
#[cfg(target_arch = "x86_64")]
const MAP_32BIT: c_int = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const MAP_32BIT: c_int = 0;

/// A process prints one notice at most.
static HAS_NOTIFIED: AtomicBool = AtomicBool::new(false);

/// A request for memory of a pool.
#[derive(Clone, Copy)]
pub(crate) struct PoolRequest {
    pub(crate) bytes: usize,
    /// Whether hugetlb pages are requested, and of which size in bytes if one is given.
    hugetlb: Option<Option<u64>>,
    /// True if the program unmaps it by its size, which must then be whole pages.
    is_unmapped_by_size: bool,
}

impl PoolRequest {
    /// From the `flags` of a call; `hugetlb` is the flag that requests hugetlb pages.
    pub(crate) fn from_flags(bytes: usize, flags: c_int, hugetlb: c_int) -> Self {
        let size = (flags >> HUGE_SHIFT) & HUGE_MASK;
        let size = (size != 0).then(|| 1_u64.checked_shl(size.unsigned_abs()).unwrap_or(0));
        let hugetlb = (flags & hugetlb != 0).then_some(size);
        Self { bytes, hugetlb, is_unmapped_by_size: true }
    }

    /// The program unmaps it by its address only.
    pub(crate) fn unmapped_by_address(self) -> Self {
        Self { is_unmapped_by_size: false, ..self }
    }

    /// Time to wait for it.
    pub(crate) fn wait(self) -> Duration {
        WAIT + WAIT_PER_GIB.mul_f64(self.bytes as f64 / f64::from(1 << 30))
    }
}

/// The reason why the pool cannot serve a request.
pub(crate) enum PoolError {
    /// Its page size is not the requested one.
    PageSize,
    Other(String),
}

impl PoolError {
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self::Other(reason.to_string())
    }

    pub(crate) fn no_thread() -> Self {
        Self::new("no helper thread could be created")
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageSize => f.write_str("it has pages of another size than requested"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// The outcome of a request.
pub(crate) enum PoolMapping {
    Mapped(*mut c_void),
    /// The request is not for a pool, or the pool could not serve it: the system call is to be made.
    UseKernel,
    /// The pool could not serve it, and is strict.
    Failed,
}

/// A large mmap(2).
pub(crate) fn map(request: &MmapRequest) -> PoolMapping {
    let Some(pool) = settings::pool().filter(|_| is_for_pool(request)) else {
        return PoolMapping::UseKernel;
    };
    let populates = request.flags & (libc::MAP_POPULATE | libc::MAP_LOCKED) != 0;
    let populates = populates || settings::prefault();
    let wanted = PoolRequest::from_flags(request.bytes, request.flags, libc::MAP_HUGETLB);
    let mapped = on_helper_thread(&|workers| Some(lease(workers, pool, wanted, populates)));
    let error = match mapped {
        Some(Ok(at)) => return PoolMapping::Mapped(kernel::pointer(at)),
        Some(Err(error)) => error,
        None => PoolError::no_thread(),
    };
    if may_use_kernel(pool, &error) { PoolMapping::UseKernel } else { PoolMapping::Failed }
}

/// True if memory that the pool cannot serve may come from the kernel; prints the notice.
pub(crate) fn may_use_kernel(pool: PoolSetting, error: &PoolError) -> bool {
    let strict = settings::is_pool_strict();
    // A program that requests huge pages retries without.
    if strict || !matches!(error, PoolError::PageSize) {
        let consequence = if strict {
            "the call fails (--pool-strict)"
        } else {
            "memory is allocated by the kernel"
        };
        notify(pool, format_args!("{error}; {consequence}"));
    }
    !strict
}

/// Prints a notice about a pool, once in a process.
pub(crate) fn notify(pool: PoolSetting, text: fmt::Arguments<'_>) {
    if !HAS_NOTIFIED.swap(true, Ordering::Relaxed) {
        let mut line = message::MessageLine::default();
        // Text that does not fit is cut.
        let _ = writeln!(line, "memwright: pool {}: {text}", pool.name);
        message::write(line.text());
    }
}

fn is_for_pool(request: &MmapRequest) -> bool {
    let shared_anonymous = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let unusual = libc::MAP_FIXED
        | libc::MAP_FIXED_NOREPLACE
        | libc::MAP_GROWSDOWN
        | libc::MAP_STACK
        | MAP_32BIT;
    request.flags & (libc::MAP_TYPE | libc::MAP_ANONYMOUS) == shared_anonymous
        && request.flags & unusual == 0
        && request.prot == libc::PROT_READ | libc::PROT_WRITE
}

/// Leases memory and maps it; returns its address.
fn lease(
    workers: &Workers<'_>,
    pool: PoolSetting,
    request: PoolRequest,
    populates: bool,
) -> Result<usize, PoolError> {
    let (client, attach, pages) = attach_request(pool, request)?;
    let leased = client.lease(&attach).map_err(PoolError::new)?;
    let bytes = request.bytes.next_multiple_of(mw_sys::page_bytes());
    let addresses = map_stripes(&leased.stripes, bytes)?;
    let start = addresses.start;
    count_mapped(workers, &addresses, pages != PageSize::Base || populates);
    Ok(start)
}

/// The client of a pool, the request to send, and the pool's page size, if that suits the program.
pub(crate) fn attach_request(
    pool: PoolSetting,
    request: PoolRequest,
) -> Result<(Client, Attach, PageSize), PoolError> {
    let name: PoolName =
        pool.name.parse().map_err(|error: mw_pool::BadName| PoolError::new(error))?;
    let client = Client::new(pool.socket);
    let pages = client.pool(&name).map_err(PoolError::new)?.spec.pages;
    check_page_size(request, pages)?;
    let bytes = request.bytes.next_multiple_of(mw_sys::page_bytes());
    let attach = Attach::new(name, bytes as u64).wait(request.wait());
    Ok((client, attach, pages))
}

fn check_page_size(request: PoolRequest, pages: PageSize) -> Result<(), PoolError> {
    let granule = pages.granule_bytes(mw_sys::page_bytes() as u64);
    match request.hugetlb {
        Some(_) if !pages.is_hugetlb() => Err(PoolError::PageSize),
        Some(Some(size)) if size != granule => Err(PoolError::PageSize),
        _ if !pages.is_hugetlb() || !request.is_unmapped_by_size => Ok(()),
        _ if (request.bytes as u64).is_multiple_of(granule) => Ok(()),
        _ => Err(PoolError::Other(format!(
            "{} bytes are not a multiple of its page size",
            request.bytes
        ))),
    }
}

/// Maps stripes side by side, up to `bytes`; they stay mapped when their descriptors are closed.
pub(crate) fn map_stripes(stripes: &LeaseFiles, bytes: usize) -> Result<Range<usize>, PoolError> {
    let region = stripes.map().map_err(|error| PoolError::Other(format!("mmap: {error}")))?;
    let start = region.as_ptr().as_ptr();
    let all = region.bytes();
    std::mem::forget(region);
    if all > bytes {
        // SAFETY: the rest was mapped here, and nothing else knows of it.
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::munmap(start.wrapping_add(bytes).cast(), all - bytes)
        };
    }
    let start = start.expose_provenance();
    Ok(start..start + bytes)
}

/// Counts memory of the pool that was mapped; first fills its page tables if `populates`.
pub(crate) fn count_mapped(workers: &Workers<'_>, addresses: &Range<usize>, populates: bool) {
    if !populates {
        return stats::count(CountedCall::Pool, addresses.len(), Duration::ZERO, None);
    }
    let _ = populate::mapped_parts(addresses, populate::MAX_PARTS)
        .and_then(|parts| populate::populate(workers, CountedCall::Pool, &parts).ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    const SHARED: c_int = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

    fn request(bytes: usize, flags: c_int) -> MmapRequest {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        MmapRequest { at: null_mut(), bytes, prot, flags, fd: -1, offset: 0 }
    }

    #[test]
    fn only_new_shared_memory_comes_from_a_pool() {
        assert!(is_for_pool(&request(1, SHARED)));
        assert!(is_for_pool(&request(1, SHARED | libc::MAP_POPULATE | libc::MAP_NORESERVE)));
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        for flags in [libc::MAP_SHARED, private, SHARED | libc::MAP_FIXED] {
            assert!(!is_for_pool(&request(1, flags)), "{flags:x}");
        }
        assert!(!is_for_pool(&MmapRequest { prot: libc::PROT_READ, ..request(1, SHARED) }));
    }

    #[test]
    fn the_page_size_suits_the_program() {
        let huge = SHARED | libc::MAP_HUGETLB;
        for (bytes, flags, pages, fit) in [
            (5 << 12, SHARED, PageSize::Base, true),
            (5 << 12, SHARED, PageSize::Thp, true),
            (5 << 12, SHARED, PageSize::HUGE_2M, false),
            (4 << 20, SHARED, PageSize::HUGE_2M, true),
            (4 << 20, huge, PageSize::HUGE_2M, true),
            (4 << 20, huge | 21 << HUGE_SHIFT, PageSize::HUGE_2M, true),
            (4 << 20, huge | 30 << HUGE_SHIFT, PageSize::HUGE_2M, false),
            (4 << 20, huge, PageSize::Thp, false),
        ] {
            let request = PoolRequest::from_flags(bytes, flags, libc::MAP_HUGETLB);
            assert_eq!(check_page_size(request, pages).is_ok(), fit, "{bytes} {flags:x}");
        }
    }
}
