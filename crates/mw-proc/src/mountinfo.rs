//! `/proc/PID/mountinfo` (2.6.26 and later): as `/proc/PID/mounts`, with the directory of the file
//! system that is mounted. For a cgroup hierarchy that is the cgroup at the mount point.

use crate::error::{ParseError, Problem};
use crate::mounts::MAX_MOUNTS;
use crate::scan;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountInfo {
    /// The directory of the file system that is mounted, `/` for all of it. For a cgroup hierarchy
    /// it is relative to the root of the reader's cgroup namespace, `/..` above that root.
    pub root: String,
    /// Where it is mounted.
    pub target: String,
    /// The file system's type.
    pub fstype: String,
    /// Options of the file system, such as `memory` of a cgroup hierarchy.
    pub super_options: Vec<String>,
}

/// Reads the mounts in the kernel's order; of two with one target, the later covers the earlier.
///
/// # Errors
/// When a line is not `id parent device root target options [fields] - type source options`.
pub fn parse(text: &[u8]) -> Result<Vec<MountInfo>, ParseError> {
    let mut mounts = Vec::new();
    for line in scan::lines(text) {
        if line.text.is_empty() {
            continue;
        }
        if mounts.len() >= MAX_MOUNTS {
            return Err(line.error(Problem::TooMany("mounts")));
        }
        mounts.push(line.at(mount(line.text))?);
    }
    Ok(mounts)
}

/// The kernel escapes white space within fields, so that every space separates.
fn mount(text: &[u8]) -> Result<MountInfo, Problem> {
    let mut fields = text.split(|&byte| byte == b' ');
    let mut next = |name| fields.next().ok_or(Problem::Expected(name));
    next("an id")?;
    next("a parent")?;
    next("a device")?;
    let root = scan::unescape(next("a root")?);
    let target = scan::unescape(next("a target")?);
    // Mount options, then any number of optional fields up to a hyphen.
    while next("a hyphen")? != b"-" {}
    let fstype = scan::unescape(next("a file system type")?);
    next("a source")?;
    let options = next("options")?;
    let super_options = options.split(|&byte| byte == b',').map(scan::unescape).collect();
    Ok(MountInfo { root, target, fstype, super_options })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
