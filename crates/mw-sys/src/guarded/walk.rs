//! Where a path leads.

use rustix::fs::AtFlags;
use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As many symbolic links as the kernel follows (path_resolution(7)).
const MAX_LINKS: usize = 40;

const STICKY: u32 = 0o1000;
const ALL_MAY_WRITE: u32 = 0o002;
const OTHERS_MAY_WRITE: u32 = 0o022;

/// A name that is not used, since another user may have chosen what it stands for.
#[derive(Debug)]
pub struct UntrustedName {
    /// Its path.
    pub path: PathBuf,
    pub what: NameKind,
    /// The user who may have put it there; `None` is any user.
    pub user: Option<u32>,
}

/// Its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Link,
    HardLink,
    File,
    /// A FIFO, a socket or a device.
    Special,
}

impl fmt::Display for UntrustedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, refused) = match self.what {
            NameKind::Link => ("a symbolic link", "is not followed"),
            NameKind::HardLink => ("a file with several names", "is not used"),
            NameKind::File => ("a file", "is not replaced"),
            NameKind::Special => ("a FIFO, socket or device", "is not opened"),
        };
        write!(f, "{} is {what} of ", self.path.display())?;
        match self.user {
            Some(user) => write!(f, "user {user}")?,
            None => f.write_str("any user")?,
        }
        write!(f, " and {refused}")
    }
}

impl std::error::Error for UntrustedName {}

impl From<UntrustedName> for io::Error {
    fn from(refused: UntrustedName) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// Handling of links that another user may have put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignLinks {
    Refused,
    /// They are followed to a file of the user who chose them, and to no other ([`ResolvedName::chosen_by`]).
    Judged,
}

/// Handling of a link that is the last name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    Followed,
    /// The name itself is meant.
    Kept,
}

/// The last name of a path in its directory.
#[derive(Debug)]
pub(super) struct ResolvedName {
    pub(super) dir: OwnedFd,
    pub(super) dir_stat: Stat,
    pub(super) name: OsString,
    /// The directory's and the file's names, as they were resolved.
    pub(super) path: PathBuf,
    /// The file at the path: no symbolic link, unless `is_magic` or [`LastLink::Kept`].
    pub(super) found: Option<Stat>,
    /// A link of /proc to an open file, which the kernel follows by itself. `found` is what it leads to.
    pub(super) is_magic: bool,
    /// The users who chose links on the way; `None` is anybody.
    pub(super) chosen_by: Vec<Option<u32>>,
}

/// True if a user can be relied on: root, or the one that this thread acts for.
pub(super) fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// True if other users may have put something into a directory; for what is there under a user's own name.
pub(super) fn others_may_write(dir: &Stat) -> bool {
    !is_trusted(dir.st_uid) || dir.st_mode & OTHERS_MAY_WRITE != 0
}

