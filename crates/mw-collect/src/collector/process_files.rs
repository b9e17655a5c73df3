//! Files of processes, which may wait for a lock of their process.

use crate::source::Source;
use mw_model::Missing;
use mw_proc::limits::Rlimits;
use mw_sys::HelperThread;
use std::time::Duration;

/// Time limit of one process, on a machine that is short of memory too.
const PATIENCE: Duration = Duration::from_millis(100);

/// Reads processes in batches; `None` for a process that did not answer in time.
pub(crate) type ReadBatch<'a, T> = Box<dyn FnMut(&[u32]) -> Vec<Option<Option<T>>> + 'a>;

/// Reads processes: those of a running machine on a helper thread, because a file in /proc may wait
/// for a lock of its process.
pub(crate) fn reader<T: Send + 'static>(
    source: &Source,
    read: impl Fn(&Source, u32) -> Option<T> + Send + Sync + 'static,
) -> Result<ReadBatch<'_, T>, Missing> {
    if !source.is_running() {
        return Ok(Box::new(move |pids| pids.iter().map(|pid| Some(read(source, *pid))).collect()));
    }
    let failed = |error: std::io::Error| Missing::failed("/proc/PID", error.to_string());
    let theirs = source.again().map_err(failed)?;
    let mut helper =
        HelperThread::new(PATIENCE, move |pid, ()| read(&theirs, pid)).map_err(failed)?;
    Ok(Box::new(move |pids| {
        let questions: Vec<_> = pids.iter().map(|pid| (*pid, ())).collect();
        helper.run(&questions)
    }))
}

pub(crate) fn limits(source: &Source, pid: u32) -> Option<Rlimits> {
    source.parse(&format!("/proc/{pid}/limits"), Rlimits::parse).ok()
}
