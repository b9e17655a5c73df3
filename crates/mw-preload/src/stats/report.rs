//! The lines that `--stats` prints.

use super::counts::{BackgroundCounts, CALLS, Counts, PageCounts};
use crate::confinement::{self, ConfinementCause};
use crate::mapping_limit;
use crate::message::{self, MessageLine};
use crate::populate_queue::StopReason;
use crate::settings::{self, ThpPolicy};
use mw_segment::PageSize;
use std::fmt::{self, Write};
use std::sync::atomic::Ordering;

/// Less that was kept out of the page cache is not reported.
const REPORTED_MIN_BYTES: u64 = 1 << 20;

/// Prints what was counted, a line for each kind of work; returns whether there was anything to print.
pub(super) fn print(counts: &Counts, is_command: bool) -> bool {
    let uncached = counts.uncached_bytes.load(Ordering::Relaxed);
    let unverified = counts.unverified_bytes.load(Ordering::Relaxed);
    let has_calls = counts.calls() > 0;
    let has_transfers = uncached.saturating_add(unverified) >= REPORTED_MIN_BYTES;
    if has_calls {
        print_line(|line| write_calls(line, counts));
    }
    if has_transfers {
        print_line(|line| write_transfers(line, uncached, unverified));
    }
    let has_mappings = counts.background.mappings.load(Ordering::Relaxed) > 0;
    if has_mappings {
        print_line(|line| write_background(line, &counts.background));
    }
    if is_pages_reported(&counts.pages) {
        print_line(|line| write_pages(line, &counts.pages));
    }
    let unseen = if is_command { unseen_bytes(counts) } else { None };
    if let Some((unseen, peak)) = unseen {
        print_line(|line| write_unseen(line, unseen, peak));
    }
    has_calls || has_transfers || has_mappings || unseen.is_some()
}

/// True if larger pages were requested, or there are some.
fn is_pages_reported(pages: &PageCounts) -> bool {
    let mut larger = pages.by_order.iter().skip(1).chain([&pages.mixed_bytes]);
    let has_larger = larger.any(|bytes| bytes.load(Ordering::Relaxed) > 0);
    let has_base = pages.by_order[0].load(Ordering::Relaxed) > 0;
    has_larger || has_base && settings::huge_pages() != ThpPolicy::Unchanged
}

/// Memory of the largest process that was not populated in advance, and its peak; none if it is little.
fn unseen_bytes(counts: &Counts) -> Option<(u64, u64)> {
    if !settings::prefault() {
        return None;
    }
    let peak = mw_sys::peak_resident_bytes();
    let seen = counts.bytes() + counts.background.mapped_bytes.load(Ordering::Relaxed);
    let unseen = peak.checked_sub(seen)?;
    (unseen >= settings::release_threshold() as u64).then_some((unseen, peak))
}

/// Prints why nothing was counted. `subject` is the command or a process.
pub(super) fn print_nothing(subject: &str) {
    print_line(|line| write_nothing(line, subject));
}

fn print_line(write: impl FnOnce(&mut MessageLine) -> fmt::Result) {
    let mut line = MessageLine::default();
    if write(&mut line).is_ok() {
        message::write(line.text());
    }
}

fn write_calls(line: &mut MessageLine, counts: &Counts) -> fmt::Result {
    let calls = counts.calls();
    let seconds = counts.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
    let saved = counts.saved_nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
    let noun = if calls == 1 { "call" } else { "calls" };
    write!(
        line,
        "memwright[{}]: {calls} {noun} done in parallel, {:.2} GiB in {seconds:.3} s",
        std::process::id(),
        gib(counts.bytes()),
    )?;
    let mut separator = " (";
    for ((_, name), by_call) in CALLS.iter().zip(&counts.by_call) {
        let calls = by_call.calls.load(Ordering::Relaxed);
        if calls > 0 {
            let bytes = gib(by_call.bytes.load(Ordering::Relaxed));
            write!(line, "{separator}{name} {calls}, {bytes:.2} GiB")?;
            separator = "; ";
        }
    }
    let compared = if saved < 0.0 { "slower" } else { "faster" };
    writeln!(line, "), {:.3} s {compared} than with one thread", saved.abs())
}

