//! Paths of files that are known by device and inode, found among what a process has open or
//! mapped.

use rustix::fs::{AtFlags, CWD};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// Files whose path is remembered, found or not.
const MAX_FILES: usize = 2048;
/// Files that wait to be looked for; more are found when they are seen again.
const MAX_WANTED: usize = 64;
/// Looks for one file, in processes that use it, before its numbers have to do.
const MAX_TRIES: u32 = 4;
/// Descriptors of one process that are looked at.
const MAX_DESCRIPTORS: usize = 512;
/// Processes that are looked into at a time.
const LOOKS: usize = 8;
/// Bytes of a process's maps that are read.
const MAX_MAPS_BYTES: u64 = 1 << 20;

type File = (u32, u64);

#[derive(Debug, Default)]
struct Known {
    path: Option<String>,
    tries: u32,
}

/// Paths, by device as the kernel keeps it inside, and inode.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    known: HashMap<File, Known>,
    wanted: VecDeque<(u32, File)>,
}

impl Paths {
    /// Asks for the path of a file that process `pid` uses.
    pub(crate) fn want(&mut self, pid: u32, device: u32, inode: u64) {
        let file = (device, inode);
        let settled = |known: &Known| known.path.is_some() || known.tries >= MAX_TRIES;
        let waiting = self.wanted.contains(&(pid, file));
        if !waiting && self.wanted.len() < MAX_WANTED && !self.known.get(&file).is_some_and(settled)
        {
            self.wanted.push_back((pid, file));
        }
    }

    /// Looks into the processes that use the files asked for.
    pub(crate) fn find(&mut self) {
        for _ in 0..LOOKS {
            let Some((pid, file)) = self.wanted.pop_front() else { return };
            if self.known.len() >= MAX_FILES {
                self.known.clear();
            }
            let path = opened(pid, file).or_else(|| mapped(pid, file));
            let known = self.known.entry(file).or_default();
            known.tries += 1;
            if known.path.is_none() {
                known.path = path;
            }
        }
    }

    /// The path, or `device:inode`.
    pub(crate) fn path(&self, device: u32, inode: u64) -> String {
        let path = self.known.get(&(device, inode)).and_then(|known| known.path.clone());
        path.unwrap_or_else(|| format!("{}:{}:{inode}", major(device), minor(device)))
    }
}

fn major(device: u32) -> u32 {
    device >> 20
}

fn minor(device: u32) -> u32 {
    device & 0xf_ffff
}

fn opened(pid: u32, (device, inode): File) -> Option<String> {
    let device = rustix::fs::makedev(major(device), minor(device));
    let is_it = |link: &Path| {
        rustix::fs::statat(CWD, link, AtFlags::empty())
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (device, inode))
    };
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut links = links.take(MAX_DESCRIPTORS).filter_map(|link| Some(link.ok()?.path()));
    text(std::fs::read_link(links.find(|link| is_it(link))?).ok()?)
}

/// `7f0c4a000000-7f0c4a200000 rw-s 00000000 fe:01 131   /var/lib/data`.
fn mapped(pid: u32, (device, inode): File) -> Option<String> {
    use std::io::Read;
    let mut maps = String::new();
    let file = std::fs::File::open(format!("/proc/{pid}/maps")).ok()?;
    file.take(MAX_MAPS_BYTES).read_to_string(&mut maps).ok()?;
    let numbers = format!("{:02x}:{:02x} {inode} ", major(device), minor(device));
    let line = maps.lines().find(|line| line.contains(&numbers))?;
    Some(line.split_once(&numbers)?.1.trim_start().to_owned())
}

fn text(path: PathBuf) -> Option<String> {
    Some(path.into_os_string().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// The device of a file as the kernel keeps it inside.
    fn file(meta: &std::fs::Metadata) -> File {
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
    fn a_mapped_file_has_a_path() {
        let program = std::env::current_exe().unwrap();
        let file = file(&program.metadata().unwrap());
        assert_eq!(mapped(std::process::id(), file).as_deref(), program.to_str());
    }

    #[test]
    fn a_file_is_looked_for_a_bounded_number_of_times() {
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
