//! Files of processes and threads under /proc, read within limits of number and time.

use mw_model::Missing;
use mw_sys::kernel_file::{self, NumberedEntries};
use std::io::Read;
use std::time::Instant;

pub const MAX_TASKS: usize = 10_000;

/// Processes in a batch: waking the thread that reads costs as much as reading five.
pub(crate) const BATCH: usize = 64;

/// Contents of `/proc/PID/stat`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
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
            parent: fields.get(1)?.parse().ok()?,
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
pub(crate) struct TextBuffer {
    bytes: Vec<u8>,
    text: String,
}

/// The most of a file that is read.
const MAX_BYTES: u64 = 64 << 10;

impl TextBuffer {
    /// The text of a file; `None` where it cannot be read: the process is gone, or not ours.
    pub(crate) fn read(&mut self, path: &str) -> Option<&str> {
        self.bytes.clear();
        kernel_file::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut self.bytes).ok()?;
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.bytes));
        Some(&self.text)
    }
}

/// Bytes of a process's maps, or of its mounts, that are read.
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// A file of /proc that may be long, as maps or mountinfo.
pub(crate) fn table(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    kernel_file::open(path).ok()?.take(MAX_TABLE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The processes for which the kernel did not answer.
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
pub(crate) fn next_batch(entries: &mut NumberedEntries, batch: &mut Vec<u32>) -> bool {
    batch.clear();
    batch.extend(entries.take(BATCH));
    batch.len() == BATCH
}

/// Numbers of the processes, or of a process's threads, below `dir`; ends at `deadline`.
pub(crate) fn numbers(dir: &str, deadline: Instant) -> impl Iterator<Item = u32> + use<> {
    let numbers = kernel_file::read_numbers(dir).into_iter().flatten();
    numbers.take_while(move |_| Instant::now() < deadline)
}

/// Frames of a stack that are stored.
const MAX_FRAMES: usize = 32;

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
    use proptest::prelude::*;

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let line = "42 (a) (b c) D 1 42 42 0 -1 4194304 500 0 7 0 30 20 0 0 20 0 3 0 999 1000 64 x";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state, stat.parent), ("a) (b c", 'D', 1));
        assert_eq!((stat.minor_faults, stat.major_faults), (500, 7));
        assert_eq!((stat.user_ticks, stat.system_ticks), (30, 20));
        assert_eq!((stat.threads, stat.started_ticks, stat.resident_pages), (3, 999, 64));
    }

    #[test]
    fn this_process_is_seen() {
        let stat = Stat::parse(TextBuffer::default().read("/proc/self/stat").unwrap()).unwrap();
        assert!(stat.resident_pages > 0 && stat.threads > 0 && stat.started_ticks > 0);
    }

    #[test]
    fn stacks_are_read_to_names() {
        let stack = "[<0>] balance_dirty_pages+0x4f4/0xd50\n[<0>] ext4_x.isra.0+0x1/0x2 [ext4]\n";
        assert_eq!(functions(stack), ["balance_dirty_pages", "ext4_x"]);
        assert_eq!(functions("0xffffffffffffffff\n\n"), Vec::<String>::new());
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
