//! The directories of the tables. They are root's, and so is what lies there: whoever else could
//! write there could have root publish a file, or set what programs do. All is done by the open
//! directory whose owner was checked; what lies at its path may be another one by then.

use crate::{Exit, Failure};
use mw_iotune::is_trusted;
use mw_sys::open_lock_file;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const READABLE: Mode = Mode::from_raw_mode(0o644);

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    opened: File,
}

impl Directory {
    /// Opens a directory; none where it does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(not_a(path, "directory")),
            Err(errno) => return Err(Failure::of_file(path, &errno.into())),
        };
        let stat = stat(path, &opened)?;
        check_owner(path, stat.st_uid, stat.st_mode)?;
        Ok(Some(Self { path: path.to_owned(), opened }))
    }

    /// Opens a directory, which is made where it does not exist.
    pub(super) fn make(path: &Path) -> Result<Self, Failure> {
        if let Some(directory) = Self::open(path)? {
            return Ok(directory);
        }
        let is_new = match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(Failure::of_file(path, &errno.into())),
        };
        let Some(directory) = Self::open(path)? else {
            return Err(Failure::of_file(path, &Errno::NOENT.into()));
        };
        if is_new {
            // The umask does not count: programs of others read what lies there.
            let mode = rustix::fs::fchmod(&directory.opened, Mode::from_raw_mode(0o755));
            mode.map_err(|errno| Failure::of_file(path, &errno.into()))?;
        }
        Ok(directory)
    }

    /// Opens a file for reading; none where it does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<File>, Failure> {
        let path = self.path.join(name);
        match self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => checked(&path, file).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => Err(not_a(&path, "file")),
            Err(errno) => Err(Failure::of_file(&path, &errno.into())),
        }
    }

    /// Puts a text in the place of a file, whole or not at all. The caller holds a lock.
    pub(super) fn replace(&self, name: &str, text: &str) -> Result<(), Failure> {
        let new = format!(".{name}.new");
        let write = || {
            // Of one that was killed.
            let _ = rustix::fs::unlinkat(&self.opened, &new, AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let mut file = self.open_file(&new, flags, READABLE)?;
            file.write_all(text.as_bytes())?;
            // The umask does not count: programs of others read it.
            rustix::fs::fchmod(&file, READABLE)?;
            file.sync_all()?;
            rustix::fs::renameat(&self.opened, &new, &self.opened, name)?;
            self.opened.sync_all()
        };
        write().map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.opened, &new, AtFlags::empty());
            Failure::of_file(self.path.join(name), &error)
        })
    }

    /// Holds the lock of a file, which is made where it does not exist, until it is closed.
    pub(super) fn lock(&self, name: &str) -> Result<File, Failure> {
        let path = self.path.join(name);
        let fail = |errno: Errno| Failure::of_file(&path, &errno.into());
        let file = open_lock_file(&self.opened, Path::new(name), OFlags::RDONLY)
            .map_err(|error| refused(&path, &error.to_string()))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(fail)?;
        Ok(file)
    }

    fn open_file(&self, name: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.opened, name, flags, mode).map(File::from)
    }
}

/// A file that only root or this user can have written.
fn checked(path: &Path, file: File) -> Result<File, Failure> {
    let stat = stat_of_file(path, &file)?;
    check_owner(path, stat.st_uid, stat.st_mode)?;
    Ok(file)
}

fn stat_of_file(path: &Path, file: &File) -> Result<Stat, Failure> {
    let stat = stat(path, file)?;
    match FileType::from_raw_mode(stat.st_mode).is_file() {
        true => Ok(stat),
        false => Err(not_a(path, "file")),
    }
}

fn stat(path: &Path, file: &impl AsFd) -> Result<Stat, Failure> {
    rustix::fs::fstat(file).map_err(|errno| Failure::of_file(path, &errno.into()))
}

fn check_owner(path: &Path, owner: u32, mode: u32) -> Result<(), Failure> {
    let user = rustix::process::geteuid().as_raw();
    if is_trusted(owner, mode, user) {
        return Ok(());
    }
    let why = match is_trusted(owner, 0, user) {
        true => format!("others may write it (mode {:04o})", mode & 0o7777),
        false => format!("user {owner} owns it"),
    };
    Err(refused(
        path,
        &format!(
            "{why}; look at what is in it, then remove it or 'chown root' and 'chmod go-w' it"
        ),
    ))
}

fn not_a(path: &Path, kind: &str) -> Failure {
    refused(path, &format!("it is a symbolic link, or no {kind}; remove it"))
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("{}: {why}", path.display()))
}