fn write_pages(line: &mut MessageLine, pages: &PageCounts) -> fmt::Result {
    write!(line, "memwright[{}]: page sizes, by page faults:", std::process::id())?;
    let mut separator = "";
    for (order, bytes) in pages.by_order.iter().enumerate().rev() {
        let bytes = bytes.load(Ordering::Relaxed);
        if bytes > 0 {
            let size = PageSize::Folio((mw_sys::page_bytes() as u64) << order);
            write!(line, "{separator} {:.2} GiB in {size}", gib(bytes))?;
            separator = ",";
        }
    }
    let mixed = pages.mixed_bytes.load(Ordering::Relaxed);
    if let Some(average) = mixed.checked_div(pages.mixed_faults.load(Ordering::Relaxed)) {
        write!(
            line,
            "{separator} {:.2} GiB mixed, {:.0}k on average (the kernel tells no process which)",
            gib(mixed),
            average as f64 / 1024.0
        )?;
    }
    line.write_str("\n")
}

fn write_transfers(line: &mut MessageLine, uncached: u64, unverified: u64) -> fmt::Result {
    write!(line, "memwright[{}]: ", std::process::id())?;
    let (kept_out, rest) = (mib(uncached), mib(unverified));
    match (uncached, unverified) {
        (_, 0) => writeln!(line, "{kept_out:.1} MiB kept out of the page cache"),
        (0, _) => writeln!(line, "{rest:.1} MiB asked to leave the page cache, not verified"),
        _ => writeln!(
            line,
            "{kept_out:.1} MiB kept out of the page cache, {rest:.1} MiB more not verified"
        ),
    }
}

fn write_unseen(line: &mut MessageLine, unseen: u64, peak: u64) -> fmt::Result {
    writeln!(
        line,
        "memwright[{}]: {:.2} GiB of the {:.2} GiB that a process had resident was not populated in \
         advance: malloc(3) maps its memory inside the C library, where no call of it is visible",
        std::process::id(),
        gib(unseen),
        gib(peak),
    )
}

fn write_background(line: &mut MessageLine, counts: &BackgroundCounts) -> fmt::Result {
    let mappings = counts.mappings.load(Ordering::Relaxed);
    write!(
        line,
        "memwright[{}]: {:.2} GiB populated in the background, of {:.2} GiB in {mappings} {}",
        std::process::id(),
        gib(counts.populated_bytes.load(Ordering::Relaxed)),
        gib(counts.mapped_bytes.load(Ordering::Relaxed)),
        if mappings == 1 { "mapping" } else { "mappings" },
    )?;
    let stop_reason = counts.stop_reason.load(Ordering::Relaxed);
    let reason = StopReason::ALL.into_iter().find(|reason| *reason as u64 == stop_reason);
    let Some(reason) = reason else { return line.write_str("\n") };
    let reason = match reason {
        StopReason::Program => "the program uses seccomp, userfaultfd or another user's identity",
        StopReason::NoThread => "no thread could be created",
        StopReason::Machine => "less than a tenth of the machine's memory was available",
        StopReason::Cgroup => "less than a tenth of the memory cgroup's limit was left",
        StopReason::Stalls => "tasks waited for memory",
        StopReason::Unknown => "available memory is unknown: /proc/meminfo is not readable",
    };
    writeln!(line, "; stopped: {reason}")
}

