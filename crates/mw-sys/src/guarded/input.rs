//! Opens files for reading.

use super::walk::{self, ForeignLinks, LastLink, NameKind, ResolvedName, UntrustedName};
use rustix::fs::{Dir, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A FIFO in place of the file must not block, a terminal not become this process's.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a regular file. It may wait for its file system; [`super::FileReader`] does not.
///
/// # Errors
/// Those of open(2); [`UntrustedName`]; it is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let found = find(path)?;
    let stat = found.found.ok_or(Errno::NOENT)?;
    if !walk::kind(&stat).is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    reopen(&found, &stat)
}

/// Opens a file that the user named, which may be a FIFO, a device or an open file of /proc. One that is no
/// regular file is read without blocking.
///
/// # Errors
/// Those of open(2); [`UntrustedName`].
pub fn open_input(path: &Path) -> io::Result<File> {
    let found = find(path)?;
    let stat = found.found.ok_or(Errno::NOENT)?;
    found.check_special()?;
    reopen(&found, &stat)
}

/// Opens a directory to look for files in it (`O_PATH`).
///
/// # Errors
/// Those of open(2); [`UntrustedName`].
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    walk::walk_to_dir(path, ForeignLinks::Refused)
}

/// The names in a directory, at most `limit` of them.
///
/// # Errors
/// As [`open_dir`], and those of getdents(2).
pub fn names(path: &Path, limit: usize) -> io::Result<Vec<OsString>> {
    let dir = open_dir(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(dir, OsStr::new("."), flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
        if names.len() >= limit {
            break;
        }
    }
    Ok(names)
}

/// Reads a regular file of at most `max_bytes`. It may wait for its file system.
///
/// # Errors
/// As [`open`]; those of read(2); it is longer.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let line = format!("longer than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, line));
    }
    Ok(bytes)
}

/// As [`read`], a text.
///
/// # Errors
/// As [`read`]; it is not UTF-8.
pub fn read_to_string(path: &Path, max_bytes: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, max_bytes)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn find(path: &Path) -> io::Result<ResolvedName> {
    let found = walk::walk(path, ForeignLinks::Judged, LastLink::Followed)?;
    found.check_readable()?;
    Ok(found)
}

/// Opens what was looked at.
fn reopen(found: &ResolvedName, looked_at: &Stat) -> io::Result<File> {
    let flags = if found.is_magic { READ } else { READ | OFlags::NOFOLLOW };
    let file = openat(&found.dir, &found.name, flags, Mode::empty())?;
    found.check_same(looked_at, &fstat(&file)?)?;
    Ok(File::from(file))
}

impl ResolvedName {
    /// Whether whoever chose a name may read the file, too.
    fn check_readable(&self) -> Result<(), UntrustedName> {
        let Some(found) = &self.found else { return Ok(()) };
        let refused = |what, user| UntrustedName { path: self.path.clone(), what, user };
        let is_own = |user: &&Option<u32>| **user == Some(found.st_uid);
        if let Some(other) = self.chosen_by.iter().find(|user| !is_own(user)) {
            return Err(refused(NameKind::Link, *other));
        }
        let dir = &self.dir_stat;
        let is_of_dir = !walk::is_trusted(dir.st_uid) && found.st_uid == dir.st_uid;
        let is_linked = !walk::kind(found).is_dir() && found.st_nlink > 1;
        if is_linked && walk::others_may_write(dir) && !is_of_dir && !self.is_magic {
            let owner = Some(dir.st_uid).filter(|user| !walk::is_trusted(*user));
            return Err(refused(NameKind::HardLink, owner));
        }
        Ok(())
    }

    /// Whether a FIFO, socket or device is nobody else's.
    pub(super) fn check_special(&self) -> Result<(), UntrustedName> {
        let Some(found) = &self.found else { return Ok(()) };
        let kind = walk::kind(found);
        let is_foreign = !walk::is_trusted(found.st_uid) && walk::others_may_write(&self.dir_stat);
        if kind.is_file() || kind.is_dir() || self.is_magic || !is_foreign {
            return Ok(());
        }
        let user = Some(found.st_uid);
        Err(UntrustedName { path: self.path.clone(), what: NameKind::Special, user })
    }

    /// Whether what was opened is what was looked at before.
    pub(super) fn check_same(&self, looked_at: &Stat, opened: &Stat) -> io::Result<()> {
        let id = |stat: &Stat| (stat.st_dev, stat.st_ino);
        // An open file of /proc may be opened anew as another one, as /dev/tty and /dev/ptmx are.
        if self.is_magic || id(looked_at) == id(opened) { Ok(()) } else { Err(Errno::AGAIN.into()) }
    }
}
