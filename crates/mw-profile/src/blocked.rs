//! Threads that do not run because they cannot: blocked in the kernel (D) or stopped (T, t).

use crate::process::{Stat, TaskFiles, Text, next_batch, numbers};
use mw_model::{BlockedTask, Missing};
use mw_sys::HELPER_THREAD_NAME;
use std::collections::HashMap;
use std::fs::ReadDir;
use std::time::{Duration, Instant};

/// Threads that one look looks at.
const MAX_THREADS: usize = 20_000;
/// Different blocked threads and stacks that are kept.
const MAX_BLOCKED: usize = 1024;
const MAX_FRAMES: usize = 32;
const STACK: &str = "/proc/PID/stack";

/// Blocked threads over several looks.
#[derive(Debug, Default)]
pub struct Blocked {
    found: HashMap<Key, u32>,
    looks: u32,
    /// The processes that the last look had no time for.
    left: Option<ReadDir>,
    /// Whether one look, or several in a row, have come to the last process.
    complete: bool,
    hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    tid: u32,
    task: String,
    state: char,
    stack: Vec<String>,
}

impl Blocked {
    /// Looks at all threads once, for as long as `limit`: about 8 µs each. Where that is not enough
    /// the next look goes on, so that several see what one does not; together they count as one.
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
                found.blocked.into_iter().for_each(|key| self.count(key));
            }
            if !more {
                self.complete = true;
                return;
            }
        }
        self.left = Some(processes);
    }

    /// The processes that are to be looked at: of the last look, or all of them.
    fn processes(&mut self) -> Option<ReadDir> {
        self.left.take().or_else(|| {
            self.looks = self.looks.saturating_add(1);
            std::fs::read_dir("/proc").ok()
        })
    }

    fn count(&mut self, key: Key) {
        if self.found.len() < MAX_BLOCKED || self.found.contains_key(&key) {
            *self.found.entry(key).or_default() += 1;
        }
    }

    /// What could not be seen.
    pub fn missing(&self) -> Vec<Missing> {
        let hidden =
            Missing::skipped(STACK, "where tasks are blocked is not seen: needs CAP_SYS_ADMIN");
        let short = Missing::skipped(
            "/proc/PID/task/TID/stat",
            "time and number of looks were up before every thread was looked at",
        );
        let hidden = self.hidden.then_some(hidden);
        hidden.into_iter().chain((!self.complete).then_some(short)).collect()
    }

    /// Blocked threads with their stacks, the most often seen first.
    pub fn tasks(&self) -> Vec<BlockedTask> {
        let task = |(key, seen): (&Key, &u32)| BlockedTask {
            pid: key.tid,
            task: key.task.clone(),
            state: key.state,
            stack: key.stack.clone(),
            seen: *seen,
            looks: self.looks,
        };
        let mut tasks: Vec<_> = self.found.iter().map(task).collect();
        tasks.sort_by(|a, b| b.seen.cmp(&a.seen).then_with(|| a.pid.cmp(&b.pid)));
        tasks
    }
}

/// What a look at one process found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    threads: usize,
    blocked: Vec<Key>,
    /// Whether a stack could not be read.
    hidden: bool,
}

/// Looks at the threads of a process.
pub(crate) fn look(pid: u32, deadline: Instant) -> Found {
    let (mut found, mut text) = (Found::default(), Text::default());
    let main = found.thread(pid, pid, &mut text);
    if main.is_some_and(|main| main.threads > 1) {
        for tid in numbers(&format!("/proc/{pid}/task"), deadline).filter(|tid| *tid != pid) {
            found.thread(pid, tid, &mut text);
        }
    }
    found
}

impl Found {
    /// Looks at one thread, and keeps it where it is blocked.
    fn thread(&mut self, pid: u32, tid: u32, text: &mut Text) -> Option<Stat> {
        self.threads += 1;
        let stat = Stat::parse(text.read(&format!("/proc/{pid}/task/{tid}/stat"))?)?;
        if matches!(stat.state, 'D' | 'T' | 't') && stat.comm != HELPER_THREAD_NAME {
            let stack = text.read(&format!("/proc/{pid}/task/{tid}/stack"));
            self.hidden |= stack.is_none();
            let stack = stack.map(functions).unwrap_or_default();
            self.blocked.push(Key { tid, task: stat.comm.clone(), state: stat.state, stack });
        }
        Some(stat)
    }
}

/// `[<0>] do_exit+0x17/0x20 [module]`, a line each, innermost first.
pub(crate) fn functions(stack: &str) -> Vec<String> {
    let function = |line: &str| {
        let name = line.split_ascii_whitespace().nth(1)?.split('+').next()?;
        Some(name.split('.').next().unwrap_or(name).to_owned())
    };
    stack.lines().filter_map(function).take(MAX_FRAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_read_to_names() {
        let stack = "[<0>] balance_dirty_pages+0x4f4/0xd50\n[<0>] ext4_x.isra.0+0x1/0x2 [ext4]\n";
        assert_eq!(functions(stack), ["balance_dirty_pages", "ext4_x"]);
        assert_eq!(functions("0xffffffffffffffff\n\n"), Vec::<String>::new());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut blocked = Blocked::default();
        for tid in 0..2 * u32::try_from(MAX_BLOCKED).unwrap() {
            blocked.count(Key { tid, task: String::new(), state: 'D', stack: Vec::new() });
        }
        assert_eq!(blocked.tasks().len(), MAX_BLOCKED);
    }

    #[test]
    fn a_look_that_runs_out_of_time_says_so() {
        let mut blocked = Blocked::default();
        let mut files = TaskFiles::start().unwrap();
        blocked.look(&mut files, Duration::ZERO);
        assert_eq!(blocked.missing().len(), 1);
        blocked.look(&mut files, Duration::from_secs(10));
        assert!(blocked.missing().iter().all(|missing| missing.what == STACK));
        assert_eq!(blocked.looks, 1, "the second went on where the first had ended");
    }
}
