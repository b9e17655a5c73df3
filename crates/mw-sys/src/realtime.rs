//! Scheduling of threads.

use crate::direct::system_call;
use std::io;

/// Schedules this thread as SCHED_FIFO with the lowest real-time priority, so that it runs on time
/// under CPU contention. It must sleep most of the time. Threads that it creates do not inherit this.
///
/// # Errors
/// sched_setscheduler(2)'s: `EPERM` without CAP_SYS_NICE, or in a cgroup without real-time budget.
#[allow(unsafe_code, reason = "no safe wrapper of sched_setscheduler(2)")]
pub fn set_sched_fifo() -> io::Result<()> {
    // SAFETY: a struct of integers, of which musl has more than Linux reads.
    let mut lowest: libc::sched_param = unsafe { std::mem::zeroed() };
    lowest.sched_priority = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter is live and only read; 0 is this thread (sched_setscheduler(2)).
    let failed = unsafe { libc::sched_setscheduler(0, policy, &raw const lowest) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Schedules this thread as SCHED_OTHER if it is real-time. It changes no `errno`.
pub fn leave_real_time() {
    // SAFETY: reads a number; 0 is this thread (sched_getscheduler(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let policy = unsafe { system_call(libc::SYS_sched_getscheduler, [0]) } as i32;
    if ![libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy & !libc::SCHED_RESET_ON_FORK)) {
        return;
    }
    // SCHED_OTHER has the priority 0.
    let priority = 0_i32;
    // SAFETY: the parameter is one int on Linux, which is live and only read (sched_setscheduler(2)).
    #[allow(unsafe_code, reason = "the C library's function sets errno")]
    unsafe {
        let at = (&raw const priority).expose_provenance();
        system_call(libc::SYS_sched_setscheduler, [0, libc::SCHED_OTHER as usize, at])
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_thread_is_real_time() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Field 41, counted behind the name in brackets, which is field 2.
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned()
        };
        let thread = std::thread::spawn(move || match set_sched_fifo() {
            Ok(()) => {
                assert_eq!(policy(), "1");
                assert_eq!(std::thread::spawn(policy).join().unwrap(), "0");
                leave_real_time();
                assert_eq!(policy(), "0");
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        });
        thread.join().unwrap();
    }
}
