//! Counts what the library does, and reports it at exit (`--stats`).
//!
//! Under `memwright run` all processes of a command share the counters (`shared`), and the command
//! reports the sum at its end. A process that cannot attach them, or for which `MEMWRIGHT_STATS=1` was
//! set, counts and reports for itself.
//!
//! Time saved is an estimate: one thread does a sample of the work before the rest is done in parallel.

mod counts;
mod report;
mod shared;

pub(crate) use counts::CountedCall;

use crate::confinement::OperationGuard;
use crate::populate_queue::StopReason;
use crate::{kernel, settings};
use counts::{CALLS, Counts};
use mw_sys::system_call;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The size of the sample.
const SAMPLE_BYTES: usize = 8 << 20;

/// The counters of this process, on pages of their own, which a fork(2) resets to zero. A vfork(2) child
/// shares its parent's memory and counts for its parent.
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
struct ProcessCounts(Counts);

static PROCESS_COUNTS: ProcessCounts = ProcessCounts(Counts::zero());

/// The counters that this process adds to.
fn counts() -> &'static Counts {
    shared::counts().unwrap_or(&PROCESS_COUNTS.0)
}

/// True if this process has reported: its end is seen in more than one place.
static HAS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Prepares the counters, when the library is loaded.
pub(crate) fn begin() {
    if settings::stats() {
        shared::begin(settings::stats_process());
    }
    let page = (&raw const PROCESS_COUNTS).cast_mut().cast();
    // SAFETY: the pages contain only the counters, for which all bits zero is a value
    // (madvise(2)); if it fails, the counts of a fork include those of its parent.
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::madvise(page, size_of::<ProcessCounts>(), libc::MADV_WIPEONFORK)
    };
}

/// Does `work` of so many bytes, and counts it. With `--stats`, `sample` first does a part of it on one
/// thread: it is passed a number of bytes and returns how many it did.
///
/// # Errors
/// Those of `work`.
pub(crate) fn measure(
    call: CountedCall,
    bytes: usize,
    sample: &dyn Fn(usize) -> Option<usize>,
    work: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    if !settings::stats() {
        return work();
    }
    let start = Instant::now();
    let sampled = sample(SAMPLE_BYTES.min(bytes)).filter(|done| *done > 0);
    let sample_time = start.elapsed();
    work()?;
    let time = start.elapsed();
    let serial = sampled.map(|done| sample_time.mul_f64(bytes as f64 / done as f64));
    count(call, bytes, time, serial);
    Ok(())
}

/// Counts a call that took `time`, and would have taken `serial` on one thread, if that is known.
pub(crate) fn count(call: CountedCall, bytes: usize, time: Duration, serial: Option<Duration>) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let counts = counts();
    let by_call = CALLS.iter().zip(&counts.by_call).find(|((counted, _), _)| *counted == call);
    if let Some((_, by_call)) = by_call {
        by_call.calls.fetch_add(1, Ordering::Relaxed);
        by_call.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    counts.nanoseconds.fetch_add(nanoseconds(time), Ordering::Relaxed);
    let saved = serial.map_or(0, |serial| {
        let signed = |time| i64::try_from(nanoseconds(time)).unwrap_or(i64::MAX);
        signed(serial).saturating_sub(signed(time))
    });
    counts.saved_nanoseconds.fetch_add(saved, Ordering::Relaxed);
}

