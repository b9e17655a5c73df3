//! Threads that do not run because they cannot: blocked in the kernel (D) or stopped (T, t).

use crate::process::next_batch;
use crate::task_files::{BlockedThread, TaskFiles};
use mw_model::{BlockedTask, Missing};
use mw_sys::kernel_file::{self, NumberedEntries};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Threads that one scan reads.
const MAX_THREADS: usize = 20_000;
/// Different blocked threads and stacks that are kept.
const MAX_BLOCKED: usize = 1024;
const STACK: &str = "/proc/PID/stack";

/// Blocked threads over several scans.
#[derive(Debug, Default)]
pub struct BlockedThreads {
    found: HashMap<BlockedThread, u32>,
    scans: u32,
    /// The processes that the last scan had no time for.
    left: Option<NumberedEntries>,
    /// True if one scan, or several in a row, have reached the last process.
    complete: bool,
    hidden: bool,
}

impl BlockedThreads {
    /// Reads all threads once, for as long as `limit`: about 8 µs each. Where that is not enough
    /// the next scan continues, so that several complete what one could not; together they count as one.
    pub fn look(&mut self, files: &mut TaskFiles, limit: Duration) {
        let deadline = Instant::now() + limit;
        let Some(mut processes) = self.processes() else { return };
        let (mut batch, mut threads) = (Vec::new(), 0);
        while threads < MAX_THREADS && Instant::now() < deadline {
            let more = next_batch(&mut processes, &mut batch);
            let questions: Vec<_> = batch.iter().map(|pid| (*pid, deadline)).collect();
            for found in files.blocked.run(&questions).into_iter().flatten() {
                threads += found.threads;
                self.hidden |= found.hidden;
                found.blocked.into_iter().for_each(|thread| self.count(thread));
            }
            if !more {
                self.complete = true;
                return;
            }
        }
        self.left = Some(processes);
    }

    /// The processes to read: the rest of the last scan, or all of them.
    fn processes(&mut self) -> Option<NumberedEntries> {
        self.left.take().or_else(|| {
            self.scans = self.scans.saturating_add(1);
            kernel_file::read_numbers("/proc").ok()
        })
    }

    fn count(&mut self, thread: BlockedThread) {
        if self.found.len() < MAX_BLOCKED || self.found.contains_key(&thread) {
            *self.found.entry(thread).or_default() += 1;
        }
    }

    /// Evidence that could not be seen.
    pub fn missing(&self) -> Vec<Missing> {
        let hidden =
            Missing::skipped(STACK, "where tasks are blocked is not seen: needs CAP_SYS_ADMIN");
        let short = Missing::skipped(
            "/proc/PID/task/TID/stat",
            "the limit of time or threads was reached before every thread was read",
        );
        let hidden = self.hidden.then_some(hidden);
        hidden.into_iter().chain((!self.complete).then_some(short)).collect()
    }

    /// Blocked threads with their stacks, the most often seen first.
    pub fn tasks(&self) -> Vec<BlockedTask> {
        let task = |(thread, seen): (&BlockedThread, &u32)| BlockedTask {
            pid: thread.tid,
            task: thread.task.clone(),
            state: thread.state,
            stack: thread.stack.clone(),
            seen: *seen,
            looks: self.scans,
        };
        let mut tasks: Vec<_> = self.found.iter().map(task).collect();
        tasks.sort_by(|a, b| b.seen.cmp(&a.seen).then_with(|| a.pid.cmp(&b.pid)));
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut blocked = BlockedThreads::default();
        for tid in 0..2 * u32::try_from(MAX_BLOCKED).unwrap() {
            blocked.count(BlockedThread {
                tid,
                task: String::new(),
                state: 'D',
                stack: Vec::new(),
            });
        }
        assert_eq!(blocked.tasks().len(), MAX_BLOCKED);
    }

    #[test]
    fn a_scan_that_runs_out_of_time_says_so() {
        let mut blocked = BlockedThreads::default();
        let mut files = TaskFiles::start().unwrap();
        blocked.look(&mut files, Duration::ZERO);
        assert_eq!(blocked.missing().len(), 1);
        blocked.look(&mut files, Duration::from_secs(10));
        assert!(blocked.missing().iter().all(|missing| missing.what == STACK));
        assert_eq!(blocked.scans, 1, "the second went on where the first had ended");
    }
}
