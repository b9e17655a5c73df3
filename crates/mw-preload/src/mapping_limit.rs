//! Whether the program has a limit on what it maps. The stacks of this library would count towards it, so that another
//! thread's mmap(2) could fail which would not fail without the library.

use rustix::process::{Resource, getrlimit};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_IGNORED: AtomicBool = AtomicBool::new(false);

/// True if RLIMIT_AS or RLIMIT_DATA is set now; two system calls.
pub(crate) fn is_set() -> bool {
    let is_limited = |resource| getrlimit(resource).current.is_some();
    let is_set = is_limited(Resource::As) || is_limited(Resource::Data);
    is_set && !IS_IGNORED.load(Ordering::Relaxed)
}

/// For the dry run, which makes all system calls: the program may raise its limit later.
pub(crate) fn ignore() {
    IS_IGNORED.store(true, Ordering::Relaxed);
}
