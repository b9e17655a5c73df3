//! Names of files that are known by device and inode, remembered as they are found.

use crate::file_numbers;
use crate::process::unanswered;
use crate::used_file::{self, DeviceInode};
use mw_model::Missing;
use mw_sys::HelperThread;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

/// Files whose path is remembered, found or not.
const MAX_FILES: usize = 2048;
/// Files that wait for their path; more are found when they are seen again.
const MAX_WANTED: usize = 64;
/// Looks for one file, in processes that use it, before its numbers have to do.
const MAX_TRIES: u32 = 4;
/// Processes that are searched at a time.
const PROCESSES_PER_ROUND: usize = 8;
/// Time limit of one process: its maps may wait for one of its locks.
const PATIENCE: Duration = Duration::from_millis(200);

/// Name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileName {
    Path(String),
    /// The file system that it is on: another process may know the path.
    Place(String),
}

#[derive(Debug, Default)]
struct FileLookup {
    name: Option<FileName>,
    tries: u32,
}

impl FileLookup {
    fn is_settled(&self) -> bool {
        matches!(self.name, Some(FileName::Path(_))) || self.tries >= MAX_TRIES
    }
}

/// Names, by device as the kernel keeps it inside, and inode.
#[derive(Debug)]
pub(crate) struct Paths {
    known: HashMap<DeviceInode, FileLookup>,
    wanted: VecDeque<(u32, DeviceInode)>,
    finder: io::Result<HelperThread<DeviceInode, Option<FileName>>>,
}

impl Default for Paths {
    fn default() -> Self {
        let finder = HelperThread::new(PATIENCE, |pid, file: &DeviceInode| find(pid, *file));
        Self { known: HashMap::new(), wanted: VecDeque::new(), finder }
    }
}

/// Name of the file in process `pid`, or its numbers.
fn find(pid: u32, file: DeviceInode) -> Option<FileName> {
    let own = used_file::of_process("self")?;
    let path = used_file::find(pid, file, &own);
    let path = path.or_else(|| file_numbers::block_device(file, &own));
    path.map(FileName::Path).or_else(|| file_numbers::place(file, &own).map(FileName::Place))
}

impl Paths {
    /// Asks for the path of a file that process `pid` uses.
    pub(crate) fn want(&mut self, pid: u32, device: u32, inode: u64) {
        let file = (device, inode);
        let waiting = self.wanted.contains(&(pid, file));
        let is_settled = self.known.get(&file).is_some_and(FileLookup::is_settled);
        if !waiting && self.wanted.len() < MAX_WANTED && !is_settled {
            self.wanted.push_back((pid, file));
        }
    }

    /// Searches the processes that use the wanted files.
    pub(crate) fn find(&mut self) {
        let count = self.wanted.len().min(PROCESSES_PER_ROUND);
        let Ok(finder) = self.finder.as_mut() else { return };
        if count == 0 {
            return;
        }
        let questions: Vec<_> = self.wanted.drain(..count).collect();
        for ((_, file), name) in questions.iter().zip(finder.run(&questions)) {
            if self.known.len() >= MAX_FILES {
                self.known.clear();
            }
            let known = self.known.entry(*file).or_default();
            known.tries += 1;
            if !matches!(known.name, Some(FileName::Path(_))) {
                known.name = name.flatten().or(known.name.take());
            }
        }
    }

    /// The path, what the file is where it has none, or `device:inode`.
    pub(crate) fn path(&self, device: u32, inode: u64) -> String {
        match self.known.get(&(device, inode)).and_then(|known| known.name.clone()) {
            Some(FileName::Path(name) | FileName::Place(name)) => name,
            None => format!("{}:{inode}", used_file::numbers(device)),
        }
    }

    /// Paths that could not be read.
    pub(crate) fn missing(&self) -> Option<Missing> {
        const WHAT: &str = "/proc/PID/fdinfo and maps";
        match &self.finder {
            Ok(finder) => unanswered(WHAT, finder.blocked()),
            Err(error) => Some(Missing::failed(WHAT, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_test::{HUNG_FILE, HungMount, own_mounts};
    use std::os::unix::fs::MetadataExt;
    use std::time::Instant;

    /// A reader of such a file waits until its file system responds, whatever signal comes.
    #[test]
    fn a_file_system_that_hangs_is_not_read() {
        if !mw_test::is_root() {
            return;
        }
        let dir = tempfile::TempDir::new().unwrap();
        own_mounts();
        let mount = HungMount::at(dir.path());
        let theirs = std::fs::File::open(dir.path().join(HUNG_FILE)).unwrap();
        let ours = tempfile::NamedTempFile::new().unwrap();
        let (hung, well) =
            (file(&theirs.metadata().unwrap()), file(&ours.as_file().metadata().unwrap()));
        mount.hang();
        let mut paths = Paths::default();
        let begun = Instant::now();
        for file in [hung, well] {
            paths.want(std::process::id(), file.0, file.1);
        }
        paths.find();
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(paths.path(well.0, well.1), ours.path().to_str().unwrap());
        assert!(paths.path(hung.0, hung.1).ends_with(HUNG_FILE), "{}", paths.path(hung.0, hung.1));
        assert_eq!(paths.missing(), None);
        drop(mount);
        drop(theirs);
    }

    /// The device of a file as the kernel keeps it inside.
    fn file(meta: &std::fs::Metadata) -> DeviceInode {
        let device = rustix::fs::major(meta.dev()) << 20 | rustix::fs::minor(meta.dev());
        (device, meta.ino())
    }

    #[test]
    fn an_open_file_has_a_path() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        let (device, inode) = file(&temporary.as_file().metadata().unwrap());
        let mut paths = Paths::default();
        paths.want(std::process::id(), device, inode);
        paths.find();
        assert_eq!(paths.path(device, inode), temporary.path().to_str().unwrap());
    }

    #[test]
    fn a_file_is_searched_a_bounded_number_of_times() {
        let mut paths = Paths::default();
        for _ in 0..2 * MAX_TRIES {
            paths.want(u32::MAX, 1, 2);
            paths.find();
        }
        assert_eq!(paths.known.get(&(1, 2)).unwrap().tries, MAX_TRIES);
        for inode in 0..2 * MAX_WANTED as u64 {
            paths.want(u32::MAX, 3, inode);
        }
        assert_eq!(paths.wanted.len(), MAX_WANTED);
    }
}
