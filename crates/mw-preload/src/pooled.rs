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

use crate::apart::apart;
use crate::map::Request;
use crate::stats::{self, Call};
use crate::{kernel, large, settings};
use mw_pool::{Attach, Client, Name, Pages, Taken};
use mw_segment::Existing;
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long memory is waited for that is being given back and zeroed, as after a kill: zeroing takes
/// a part of the time that allocating takes.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_PER_GIB: Duration = Duration::from_millis(100);

/// `MAP_HUGE_SHIFT` and `MAP_HUGE_MASK` (mmap(2)).
const HUGE_SHIFT: c_int = 26;
const HUGE_MASK: c_int = 0x3f;

/// Said once in a process.
static SAID: AtomicBool = AtomicBool::new(false);

/// What is asked of a pool.
#[derive(Clone, Copy)]
struct Asked {
    bytes: usize,
    flags: c_int,
    /// Whether base pages are mapped at once too.
    at_once: bool,
}

/// Why the pool does not serve a request.
enum Why {
    /// It has other pages than the program asks for.
    OtherPages,
    /// In words.
    Said(String),
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
    let asked = Asked { bytes: request.bytes, flags: request.flags, at_once };
    let taken = apart(&|existing| Some(take(existing, pool, asked)));
    let why = match taken {
        Some(Ok(at)) => return Pooled::Mapped(kernel::pointer(at)),
        Some(Err(Why::OtherPages)) if !settings::is_pool_strict() => return Pooled::Plain,
        Some(Err(Why::OtherPages)) => "it has other pages than are asked for".to_owned(),
        Some(Err(Why::Said(why))) => why,
        None => "no thread can be made to ask it".to_owned(),
    };
    let (then, result) = match settings::is_pool_strict() {
        true => ("refused, as --pool-strict says", Pooled::Refused),
        false => ("memory is allocated the ordinary way", Pooled::Plain),
    };
    if !SAID.swap(true, Ordering::Relaxed) {
        let mut line = stats::Line::default();
        let name = pool.name;
        // What is too long for a line is cut.
        let _ = writeln!(line, "memwright: pool {name}: {why}; {then}");
        stats::say(line.text());
    }
    result
}

fn is_for_a_pool(request: &Request) -> bool {
    let shared_anonymous = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let unusual = libc::MAP_FIXED
        | libc::MAP_FIXED_NOREPLACE
        | libc::MAP_GROWSDOWN
        | libc::MAP_STACK
        | libc::MAP_32BIT;
    request.flags & (libc::MAP_TYPE | libc::MAP_ANONYMOUS) == shared_anonymous
        && request.flags & unusual == 0
        && request.prot == libc::PROT_READ | libc::PROT_WRITE
}

fn take(existing: &Existing<'_>, pool: settings::Pool, asked: Asked) -> Result<usize, Why> {
    let said = |error: mw_pool::Error| Why::Said(error.to_string());
    let name: Name =
        pool.name.parse().map_err(|error: mw_pool::BadName| Why::Said(error.to_string()))?;
    let client = Client::new(pool.socket);
    let state = client.pool(&name).map_err(said)?;
    fits(asked, state.spec.pages)?;
    let bytes = asked.bytes.next_multiple_of(mw_sys::page_bytes());
    let wait = WAIT + WAIT_PER_GIB.mul_f64(bytes as f64 / f64::from(1 << 30));
    let taken = client.take(&Attach::new(name, bytes as u64).wait(wait)).map_err(said)?;
    let addresses = mapped(&taken, bytes).map_err(|error| Why::Said(format!("mmap: {error}")))?;
    let start = addresses.start;
    if state.spec.pages != Pages::Base || asked.at_once {
        let _ = large::parts(&addresses, large::MAX_PARTS)
            .and_then(|parts| large::populate(existing, Call::Pool, &parts).ok());
    } else {
        stats::count(Call::Pool, bytes, Duration::ZERO, None);
    }
    Ok(start)
}

/// Whether the program can do with the pool's pages what it would do with its own.
fn fits(asked: Asked, pages: Pages) -> Result<(), Why> {
    let granule = pages.granule_bytes();
    let wants_huge = asked.flags & libc::MAP_HUGETLB != 0;
    let wanted = (asked.flags >> HUGE_SHIFT) & HUGE_MASK;
    let other = wanted != 0 && 1_u64.checked_shl(wanted.unsigned_abs()) != Some(granule);
    match pages.is_hugetlb() {
        false if wants_huge => Err(Why::OtherPages),
        true if wants_huge && other => Err(Why::OtherPages),
        true if !(asked.bytes as u64).is_multiple_of(granule) => {
            Err(Why::Said(format!("{} bytes are no whole pages of it", asked.bytes)))
        }
        _ => Ok(()),
    }
}

/// Maps stripes side by side, as far as `bytes`; they stay when their descriptors are closed.
fn mapped(taken: &Taken, bytes: usize) -> std::io::Result<std::ops::Range<usize>> {
    let region = taken.stripes.map()?;
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
            (5 << 12, SHARED, Pages::Base, true),
            (5 << 12, SHARED, Pages::Thp, true),
            (5 << 12, SHARED, Pages::Huge2M, false),
            (4 << 20, SHARED, Pages::Huge2M, true),
            (4 << 20, huge, Pages::Huge2M, true),
            (4 << 20, huge | 21 << HUGE_SHIFT, Pages::Huge2M, true),
            (4 << 20, huge | 30 << HUGE_SHIFT, Pages::Huge2M, false),
            (4 << 20, huge, Pages::Thp, false),
        ] {
            assert_eq!(
                fits(Asked { bytes, flags, at_once: false }, pages).is_ok(),
                fit,
                "{bytes} {flags:x}"
            );
        }
    }
}
