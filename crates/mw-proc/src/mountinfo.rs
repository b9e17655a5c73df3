//! `/proc/PID/mountinfo` (2.6.26 and later): the mounts that a process sees, which lies on which, and
//! the directory of the file system that is mounted. For a cgroup hierarchy that is the cgroup at the
//! mount point.

use crate::error::{ParseError, Problem};
use crate::mounts;
use crate::scan;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountInfo {
    pub id: u32,
    /// The mount that it lies on.
    pub parent: u32,
    /// `MAJOR:MINOR` of the file system.
    pub device: String,
    /// The directory of the file system that is mounted, `/` for all of it. For a cgroup hierarchy
    /// it is relative to the root of the reader's cgroup namespace, `/..` above that root.
    pub root: String,
    pub target: String,
    pub fstype: String,
    /// Options of the file system, such as `memory` of a cgroup hierarchy.
    pub super_options: Vec<String>,
}

/// Reads the mounts in the kernel's order; of two with one target, the later covers the earlier.
///
/// # Errors
/// When a line is not `id parent device root target options [fields] - type source options`.
pub fn parse(text: &[u8]) -> Result<Vec<MountInfo>, ParseError> {
    mounts::parse_lines(text, mount)
}

/// `29 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw`. The kernel escapes white space within
/// fields, so that every space separates.
fn mount(text: &[u8]) -> Result<MountInfo, Problem> {
    let mut fields = text.split(|&byte| byte == b' ');
    let mut next = |name| fields.next().ok_or(Problem::Expected(name));
    let id = scan::parse_u32(next("an id")?)?;
    let parent = scan::parse_u32(next("a parent")?)?;
    let device = scan::lossy(next("a device")?);
    let root = scan::unescape(next("a root")?);
    let target = scan::unescape(next("a target")?);
    // Mount options, then any number of optional fields up to a hyphen.
    while next("a hyphen")? != b"-" {}
    let fstype = scan::unescape(next("a file system type")?);
    next("a source")?;
    let options = next("options")?;
    let super_options = options.split(|&byte| byte == b',').map(scan::unescape).collect();
    Ok(MountInfo { id, parent, device, root, target, fstype, super_options })
}

/// File systems without a disk that answer by themselves.
const LOCAL: [&str; 14] = [
    "btrfs",
    "cgroup",
    "cgroup2",
    "devtmpfs",
    "hugetlbfs",
    "overlay",
    "proc",
    "ramfs",
    "rootfs",
    "securityfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "zfs",
];

/// On a disk, but with a cluster to ask.
const CLUSTERED: [&str; 2] = ["gfs2", "ocfs2"];

impl MountInfo {
    /// True if looking something up in it waits for no program and no other machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let kind = self.fstype.as_str();
        let on_disk = !self.device.starts_with("0:");
        let asks = kind.starts_with("fuse") || CLUSTERED.contains(&kind);
        LOCAL.contains(&kind) || (on_disk && !asks)
    }
}

/// The mount that a path leads to.
#[derive(Debug)]
pub struct MountTree<'a> {
    on: BTreeMap<(Option<u32>, &'a str), &'a MountInfo>,
}

