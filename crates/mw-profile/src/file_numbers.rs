//! Device and inode numbers that identify a file without its path: a block device, or the mount that it is on.

use crate::used_file::{DeviceInode, major, numbers};
use mw_proc::mountinfo::MountInfo;
use mw_sys::kernel_file;
use std::fs;
use std::path::Path;

/// Block devices by number.
pub(crate) const BLOCK_DEVICES: &str = "/sys/dev/block";
/// Number that tells a mapped or loop device from its siblings.
const ABOUT_DEVICE: [&str; 2] = ["dm/name", "loop/backing_file"];

/// A block device whose page cache has the file's numbers.
///
/// The page cache of a device, with the metadata of the file system on it, is a file of the kernel's own
/// file system for block devices: it is mounted nowhere, and its inode is the device's number (5.11 and later).
pub(crate) fn block_device((device, inode): DeviceInode, mounts: &[MountInfo]) -> Option<String> {
    let number = u32::try_from(inode).ok().filter(|number| major(*number) > 0)?;
    let is_mounted = mounts.iter().any(|mount| mount.device == numbers(device));
    if major(device) > 0 || is_mounted {
        return None;
    }
    let number = numbers(number);
    let dir = Path::new(BLOCK_DEVICES).join(&number);
    let path = fs::canonicalize(&dir).ok()?;
    let name = path.file_name()?.to_string_lossy();
    let mounted = on_device(mounts, &number).map(|target| format!("mounted on {target}"));
    let about: Vec<String> = about_device(&dir).into_iter().chain(mounted).collect();
    match about.is_empty() {
        true => Some(format!("block device {name}")),
        false => Some(format!("block device {name} ({})", about.join(", "))),
    }
}

fn about_device(dir: &Path) -> Option<String> {
    let mut files = ABOUT_DEVICE.iter().map(|file| kernel_file::read_to_string(dir.join(file)));
    files.find_map(|text| Some(text.ok()?.trim().to_owned()))
}

/// `inode 42 on /var`: a file that no process was found with, on a file system that is mounted.
pub(crate) fn place((device, inode): DeviceInode, mounts: &[MountInfo]) -> Option<String> {
    on_device(mounts, &numbers(device)).map(|target| format!("inode {inode} on {target}"))
}

/// The shortest path at which all of the file system is mounted.
fn on_device<'a>(mounts: &'a [MountInfo], device: &str) -> Option<&'a str> {
    let whole = mounts.iter().filter(|mount| mount.device == device && mount.root == "/");
    whole.map(|mount| mount.target.as_str()).min_by_key(|target| target.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::used_file::of_process;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_that_nobody_has_open_is_told_by_its_mount() {
        let meta = fs::metadata("/proc/uptime").unwrap();
        let device = rustix::fs::major(meta.dev()) << 20 | rustix::fs::minor(meta.dev());
        let mounts = of_process("self").unwrap();
        assert_eq!(place((device, 7), &mounts), Some("inode 7 on /proc".to_owned()));
        assert_eq!(block_device((device, 7 << 20), &mounts), None, "a file system that is mounted");
        assert_eq!(place((0xfff << 20, 7), &mounts), None);
    }

    #[test]
    fn a_block_device_is_told_by_its_inode() {
        let mounts = of_process("self").unwrap();
        let devices = fs::read_dir(BLOCK_DEVICES).into_iter().flatten().flatten();
        let numbers: Vec<String> =
            devices.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        for number in numbers {
            let (major, minor): (u64, u64) = number
                .split_once(':')
                .map(|(major, minor)| (major.parse().unwrap(), minor.parse().unwrap()))
                .unwrap();
            let path = fs::canonicalize(Path::new(BLOCK_DEVICES).join(&number)).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let found = block_device((0xf_ffff, major << 20 | minor), &mounts).unwrap();
            assert!(found.starts_with(&format!("block device {name}")), "{found}");
        }
        assert_eq!(block_device((0xf_ffff, 0xfff << 20), &mounts), None, "no such device");
        assert_eq!(block_device((0xf_ffff, 1), &mounts), None);
    }
}
