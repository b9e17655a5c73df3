//! Paths of files that are known by device and inode, found among what a process has open or
//! mapped.
//!
//! The file itself is never read: a file system that does not respond would block the reader,
//! beyond all signals. The kernel's tables say as much: `fdinfo` has the mount and, from 5.14 on,
//! the inode of an open file, `mountinfo` the device of a mount, and a link below `fd` is only read.

use crate::process::unanswered;
use mw_model::Missing;
use mw_sys::HelperThread;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Files whose path is remembered, found or not.
const MAX_FILES: usize = 2048;
/// Files that wait for their path; more are found when they are seen again.
const MAX_WANTED: usize = 64;
/// Looks for one file, in processes that use it, before its numbers have to do.
const MAX_TRIES: u32 = 4;
/// Descriptors of one process that are read.
const MAX_DESCRIPTORS: usize = 512;
/// Processes that are searched at a time.
const PROCESSES_PER_ROUND: usize = 8;
/// How long one process may take: its maps may wait for one of its locks.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes of a process's maps, or of its mounts, that are read.
const MAX_TABLE_BYTES: u64 = 1 << 20;

type File = (u32, u64);

#[derive(Debug, Default)]
struct Known {
    path: Option<String>,
    tries: u32,
}

/// Paths, by device as the kernel keeps it inside, and inode.
#[derive(Debug)]
pub(crate) struct Paths {
    known: HashMap<File, Known>,
    wanted: VecDeque<(u32, File)>,
    finder: io::Result<HelperThread<File, Option<String>>>,
}

impl Default for Paths {
    fn default() -> Self {
        let find = |pid, file: &File| opened(pid, *file).or_else(|| mapped(pid, *file));
        let finder = HelperThread::new(PATIENCE, find);
        Self { known: HashMap::new(), wanted: VecDeque::new(), finder }
    }
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

    /// Searches the processes that use the wanted files.
    pub(crate) fn find(&mut self) {
        let count = self.wanted.len().min(PROCESSES_PER_ROUND);
        let Ok(finder) = self.finder.as_mut() else { return };
        if count == 0 {
            return;
        }
        let questions: Vec<_> = self.wanted.drain(..count).collect();
        for ((_, file), path) in questions.iter().zip(finder.run(&questions)) {
            if self.known.len() >= MAX_FILES {
                self.known.clear();
            }
            let known = self.known.entry(*file).or_default();
            known.tries += 1;
            if known.path.is_none() {
                known.path = path.flatten();
            }
        }
    }

    /// The path, or `device:inode`.
    pub(crate) fn path(&self, device: u32, inode: u64) -> String {
        let path = self.known.get(&(device, inode)).and_then(|known| known.path.clone());
        path.unwrap_or_else(|| format!("{}:{}:{inode}", major(device), minor(device)))
    }

    /// What could not be read.
    pub(crate) fn missing(&self) -> Option<Missing> {
        const WHAT: &str = "/proc/PID/fdinfo and maps";
        match &self.finder {
            Ok(finder) => unanswered(WHAT, finder.blocked()),
            Err(error) => Some(Missing::failed(WHAT, error.to_string())),
        }
    }
}

pub(crate) fn major(device: u32) -> u32 {
    device >> 20
}

pub(crate) fn minor(device: u32) -> u32 {
    device & 0xf_ffff
}

/// Mounts that a process sees.
#[derive(Debug, Default)]
struct Mounts {
    /// Those of the wanted device.
    of_device: HashSet<u32>,
    others: HashSet<u32>,
    /// Whether statx(2) on the device's files cannot block: on a disk, and not served by a program.
    local: bool,
}

impl Mounts {
    /// `29 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw`.
    fn parse(mountinfo: &str, device: u32) -> Self {
        let number = format!("{}:{}", major(device), minor(device));
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let mut words = line.split(' ');
            let Some(id) = words.next().and_then(|id| id.parse().ok()) else { continue };
            if words.nth(1) != Some(number.as_str()) {
                mounts.others.insert(id);
                continue;
            }
            let kind = words.skip_while(|word| *word != "-").nth(1);
            mounts.local |= major(device) != 0 && kind.is_some_and(|kind| !kind.contains("fuse"));
            mounts.of_device.insert(id);
        }
        mounts
    }
}

