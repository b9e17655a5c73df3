//! The counts of a command and of all that it starts, in one page that they share, so that the command
//! can report one sum at its end.
//!
//! The page is a System V segment: it is found by a number in the environment after exec(2), chroot(2)
//! and with all descriptors closed, and the kernel removes it with the last process that has it. The
//! command's process creates it when the library is loaded, removes its name at once, and writes the
//! number over the digits that `memwright run` has put into `MEMWRIGHT_STATS_SEGMENT`. A command that
//! replaces itself by exec(2) attaches it again where another process still has it, else it creates another.
//!
//! What is done after the command's end is reported by the last process that has the page. What a command's
//! children did before it replaced itself by exec(2) with none of them left is lost with the page.
//!
//! A process that cannot attach it (another user, another IPC namespace) counts for itself.

use super::Counts;
use crate::{kernel, settings, sysv};
use mw_iotune::environment;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// What such a page begins with.
const MAGIC: u64 = u64::from_ne_bytes(*b"mw-stats");

#[repr(C)]
pub(super) struct Page {
    magic: AtomicU64,
    /// The command's process.
    command: AtomicU64,
    counts: Counts,
}

static PAGE: AtomicPtr<Page> = AtomicPtr::new(null_mut());

/// The number of its segment.
static SEGMENT: AtomicI32 = AtomicI32::new(-1);

/// The counts that are shared; none where this process counts for itself.
pub(super) fn counts() -> Option<&'static Counts> {
    Some(&page(PAGE.load(Ordering::Relaxed))?.counts)
}

/// The page that is attached there.
fn page(at: *const Page) -> Option<&'static Page> {
    // SAFETY: a segment is at least a page long and made of atomics here, for which any bits are a
    // value; one that is in use is never detached.
    #[allow(unsafe_code, reason = "memory that is shared")]
    unsafe {
        at.as_ref()
    }
}

/// Whether no other process has the page any more.
pub(super) fn is_last() -> bool {
    let status = sysv::status(SEGMENT.load(Ordering::Relaxed));
    status.is_some_and(|status| status.shm_nattch == 1)
}

/// Attaches the page of this command, or creates it.
pub(super) fn begin(command: u32) {
    let Some(digits) = settings::variable_to_write(environment::STATS_SEGMENT) else { return };
    // The segment's number plus one; zero where there is none yet.
    let known = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some(number.saturating_mul(10).saturating_add(u64::from(digit)))
    });
    let Some(known) = known else { return };
    let known = known.checked_sub(1).and_then(|id| i32::try_from(id).ok());
    let known = known.filter(|id| is_made_by(*id, command));
    let attached = known.and_then(attach).filter(|page| is_of(*page, command));
    let page = attached
        .or_else(|| (command == std::process::id()).then(|| create(command, digits)).flatten());
    PAGE.store(page.unwrap_or(null_mut()), Ordering::Relaxed);
}

/// Whether a segment is as long as a page and was made by this command, as this user: another's may say
/// anything of itself. Who is in a namespace below the command's finds no number for that (0).
fn is_made_by(id: i32, command: u32) -> bool {
    sysv::status(id).is_some_and(|about| {
        about.shm_segsz == size_of::<Page>()
            && about.shm_perm.cuid == user()
            && [0, command].contains(&about.shm_cpid.cast_unsigned())
    })
}

/// The effective user.
fn user() -> u32 {
    // SAFETY: no memory is passed (geteuid(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::geteuid()
    }
}

/// Whether a segment is the page of this command; one that is not is detached.
fn is_of(at: *mut Page, command: u32) -> bool {
    let is_of = page(at).is_some_and(|page| {
        page.magic.load(Ordering::Relaxed) == MAGIC
            && page.command.load(Ordering::Relaxed) == u64::from(command)
    });
    if !is_of {
        // SAFETY: it was attached here, and nobody has a reference any more (shmdt(2)).
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::shmdt(at.cast())
        };
    }
    is_of
}

fn attach(id: i32) -> Option<*mut Page> {
    SEGMENT.store(id, Ordering::Relaxed);
    // SAFETY: addresses that the kernel chooses (shmat(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let page = unsafe { kernel::shmat(id, null(), 0) };
    (page != libc::MAP_FAILED).then_some(page.cast())
}

fn create(command: u32, digits: &mut [u8]) -> Option<*mut Page> {
    // SAFETY: a new segment (shmget(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let id = unsafe { kernel::shmget(libc::IPC_PRIVATE, size_of::<Page>(), 0o600) };
    if id < 0 {
        return None;
    }
    let at = attach(id);
    // SAFETY: the new segment, which goes with its last process from here on (shmctl(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::shmctl(id, libc::IPC_RMID, null_mut())
    };
    let new = page(at?)?;
    new.magic.store(MAGIC, Ordering::Relaxed);
    new.command.store(u64::from(command), Ordering::Relaxed);
    let mut number = u64::try_from(id).ok()? + 1;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    at
}

/// Does once what `begin` may do: a filter of system calls may end the process.
pub(super) fn try_everything() {
    is_made_by(0, 0);
    user();
    if let Some(at) = create(0, &mut [0; environment::STATS_SEGMENT_DIGITS]) {
        is_of(at, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "system calls")]
    fn a_segment_is_one_that_the_command_has_made() {
        let command = std::process::id();
        let check = |bytes: usize, command: u32, is_it: bool| {
            // SAFETY: a new segment (shmget(2)).
            let id = unsafe { kernel::shmget(libc::IPC_PRIVATE, bytes, 0o600) };
            assert_eq!(is_made_by(id, command), is_it, "{bytes} bytes of {command}");
            // SAFETY: that segment, which nobody has attached (shmctl(2)).
            unsafe { kernel::shmctl(id, libc::IPC_RMID, null_mut()) };
        };
        check(size_of::<Page>(), command, true);
        check(size_of::<Page>(), command + 1, false);
        check(size_of::<Page>() + 1, command, false);
        check(1, command, false);
        assert!(!is_made_by(-1, command));
    }
}
