//! Where the data set is: a directory, or a bucket that speaks S3.

mod s3;

pub use s3::S3Options;

use mw_sys::guarded;
use s3::Bucket;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SCHEME: &str = "s3://";

const ANYONE_WRITES: u32 = 0o002;

/// Of a file, less the umask.
const MODE: u32 = 0o666;

/// Error of the target, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ShipTargetError {
    /// A mistake in how it is named.
    #[error("{0}")]
    Usage(String),
    #[error("{path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("{0}")]
    S3(String),
}

/// A data set.
#[derive(Debug)]
pub enum ShipTarget {
    Directory(PathBuf),
    S3(Box<Bucket>),
}

impl ShipTarget {
    /// `s3://BUCKET/PREFIX`, or a directory that exists: where it is missing its file system is not mounted. One that
    /// anyone may write to could lead elsewhere what root writes.
    ///
    /// # Errors
    /// It names neither; or there are no credentials.
    pub fn open(name: &str, options: &S3Options) -> Result<Self, ShipTargetError> {
        if let Some(rest) = name.strip_prefix(SCHEME) {
            let bucket = Bucket::new(rest, options).map_err(ShipTargetError::Usage)?;
            return Ok(Self::S3(Box::new(bucket)));
        }
        let path = PathBuf::from(name);
        let found = std::fs::metadata(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                let why = "there is no such directory; mount its file system, or create it";
                Self::failed(&path, io::Error::new(io::ErrorKind::NotFound, why))
            }
            _ => Self::failed(&path, source),
        })?;
        if !found.is_dir() {
            return Err(Self::failed(&path, io::ErrorKind::NotADirectory.into()));
        }
        if found.mode() & ANYONE_WRITES != 0 {
            let why = "anyone may write there; use a directory of its own users, or chmod o-w";
            return Err(Self::failed(&path, io::Error::other(why)));
        }
        Ok(Self::Directory(path))
    }

    fn failed(path: &Path, source: io::Error) -> ShipTargetError {
        ShipTargetError::Directory { path: path.to_owned(), source }
    }

    /// True if there is an object of this name.
    pub(crate) fn has(&self, key: &str) -> Result<bool, ShipTargetError> {
        match self {
            Self::Directory(root) => Ok(root.join(key).exists()),
            Self::S3(bucket) => bucket.has(key).map_err(ShipTargetError::S3),
        }
    }

    /// Puts an object in place of one that is there; all of it or nothing. A link in the directory is not followed
    /// where another user may have put it there.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> Result<(), ShipTargetError> {
        match self {
            Self::Directory(root) => {
                let path = root.join(key);
                let dir = path.parent().unwrap_or(root);
                let put = guarded::create_dirs(dir);
                put.and_then(|()| guarded::replace(&path, bytes, MODE))
                    .map_err(|source| Self::failed(&path, source))
            }
            Self::S3(bucket) => bucket.put(key, bytes).map_err(ShipTargetError::S3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, lchown, symlink};

    const OTHER: u32 = 65_534;

    /// Another user's data set, in which he puts links.
    #[test]
    fn in_a_directory_of_another_user_no_link_is_followed() {
        if !mw_test::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (root, mine) = (dir.path().join("data"), dir.path().join("mine"));
        for path in [&root, &mine] {
            fs::create_dir(path).unwrap();
        }
        chown(&root, Some(OTHER), Some(OTHER)).unwrap();
        let target = ShipTarget::open(root.to_str().unwrap(), &S3Options::default()).unwrap();
        target.put("minutes/date=1/a", b"first").unwrap();
        fs::rename(root.join("minutes"), root.join("moved")).unwrap();
        symlink(&mine, root.join("minutes")).unwrap();
        symlink(mine.join("b"), root.join("moved/b")).unwrap();
        for link in ["minutes", "moved/b"] {
            lchown(root.join(link), Some(OTHER), Some(OTHER)).unwrap();
        }
        chown(root.join("moved"), Some(OTHER), Some(OTHER)).unwrap();
        for key in ["minutes/a", "minutes/date=2/a"] {
            let error = target.put(key, b"second").unwrap_err().to_string();
            assert!(error.contains("is a symbolic link of user 65534"), "{error}");
        }
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
        // Where the name itself is a link, it becomes a file.
        for key in ["moved/date=1/a", "moved/b"] {
            target.put(key, b"second").unwrap();
            assert_eq!(fs::read(root.join(key)).unwrap(), b"second");
        }
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
    }
}
