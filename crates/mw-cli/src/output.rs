//! A file that a command writes: it has its name only once it is whole.
//!
//! Until then it is a temporary file beside it, which is gone when the command fails or is told to
//! end. What is no regular file (/dev/stdout, a pipe, a device) is written to directly: a rename would
//! put a file in its place.

use crate::{Exit, Failure};
use mw_sys::SignalsBlocked;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Who may read a new file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Readers {
    /// Its owner: it holds what the kernel and a recording say of other users' programs.
    Owner,
    /// Whoever the umask lets.
    #[cfg_attr(not(feature = "watch"), expect(dead_code, reason = "for exports"))]
    Umask,
}

impl Readers {
    fn permissions(self) -> Permissions {
        Permissions::from_mode(match self {
            Self::Owner => 0o600,
            Self::Umask => 0o666,
        })
    }
}

/// Lets `fill` write the file `path`; `failed` says what becomes of an error of the file itself.
///
/// # Errors
/// Those of `fill` and of the file. Then nothing is left of it, and what was there before stays.
pub(crate) fn write<T>(
    path: &Path,
    readers: Readers,
    failed: &dyn Fn(&io::Error) -> Failure,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if let Some(mut file) = special(path).map_err(|error| failed(&error))? {
        return fill(&mut file);
    }
    without_interruption(|| {
        let target = target(path).map_err(|error| failed(&error))?;
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .permissions(readers.permissions())
            .tempfile_in(dir.unwrap_or(Path::new(".")))
            .map_err(|error| failed(&error))?;
        let filled = fill(&mut Interruptible(file.as_file_mut()))?;
        file.persist(&target).map_err(|error| failed(&error.error))?;
        Ok(filled)
    })
}

/// Does something that has temporary files while SIGINT, SIGTERM and SIGHUP wait: they end the
/// command once those are gone. What takes long looks out for them ([`mw_sys::is_asked_to_end`]).
pub(crate) fn without_interruption<T>(
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotLook, error))?;
    work()
}

/// What is there under this name and is neither a regular file nor a folder, opened.
fn special(path: &Path) -> io::Result<Option<File>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => Ok(None),
        Ok(_) => File::options().write(true).open(path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file that the name leads to, so that a symbolic link stays one.
fn target(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_owned()),
        resolved => resolved,
    }
}

/// A file that takes no more once the command is told to end.
struct Interruptible<'a>(&'a mut File);

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if mw_sys::is_asked_to_end() {
            return Err(io::Error::other("interrupted"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
