//! Resource usage: of a child process when it has ended, of this process, and of the calling thread.

use crate::direct::system_call;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Resources that a process used in its lifetime (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Peak resident memory, in KiB.
    pub max_resident_kib: u64,
    pub user: Duration,
    pub system: Duration,
    pub status: ExitStatus,
}

/// Number of times that this thread had to leave its CPU to another one.
#[must_use]
pub fn preemptions() -> u64 {
    usage_of(libc::RUSAGE_THREAD).ru_nivcsw.unsigned_abs()
}

/// The page faults of the calling thread so far, those of its system calls included. A fault populates one folio of
/// private memory or of a memfd.
#[must_use]
pub fn thread_page_faults() -> u64 {
    let usage = usage_of(libc::RUSAGE_THREAD);
    usage.ru_minflt.unsigned_abs() + usage.ru_majflt.unsigned_abs()
}

/// Peak resident memory of this process or of the largest of its children that have ended, in bytes.
#[must_use]
pub fn peak_resident_bytes() -> u64 {
    let peaks = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(|who| usage_of(who).ru_maxrss);
    peaks.into_iter().max().map_or(0, i64::unsigned_abs) << 10
}

/// getrusage(2) without the C library, whose function sets `errno`.
#[allow(unsafe_code, reason = "a system call")]
fn usage_of(who: std::ffi::c_int) -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let place = (&raw mut usage).expose_provenance();
    // SAFETY: the pointer is to a live local of the type that the kernel writes (getrusage(2)).
    unsafe { system_call(libc::SYS_getrusage, [who as usize, place]) };
    usage
}

/// Waits for a child and returns its resource usage. Takes the child: it is reaped here, and its id may
/// belong to another process afterwards.
///
/// # Errors
/// wait4(2)'s.
#[allow(unsafe_code, reason = "no safe wrapper of wait4(2) reports the usage")]
pub fn wait_with_usage(child: Child) -> io::Result<ResourceUsage> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the types that wait4(2) writes.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if reaped == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs())
            + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    Ok(ResourceUsage {
        max_resident_kib: usage.ru_maxrss.unsigned_abs(),
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        status: ExitStatus::from_raw(status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_child_is_reported() {
        let child = std::process::Command::new("true").spawn().unwrap();
        let usage = wait_with_usage(child).unwrap();
        assert!(usage.max_resident_kib > 100, "{usage:?}");
        assert!(usage.status.success(), "{usage:?}");
    }
}
