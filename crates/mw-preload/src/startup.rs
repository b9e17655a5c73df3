//! Initialization, when the library is loaded.

use crate::{confinement, dry_run, env, kernel, message, original, settings, stats, uncached};
use mw_iotune::environment;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code, reason = "runs when the library is loaded")]
static INITIALIZER: extern "C" fn() = load;

#[cfg_attr(test, allow(dead_code, reason = "tests set what they need"))]
extern "C" fn load() {
    let _errno = kernel::ErrnoGuard::new();
    original::resolve();
    if is_privileged() {
        return;
    }
    settings::load_stats();
    if env::is_set_to(environment::SECCOMP, b"try") {
        dry_run::run();
    }
    confinement::begin(env::number(environment::SECCOMP));
    if confinement::is_confined() {
        return;
    }
    // Only these settings ever produce a message.
    let with_messages = [environment::STATS, environment::POOL, environment::LOCK];
    if with_messages.into_iter().any(|name| env::variable(name).is_some()) {
        message::remember_stderr();
        stats::begin();
    }
    settings::load_direct_io();
    uncached::begin();
    if mw_sys::can_populate() {
        settings::load_memory();
        load_lock();
        settings::load_threshold();
    }
}

/// True if the program has privileges that its user lacks: then its user must not configure it. Only
/// /etc/ld.so.preload loads this library into such a program.
fn is_privileged() -> bool {
    // SAFETY: reads what the kernel passed to the program at its start (getauxval(3)).
    #[allow(unsafe_code, reason = "no safe wrapper exists")]
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}

/// `--lock`: `1` locks and reports a limit, `2` is `1` in a process whose parent has reported it.
fn load_lock() {
    let Some(value @ (b"1" | b"2")) = env::variable(environment::LOCK) else { return };
    let is_locked = lock_everything();
    settings::set_lock(is_locked);
    if !is_locked && value == b"1" {
        report_lock_limit();
    }
}

/// Locks nothing under a limit, which would make the program's own mmap calls fail later (`EAGAIN`).
fn lock_everything() -> bool {
    let unlimited = mw_sys::memlock_limit_bytes().is_none()
        || mw_sys::has_capability(mw_sys::Capability::IpcLock);
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: locking changes no content (mlockall(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let locked = unlimited && unsafe { kernel::mlockall(flags) } == 0;
    locked
}

/// Reports once, also for the processes that this one starts.
fn report_lock_limit() {
    message::write(
        "memwright: RLIMIT_MEMLOCK prevents --lock; raise it (ulimit -l unlimited, \
         LimitMEMLOCK=infinity)\n",
    );
    if let Some([value]) = env::variable_mut(environment::LOCK) {
        *value = b'2';
    }
}
