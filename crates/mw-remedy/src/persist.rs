//! Settings that outlast a reboot: lines in files of our own, never in anybody else's.
//!
//! **Which files.** A setting under `/proc/sys` goes to [`SYSCTL_FILE`], one under `/sys` to
//! [`TMPFILES_FILE`], one of a block device to [`UDEV_FILE`], which names the device by what
//! identifies it: the number or name in the path may be another device's after a reboot. Both readers of sysctl.d (systemd-sysctl and `sysctl --system` of procps) sort
//! the files of all directories by name and let the last one win, hence `zz-`: it comes after
//! `99-sysctl.conf`, by which Debian makes systemd-sysctl read `/etc/sysctl.conf`. Procps reads
//! `/etc/sysctl.conf` once more at the very end, so a key set there cannot be overridden by any
//! name. In tmpfiles.d the *first* file that names a path wins and later ones are ignored, hence
//! `00-`. Other files that set the same are reported, see [`crate::ShadowedLine`].
//!
//! **Format.** A header that says who wrote the file, then for each change a comment with its number
//! and rule, and its line. In the file for tmpfiles.d the newest change comes first, in the one for
//! sysctl.d and in the udev rules last: that is where each reader takes the value from.
//!
//! **Atomicity.** The file's former bytes are in the journal before it is touched; the new content
//! is written beside it, synced and renamed over it. Taking a change back takes out its two lines,
//! and the file with the last of them, and the directory if it was made for it.

use crate::device::{DeviceId, is_device_setting, udev_rule};
use crate::journal::sync_dir;
use crate::kernel::{Kernel, is_one_line};
use mw_sys::guarded;
use rustix::io::Errno;
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Our file for settings under `/proc/sys`.
pub const SYSCTL_FILE: &str = "/etc/sysctl.d/zz-memwright.conf";
/// Our file for settings under `/sys`.
pub const TMPFILES_FILE: &str = "/etc/tmpfiles.d/00-memwright.conf";
/// Our file for settings of block devices, whose names below `/sys` hold for one boot only.
pub const UDEV_FILE: &str = "/etc/udev/rules.d/99-memwright.rules";

const UDEV_DIR: &str = "/etc/udev";

const HEADER: &str = "# Written by memwright; 'memwright undo' takes lines out again.\n\
                      # To take one back by hand, delete it together with the comment above it.\n";
const HEADER_MARK: &[u8] = b"# Written by memwright";
const BLOCK_MARK: &str = "# memwright change ";
/// Beside the file; neither reader reads a name without `.conf`.
const NEW_SUFFIX: &str = "new";
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// File in which a setting is persisted, and its form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PersistTarget {
    pub file: String,
    pub line: String,
}

/// The reason why a setting could not be persisted, or not be taken out again.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// The file is not ours.
    #[error("{path} exists and was not written by memwright, so it was not changed: move it away, or add '{line}' to it by hand", path = path.display())]
    Foreign {
        path: PathBuf,
        /// The line that memwright would have added.
        line: String,
    },
    /// The file has grown beyond what memwright writes.
    #[error("{} has more than {FILE_BYTES_MAX} bytes; memwright never writes that much: check its contents", path.display())]
    TooLong { path: PathBuf },
    /// The privilege is missing, or the file lies on a read-only mount.
    #[error("cannot write {}: {source} (needs root and a writable /etc)", path.display())]
    Denied { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl PersistError {
    /// True if more privilege would help: exit code 4.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    fn new(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Self::Denied { path, source },
            _ => Self::Io { path, source },
        }
    }
}

