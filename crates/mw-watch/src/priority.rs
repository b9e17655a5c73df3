//! Threads whose work may be late, and work that may not.

/// The lowest priority.
const NICE: i32 = 19;

/// On machines with so few CPUs a thread that gathers evidence gets less of one than a service does.
const FEW_CPUS: u32 = 4;
const NICE_OF_EVIDENCE: i32 = 5;

/// Leaves services the larger part of a CPU that this thread competes for, on a small machine.
pub(crate) fn yield_on_few_cpus(cpus: u32) {
    if cpus <= FEW_CPUS {
        let _ = rustix::process::setpriority_process(None, NICE_OF_EVIDENCE);
    }
}

/// Lowest priority: the CPU time of this thread on a busy machine is taken from no other.
pub(crate) fn yield_to_others() {
    // Without the privilege it competes as others do.
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// What a thread reads late is lost, as is what others read while it holds their lock.
const NICE_OF_READER: i32 = -10;

/// A thread that reads in time: what it takes is limited elsewhere.
pub(crate) fn read_in_time() {
    // Without the privilege it competes as others do.
    let _ = rustix::process::setpriority_process(None, NICE_OF_READER);
}

/// Short work of a thread that otherwise yields, in time.
pub(crate) fn in_time<T>(work: impl FnOnce() -> T) -> T {
    let before = rustix::process::getpriority_process(None);
    read_in_time();
    let done = work();
    if let Ok(before) = before {
        let _ = rustix::process::setpriority_process(None, before);
    }
    done
}
