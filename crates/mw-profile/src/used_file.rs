//! The name of a file, by device and inode, among what a process has open or mapped.
//!
//! The file itself is never read: a file system that does not respond would block the reader,
//! beyond all signals. The kernel's tables say as much: `fdinfo` has the mount and, from 5.14 on,
//! the inode of an open file, `mountinfo` the device of a mount, and a link below `fd` is only read.
//!
//! The page cache belongs to the file system that stores a file. A file on overlayfs therefore has
//! the device of its layer, whereas the process has it open on the overlay. Its inode is that of the
//! layer it was first found in; once a change has copied it up, its data are in the upper layer's file.

use crate::process::table;
use mw_proc::mountinfo::{self, MountInfo, MountTree};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::path::{Path, PathBuf};

/// Descriptors of one process that are read.
const MAX_DESCRIPTORS: usize = 512;
/// Suffix that the kernel appends to the path of a file that was deleted.
const DELETED: &str = " (deleted)";

/// A device as the kernel keeps it inside, and an inode.
pub(crate) type DeviceInode = (u32, u64);

pub(crate) fn major(device: u32) -> u32 {
    device >> 20
}

fn minor(device: u32) -> u32 {
    device & 0xf_ffff
}

/// `MAJOR:MINOR`.
pub(crate) fn numbers(device: u32) -> String {
    format!("{}:{}", major(device), minor(device))
}

/// The path as the process sees it, with what the kernel says of a deleted file, or what it is if it
/// has no path. `own` are the mounts that this process sees.
pub(crate) fn find(pid: u32, file: DeviceInode, own: &[MountInfo]) -> Option<String> {
    let theirs = of_process(&pid.to_string())?;
    let mounts = Mounts { own, theirs, device: numbers(file.0) };
    let link = opened(pid, file, &mounts).or_else(|| mapped(pid, file, &mounts))?;
    Some(readable(link))
}

/// Mounts that a process sees, and those that this process sees.
#[derive(Debug)]
struct Mounts<'a> {
    own: &'a [MountInfo],
    theirs: Vec<MountInfo>,
    /// `MAJOR:MINOR` of the wanted device.
    device: String,
}

impl Mounts<'_> {
    fn get(&self, id: u32) -> Option<&MountInfo> {
        self.own.iter().chain(&self.theirs).find(|mount| mount.id == id)
    }

    fn overlays(&self) -> impl Iterator<Item = &MountInfo> {
        self.theirs.iter().filter(|mount| mount.fstype == "overlay")
    }
}

pub(crate) fn of_process(pid: &str) -> Option<Vec<MountInfo>> {
    let table = table(&format!("/proc/{pid}/mountinfo"))?;
    // One that is too long is cut within a line.
    let (whole_lines, _) = table.rsplit_once('\n')?;
    mountinfo::parse(whole_lines.as_bytes()).ok()
}

/// The mount in which a lookup of `path` ends, where it passes through none that may not respond.
fn local_mount<'a>(mounts: &'a [MountInfo], path: &Path) -> Option<&'a MountInfo> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    let longest = above.max_by_key(|mount| mount.target.len())?;
    let tree = MountTree::new(mounts);
    let at = tree.at(&longest.target)?;
    at.is_local().then_some(at)
}

/// Quality of a descriptor's match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    /// Its inode, of a mount that nobody lists: one of the kernel's own, as of shared memory, or one
    /// outside of the process's root.
    Inode,
    Layer,
    Device,
}

/// The link of the descriptor that matches best.
fn opened(pid: u32, file: DeviceInode, mounts: &Mounts<'_>) -> Option<String> {
    let descriptors = mw_sys::kernel_file::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    let descriptors = descriptors
        .take(MAX_DESCRIPTORS)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut best: Option<(Match, String)> = None;
    for descriptor in descriptors {
        let found = matches(pid, &descriptor, file, mounts);
        if found > best.as_ref().map(|(known, _)| *known) {
            best = found.map(|found| (found, descriptor));
        }
        if found == Some(Match::Device) {
            break;
        }
    }
    link(pid, &best?.1)
}

