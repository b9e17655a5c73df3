//! Threads whose work may be late.

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
