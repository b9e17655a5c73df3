//! Processes and threads as /proc says, read within bounds of number and time.

use crate::blocked::{self, Found};
use crate::tasks::{self, Seen};
use mw_model::Missing;
use mw_sys::HelperThread;
use std::fs::{File, ReadDir};
use std::io;
use std::io::Read;
use std::time::{Duration, Instant};

/// Processes that are looked at.
pub const MAX_TASKS: usize = 10_000;

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) threads: u64,
    /// In ticks since boot: with the number it tells a process from another that has its number.
    pub(crate) started_ticks: u64,
    pub(crate) resident_pages: u64,
}

impl Stat {
    /// Reads the one line; a name may hold anything, also brackets and line ends.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let comm = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field).and_then(|text| text.parse().ok());
        Some(Self {
            comm,
            state: fields.first()?.chars().next()?,
            minor_faults: number(7)?,
            major_faults: number(9)?,
            user_ticks: number(11)?,
            system_ticks: number(12)?,
            threads: number(17)?,
            started_ticks: number(19)?,
            resident_pages: number(21).unwrap_or(0),
        })
    }
}

/// A buffer that small files are read into, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    text: String,
}

/// The most of a file that is read.
const MAX_BYTES: u64 = 64 << 10;

impl Text {
    /// The text of a file; `None` where it cannot be read: the process is gone, or not ours.
    pub(crate) fn read(&mut self, path: &str) -> Option<&str> {
        self.bytes.clear();
        File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut self.bytes).ok()?;
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.bytes));
        Some(&self.text)
    }
}

/// Reads what /proc says of processes, on threads apart: each of its files may wait for a lock of its
/// process ([`mw_sys::HelperThread`]).
#[derive(Debug)]
pub struct TaskFiles {
    pub(crate) uses: HelperThread<(), Option<Seen>>,
    pub(crate) blocked: HelperThread<Instant, Found>,
}

/// Longer than a process takes on a machine that is short of memory.
const PATIENCE: Duration = Duration::from_millis(200);

impl TaskFiles {
    /// Processes asked about at a time: waking the thread that reads costs as much as reading five.
    pub(crate) const BATCH: usize = 64;

    /// Ready to read.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn start() -> io::Result<Self> {
        let blocked = |pid, deadline: &Instant| blocked::look(pid, *deadline);
        Ok(Self {
            uses: HelperThread::new(PATIENCE, |pid, ()| tasks::look(pid))?,
            blocked: HelperThread::new(PATIENCE, blocked)?,
        })
    }

    /// The processes that nothing is said of.
    pub fn missing(&self) -> Option<Missing> {
        let stuck = [self.uses.blocked(), self.blocked.blocked()].concat();
        unanswered("/proc/PID", stuck)
    }
}

/// That nothing is said of some processes.
pub(crate) fn unanswered(what: &str, mut pids: Vec<u32>) -> Option<Missing> {
    pids.sort_unstable();
    pids.dedup();
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let why = "the kernel does not answer: the process is within a system call that waits, possibly \
               for a file system that does not respond";
    (!pids.is_empty())
        .then(|| Missing::failed(format!("{what} of process {}", pids.join(", ")), why))
}

/// The next processes of /proc, at most a batch; whether there may be more.
pub(crate) fn next_batch(entries: &mut ReadDir, batch: &mut Vec<u32>) -> bool {
    batch.clear();
    for entry in entries {
        batch.extend(entry.ok().and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok()));
        if batch.len() == TaskFiles::BATCH {
            return true;
        }
    }
    false
}

/// Numbers of the processes, or of a process's threads, below `dir`; ends at `deadline`.
pub(crate) fn numbers(dir: &str, deadline: Instant) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries
        .take_while(move |_| Instant::now() < deadline)
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let line = "42 (a) (b c) D 1 42 42 0 -1 4194304 500 0 7 0 30 20 0 0 20 0 3 0 999 1000 64 x";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state), ("a) (b c", 'D'));
        assert_eq!((stat.minor_faults, stat.major_faults), (500, 7));
        assert_eq!((stat.user_ticks, stat.system_ticks), (30, 20));
        assert_eq!((stat.threads, stat.started_ticks, stat.resident_pages), (3, 999, 64));
    }

    #[test]
    fn this_process_is_seen() {
        let stat = Stat::parse(Text::default().read("/proc/self/stat").unwrap()).unwrap();
        assert!(stat.resident_pages > 0 && stat.threads > 0 && stat.started_ticks > 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}") {
            let _ = Stat::parse(&text);
        }

        #[test]
        fn any_tail_is_read(tail in "[-0-9A-Z ]{0,200}") {
            let _ = Stat::parse(&format!("1 (x) {tail}"));
        }
    }
}