/// Counts a mapping that is to be populated in the background.
pub(crate) fn count_background_mapping(bytes: usize) {
    if settings::stats() {
        let counts = &counts().background;
        counts.mappings.fetch_add(1, Ordering::Relaxed);
        counts.mapped_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Counts bytes that were populated in the background.
pub(crate) fn count_background_bytes(bytes: usize) {
    if settings::stats() {
        counts().background.populated_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Populates addresses, and counts what was absent before by the size of its pages.
///
/// # Errors
/// Those of `populate`.
pub(crate) fn count_pages_of(
    addresses: Range<usize>,
    populate: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    if !settings::stats() {
        return populate();
    }
    let (absent, before) = (absent_bytes(&addresses), mw_sys::thread_page_faults());
    populate()?;
    count_pages(absent, mw_sys::thread_page_faults() - before);
    Ok(())
}

/// Counts bytes that were populated by so many page faults.
fn count_pages(bytes: usize, faults: u64) {
    // Pages that were shared with another process are replaced without being absent.
    let average = (bytes as u64).checked_div(faults).filter(|average| *average > 0);
    let Some(average) = average else { return };
    let counts = &counts().pages;
    let order = (average / mw_sys::page_bytes() as u64).checked_ilog2().unwrap_or(0) as usize;
    let is_exact = average.is_power_of_two() && average * faults == bytes as u64;
    match counts.by_order.get(order).filter(|_| is_exact) {
        Some(of_size) => {
            of_size.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        None => {
            counts.mixed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            counts.mixed_faults.fetch_add(faults, Ordering::Relaxed);
        }
    }
}

/// Bytes of addresses that are not resident; those of which the kernel does not say count as resident.
fn absent_bytes(addresses: &Range<usize>) -> usize {
    let (page, mut resident) = (mw_sys::page_bytes(), [0_u8; 1024]);
    let mut absent = 0;
    for start in addresses.clone().step_by(page * resident.len()) {
        let bytes = (addresses.end - start).min(page * resident.len());
        // SAFETY: the result has a byte for each page (mincore(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let failed = unsafe {
            let place = resident.as_mut_ptr().expose_provenance();
            system_call(libc::SYS_mincore, [start, bytes, place])
        };
        let pages = resident.get(..bytes / page).filter(|_| failed == 0).unwrap_or_default();
        absent += pages.iter().filter(|page| **page & 1 == 0).count() * page;
    }
    absent
}

/// Records why nothing more is populated in the background.
pub(crate) fn count_background_stop(reason: StopReason) {
    if settings::stats() {
        counts().background.stop_reason.store(reason as u64, Ordering::Relaxed);
    }
}

/// Counts bytes that the kernel was asked to drop from the page cache.
pub(crate) fn count_unverified(bytes: u64) {
    if settings::stats() {
        counts().unverified_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts unverified bytes that were verified: those that left the page cache, and those that stayed.
pub(crate) fn count_verified(left: u64, stayed: u64) {
    if settings::stats() {
        let counts = counts();
        counts.uncached_bytes.fetch_add(left, Ordering::Relaxed);
        let less = |before: u64| Some(before.saturating_sub(left + stayed));
        let unverified = &counts.unverified_bytes;
        let _ = unverified.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
#[allow(unsafe_code, reason = "runs when the program ends")]
static FINALIZER: extern "C" fn() = report_at_exit;

/// Reports at the end of the process, unless the report could end a confined program.
pub(crate) extern "C" fn report_at_exit() {
    if settings::stats()
        && let Some(_guard) = OperationGuard::enter()
    {
        report();
    }
}

/// As [`report_at_exit`], where a process ends without running the destructors of its libraries. A
/// vfork(2) child does so in its parent's memory, and is not the command.
pub(crate) fn report_at_quick_exit() {
    if settings::stats()
        && let Some(_guard) = OperationGuard::enter()
        && settings::stats_process() == std::process::id()
    {
        report();
    }
}

/// Reports before the program confines itself. If that fails, what is done later is reported at exit.
pub(crate) fn report_before_confinement() {
    if settings::stats() {
        report();
    }
}

/// Of processes that share the counters, the command reports; after its end, the last process does.
/// What was reported is not reported again.
fn report() {
    let is_command = settings::stats_process() == std::process::id();
    let is_shared = shared::counts().is_some();
    if !is_command && is_shared && !shared::is_last() {
        return;
    }
    let is_printed = report::print(&counts().take(), is_command);
    let is_first = !HAS_REPORTED.swap(true, Ordering::Relaxed);
    if is_first && is_command && !is_printed {
        report::print_nothing(if is_shared { "the command" } else { "this process" });
    }
}

/// Makes the system calls of this module once, for the dry run.
pub(crate) fn make_all_calls() {
    shared::make_all_calls();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_kind_with_the_time_saved() {
        count(
            CountedCall::Lock,
            1 << 30,
            Duration::from_millis(250),
            Some(Duration::from_millis(400)),
        );
        count(CountedCall::Unmap, 1 << 29, Duration::from_millis(50), None);
        let counts = counts().take();
        assert_eq!((counts.calls(), counts.bytes()), (2, 3 << 29));
        assert_eq!(
            counts.by_call[CountedCall::Unmap as usize].bytes.load(Ordering::Relaxed),
            1 << 29
        );
        assert_eq!(counts.nanoseconds.load(Ordering::Relaxed), 300_000_000);
        assert_eq!(counts.saved_nanoseconds.load(Ordering::Relaxed), 150_000_000);
    }

    #[test]
    fn counters_are_whole_pages_of_any_kernel() {
        assert!(align_of::<ProcessCounts>().is_multiple_of(mw_sys::page_bytes()));
        assert!(size_of::<ProcessCounts>().is_multiple_of(mw_sys::page_bytes()));
    }
}
