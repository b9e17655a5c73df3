//! Filters of system calls (seccomp) that the command inherits.

use super::preload::PRELOAD;
use mw_iotune::environment;
use mw_sys::kernel_file;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Room for /proc/self/status, so that it is read at once.
const STATUS_BYTES: usize = 8192;

/// Number of seccomp filters that are installed, for this process and so for the command. The library
/// goes by the same line of the same file.
pub(super) fn filters() -> u32 {
    let mut status = String::with_capacity(STATUS_BYTES);
    let read = kernel_file::open("/proc/self/status")
        .and_then(|mut file| file.read_to_string(&mut status));
    if read.is_err() {
        return 0;
    }
    let number = |name| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u32>().ok()
    };
    match number("Seccomp:") {
        None | Some(0) => 0,
        Some(_) => number("Seccomp_filters:").unwrap_or(1).max(1),
    }
}

/// True if it lets the library work: tried by a process of our own, which it may end.
pub(super) fn filter_allows(library: &Path) -> bool {
    let Ok(own) = std::env::current_exe() else { return false };
    let mut trial = Command::new(own);
    let variable = OsStr::from_bytes(environment::SECCOMP.to_bytes());
    trial.env(PRELOAD, library).env(variable, "try").stdin(Stdio::null());
    trial.stdout(Stdio::null()).stderr(Stdio::null());
    trial.status().is_ok_and(|status| status.success())
}
