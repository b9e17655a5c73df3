//! Threads whose work may be late.

/// The lowest priority.
const NICE: i32 = 19;

/// What this thread takes on a busy machine is taken from no other.
pub(crate) fn yield_to_others() {
    // Without the privilege it competes as others do.
    let _ = rustix::process::setpriority_process(None, NICE);
}
