//! Reads the files of processes under /proc on helper threads.

use crate::process::{Stat, TextBuffer, functions, numbers, unanswered};
use mw_model::{Delays, Missing};
use mw_sys::{HELPER_THREAD_NAME, HelperThread};
use std::io;
use std::time::{Duration, Instant};

/// Reads the files on helper threads, because each of them may wait for a lock of its process
/// ([`mw_sys::HelperThread`]).
#[derive(Debug)]
pub struct TaskFiles {
    pub(crate) uses: HelperThread<(), Option<ProcessSample>>,
    pub(crate) blocked: HelperThread<Instant, ThreadScan>,
}

/// Longer than a process takes on a machine that is short of memory.
const TIMEOUT: Duration = Duration::from_millis(200);

impl TaskFiles {
    /// # Errors
    /// A thread cannot be created.
    pub fn start() -> io::Result<Self> {
        let blocked = |pid, deadline: &Instant| ThreadScan::read(pid, *deadline);
        Ok(Self {
            uses: HelperThread::new(TIMEOUT, |pid, ()| ProcessSample::read(pid))?,
            blocked: HelperThread::new(TIMEOUT, blocked)?,
        })
    }

    /// The processes whose files could not be read in time.
    pub fn missing(&self) -> Option<Missing> {
        let stuck = [self.uses.blocked(), self.blocked.blocked()].concat();
        unanswered("/proc/PID", stuck)
    }
}

/// The counters of a process at one instant.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSample {
    pub(crate) stat: Stat,
    pub(crate) written_bytes: Option<u64>,
    pub(crate) delays: Option<Delays>,
}

impl ProcessSample {
    fn read(pid: u32) -> Option<Self> {
        let mut text = TextBuffer::default();
        let stat = Stat::parse(text.read(&format!("/proc/{pid}/stat"))?)?;
        // Threads of the kernel have no memory of their own and write for others.
        let writes = stat.resident_pages > 0;
        let io = if writes { text.read(&format!("/proc/{pid}/io")) } else { None };
        Some(Self { stat, written_bytes: io.and_then(written_bytes), delays: None })
    }
}

fn written_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()
}

/// A thread that is blocked, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BlockedThread {
    pub(crate) tid: u32,
    pub(crate) task: String,
    pub(crate) state: char,
    pub(crate) stack: Vec<String>,
}

/// The threads of one process.
#[derive(Debug, Default)]
pub(crate) struct ThreadScan {
    pub(crate) threads: usize,
    pub(crate) blocked: Vec<BlockedThread>,
    /// True if a stack could not be read.
    pub(crate) hidden: bool,
}

impl ThreadScan {
    fn read(pid: u32, deadline: Instant) -> Self {
        let (mut scan, mut text) = (Self::default(), TextBuffer::default());
        let main = scan.add(pid, pid, &mut text);
        if main.is_some_and(|main| main.threads > 1) {
            for tid in numbers(&format!("/proc/{pid}/task"), deadline).filter(|tid| *tid != pid) {
                scan.add(pid, tid, &mut text);
            }
        }
        scan
    }

    /// Counts a thread, and stores it if it is blocked.
    fn add(&mut self, pid: u32, tid: u32, text: &mut TextBuffer) -> Option<Stat> {
        self.threads += 1;
        let stat = Stat::parse(text.read(&format!("/proc/{pid}/task/{tid}/stat"))?)?;
        if matches!(stat.state, 'D' | 'T' | 't') && stat.comm != HELPER_THREAD_NAME {
            let stack = text.read(&format!("/proc/{pid}/task/{tid}/stack"));
            self.hidden |= stack.is_none();
            let (task, state) = (stat.comm.clone(), stat.state);
            let stack = stack.map(functions).unwrap_or_default();
            self.blocked.push(BlockedThread { tid, task, state, stack });
        }
        Some(stat)
    }
}
