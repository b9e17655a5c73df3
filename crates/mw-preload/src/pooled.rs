//! Shared memory from a pool (`memwright run --pool`): a large shared anonymous mmap(2) becomes a
//! mapping of memory that a pool server keeps populated, in place of new memory.
//!
//! ```text
//! mmap(SHARED | ANONYMOUS) ─ server ─→ descriptors of stripes ─→ mapped side by side ─→ result
//!           │                            (a table of our own)
//!           └─ no server, no room, pages that do not fit ─→ one line of notice, the kernel's own mmap
//! ```
//!
//! - **It is what the program asked for**: zero, shared with every fork, gone with the last mapping.
//!   The server takes it back when the kernel says that no process has it any more; what says so is
//!   the mapping, so that the program holds no descriptor for it.
//! - **Where the pool's pages are huge ones of the kernel's pool**, what is asked for must be whole
//!   pages, or the program could not unmap it by the size that it knows. Who asks for huge pages that
//!   the pool has not is left to the kernel without a word: such programs ask again without.
//! - **Huge pages are mapped at once**, which costs next to nothing; base pages as they are touched, or
//!   where the program or `memwright run` says so.
//! - **Addresses that the program fixes** (`MAP_FIXED`) and protections other than to read and write
//!   are the kernel's matter.

use crate::helper_thread::on_helper_thread;
use crate::map::Request;
use crate::settings::{self, Pool};
use crate::stats::{self, Call};
use crate::{kernel, large};
use mw_pool::{Attach, Client, Name, PageSize, Stripes};
use mw_segment::Workers;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long memory is waited for that is being given back and zeroed, as after a kill: zeroing takes
/// a part of the time that allocating takes.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_PER_GIB: Duration = Duration::from_millis(100);

/// `MAP_HUGE_SHIFT` and `MAP_HUGE_MASK` (mmap(2)), as those of shmget(2) are.
pub(crate) const HUGE_SHIFT: c_int = 26;
pub(crate) const HUGE_MASK: c_int = 0x3f;

/// Addresses below 2 GiB, which x86-64 alone has a flag for (mmap(2)).
#[cfg(target_arch = "x86_64")]
const MAP_32BIT: c_int = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const MAP_32BIT: c_int = 0;

/// Said once in a process.
static SAID: AtomicBool = AtomicBool::new(false);

/// What is asked of a pool.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) bytes: usize,
    /// Whether huge pages of the kernel's pool are asked for, of this size if one is said.
    huge: Option<Option<u64>>,
    /// Whether the program unmaps it by its size, which must be whole pages then.
    by_size: bool,
}

impl Asked {
    /// `flags` of a call, one of which asks for huge pages.
    pub(crate) fn new(bytes: usize, flags: c_int, huge: c_int) -> Self {
        let size = (flags >> HUGE_SHIFT) & HUGE_MASK;
        let size = (size != 0).then(|| 1_u64.checked_shl(size.unsigned_abs()).unwrap_or(0));
        Self { bytes, huge: (flags & huge != 0).then_some(size), by_size: true }
    }

    /// It is unmapped by where it starts alone.
    pub(crate) fn whole(self) -> Self {
        Self { by_size: false, ..self }
    }

    /// How long it is waited for.
    pub(crate) fn wait(self) -> Duration {
        WAIT + WAIT_PER_GIB.mul_f64(self.bytes as f64 / f64::from(1 << 30))
    }
}

/// Why the pool does not serve a request.
pub(crate) enum Why {
    /// It has other pages than the program asks for.
    OtherPages,
    /// In words.
    Said(String),
}

impl Why {
    pub(crate) fn said(why: impl fmt::Display) -> Self {
        Self::Said(why.to_string())
    }

    /// There is nobody who could ask it.
    pub(crate) fn alone() -> Self {
        Self::said("no thread can be made to ask it")
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherPages => f.write_str("it has other pages than are asked for"),
            Self::Said(why) => f.write_str(why),
        }
    }
}

/// What became of a request.
pub(crate) enum Pooled {
    /// It is mapped there.
    Mapped(*mut c_void),
    /// It is not the pool's to serve, or the pool could not: the kernel's own call is to be made.
    Plain,
    /// The pool could not, and nothing else may.
    Refused,
}

/// mmap(2) of something large.
pub(crate) fn map(request: &Request) -> Pooled {
    let Some(pool) = settings::pool().filter(|_| is_for_a_pool(request)) else {
        return Pooled::Plain;
    };
    let wants = request.flags & (libc::MAP_POPULATE | libc::MAP_LOCKED) != 0;
    let at_once = wants || settings::prefault();
    let asked = Asked::new(request.bytes, request.flags, libc::MAP_HUGETLB);
    let why = match on_helper_thread(&|workers| Some(take(workers, pool, asked, at_once))) {
        Some(Ok(at)) => return Pooled::Mapped(kernel::pointer(at)),
        Some(Err(why)) => why,
        None => Why::alone(),
    };
    if may_use_kernel_memory(pool, &why) { Pooled::Plain } else { Pooled::Refused }
}

