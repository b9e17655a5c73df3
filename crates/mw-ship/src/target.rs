//! Where the data set is: a directory, or a bucket that speaks S3.

mod s3;

pub use s3::S3Options;

use crate::replace::replace;
use s3::Bucket;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SCHEME: &str = "s3://";

const ANYONE_WRITES: u32 = 0o002;

/// What went wrong there, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
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
pub enum Target {
    Directory(PathBuf),
    S3(Box<Bucket>),
}

impl Target {
    /// `s3://BUCKET/PREFIX`, or a directory that exists: where it is missing its file system is not mounted. One that
    /// anyone may write to could lead elsewhere what root writes.
    ///
    /// # Errors
    /// It names neither; or there are no credentials.
    pub fn open(name: &str, options: &S3Options) -> Result<Self, TargetError> {
        if let Some(rest) = name.strip_prefix(SCHEME) {
            let bucket = Bucket::new(rest, options).map_err(TargetError::Usage)?;
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

    fn failed(path: &Path, source: io::Error) -> TargetError {
        TargetError::Directory { path: path.to_owned(), source }
    }

    /// Whether there is an object of this name.
    pub(crate) fn has(&self, key: &str) -> Result<bool, TargetError> {
        match self {
            Self::Directory(root) => Ok(root.join(key).exists()),
            Self::S3(bucket) => bucket.has(key).map_err(TargetError::S3),
        }
    }

    /// Puts an object in place of one that is there; all of it or nothing.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> Result<(), TargetError> {
        match self {
            Self::Directory(root) => {
                let path = root.join(key);
                let dir = path.parent().unwrap_or(root);
                let put = std::fs::create_dir_all(dir).and_then(|()| replace(&path, bytes));
                put.map_err(|source| Self::failed(&path, source))
            }
            Self::S3(bucket) => bucket.put(key, bytes).map_err(TargetError::S3),
        }
    }
}