/// File and form in which a setting is persisted; `device` is the one that it belongs to.
///
/// # Errors
/// Why it cannot be.
pub fn target_of(
    kernel: &Kernel,
    path: &str,
    value: &str,
    device: Option<&DeviceId>,
) -> Result<PersistTarget, String> {
    if !is_one_line(path) || !is_one_line(value) || path.contains(char::is_whitespace) {
        return Err(format!("{path}: neither sysctl.d nor tmpfiles.d can express this setting"));
    }
    if let Some(below) = path.strip_prefix("/proc/sys/") {
        let line = format!("{} = {value}", sysctl_key(below));
        return Ok(PersistTarget { file: SYSCTL_FILE.to_owned(), line });
    }
    if path.starts_with("/sys/fs/cgroup/") {
        return Err(format!(
            "{path}: the service manager creates cgroups at boot; set the limit in the unit"
        ));
    }
    if is_device_setting(path) {
        let rule = udev_rule(path, value, device).ok_or_else(|| {
            format!(
                "{path}: the path may name another device after a reboot, and this device has no \
                 unique identifier for a udev rule"
            )
        })?;
        if !kernel.resolve(UDEV_DIR).is_dir() {
            return Err(format!(
                "{path}: {UDEV_DIR} does not exist, so nothing would set it at boot"
            ));
        }
        return Ok(PersistTarget { file: UDEV_FILE.to_owned(), line: rule });
    }
    if path.starts_with("/sys/") && !path.contains(['"', '\'', '\\', '*', '?', '[']) {
        let value = value.replace('\\', "\\\\").replace('%', "%%");
        let line = format!("w {} - - - - {value}", path.replace('%', "%%"));
        return Ok(PersistTarget { file: TMPFILES_FILE.to_owned(), line });
    }
    Err(format!("{path}: neither sysctl.d nor tmpfiles.d can express this setting"))
}

/// The key of a file under `/proc/sys`. Where a component holds a dot, the form with slashes: in it
/// dots are left as they are.
pub(crate) fn sysctl_key(below: &str) -> String {
    if below.contains('.') { below.to_owned() } else { below.replace('/', ".") }
}

/// A change's two lines in a file of ours.
#[derive(Debug, Clone)]
pub(crate) struct PersistedBlock {
    comment: String,
    line: String,
}

/// The state of a file of ours with respect to one change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileStanding {
    /// Our line is not there.
    Without,
    /// Our line is there; this would be left without it, `None` for no file at all.
    With(Option<Vec<u8>>),
    /// Our comment is there, but somebody changed the line below it.
    Altered {
        now: String,
        /// Rest without the two lines.
        rest: Option<Vec<u8>>,
    },
}

impl PersistedBlock {
    pub(crate) fn new(change: u64, rule: &str, line: &str) -> Self {
        Self { comment: format!("{BLOCK_MARK}{change} ({rule})"), line: line.to_owned() }
    }

    fn text(&self) -> String {
        format!("{}\n{}\n", self.comment, self.line)
    }

    /// The content of a file of ours with this block added.
    pub(crate) fn added_to(&self, former: Option<&[u8]>, file: &str) -> Vec<u8> {
        let former = former.unwrap_or(HEADER.as_bytes());
        let mut content = former.to_vec();
        if !content.ends_with(b"\n") {
            content.push(b'\n');
        }
        let at = if file == TMPFILES_FILE { header_end(&content) } else { content.len() };
        content.splice(at..at, self.text().into_bytes());
        content
    }

    /// The position of this block in a file's content.
    pub(crate) fn standing(
        &self,
        now: Option<&[u8]>,
        former: Option<&[u8]>,
        file: &str,
    ) -> FileStanding {
        let Some(now) = now else { return FileStanding::Without };
        if now == self.added_to(former, file) {
            return FileStanding::With(former.map(<[u8]>::to_vec));
        }
        let lines: Vec<&[u8]> = now.split_inclusive(|&byte| byte == b'\n').collect();
        let Some(at) = lines.iter().position(|line| is_line(line, &self.comment)) else {
            return FileStanding::Without;
        };
        let below = lines.get(at + 1).copied().unwrap_or_default();
        let ours = same_key(below, &self.line);
        let rest: Vec<u8> = [&lines[..at], &lines[at + 1 + usize::from(ours)..]].concat().concat();
        let rest = (rest != HEADER.as_bytes()).then_some(rest);
        if !ours || is_line(below, &self.line) {
            return FileStanding::With(rest);
        }
        FileStanding::Altered { now: String::from_utf8_lossy(below).trim_end().to_owned(), rest }
    }
}

/// True if a line sets what ours sets, whatever the value.
fn same_key(line: &[u8], ours: &str) -> bool {
    let line = String::from_utf8_lossy(line);
    let key_of = |line: &str| match line.strip_prefix("w ") {
        Some(rest) => rest.split_whitespace().next().map(str::to_owned),
        // A udev rule compares by == and assigns by its last =.
        None if line.contains("==") => line.rsplit_once('=').map(|(key, _)| key.to_owned()),
        None => line.split_once('=').map(|(key, _)| key.trim().to_owned()),
    };
    key_of(&line).is_some_and(|key| Some(key) == key_of(ours))
}

