//! What the tests on the running kernel have in common.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that is busy until this is dropped.
pub(crate) struct Busy {
    stop: Arc<AtomicBool>,
    used_ms: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    /// In the kernel, reading /dev/zero.
    pub(crate) fn reading_zero() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let used_ms = Arc::new(AtomicU64::new(0));
        let (stopped, used) = (Arc::clone(&stop), Arc::clone(&used_ms));
        let work = move || {
            let mut zero = fs::File::open("/dev/zero").unwrap();
            let mut bytes = vec![0; 1 << 20];
            while !stopped.load(Ordering::Relaxed) {
                zero.read_exact(&mut bytes).unwrap();
                let time_ms = u64::try_from(mw_sys::thread_time().as_millis()).unwrap();
                used.store(time_ms, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("busy-zero".into()).spawn(work).unwrap();
        Self { stop, used_ms, thread: Some(thread) }
    }

    /// Waits until it has used this much more CPU time, which takes a while on a busy machine.
    pub(crate) fn for_ms(&self, time_ms: u64) {
        let until = self.used_ms.load(Ordering::Relaxed) + time_ms;
        let is_used = || self.used_ms.load(Ordering::Relaxed) >= until;
        mw_test::wait_until("CPU time", Duration::from_secs(60), is_used);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Stops a process, and waits until it is.
pub(crate) fn stop(pid: u32) {
    let process = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    let stopped = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    mw_test::wait_until("the stop", Duration::from_secs(60), stopped);
}

/// Lets everybody look into a directory.
pub(crate) fn readable_by_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A kernel setting, put back at the end.
pub(crate) struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    /// `None`, with the test reported as skipped, where this kernel does not have it.
    pub(crate) fn open(path: &'static str) -> Option<Self> {
        let read = fs::read_to_string(path);
        let before = read.map_err(|error| mw_test::skip(format!("no {path}: {error}"))).ok()?;
        Some(Self { path, before })
    }

    pub(crate) fn set(&self, value: &str) {
        fs::write(self.path, value).unwrap();
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.path, &self.before);
    }
}