fn write_nothing(line: &mut MessageLine, subject: &str) -> fmt::Result {
    write!(line, "memwright[{}]: nothing was done: ", std::process::id())?;
    let obstacle = ConfinementCause::first().filter(|_| confinement::is_confined());
    if !mw_sys::can_populate() {
        write!(line, "this kernel has no MADV_POPULATE_WRITE (needs 5.14)")?;
    } else if let Some(obstacle) = obstacle {
        line.write_str(match obstacle {
            ConfinementCause::Filter => "a seccomp filter may forbid it",
            ConfinementCause::NoNewPrivileges => {
                "the program set PR_SET_NO_NEW_PRIVS, after which it may install a seccomp filter \
                 that forbids it"
            }
            ConfinementCause::NoProc => {
                "/proc/self/status is not readable, so that seccomp filters are unknown"
            }
            ConfinementCause::NoMemory => "no memory could be mapped",
        })?;
    } else if mapping_limit::is_set() {
        line.write_str(
            "RLIMIT_AS or RLIMIT_DATA limits the program, and the stacks of threads count",
        )?;
    } else {
        let (threshold, release) =
            (settings::threshold() >> 20, settings::release_threshold() >> 20);
        write!(
            line,
            "{subject} did not populate or lock {threshold} MiB or free {release} MiB in one call"
        )?;
    }
    let cached =
        if settings::direct_io() > 0 { "; all files went through the page cache" } else { "" };
    writeln!(line, "{cached}")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::stats::counts::CountedCall;

    fn text(write: impl FnOnce(&mut MessageLine) -> fmt::Result) -> String {
        let mut line = MessageLine::default();
        write(&mut line).unwrap();
        line.text().split_once(' ').unwrap().1.to_owned()
    }

    #[test]
    fn calls_are_reported_in_one_line() {
        let counts = Counts::zero();
        for (call, bytes) in [(CountedCall::Lock, 1 << 30), (CountedCall::Unmap, 1 << 29)] {
            let by_call = &counts.by_call[call as usize];
            by_call.calls.store(1, Ordering::Relaxed);
            by_call.bytes.store(bytes, Ordering::Relaxed);
        }
        counts.nanoseconds.store(300_000_000, Ordering::Relaxed);
        counts.saved_nanoseconds.store(150_000_000, Ordering::Relaxed);
        assert_eq!(
            text(|line| write_calls(line, &counts)),
            "2 calls done in parallel, 1.50 GiB in 0.300 s (locked 1, 1.00 GiB; unmapped 1, 0.50 \
             GiB), 0.150 s faster than with one thread\n"
        );
        counts.saved_nanoseconds.store(-23_000_000, Ordering::Relaxed);
        let text = text(|line| write_calls(line, &counts));
        assert!(text.ends_with("), 0.023 s slower than with one thread\n"), "{text}");
    }

    #[test]
    fn pages_are_reported_by_size_and_what_is_mixed_by_its_average() {
        let counts = Counts::zero();
        for (order, bytes) in [(0, 1 << 28), (4, 1 << 29), (9, 1 << 30)] {
            counts.pages.by_order[order].store(bytes, Ordering::Relaxed);
        }
        let sizes = "page sizes, by page faults: 1.00 GiB in 2M, 0.50 GiB in 64k, 0.25 GiB in 4k";
        assert_eq!(text(|line| write_pages(line, &counts.pages)), format!("{sizes}\n"));
        counts.pages.mixed_bytes.store(7 << 17, Ordering::Relaxed);
        counts.pages.mixed_faults.store(49, Ordering::Relaxed);
        let mixed = ", 0.00 GiB mixed, 18k on average (the kernel tells no process which)\n";
        assert_eq!(text(|line| write_pages(line, &counts.pages)), format!("{sizes}{mixed}"));
    }

    #[test]
    fn verified_and_unverified_bytes_are_reported_separately() {
        let text = |uncached, unverified| text(|line| write_transfers(line, uncached, unverified));
        assert_eq!(text(0, 3 << 20), "3.0 MiB asked to leave the page cache, not verified\n");
        assert_eq!(text(300 << 20, 0), "300.0 MiB kept out of the page cache\n");
        assert_eq!(
            text(1 << 20, 5 << 19),
            "1.0 MiB kept out of the page cache, 2.5 MiB more not verified\n"
        );
    }
}