impl<'a> MountTree<'a> {
    /// Of all mounts that a process sees.
    #[must_use]
    pub fn new(mounts: &'a [MountInfo]) -> Self {
        let ids: BTreeSet<u32> = mounts.iter().map(|mount| mount.id).collect();
        let key = |mount: &'a MountInfo| {
            // The first lies on one that the process does not see.
            let parent = Some(mount.parent).filter(|parent| ids.contains(parent));
            (parent.filter(|parent| *parent != mount.id), mount.target.as_str())
        };
        Self { on: mounts.iter().map(|mount| (key(mount), mount)).collect() }
    }

    /// True if no other mount covers this one, so that its path leads into it.
    #[must_use]
    pub fn is_visible(&self, mount: &MountInfo) -> bool {
        self.at(&mount.target).is_some_and(|at| at.id == mount.id)
    }

    /// The mount at a path without links, unless the lookup passes through a file system that may not
    /// respond. The root does not count: everything depends on it.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&'a MountInfo> {
        let mut at: Option<&MountInfo> = None;
        for end in path.match_indices('/').map(|(end, _)| end.max(1)).chain([path.len()]) {
            let prefix = path.get(..end)?;
            if at.is_some_and(|mount| mount.target != prefix && !self.may_walk(mount)) {
                return None;
            }
            // Each may be covered by another, but not by itself.
            for _ in 0..self.on.len() {
                let Some(mount) = self.on.get(&(at.map(|mount| mount.id), prefix)) else { break };
                at = Some(mount);
            }
        }
        at.filter(|mount| mount.target == path)
    }

    fn may_walk(&self, mount: &MountInfo) -> bool {
        mount.target == "/" || mount.is_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = br"24 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
33 28 0:29 /../.. /sys/fs/cgroup/memory rw shared:9 master:1 - cgroup cgroup rw,memory
41 28 0:30 /a\040b /mnt/with\011tab ro -  tmpfs  rw
";

    #[test]
    fn reads() {
        let mounts = parse(TEXT).unwrap();
        assert_eq!(mounts.len(), 3);
        assert_eq!((mounts[0].root.as_str(), mounts[0].target.as_str()), ("/", "/"));
        assert_eq!((mounts[1].root.as_str(), mounts[1].fstype.as_str()), ("/../..", "cgroup"));
        assert_eq!(mounts[1].super_options, ["rw", "memory"]);
        assert_eq!(
            (mounts[2].root.as_str(), mounts[2].target.as_str()),
            ("/a b", "/mnt/with\ttab")
        );
    }

    #[test]
    fn wrong() {
        assert_eq!(parse(b""), Ok(vec![]));
        let refused = |text: &[u8]| parse(text).unwrap_err().problem;
        assert_eq!(refused(b"24 1 254:0 /\n"), Problem::Expected("a target"));
        assert_eq!(refused(b"24 1 254:0 / / rw shared:1\n"), Problem::Expected("a hyphen"));
        assert_eq!(refused(b"24 1 254:0 / / rw - ext4 x\n"), Problem::Expected("options"));
        assert_eq!(refused(b"24 1 254:0 / / rw - ext4"), Problem::Truncated);
    }

    const TABLE: &str = "\
29 1 0:40 / / rw,relatime shared:1 - virtiofs root rw
30 29 0:20 / /dev rw - devtmpfs udev rw
31 30 0:21 / /dev/shm rw shared:3 master:4 - tmpfs tmpfs rw
32 29 0:22 / /run rw - tmpfs tmpfs rw
33 32 0:23 / /run/user/1000 rw - tmpfs tmpfs rw
34 33 0:24 / /run/user/1000 rw - fuse.sshfs host: rw
35 29 0:25 / /net rw - nfs4 host:/ rw
36 35 0:26 / /net/a\\040b rw - tmpfs tmpfs rw
37 29 8:1 / /win rw - fuseblk /dev/sda1 rw
38 37 0:27 / /win/t rw - tmpfs tmpfs rw
39 29 8:2 / /disk rw - ext4 /dev/sda2 rw
40 39 0:28 / /disk/t rw - tmpfs tmpfs rw
41 40 0:29 / /disk/t rw - tmpfs tmpfs rw
";

    fn check(path: &str, id: Option<u32>) {
        let mounts = parse(TABLE.as_bytes()).unwrap();
        assert_eq!(MountTree::new(&mounts).at(path).map(|mount| mount.id), id, "{path}");
    }

    #[test]
    fn a_path_leads_to_the_mount_that_covers_the_others() {
        check("/", Some(29));
        check("/dev/shm", Some(31));
        check("/disk/t", Some(41));
        check("/run/user/1000", Some(34));
        check("/run/user", None);
    }

    #[test]
    fn no_way_leads_through_one_that_may_not_answer() {
        check("/net", Some(35));
        check("/net/a b", None);
        check("/win/t", None);
    }

    #[test]
    fn a_process_may_not_see_the_root() {
        let mounts = parse(b"31 30 0:21 / /dev/shm rw - tmpfs tmpfs rw\n").unwrap();
        assert_eq!(MountTree::new(&mounts).at("/dev/shm").map(|mount| mount.id), Some(31));
    }

    #[test]
    fn a_line_that_is_cut_is_an_error() {
        assert!(parse(b"31 30 0:21 / /dev/shm rw\n").is_err());
        assert!(parse(b"31\n").is_err());
    }

    proptest! {
        #[test]
        fn any_table_is_read(text in "([0-9]{1,2} [0-9]{1,2} 0:1 / (/|/a|/a/b|/b) rw - (tmpfs|nfs) x rw\n){0,30}", path in "(/[ab]?){0,3}") {
            let mounts = parse(text.as_bytes()).unwrap();
            let _ = MountTree::new(&mounts).at(&path);
        }
    }
}