fn is_line(line: &[u8], text: &str) -> bool {
    line.strip_suffix(b"\n").unwrap_or(line) == text.as_bytes()
}

/// End of the comments at the top, at which the first block begins.
fn header_end(content: &[u8]) -> usize {
    content
        .split_inclusive(|&byte| byte == b'\n')
        .take_while(|line| line.starts_with(b"#") && !line.starts_with(BLOCK_MARK.as_bytes()))
        .map(<[u8]>::len)
        .sum()
}

/// The content of a file of ours; `None` where there is none.
pub(crate) fn read_own(kernel: &Kernel, file: &str) -> Result<Option<Vec<u8>>, PersistError> {
    let path = kernel.resolve(file);
    let opened = match guarded::open(&path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PersistError::new(&path, error)),
    };
    let mut content = Vec::new();
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|error| PersistError::new(&path, error))?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(PersistError::TooLong { path });
    }
    Ok(Some(content))
}

/// The content of a file of ours that a line is to be added to.
pub(crate) fn read_to_add(
    kernel: &Kernel,
    target: &PersistTarget,
) -> Result<Option<Vec<u8>>, PersistError> {
    match read_own(kernel, &target.file)? {
        Some(content) if !content.starts_with(HEADER_MARK) => {
            let path = kernel.resolve(&target.file);
            Err(PersistError::Foreign { path, line: target.line.clone() })
        }
        other => Ok(other),
    }
}

/// True if the directory of a file of ours is missing.
pub(crate) fn lacks_dir(kernel: &Kernel, file: &str) -> bool {
    kernel.resolve(file).parent().is_some_and(|dir| !dir.exists())
}

/// Gives a file of ours a new content in one step; `in_between` runs when it lies beside it.
pub(crate) fn replace_own(
    kernel: &Kernel,
    file: &str,
    content: &[u8],
    in_between: &mut dyn FnMut(),
) -> Result<(), PersistError> {
    let path = kernel.resolve(file);
    let fail = |error| PersistError::new(&path, error);
    let new = path.with_extension(NEW_SUFFIX);
    if let Some(dir) = path.parent().filter(|dir| !dir.exists()) {
        guarded::create_dirs(dir).map_err(fail)?;
        dir.parent().map_or(Ok(()), sync_dir).map_err(fail)?;
    }
    let placed = write_new(&new, content).and_then(|()| {
        in_between();
        std::fs::rename(&new, &path)
    });
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&new);
        return Err(fail(error));
    }
    path.parent().map_or(Ok(()), sync_dir).map_err(fail)
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = guarded::entry(path)?.make(0o644)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Brings a file of ours to what is left of it, and clears away what a killed memwright left.
pub(crate) fn shrink_own(
    kernel: &Kernel,
    file: &str,
    rest: Option<&[u8]>,
    in_between: &mut dyn FnMut(),
) -> Result<(), PersistError> {
    if let Some(rest) = rest {
        return replace_own(kernel, file, rest, in_between);
    }
    let path = kernel.resolve(file);
    remove(&path)?;
    path.parent().map_or(Ok(()), sync_dir).map_err(|error| PersistError::new(&path, error))
}

/// Removes what a killed memwright may have left beside a file of ours, and a directory that was
/// made for it and is empty again.
pub(crate) fn tidy(kernel: &Kernel, file: &str, made_dir: bool) -> Result<(), PersistError> {
    let path = kernel.resolve(file);
    remove(&path.with_extension(NEW_SUFFIX))?;
    if let Some(dir) = path.parent().filter(|_| made_dir) {
        // Another program may use it by now; then it stays.
        let _ = std::fs::remove_dir(dir);
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), PersistError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTDIR) => Ok(()),
        other => other.map_err(|error| PersistError::new(path, error)),
    }
}

/// The greatest number of a change that our files mention, so that a number is never used twice
/// even where the journal was lost.
pub(crate) fn newest_change(kernel: &Kernel) -> u64 {
    let contents =
        [SYSCTL_FILE, TMPFILES_FILE, UDEV_FILE].map(|file| read_own(kernel, file).ok().flatten());
    contents.iter().flatten().filter_map(|content| newest_in(content)).max().unwrap_or(0)
}

fn newest_in(content: &[u8]) -> Option<u64> {
    String::from_utf8_lossy(content)
        .lines()
        .filter_map(|line| line.strip_prefix(BLOCK_MARK)?.split(' ').next()?.parse().ok())
        .max()
}