/// What `/proc/PID/fdinfo/FD` says.
fn field(fdinfo: &str, name: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn opened(pid: u32, (device, inode): File) -> Option<String> {
    let mounts = Mounts::parse(&table(&format!("/proc/{pid}/mountinfo"))?, device);
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    let descriptors = descriptors
        .take(MAX_DESCRIPTORS)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut likely = None;
    for descriptor in descriptors {
        let Some((mount, found)) = mount_and_inode(pid, &descriptor, &mounts) else { continue };
        if found != inode || mounts.others.contains(&mount) {
            continue;
        }
        // Mounts of the kernel's own, as of shared memory, and those of other namespaces are not in
        // the process's list.
        let is_sure = mounts.of_device.contains(&mount);
        likely = Some(descriptor);
        if is_sure {
            break;
        }
    }
    text(std::fs::read_link(format!("/proc/{pid}/fd/{}", likely?)).ok()?)
}

fn mount_and_inode(pid: u32, descriptor: &str, mounts: &Mounts) -> Option<(u32, u64)> {
    let fdinfo = table(&format!("/proc/{pid}/fdinfo/{descriptor}"))?;
    let mount = u32::try_from(field(&fdinfo, "mnt_id:")?).ok()?;
    let is_local = mounts.local && mounts.of_device.contains(&mount);
    let inode = field(&fdinfo, "ino:")
        .or_else(|| is_local.then(|| inode_from_statx(&format!("/proc/{pid}/fd/{descriptor}")))?);
    Some((mount, inode?))
}

/// The inode of a file on a disk, where the kernel's tables do not have it.
fn inode_from_statx(link: &str) -> Option<u64> {
    let stat = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some(stat.stx_ino)
}

fn mapped(pid: u32, file: File) -> Option<String> {
    mapped_path(&table(&format!("/proc/{pid}/maps"))?, file).map(str::to_owned)
}

/// `7f0c4a000000-7f0c4a200000 rw-s 00000000 fe:01 131   /var/lib/data`. The path comes last, and may
/// itself look like the fields before it.
fn mapped_path(maps: &str, (device, inode): File) -> Option<&str> {
    let device = format!("{:02x}:{:02x}", major(device), minor(device));
    let inode = inode.to_string();
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ').skip(3);
        let is_it = fields.next()? == device && fields.next()? == inode;
        is_it.then(|| fields.next().map(str::trim_start)).flatten()
    })
}

fn table(path: &str) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_TABLE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn text(path: PathBuf) -> Option<String> {
    Some(path.into_os_string().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_test::{HUNG_FILE, HungMount, own_mounts};
    use std::os::unix::fs::MetadataExt;
    use std::time::Instant;

    const MOUNTINFO: &str = "\
21 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw
22 21 0:50 / /mnt/a b rw - fuse.sshfs host:/ rw
23 21 8:3 / /win rw master:2 shared:9 - fuseblk /dev/sda3 rw
junk
24 21 254:1 /srv /srv rw - ext4 /dev/vda1 rw
";

    #[test]
    fn mounts_of_a_device_are_found() {
        let check = |device: u32, ids: &[u32], local: bool| {
            let mounts = Mounts::parse(MOUNTINFO, device);
            assert_eq!(mounts.of_device, ids.iter().copied().collect());
            assert_eq!((mounts.others.len(), mounts.local), (4 - ids.len(), local));
        };
        check(254 << 20 | 1, &[21, 24], true);
        check(50, &[22], false);
        check(8 << 20 | 3, &[23], false);
        check(9, &[], false);
    }

    #[test]
    fn a_file_of_shared_memory_has_a_name() {
        let memory = rustix::fs::memfd_create("mw-paths", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let memory = std::fs::File::from(memory);
        let file = file(&memory.metadata().unwrap());
        assert_eq!(opened(std::process::id(), file).unwrap(), "/memfd:mw-paths (deleted)");
        assert_eq!(
            inode_from_statx("/proc/self/exe"),
            std::fs::metadata("/proc/self/exe").unwrap().ino().into()
        );
    }

    /// A reader of such a file waits until its file system responds, whatever signal comes.
    #[test]
    fn a_file_system_that_hangs_is_not_read() {
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
    fn a_mapping_is_found_by_its_fields_and_not_by_its_name() {
        let maps = "\
7f00-7f01 r--p 00000000 08:01 7                          /tmp/a fe:01 131 /etc/shadow
7f01-7f02 r--p fe:01 1fe:01 131                          /tmp/b
7f02-7f03 r--p 00000000 fe:01 1310                       /tmp/c
7f03-7f04 rw-p 00000000 00:00 0 
7f04-7f05 rw-s 00000000 fe:01 131                        /var/lib/my data
";
        let device = 0xfe << 20 | 1;
        assert_eq!(mapped_path(maps, (device, 131)), Some("/var/lib/my data"));
        assert_eq!(mapped_path(maps, (device, 31)), None);
        assert_eq!(mapped_path(maps, (8 << 20 | 1, 7)), Some("/tmp/a fe:01 131 /etc/shadow"));
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
