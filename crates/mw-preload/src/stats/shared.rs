//! The counters that a command shares with all processes that it starts, so that it can report their sum at
//! its end.
//!
//! They are in a System V segment, which is found by a number in the environment after exec(2), after
//! chroot(2) and with all descriptors closed, and which the kernel removes with the last process that has
//! it attached. The command's process creates it when the library is loaded, marks it for removal
//! immediately, and writes its number over the digits that `memwright run` has put into
//! `MEMWRIGHT_STATS_SEGMENT`. A command that replaces itself by exec(2) attaches it again if another
//! process still has it attached, and otherwise creates another.
//!
//! What is done after the command's end is reported by the last process that has the page attached. If a
//! command replaces itself by exec(2) when none of its children are left, the earlier counts are lost.
//!
//! A process that cannot attach the segment (another user, another IPC namespace) counts for itself.

use super::counts::Counts;
use crate::{env, kernel, shm};
use mw_iotune::environment;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// The start of the page.
const MAGIC: u64 = u64::from_ne_bytes(*b"mw-stats");

#[repr(C)]
pub(super) struct StatsPage {
    magic: AtomicU64,
    /// The process of the command.
    command: AtomicU64,
    counts: Counts,
}

static PAGE: AtomicPtr<StatsPage> = AtomicPtr::new(null_mut());

/// The id of the segment.
static SEGMENT_ID: AtomicI32 = AtomicI32::new(-1);

/// The shared counters; none if this process counts for itself.
pub(super) fn counts() -> Option<&'static Counts> {
    Some(&page(PAGE.load(Ordering::Relaxed))?.counts)
}

/// The page that is attached at an address.
fn page(at: *const StatsPage) -> Option<&'static StatsPage> {
    // SAFETY: the segment has at least the size of the page, which consists of atomics, for which all bits
    // are valid; a page that is in use is never detached.
    #[allow(unsafe_code, reason = "memory that is shared")]
    unsafe {
        at.as_ref()
    }
}

/// True if no other process has the page attached.
pub(super) fn is_last() -> bool {
    let status = shm::status(SEGMENT_ID.load(Ordering::Relaxed));
    status.is_some_and(|status| status.shm_nattch == 1)
}

/// Attaches the page of this command, or creates it.
pub(super) fn begin(command: u32) {
    let Some(digits) = env::variable_mut(environment::STATS_SEGMENT) else { return };
    // The segment's id plus one; zero if there is none yet.
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        Some(number.saturating_mul(10).saturating_add(u64::from(digit)))
    });
    let Some(number) = number else { return };
    let id = number.checked_sub(1).and_then(|id| i32::try_from(id).ok());
    let id = id.filter(|id| is_created_by(*id, command));
    let attached = id.and_then(attach).filter(|page| is_page_of(*page, command));
    let page = attached
        .or_else(|| (command == std::process::id()).then(|| create(command, digits)).flatten());
    PAGE.store(page.unwrap_or(null_mut()), Ordering::Relaxed);
}

/// True if a segment has the size of the page and was created by this command as this user: the contents of
/// another user's segment cannot be trusted. In a PID namespace below the command's the kernel reports 0 as
/// the creator.
fn is_created_by(id: i32, command: u32) -> bool {
    shm::status(id).is_some_and(|status| {
        status.shm_segsz == size_of::<StatsPage>()
            && status.shm_perm.cuid == effective_user()
            && [0, command].contains(&status.shm_cpid.cast_unsigned())
    })
}

fn effective_user() -> u32 {
    // SAFETY: no memory is passed (geteuid(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::geteuid()
    }
}

/// True if an attached segment is the page of this command; otherwise it is detached.
fn is_page_of(at: *mut StatsPage, command: u32) -> bool {
    let is_page = page(at).is_some_and(|page| {
        page.magic.load(Ordering::Relaxed) == MAGIC
            && page.command.load(Ordering::Relaxed) == u64::from(command)
    });
    if !is_page {
        // SAFETY: it was attached here, and no reference is left (shmdt(2)).
        #[allow(unsafe_code, reason = "a system call")]
        unsafe {
            kernel::shmdt(at.cast())
        };
    }
    is_page
}

fn attach(id: i32) -> Option<*mut StatsPage> {
    SEGMENT_ID.store(id, Ordering::Relaxed);
    // SAFETY: addresses that the kernel chooses (shmat(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let page = unsafe { kernel::shmat(id, null(), 0) };
    (page != libc::MAP_FAILED).then_some(page.cast())
}

fn create(command: u32, digits: &mut [u8]) -> Option<*mut StatsPage> {
    // SAFETY: a new segment (shmget(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let id = unsafe { kernel::shmget(libc::IPC_PRIVATE, size_of::<StatsPage>(), 0o600) };
    if id < 0 {
        return None;
    }
    let at = attach(id);
    // SAFETY: the new segment, which is freed with its last attachment from here on (shmctl(2)).
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

/// Makes each system call of this module once.
pub(super) fn make_all_calls() {
    is_created_by(0, 0);
    effective_user();
    if let Some(at) = create(0, &mut [0; environment::STATS_SEGMENT_DIGITS]) {
        is_page_of(at, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "system calls")]
    fn only_a_segment_that_the_command_created_is_accepted() {
        let command = std::process::id();
        let check = |bytes: usize, command: u32, expected: bool| {
            // SAFETY: a new segment (shmget(2)).
            let id = unsafe { kernel::shmget(libc::IPC_PRIVATE, bytes, 0o600) };
            assert_eq!(is_created_by(id, command), expected, "{bytes} bytes of {command}");
            // SAFETY: that segment, which is attached nowhere (shmctl(2)).
            unsafe { kernel::shmctl(id, libc::IPC_RMID, null_mut()) };
        };
        check(size_of::<StatsPage>(), command, true);
        check(size_of::<StatsPage>(), command + 1, false);
        check(size_of::<StatsPage>() + 1, command, false);
        check(1, command, false);
        assert!(!is_created_by(-1, command));
    }
}