/// Whether memory that the pool does not serve may come from the kernel, with one line of notice.
pub(crate) fn may_use_kernel_memory(pool: Pool, why: &Why) -> bool {
    let strict = settings::is_pool_strict();
    // Who asks for huge pages asks again without.
    if strict || !matches!(why, Why::OtherPages) {
        let then = match strict {
            true => "refused, as --pool-strict says",
            false => "memory is allocated the ordinary way",
        };
        say(pool, format_args!("{why}; {then}"));
    }
    !strict
}

/// Says something of a pool, once in a process.
pub(crate) fn say(pool: Pool, what: fmt::Arguments<'_>) {
    if !SAID.swap(true, Ordering::Relaxed) {
        let mut line = stats::Line::default();
        // What is too long for a line is cut.
        let _ = writeln!(line, "memwright: pool {}: {what}", pool.name);
        stats::say(line.text());
    }
}

fn is_for_a_pool(request: &Request) -> bool {
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

fn take(workers: &Workers<'_>, pool: Pool, asked: Asked, at_once: bool) -> Result<usize, Why> {
    let (client, wanted, pages) = wanted(pool, asked)?;
    let taken = client.lease(&wanted).map_err(Why::said)?;
    let bytes = asked.bytes.next_multiple_of(mw_sys::page_bytes());
    let addresses = mapped(&taken.stripes, bytes)?;
    let start = addresses.start;
    arrived(workers, &addresses, pages != PageSize::Base || at_once);
    Ok(start)
}

/// What to ask whom for, where the pool has pages that the program can do with what it would do with
/// its own.
pub(crate) fn wanted(pool: Pool, asked: Asked) -> Result<(Client, Attach, PageSize), Why> {
    let name: Name = pool.name.parse().map_err(|error: mw_pool::BadName| Why::said(error))?;
    let client = Client::new(pool.socket);
    let pages = client.pool(&name).map_err(Why::said)?.spec.pages;
    fits(asked, pages)?;
    let bytes = asked.bytes.next_multiple_of(mw_sys::page_bytes());
    let attach = Attach::new(name, bytes as u64).wait(asked.wait());
    Ok((client, attach, pages))
}

fn fits(asked: Asked, pages: PageSize) -> Result<(), Why> {
    let granule = pages.granule_bytes(mw_sys::page_bytes() as u64);
    match asked.huge {
        Some(_) if !pages.is_hugetlb() => Err(Why::OtherPages),
        Some(Some(size)) if size != granule => Err(Why::OtherPages),
        _ if !pages.is_hugetlb() || !asked.by_size => Ok(()),
        _ if (asked.bytes as u64).is_multiple_of(granule) => Ok(()),
        _ => Err(Why::Said(format!("{} bytes are no whole pages of it", asked.bytes))),
    }
}

/// Maps stripes side by side, as far as `bytes`; they stay when their descriptors are closed.
pub(crate) fn mapped(stripes: &Stripes, bytes: usize) -> Result<Range<usize>, Why> {
    let region = stripes.map().map_err(|error| Why::Said(format!("mmap: {error}")))?;
    let start = region.as_ptr().as_ptr();
    let all = region.bytes();
    std::mem::forget(region);
    if all > bytes {
        // SAFETY: what lies behind the bytes was mapped here, and nobody knows of it.
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::munmap(start.wrapping_add(bytes).cast(), all - bytes)
        };
    }
    let start = start.expose_provenance();
    Ok(start..start + bytes)
}

/// Counts what has come from the pool, its pages in the page tables if that is to be at once.
pub(crate) fn arrived(workers: &Workers<'_>, addresses: &Range<usize>, at_once: bool) {
    if !at_once {
        return stats::count(Call::Pool, addresses.len(), Duration::ZERO, None);
    }
    let _ = large::parts(addresses, large::MAX_PARTS)
        .and_then(|parts| large::populate(workers, Call::Pool, &parts).ok());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    const SHARED: c_int = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

    fn request(bytes: usize, flags: c_int) -> Request {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        Request { at: null_mut(), bytes, prot, flags, fd: -1, offset: 0 }
    }

    #[test]
    fn only_new_shared_memory_comes_from_a_pool() {
        assert!(is_for_a_pool(&request(1, SHARED)));
        assert!(is_for_a_pool(&request(1, SHARED | libc::MAP_POPULATE | libc::MAP_NORESERVE)));
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        for flags in [libc::MAP_SHARED, private, SHARED | libc::MAP_FIXED] {
            assert!(!is_for_a_pool(&request(1, flags)), "{flags:x}");
        }
        assert!(!is_for_a_pool(&Request { prot: libc::PROT_READ, ..request(1, SHARED) }));
    }

    #[test]
    fn pages_are_those_that_the_program_expects() {
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
            assert_eq!(
                fits(Asked::new(bytes, flags, libc::MAP_HUGETLB), pages).is_ok(),
                fit,
                "{bytes} {flags:x}"
            );
        }
    }
}