fn link(pid: u32, descriptor: &str) -> Option<String> {
    text(mw_sys::kernel_file::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?)
}

fn matches(pid: u32, descriptor: &str, file: DeviceInode, mounts: &Mounts<'_>) -> Option<Match> {
    let fdinfo = table(&format!("/proc/{pid}/fdinfo/{descriptor}"))?;
    let mount = mounts.get(u32::try_from(field(&fdinfo, "mnt_id:")?).ok()?);
    let inode = || {
        let is_local = mount.is_some_and(MountInfo::is_local);
        let path = format!("/proc/{pid}/fd/{descriptor}");
        field(&fdinfo, "ino:").or_else(|| is_local.then(|| inode_from_statx(Path::new(&path)))?)
    };
    match mount {
        None => (inode()? == file.1).then_some(Match::Inode),
        Some(mount) if mount.device == mounts.device => {
            (inode()? == file.1).then_some(Match::Device)
        }
        Some(overlay) if overlay.fstype == "overlay" => {
            let is_it = inode()? == file.1 || is_upper(pid, descriptor, file, overlay, mounts);
            is_it.then_some(Match::Layer)
        }
        Some(_) => None,
    }
}

/// Contents of `/proc/PID/fdinfo/FD`.
fn field(fdinfo: &str, name: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The inode of a file on a disk, where the kernel's tables do not have it.
fn inode_from_statx(path: &Path) -> Option<u64> {
    let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some(stat.stx_ino)
}

/// True if the overlay's upper layer has the wanted file by the name of this descriptor.
fn is_upper(
    pid: u32,
    descriptor: &str,
    file: DeviceInode,
    overlay: &MountInfo,
    mounts: &Mounts<'_>,
) -> bool {
    let Some(link) = link(pid, descriptor) else { return false };
    let Some(path) = upper_path(overlay, &link) else { return false };
    let is_wanted = |mount: &MountInfo| mount.device == mounts.device;
    local_mount(mounts.own, &path).is_some_and(is_wanted) && inode_from_statx(&path) == Some(file.1)
}

/// Path in the upper layer of an overlay of the file that is `link` below its mount.
fn upper_path(overlay: &MountInfo, link: &str) -> Option<PathBuf> {
    let mut options = overlay.super_options.iter();
    let upper = Path::new(options.find_map(|option| option.strip_prefix("upperdir="))?);
    let below = Path::new(link).strip_prefix(&overlay.target).ok()?;
    let root = overlay.root.trim_start_matches('/');
    upper.is_absolute().then(|| upper.join(root).join(below))
}

fn mapped(pid: u32, (device, inode): DeviceInode, mounts: &Mounts<'_>) -> Option<String> {
    let maps = table(&format!("/proc/{pid}/maps"))?;
    // Kernels differ in whether a mapping of an overlay's file has the overlay's device or its layer's.
    let overlays = mounts.overlays().filter_map(|overlay| {
        let (major, minor) = overlay.device.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let mut devices = std::iter::once((major(device), minor(device))).chain(overlays);
    devices.find_map(|device| mapped_path(&maps, device, inode)).map(str::to_owned)
}

/// `7f0c4a000000-7f0c4a200000 rw-s 00000000 fe:01 131   /var/lib/data`. The path comes last, and may
/// itself look like the fields before it.
fn mapped_path(maps: &str, (major, minor): (u32, u32), inode: u64) -> Option<&str> {
    let device = format!("{major:02x}:{minor:02x}");
    let inode = inode.to_string();
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ').skip(3);
        let is_it = fields.next()? == device && fields.next()? == inode;
        is_it.then(|| fields.next().map(str::trim_start)).flatten()
    })
}

/// Names of the kernel that look like a path.
fn readable(link: String) -> String {
    let Some(name) = link.strip_suffix(DELETED) else { return link };
    if let Some(name) = name.strip_prefix("/memfd:") {
        return format!("memfd {name}");
    }
    if let Some(key) = name.strip_prefix("/SYSV") {
        return format!("System V segment with key 0x{key}");
    }
    match name {
        "/anon_hugepage" => "anonymous huge pages".to_owned(),
        _ => link,
    }
}

fn text(path: PathBuf) -> Option<String> {
    Some(path.into_os_string().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// The device of a file as the kernel keeps it inside.
    fn file(meta: &std::fs::Metadata) -> DeviceInode {
        let device = rustix::fs::major(meta.dev()) << 20 | rustix::fs::minor(meta.dev());
        (device, meta.ino())
    }

    fn found(meta: &std::fs::Metadata) -> String {
        find(std::process::id(), file(meta), &of_process("self").unwrap()).unwrap()
    }

    #[test]
    fn files_without_a_path_are_named_by_what_they_are() {
        let memory = rustix::fs::memfd_create("mw-paths", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let memory = std::fs::File::from(memory);
        assert_eq!(found(&memory.metadata().unwrap()), "memfd mw-paths");
        for (link, words) in [
            ("/SYSV0052e2c1 (deleted)", "System V segment with key 0x0052e2c1"),
            ("/anon_hugepage (deleted)", "anonymous huge pages"),
            ("/memfd:x", "/memfd:x"),
        ] {
            assert_eq!(readable(link.to_owned()), words);
        }
    }

    #[test]
    fn a_deleted_file_keeps_its_path() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        let (open, path) = temporary.into_parts();
        let name = path.to_str().unwrap().to_owned();
        drop(path);
        assert_eq!(found(&open.metadata().unwrap()), format!("{name} (deleted)"));
    }

    #[test]
    fn a_mapped_file_has_a_path() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(found(&program.metadata().unwrap()), program.to_str().unwrap());
    }

    #[test]
    fn inodes_come_from_statx_where_the_tables_lack_them() {
        let inode = inode_from_statx(Path::new("/proc/self/exe"));
        assert_eq!(inode, Some(std::fs::metadata("/proc/self/exe").unwrap().ino()));
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
        let device = (0xfe, 1);
        assert_eq!(mapped_path(maps, device, 131), Some("/var/lib/my data"));
        assert_eq!(mapped_path(maps, device, 31), None);
        assert_eq!(mapped_path(maps, (8, 1), 7), Some("/tmp/a fe:01 131 /etc/shadow"));
    }

    #[test]
    fn the_upper_layer_has_a_file_below_the_overlays_mount() {
        let check = |line: &str, link: &str, path: Option<&str>| {
            let mounts = mountinfo::parse(line.as_bytes()).unwrap();
            assert_eq!(upper_path(&mounts[0], link).as_deref(), path.map(Path::new), "{line}");
        };
        let layers = "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w";
        let whole = format!("36 1 0:42 / /m rw - {layers}");
        check(&whole, "/m/a/b", Some("/u/a/b"));
        check(&whole, "/elsewhere/b", None);
        check(&format!("36 1 0:42 /sub /m rw - {layers}"), "/m/b", Some("/u/sub/b"));
        check("36 1 0:42 / /m ro - overlay overlay ro,lowerdir=/l", "/m/b", None);
        check("36 1 0:42 / /m rw - overlay o rw,upperdir=u", "/m/b", None);
    }

    #[test]
    fn a_lookup_ends_in_a_mount_that_answers() {
        let mounts = "\
21 1 254:1 / / rw - ext4 /dev/vda1 rw
22 21 0:50 / /mnt/a rw - fuse.sshfs host:/ rw
23 22 8:3 / /mnt/a/disk rw - ext4 /dev/sda3 rw
";
        let mounts = mountinfo::parse(mounts.as_bytes()).unwrap();
        let device = |path| local_mount(&mounts, Path::new(path)).map(|at| at.device.as_str());
        assert_eq!(device("/var/x"), Some("254:1"));
        assert_eq!(device("/mnt/ab"), Some("254:1"));
        assert_eq!(device("/mnt/a/x"), None, "served by a program");
        assert_eq!(device("/mnt/a/disk/x"), None, "behind one");
    }
}
