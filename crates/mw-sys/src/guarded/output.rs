//! Writes files that appear under their names once they are complete.

use super::walk::{self, ForeignLinks, LastLink, NameKind, ResolvedName, UntrustedName};
use rustix::fs::{
    AtFlags, Mode, OFlags, fchmod, fstat, fsync, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// Number of names that are tried for a temporary file.
const MAX_NAMES: usize = 64;

/// Destination of the output.
#[derive(Debug)]
pub enum OutputTarget {
    /// A FIFO, a device, or an open file of /proc such as /dev/stdout: opened, and written to behind what is there.
    Special(File),
    /// A file that is made or replaced.
    File(FilePlace),
}

/// A name in a directory, where a file can be put.
#[derive(Debug)]
pub struct FilePlace {
    dir: OwnedFd,
    name: OsString,
}

/// The target of a path, for a writer. Opening a FIFO waits for its reader.
///
/// # Errors
/// Those of open(2); [`UntrustedName`]: a symbolic link that another user may have put there, or another user's FIFO or
/// file in a directory in which it cannot be told who put it there.
pub fn output(path: &Path) -> io::Result<OutputTarget> {
    let walked = walk::walk(path, ForeignLinks::Refused, LastLink::Followed)?;
    let Some(found) = walked.found else { return Ok(OutputTarget::File(FilePlace::from(walked))) };
    let kind = walk::kind(&found);
    if kind.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if kind.is_file() && !walked.is_magic {
        walked.check_replaceable()?;
        return Ok(OutputTarget::File(FilePlace::from(walked)));
    }
    walked.check_special()?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = if walked.is_magic { flags } else { flags | OFlags::NOFOLLOW };
    let opened = openat(&walked.dir, &walked.name, flags, Mode::empty())?;
    walked.check_same(&found, &fstat(&opened)?)?;
    Ok(OutputTarget::Special(File::from(opened)))
}

/// The target of a path, for a file that is created or replaced.
///
/// # Errors
/// As [`output`]; what is there is no regular file.
pub fn place(path: &Path) -> io::Result<FilePlace> {
    let walked = walk::walk(path, ForeignLinks::Refused, LastLink::Followed)?;
    if walked.is_magic || walked.found.is_some_and(|found| !walk::kind(&found).is_file()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "not a regular file"));
    }
    walked.check_replaceable()?;
    Ok(FilePlace::from(walked))
}

/// The name itself that a path ends with, for a file that is made or replaced; a link there would be replaced.
///
/// # Errors
/// Those of opening the directory; [`UntrustedName`]: a link in its path, or another user's file in a directory like /tmp.
pub fn entry(path: &Path) -> io::Result<FilePlace> {
    let walked = walk::walk(path, ForeignLinks::Refused, LastLink::Kept)?;
    walked.check_replaceable()?;
    Ok(FilePlace::from(walked))
}

/// Puts a file with these bytes in place of another, or of a link. The file and its name are on disk afterwards.
///
/// # Errors
/// As [`entry`], and those of writing.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let place = entry(path)?;
    let mut new = place.create(mode)?;
    new.file().write_all(bytes)?;
    new.file().sync_all()?;
    new.persist()?;
    place.sync()
}

/// Has the names of a directory written to disk.
///
/// # Errors
/// Those of open(2) and fsync(2); [`UntrustedName`].
pub fn sync_dir(path: &Path) -> io::Result<()> {
    sync(&walk::walk_to_dir(path, ForeignLinks::Refused)?)
}

fn sync(dir: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fsync(openat(dir, OsStr::new("."), flags, Mode::empty())?)?)
}

/// Makes a directory with those above it, where they are missing, with the mode 0777 less the umask.
///
/// # Errors
/// Those of mkdir(2); [`UntrustedName`].
pub fn create_dirs(path: &Path) -> io::Result<()> {
    let mut all = PathBuf::new();
    for part in path.components() {
        all.push(part);
        let Component::Normal(_) = part else { continue };
        let ResolvedName { dir, name, found, .. } =
            walk::walk(&all, ForeignLinks::Refused, LastLink::Followed)?;
        match found {
            None => match mkdirat(&dir, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            },
            Some(found) if walk::kind(&found).is_dir() => {}
            Some(_) => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(())
}

impl ResolvedName {
    /// Whether what is there may be replaced by a new file: not another user's in a directory like /tmp.
    fn check_replaceable(&self) -> Result<(), UntrustedName> {
        let Some(found) = &self.found else { return Ok(()) };
        let is_foreign = !walk::is_trusted(found.st_uid) && walk::others_may_write(&self.dir_stat);
        let refused = |what| {
            let user = Some(found.st_uid);
            Err(UntrustedName { path: self.path.clone(), what, user })
        };
        if is_foreign && found.st_nlink > 1 {
            return refused(NameKind::HardLink);
        }
        if is_foreign && walk::is_sticky(&self.dir_stat) {
            return refused(NameKind::File);
        }
        Ok(())
    }
}

impl From<ResolvedName> for FilePlace {
    fn from(walked: ResolvedName) -> Self {
        Self { dir: walked.dir, name: walked.name }
    }
}

impl FilePlace {
    /// A new file of this mode, less the umask, in the same directory, which has the place's name once it is persisted.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn create(&self, mode: u32) -> io::Result<NewFile<'_>> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MAX_NAMES {
            let name =
                OsString::from(format!(".memwright-{:016x}", RandomState::new().hash_one(())));
            match openat(&self.dir, &name, flags, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => {}
                opened => {
                    let file = File::from(opened?);
                    return Ok(NewFile { place: self, name, file, is_persisted: false });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Makes an empty file of this mode, less the umask, where there is none, and opens it for writing.
    ///
    /// # Errors
    /// Those of open(2): `AlreadyExists`, for a link too.
    pub fn make(&self, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.dir, &self.name, flags, Mode::from_raw_mode(mode))?))
    }

    /// Has the names of the directory written to disk.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync(&self) -> io::Result<()> {
        sync(&self.dir)
    }
}

/// A temporary file, which is removed unless it is persisted.
#[derive(Debug)]
pub struct NewFile<'a> {
    place: &'a FilePlace,
    name: OsString,
    file: File,
    is_persisted: bool,
}

impl NewFile<'_> {
    /// To be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Changes the mode, whatever the umask.
    ///
    /// # Errors
    /// Those of fchmod(2).
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.file, Mode::from_raw_mode(mode))?)
    }

    /// Gives it its name, in place of a file that has it.
    ///
    /// # Errors
    /// Those of rename(2).
    pub fn persist(mut self) -> io::Result<()> {
        let FilePlace { dir, name } = self.place;
        renameat(dir, &self.name, dir, name)?;
        self.is_persisted = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_persisted {
            let _ = unlinkat(&self.place.dir, &self.name, AtFlags::empty());
        }
    }
}
