//! This machine's files. Another file system may answer for them, as lxcfs does in a container, and hang.

use crate::{Exit, Failure};
use mw_collect::{MIN_WINDOW, Source};
use mw_model::Window;
use mw_proc::mountinfo;
use mw_sys::{ProgramError, ProgramLimits, run_program};
use std::process::Command;
use std::time::Duration;

/// How long another file system may take to deliver a file of the kernel.
const LIMIT: Duration = Duration::from_secs(5);

/// This machine, whose files respond.
///
/// # Errors
/// They do not, or /proc cannot be opened.
pub(crate) fn source() -> Result<Source, Failure> {
    let could_not = |error: &dyn std::fmt::Display| Failure::new(Exit::CouldNotCheck, error);
    let mounts = fuse_mounts();
    if !mounts.is_empty() && !responds(&mounts) {
        let limit_s = LIMIT.as_secs();
        let line = format!("could not be checked: no response from {}", mounts.join(", "));
        return Err(could_not(&format_args!("{line} within {limit_s} s (FUSE, such as lxcfs)")));
    }
    Source::live().map_err(|error| could_not(&error))
}

/// Files of this machine.
///
/// # Errors
/// As [`source`].
pub(crate) fn window() -> Result<Window, Failure> {
    window_of(MIN_WINDOW)
}

/// The same, with at least `span` between its samples.
///
/// # Errors
/// As [`source`].
pub(crate) fn window_of(span: Duration) -> Result<Window, Failure> {
    source().map(|source| watched(&source, span))
}

fn watched(source: &Source, span: Duration) -> Window {
    mw_collect::window_watched(source, span, mw_profile::waiters)
}

/// Files and directories of the kernel for which FUSE answers.
fn fuse_mounts() -> Vec<String> {
    let text = mw_sys::kernel_file::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = mountinfo::parse(&text).unwrap_or_default();
    let of_kernel = |path: &str| path.starts_with("/proc/") || path.starts_with("/sys/");
    let fuse = mounts.into_iter().filter(|mount| mount.fstype.starts_with("fuse."));
    fuse.map(|mount| mount.target).filter(|target| of_kernel(target)).collect()
}

/// True if they can be read in time. A process reads them: a request that FUSE has accepted cannot be
/// interrupted, not even by the end of the process.
fn responds(paths: &[String]) -> bool {
    let mut cat = Command::new("cat");
    cat.args(paths);
    let limits = ProgramLimits { input: &[], time: LIMIT, bytes: 0 };
    let ended = run_program(cat, limits, |_| (), || false);
    !matches!(ended, Err(ProgramError::TimedOut | ProgramError::Held(_)))
}
