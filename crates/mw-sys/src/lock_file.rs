//! Lock files that only their owner can open: flock(2) needs no permission but a descriptor, so that anybody who can
//! open a lock file can hold the lock.

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// The reason why a lock file is not used.
#[derive(Debug)]
pub enum LockFileError {
    /// It cannot be opened, created or made private.
    Io(io::Error),
    /// It is a symbolic link, or no regular file.
    NotAFile,
    /// Another user than root or this one owns it.
    Foreign { owner: u32, mode: u32 },
}

impl fmt::Display for LockFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotAFile => {
                f.write_str("it is a symbolic link, or not a regular file; remove it")
            }
            Self::Foreign { owner, .. } => write!(f, "user {owner} owns it; remove it"),
        }
    }
}

impl From<Errno> for LockFileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::NotAFile,
            errno => Self::Io(errno.into()),
        }
    }
}

/// Opens the lock file `name` in the directory `dir` for `access` (`RDONLY` or `RDWR`), or creates it. Its mode
/// becomes 0600, whatever it was. On a read-only file system it is opened for reading. A file that is open for
/// writing keeps its file system from being remounted read-only.
///
/// # Errors
/// It is a symbolic link, not a regular file, or another user's; or a system call fails.
pub fn open_lock_file(dir: impl AsFd, name: &Path, access: OFlags) -> Result<File, LockFileError> {
    // A FIFO in its place must not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let created = flags | access | OFlags::CREATE;
    let file = match rustix::fs::openat(&dir, name, created, PRIVATE) {
        Err(Errno::ROFS) => rustix::fs::openat(&dir, name, flags | OFlags::RDONLY, PRIVATE)?,
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(LockFileError::NotAFile);
    }
    let (owner, mode) = (stat.st_uid, stat.st_mode & 0o7777);
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return Err(LockFileError::Foreign { owner, mode });
    }
    if mode != PRIVATE.as_raw_mode() {
        match rustix::fs::fchmod(&file, PRIVATE) {
            Ok(()) | Err(Errno::ROFS) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    /// A directory that is removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mw-lock-{test}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn lock(&self) -> PathBuf {
            self.0.join("lock")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_lock_file_is_private_whatever_it_was() {
        let place = Place::new("private");
        open_lock_file(CWD, &place.lock(), OFlags::RDWR).unwrap();
        assert_eq!(mode(&place.lock()), 0o600);
        std::fs::set_permissions(place.lock(), Permissions::from_mode(0o666)).unwrap();
        std::fs::write(place.lock(), "content").unwrap();
        open_lock_file(CWD, &place.lock(), OFlags::RDWR).unwrap();
        assert_eq!(mode(&place.lock()), 0o600);
        assert_eq!(std::fs::read(place.lock()).unwrap(), b"content");
    }

    #[test]
    fn links_fifos_and_directories_are_refused() {
        let place = Place::new("refused");
        let target = place.0.join("target");
        symlink(&target, place.lock()).unwrap();
        assert!(matches!(
            open_lock_file(CWD, &place.lock(), OFlags::RDWR),
            Err(LockFileError::NotAFile)
        ));
        assert!(!target.exists());
        std::fs::remove_file(place.lock()).unwrap();
        rustix::fs::mkfifoat(CWD, place.lock(), PRIVATE).unwrap();
        assert!(matches!(
            open_lock_file(CWD, &place.lock(), OFlags::RDWR),
            Err(LockFileError::NotAFile)
        ));
        std::fs::remove_file(place.lock()).unwrap();
        std::fs::create_dir(place.lock()).unwrap();
        assert!(matches!(
            open_lock_file(CWD, &place.lock(), OFlags::RDWR),
            Err(LockFileError::Io(_))
        ));
    }

    #[test]
    fn a_lock_file_of_another_user_is_refused() {
        if !mw_test::is_root() {
            return;
        }
        let place = Place::new("foreign");
        std::fs::write(place.lock(), "").unwrap();
        chown(place.lock(), Some(12_345), None).unwrap();
        let refused = open_lock_file(CWD, &place.lock(), OFlags::RDWR);
        assert!(
            matches!(refused, Err(LockFileError::Foreign { owner: 12_345, .. })),
            "{refused:?}"
        );
    }
}
