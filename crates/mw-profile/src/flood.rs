//! Pages that were brought into the page cache in the last minute, by process and file.

use crate::file_numbers::BLOCK_DEVICES;
use crate::names::Names;
use crate::paths::Paths;
use crate::used_file::numbers;
use mw_model::{FloodShare, Missing};
use std::collections::{HashMap, VecDeque};
use std::path::Path;

/// The minute in buckets that age together.
const BUCKET_NS: u64 = 10_000_000_000;
const BUCKETS: usize = 6;
/// Processes and files of one bucket; pages of others are not counted.
const MAX_KEYS: usize = 1024;

/// One process and one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileWriter {
    pub(crate) pid: u32,
    pub(crate) device: u32,
    pub(crate) inode: u64,
}

#[derive(Debug, Default)]
struct FloodSecond {
    number: u64,
    written: HashMap<FileWriter, FloodPages>,
}

#[derive(Debug, Clone, Copy)]
struct FloodPages {
    /// The process's name, by number.
    name: u32,
    pages: u64,
}

impl Default for FloodPages {
    fn default() -> Self {
        Self { name: Names::GONE, pages: 0 }
    }
}

impl FloodPages {
    fn add(&mut self, other: Self) {
        self.pages += other.pages;
        if self.name == Names::GONE {
            self.name = other.name;
        }
    }
}

/// A rolling minute.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    buckets: VecDeque<FloodSecond>,
    paths: Paths,
}

impl Flood {
    /// Counts a sample that stands for `pages`; `name` is the process's, by number.
    pub(crate) fn add(&mut self, time_ns: u64, writer: FileWriter, name: u32, pages: u64) {
        let number = time_ns / BUCKET_NS;
        if self.buckets.back().is_none_or(|bucket| bucket.number < number) {
            self.buckets.push_back(FloodSecond { number, ..FloodSecond::default() });
            self.drop_old(number);
        }
        let Some(bucket) = self.buckets.back_mut() else { return };
        if bucket.written.len() < MAX_KEYS || bucket.written.contains_key(&writer) {
            bucket.written.entry(writer).or_default().add(FloodPages { name, pages });
            self.paths.want(writer.pid, writer.device, writer.inode);
        }
    }

    fn drop_old(&mut self, now: u64) {
        let oldest = now.saturating_sub(BUCKETS as u64);
        while self.buckets.front().is_some_and(|bucket| bucket.number < oldest) {
            self.buckets.pop_front();
        }
    }

    /// Paths that could not be read.
    pub(crate) fn missing(&self) -> Option<Missing> {
        self.paths.missing()
    }

    /// Looks for the paths of files that are new, while their writers live.
    pub(crate) fn find_paths(&mut self) {
        self.paths.find();
    }

    /// The last minute's shares, the most pages first; `name` says a name's text.
    pub(crate) fn shares(&mut self, now_ns: u64, name: impl Fn(u32) -> String) -> Vec<FloodShare> {
        self.drop_old(now_ns / BUCKET_NS);
        self.find_paths();
        let mut sums: HashMap<FileWriter, FloodPages> = HashMap::new();
        for (writer, written) in self.buckets.iter().flat_map(|bucket| &bucket.written) {
            sums.entry(*writer).or_default().add(*written);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(writer, written)| (std::cmp::Reverse(written.pages), *writer));
        let share = |(writer, written): (FileWriter, FloodPages)| FloodShare {
            pid: writer.pid,
            task: name(written.name),
            path: self.paths.path(writer.device, writer.inode),
            device: device_name(writer.device),
            pages: written.pages,
        };
        sums.into_iter().map(share).collect()
    }
}

/// The name of a disk, of a partition's too, or its numbers where it has none.
fn device_name(device: u32) -> String {
    let numbers = numbers(device);
    let dir = Path::new(BLOCK_DEVICES).join(&numbers);
    let path = mw_sys::kernel_file::read_link(&dir).ok();
    let path = path.as_deref();
    let disk = if dir.join("partition").exists() { path.and_then(Path::parent) } else { path };
    let name = disk.and_then(Path::file_name).and_then(|name| name.to_str());
    name.map_or(numbers, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(pid: u32) -> FileWriter {
        FileWriter { pid, device: 8 << 20 | 1, inode: 42 }
    }

    fn shares(flood: &mut Flood, now_ns: u64) -> Vec<(u32, u64)> {
        let shares = flood.shares(now_ns, |_| "dd".to_owned());
        shares.iter().map(|share| (share.pid, share.pages)).collect()
    }

    #[test]
    fn pages_older_than_a_minute_are_forgotten() {
        let mut flood = Flood::default();
        let (old, new) = (u32::MAX - 1, u32::MAX - 2);
        flood.add(0, writer(old), 0, 256);
        flood.add(30_000_000_000, writer(new), 0, 256);
        flood.add(31_000_000_000, writer(new), 0, 256);
        assert_eq!(shares(&mut flood, 32_000_000_000), [(new, 512), (old, 256)]);
        assert_eq!(shares(&mut flood, 75_000_000_000), [(new, 512)]);
        assert_eq!(shares(&mut flood, 200_000_000_000), []);
    }

    #[test]
    fn a_file_without_a_path_is_named_by_its_numbers() {
        let mut flood = Flood::default();
        flood.add(0, writer(u32::MAX), 0, 1);
        flood.add(0, FileWriter { device: 253 << 20 | 4095, ..writer(u32::MAX - 1) }, 0, 2);
        let shares = flood.shares(0, |_| String::new());
        let names: Vec<_> = shares.iter().map(|s| (s.path.as_str(), s.device.as_str())).collect();
        assert_eq!(names[0], ("253:4095:42", "253:4095"));
        assert_eq!(names[1].0, "8:1:42");
    }

    #[test]
    fn a_name_that_was_known_once_is_kept() {
        let mut flood = Flood::default();
        for name in [Names::GONE, 7, Names::GONE] {
            flood.add(0, writer(u32::MAX), name, 10);
        }
        let shares = flood.shares(0, |name| name.to_string());
        assert_eq!((shares.len(), shares[0].task.as_str(), shares[0].pages), (1, "7", 30));
    }

    #[test]
    fn keys_are_bounded() {
        let mut flood = Flood::default();
        for pid in 0..2 * u32::try_from(MAX_KEYS).unwrap() {
            flood.add(0, writer(u32::MAX - pid), 0, 1);
        }
        assert_eq!(flood.shares(0, |_| String::new()).len(), MAX_KEYS);
    }
}
