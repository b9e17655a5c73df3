//! A file that a command writes: it has its name only once it is whole.
//!
//! Until then it is a temporary file beside it, which is gone when the command fails or is told to
//! end. What is no regular file (/dev/stdout, a pipe, a device) is written to directly: a rename would
//! put a file in its place. Names that other users chose are not followed ([`mw_sys::guarded`]).

use crate::{Exit, Failure};
use mw_sys::SignalsBlocked;
use mw_sys::guarded::{self, FilePlace, NewFile, OutputTarget};
use signal_hook::consts::SIGXFSZ;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Standard output, where a file can be named.
pub(crate) const STANDARD_OUTPUT: &str = "-";

const OWNER: u32 = 0o600;
const GROUP: u32 = 0o060;
const OTHERS: u32 = 0o006;
const EVERYBODY: u32 = 0o666;

/// Readers of a new file, except those that the umask excludes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Readers<'a> {
    /// Its owner: it holds what the kernel and a recording say of other users' programs.
    Owner,
    /// Those who may read the file that it is made from.
    Of(&'a Path),
    /// All users.
    Everybody,
}

impl Readers<'_> {
    /// A new file at `place` with these permissions.
    fn create(self, place: &FilePlace) -> io::Result<NewFile<'_>> {
        let source = match self {
            Self::Owner => return place.create(OWNER),
            Self::Everybody => return place.create(EVERYBODY),
            Self::Of(source) => source.metadata()?,
        };
        let mut file = place.create(OWNER | source.mode() & (GROUP | OTHERS))?;
        let made = file.file().metadata()?;
        if source.gid() != made.gid() {
            // Another group than the source's may do what all others may.
            let others = made.mode() & OTHERS;
            file.set_mode(OWNER | others << 3 | others)?;
        }
        Ok(file)
    }
}

/// Lets `fill` write the file `path`; `failed` says what becomes of an error of the file itself.
///
/// # Errors
/// Those of `fill` and of the file. Then nothing is left of it, and what was there before stays.
pub(crate) fn write<T>(
    path: &Path,
    readers: Readers<'_>,
    failed: &dyn Fn(&io::Error) -> Failure,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let place = match guarded::output(path).map_err(|error| failed(&error))? {
        OutputTarget::Special(mut file) => return fill(&mut file),
        OutputTarget::File(place) => place,
    };
    without_interruption(|| {
        let mut file = readers.create(&place).map_err(|error| failed(&error))?;
        let filled = fill(&mut Interruptible(file.file()))?;
        file.persist().map_err(|error| failed(&error))?;
        Ok(filled)
    })
}

/// Does something that has temporary files while SIGINT, SIGTERM and SIGHUP wait: they end the
/// command once those are gone. What takes long looks out for them ([`mw_sys::is_termination_requested`]).
pub(crate) fn without_interruption<T>(
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    work()
}

/// Has a write beyond the limit of a file's size fail with EFBIG instead of ending the program by
/// SIGXFSZ, which would leave a temporary file behind. A handler, since a started program would
/// inherit that the signal is ignored.
pub(crate) fn report_file_size_limit() {
    let noticed = Arc::new(AtomicBool::new(false));
    // Where it cannot be registered, the signal has its default effect.
    let _ = signal_hook::flag::register(SIGXFSZ, noticed);
}

/// A file that takes no more once the command is told to end.
struct Interruptible<'a>(&'a mut File);

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if mw_sys::is_termination_requested() {
            return Err(io::Error::other("interrupted"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn hello(path: &Path, readers: Readers<'_>) {
        filled(path, readers, |file| file.write_all(b"hello")).unwrap();
    }

    fn filled(
        path: &Path,
        readers: Readers<'_>,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let failed = |error: &io::Error| Failure::new(Exit::CouldNotCheck, error);
        write(path, readers, &failed, |file| fill(file).map_err(|error| failed(&error)))
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
            hello(&made, Readers::Of(&source));
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
        std::os::unix::fs::chown(&source, None, Some(12_345)).unwrap();
        hello(&made, Readers::Of(&source));
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
        hello(&pipe, Readers::Owner);
        assert_eq!(reader.join().unwrap(), b"hello");
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_fails_leaves_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        std::fs::write(&path, "former").unwrap();
        let broken = |file: &mut dyn Write| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        };
        assert!(filled(&path, Readers::Owner, broken).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"former");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        hello(&path, Readers::Owner);
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn links_stay_also_those_that_lead_nowhere_yet() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("made", &link).unwrap();
        for _ in 0..2 {
            hello(&link, Readers::Owner);
            assert!(link.symlink_metadata().unwrap().is_symlink());
            assert_eq!(std::fs::read(dir.path().join("made")).unwrap(), b"hello");
        }
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(filled(&circle, Readers::Owner, |_| Ok(())).is_err());
    }

    #[test]
    fn a_descriptor_is_written_to_behind_what_is_there() {
        use std::os::fd::AsRawFd;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head ").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("stdout");
        std::os::unix::fs::symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), &link).unwrap();
        hello(&link, Readers::Owner);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::io::read_to_string(rewound(file)).unwrap(), "head hello");
    }

    fn rewound(mut file: File) -> File {
        std::io::Seek::rewind(&mut file).unwrap();
        file
    }
}
