//! Real-time scheduling.

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
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        });
        thread.join().unwrap();
    }
}