pub(super) fn is_sticky(dir: &Stat) -> bool {
    dir.st_mode & STICKY != 0
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The last name of a path and its directory, with what is there.
///
/// # Errors
/// Those of opening the directories; `ELOOP`; [`UntrustedName`]; the path ends with no name (`EISDIR`).
pub(super) fn walk(path: &Path, foreign: ForeignLinks, last: LastLink) -> io::Result<ResolvedName> {
    let mut walk = NameResolution::start(path, foreign)?;
    while let Some(name) = walk.left.pop() {
        let is_last = walk.left.is_empty();
        if name == ".." {
            walk.enter_parent()?;
        } else if !is_last {
            walk.enter(&name)?;
        } else if last == LastLink::Kept {
            return walk.ended(name, false);
        } else if let Some(is_magic) = walk.look_at_last(&name)? {
            let ended = walk.ended(name, is_magic)?;
            // It was no link a moment ago.
            let is_link = ended.found.is_some_and(|stat| kind(&stat).is_symlink());
            return if is_link { Err(Errno::LOOP.into()) } else { Ok(ended) };
        }
    }
    Err(Errno::ISDIR.into())
}

/// Follows all of a path to a directory.
///
/// # Errors
/// As [`walk`], and `ENOTDIR`.
pub(super) fn walk_to_dir(path: &Path, foreign: ForeignLinks) -> io::Result<OwnedFd> {
    let mut walk = NameResolution::start(path, foreign)?;
    while let Some(name) = walk.left.pop() {
        if name == ".." { walk.enter_parent()? } else { walk.enter(&name)? }
    }
    Ok(walk.dir)
}

/// A path on its way.
struct NameResolution {
    foreign: ForeignLinks,
    dir: OwnedFd,
    path: PathBuf,
    /// The last first.
    left: Vec<OsString>,
    links: usize,
    chosen_by: Vec<Option<u32>>,
    /// Behind a link of /proc the names are of another process's root, whose links are meant for that process.
    is_elsewhere: bool,
}

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_at(dir: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(dir, name, flags, Mode::empty())
}

impl NameResolution {
    fn start(path: &Path, foreign: ForeignLinks) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let dir = open_at(CWD, OsStr::new("."), DIRECTORY)?;
        let (left, chosen_by) = (Vec::new(), Vec::new());
        let here = PathBuf::new();
        let mut walk =
            Self { foreign, dir, path: here, left, links: 0, chosen_by, is_elsewhere: false };
        walk.push(path)?;
        Ok(walk)
    }

    /// Has the names of `path` resolved before those that are left.
    fn push(&mut self, path: &Path) -> io::Result<()> {
        if path.has_root() {
            self.dir = open_at(CWD, OsStr::new("/"), DIRECTORY)?;
            self.path = PathBuf::from("/");
        }
        self.left.extend(path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        }));
        Ok(())
    }

    fn enter_parent(&mut self) -> io::Result<()> {
        self.dir = open_at(&self.dir, OsStr::new(".."), DIRECTORY)?;
        self.path.push("..");
        Ok(())
    }

    /// Goes into a directory, or follows a link. The flag `O_DIRECTORY` has the kernel mount what is mounted on use.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        match open_at(&self.dir, name, DIRECTORY) {
            Ok(dir) => self.dir = dir,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let link =
                    open_at(&self.dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
                let stat = fstat(&link)?;
                if !kind(&stat).is_symlink() {
                    return Err(Errno::NOTDIR.into());
                }
                if !self.follow(name, &link, &stat)? {
                    return Ok(());
                }
                self.dir = open_at(&self.dir, name, DIRECTORY.difference(OFlags::NOFOLLOW))?;
                self.is_elsewhere = true;
            }
            Err(errno) => return Err(errno.into()),
        }
        self.path.push(name);
        Ok(())
    }

    /// True if the last name is a link of /proc, once it is none that is to be followed.
    fn look_at_last(&mut self, name: &OsStr) -> io::Result<Option<bool>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open_at(&self.dir, name, flags) {
            Err(Errno::NOENT) => Ok(Some(false)),
            Err(errno) => Err(errno.into()),
            Ok(there) => {
                let stat = fstat(&there)?;
                if !kind(&stat).is_symlink() {
                    return Ok(Some(false));
                }
                Ok(self.follow(name, &there, &stat)?.then_some(true))
            }
        }
    }

    /// Puts the target of a link before the names that are left; `true` where it is one of /proc, which the kernel
    /// follows.
    fn follow(&mut self, name: &OsStr, link: &OwnedFd, stat: &Stat) -> io::Result<bool> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let refused =
            |user| UntrustedName { path: self.path.join(name), what: NameKind::Link, user };
        if fstatfs(&self.dir)?.f_type == PROC_SUPER_MAGIC {
            // Which open file or root of which process that is, only those may say who are trusted.
            return match self.chosen_by.first() {
                Some(user) => Err(refused(*user).into()),
                None => Ok(true),
            };
        }
        if let Some(user) = self.chooser(&fstat(&self.dir)?, stat) {
            if self.foreign == ForeignLinks::Refused {
                return Err(refused(user).into());
            }
            self.chosen_by.push(user);
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.push(Path::new(OsStr::from_bytes(target.as_bytes())))?;
        Ok(false)
    }

    /// The other user who may have put a link there: with its name in a directory of his own, or one of root's links
    /// under another name.
    fn chooser(&self, dir: &Stat, link: &Stat) -> Option<Option<u32>> {
        let has_several_names = link.st_nlink > 1;
        if !is_trusted(link.st_uid) {
            Some(Some(link.st_uid))
        } else if !is_trusted(dir.st_uid) {
            Some(Some(dir.st_uid))
        } else if self.is_elsewhere
            || dir.st_mode & ALL_MAY_WRITE != 0 && (!is_sticky(dir) || has_several_names)
        {
            Some(None)
        } else {
            None
        }
    }

    fn ended(self, name: OsString, is_magic: bool) -> io::Result<ResolvedName> {
        let flags = if is_magic { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let found = match statat(&self.dir, &name, flags) {
            Err(Errno::NOENT) => None,
            found => Some(found?),
        };
        let (dir_stat, path) = (fstat(&self.dir)?, self.path.join(&name));
        let Self { dir, chosen_by, .. } = self;
        Ok(ResolvedName { dir, dir_stat, name, path, found, is_magic, chosen_by })
    }
}
