//! Files of the kernel's own file systems, below /proc and /sys and in /dev. No other user can exchange them, and none
//! of them is a name for a file of a process: those are read by [`crate::guarded`].

#![allow(clippy::disallowed_methods, reason = "each path is checked here")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Mount points of the kernel's file systems.
const MOUNTS: [&str; 2] = ["/proc", "/sys"];

/// Devices; its directories are other file systems, as /dev/shm, where everybody may write.
const DEVICES: &str = "/dev";

/// Names in /proc/PID that stand for other files.
const FOREIGN: [&str; 5] = ["cwd", "exe", "fd", "map_files", "root"];

/// The most that is read of a file: /proc/PID/smaps of the most mappings that a process has by default.
const MAX_BYTES: u64 = 64 << 20;

/// Most files are shorter, and read by two calls.
const USUAL_BYTES: usize = 4096;

fn check(path: &Path) -> io::Result<()> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    let is_device = path.parent() == Some(Path::new(DEVICES));
    if !is_device && !MOUNTS.iter().any(|mount| path.starts_with(mount)) {
        return refused("not a file of the kernel");
    }
    let mut parts = path.components();
    if parts.clone().any(|part| part == Component::ParentDir) {
        return refused("a path of the kernel's with '..'");
    }
    let is_foreign = |part: Component<'_>| FOREIGN.iter().any(|name| part.as_os_str() == *name);
    if path.starts_with("/proc") && parts.any(is_foreign) {
        return refused("not a file of the kernel, but one of a process");
    }
    Ok(())
}

/// Opens a file for reading.
///
/// # Errors
/// Those of open(2); it is not the kernel's.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    check(path.as_ref())?;
    File::open(path)
}

/// Opens a file as `options` say.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: impl AsRef<Path>, options: &fs::OpenOptions) -> io::Result<File> {
    check(path.as_ref())?;
    options.open(path)
}

/// Reads a file of at most 64 MiB.
///
/// # Errors
/// As [`open`], and those of read(2).
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text of at most 64 MiB.
///
/// # Errors
/// As [`read`]; it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL_BYTES);
    open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to a file.
///
/// # Errors
/// As [`open`], and those of write(2).
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    check(path.as_ref())?;
    fs::write(path, bytes)
}

/// The text of a link, which is not followed.
///
/// # Errors
/// Those of readlink(2).
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    fs::read_link(path)
}

/// The entries of a directory.
///
/// # Errors
/// As [`open`].
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<fs::ReadDir> {
    fs::read_dir(path)
}

/// The entries of a directory whose names are numbers, as those of /proc and /proc/PID/task are; one that cannot be
/// read is left out.
#[derive(Debug)]
pub struct NumberedEntries(fs::ReadDir);

impl Iterator for NumberedEntries {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.find_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
    }
}

/// The numbers that are entries of a directory.
///
/// # Errors
/// As [`open`].
pub fn read_numbers(path: impl AsRef<Path>) -> io::Result<NumberedEntries> {
    read_dir(path).map(NumberedEntries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_files_are_opened() {
        let own = std::process::id();
        assert!(read("/proc/meminfo").is_ok());
        assert!(read(format!("/proc/{own}/stat")).is_ok());
        for path in [
            "/etc/hostname".to_owned(),
            "meminfo".to_owned(),
            "/proc/../etc/hostname".to_owned(),
            "/process".to_owned(),
            "/dev/shm/x".to_owned(),
            format!("/proc/{own}/exe"),
            format!("/proc/{own}/root/etc/hostname"),
            format!("/proc/{own}/task/{own}/cwd/x"),
            format!("/proc/{own}/fd/0"),
        ] {
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }
}
