//! Limits of a command that reads a file from elsewhere: a recording, a capture.
//!
//! The readers have limits of their own. These hold for all that becomes of what they have read: a page, a list, a
//! forecast.

use crate::{Exit, terminal};
use mw_model::{format_bytes, visible};
use std::path::Path;
use std::time::Duration;

/// The most memory. The report of a large incident takes a tenth of it.
const MAX_DATA_BYTES: u64 = 512 << 20;

/// The most CPU time. A week of sizes, and an incident, take a tenth of a second.
const MAX_CPU: Duration = Duration::from_secs(20);

/// A thread that sleeps needs no more.
const STACK_BYTES: usize = 64 << 10;

/// Ends the command where `path` makes it take more than any file that memwright has written.
pub(super) fn confine(path: &Path) {
    let path = visible::line(&path.display().to_string()).to_string();
    let limit = format_bytes(MAX_DATA_BYTES);
    let line = format!("memwright: {path}: reading it takes more than {limit} of memory");
    mw_sys::exit_without_memory(&line, Exit::CouldNotCheck.code());
    // Without this limit the others hold.
    let _ = mw_sys::limit_data_bytes(MAX_DATA_BYTES);
    let end = move || {
        let limit = MAX_CPU.as_secs();
        terminal::tell(format_args!("memwright: {path}: reading it takes more than {limit} s"));
        std::process::exit(i32::from(Exit::CouldNotCheck.code()));
    };
    let thread = std::thread::Builder::new().name("mw-limits".to_owned()).stack_size(STACK_BYTES);
    let _ = thread.spawn(|| after_cpu_time(MAX_CPU, end));
}

/// Does something once this process has taken so much CPU time.
fn after_cpu_time(limit: Duration, end: impl FnOnce()) {
    while let Some(left) = limit.checked_sub(mw_sys::process_time()) {
        std::thread::sleep(left.max(Duration::from_millis(1)));
    }
    end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn cpu_time_is_limited() {
        let limit = mw_sys::process_time() + Duration::from_millis(50);
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| after_cpu_time(limit, || has_ended.store(true, Ordering::Release)));
            // Busy: this is what is counted.
            while !has_ended.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        assert!(mw_sys::process_time() >= limit);
    }
}
