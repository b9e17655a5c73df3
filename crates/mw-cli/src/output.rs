//! Files that a command writes: whole under their own names or not at all, and readable to nobody who
//! may not read what they were made from.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Standard output, where a file can be named.
pub(crate) const STANDARD_OUTPUT: &str = "-";

const OWNER: u32 = 0o600;
const GROUP: u32 = 0o060;
const OTHERS: u32 = 0o006;

/// A file that is being written. Dropped before [`Output::finish`], it leaves what was there before.
pub(crate) enum Output {
    /// A pipe or a device, which is written to as it is.
    Device(File),
    /// To be renamed to this path.
    Temporary(NamedTempFile, PathBuf),
}

impl Output {
    /// Opens a file for writing, readable to its owner and, where it is made from `source`, to those
    /// others who may read that and whom the umask does not exclude.
    pub(crate) fn create(path: &Path, source: Option<&Path>) -> io::Result<Self> {
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return File::options().write(true).open(path).map(Self::Device);
        }
        Ok(Self::Temporary(temporary(path, source)?, path.to_owned()))
    }

    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            Self::Device(file) => file,
            Self::Temporary(file, _) => file.as_file_mut(),
        }
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file().flush()?;
        match self {
            Self::Device(_) => Ok(()),
            Self::Temporary(file, path) => {
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

/// A file beside the one that it is to become.
fn temporary(path: &Path, source: Option<&Path>) -> io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let source = source.map(Path::metadata).transpose()?;
    let others = source.as_ref().map_or(0, |source| source.mode() & (GROUP | OTHERS));
    let permissions = Permissions::from_mode(OWNER | others);
    let file = tempfile::Builder::new().permissions(permissions).tempfile_in(dir)?;
    let made = file.as_file().metadata()?;
    if source.is_some_and(|source| source.gid() != made.gid()) {
        // Another group than the source's may do what all others may.
        let others = made.mode() & OTHERS;
        file.as_file().set_permissions(Permissions::from_mode(OWNER | others << 3 | others))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(path: &Path, source: Option<&Path>) {
        let mut output = Output::create(path, source).unwrap();
        output.file().write_all(b"hello").unwrap();
        output.finish().unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    /// Tests of a process share its umask, which is nobody's to change.
    fn umask() -> u32 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
        u32::from_str_radix(line.trim(), 8).unwrap()
    }

    #[test]
    fn a_file_is_readable_to_no_more_than_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let (source, made) = (dir.path().join("source"), dir.path().join("made"));
        std::fs::write(&source, "").unwrap();
        for allowed in [0o600, 0o640, 0o644, 0o400] {
            std::fs::set_permissions(&source, Permissions::from_mode(allowed)).unwrap();
            // A former file of that name was open to all.
            std::fs::write(&made, "").unwrap();
            std::fs::set_permissions(&made, Permissions::from_mode(0o666)).unwrap();
            hello(&made, Some(&source));
            assert_eq!(mode(&made), OWNER | allowed & 0o066 & !umask(), "{allowed:o}");
            assert_eq!(std::fs::read(&made).unwrap(), b"hello");
        }
    }

    #[test]
    fn another_group_gets_no_more_than_others() {
        let dir = tempfile::tempdir().unwrap();
        let (source, made) = (dir.path().join("source"), dir.path().join("made"));
        std::fs::write(&source, "").unwrap();
        std::fs::set_permissions(&source, Permissions::from_mode(0o640)).unwrap();
        if let Err(error) = std::os::unix::fs::chown(&source, None, Some(12_345)) {
            println!("another_group_gets_no_more_than_others: skipped, it takes root: {error}");
            return;
        }
        hello(&made, Some(&source));
        assert_eq!(mode(&made), 0o600);
    }

    #[test]
    fn a_device_stays_what_it_is() {
        use std::os::unix::fs::FileTypeExt;
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(status.unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        hello(&pipe, None);
        assert_eq!(reader.join().unwrap(), b"hello");
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_fails_leaves_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        std::fs::write(&path, "former").unwrap();
        let mut output = Output::create(&path, None).unwrap();
        output.file().write_all(b"half").unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"former");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        hello(&path, None);
        assert_eq!(mode(&path), 0o600);
    }
}
