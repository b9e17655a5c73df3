//! The kernel's files: one setting read, one setting written.
//!
//! Everything that memwright changes in the kernel goes through [`Kernel`]. A write is what `echo`
//! does: one `write` call with the value and a newline, on a file that must exist already.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

/// Longest content of a setting; the kernel's own limit for most of them is one page.
pub const SETTING_BYTES_MAX: usize = 16 * 1024;

/// The directory under which the kernel's files and `/etc` live: `/`, or a copy of such a tree.
#[derive(Debug, Clone)]
pub struct Kernel {
    root: PathBuf,
}

/// Operation on a kernel file that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Read,
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// The reason why a kernel file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error(
        "cannot {access} {path}: permission denied (needs CAP_SYS_ADMIN; some files are read-only even for root)"
    )]
    Denied { path: String, access: Access },
    /// The file lies on a read-only mount, as `/proc/sys` does in a container.
    #[error(
        "cannot write {path}: the mount is read-only, as in a container; run memwright on the host"
    )]
    ReadOnly { path: String },
    /// The kernel does not take the value.
    #[error("the kernel rejected '{value}' for {path} ({errno}); the setting is unchanged")]
    Refused { path: String, value: String, errno: Errno },
    /// There is no such file.
    #[error("{path} not found: this kernel has no such setting")]
    Absent { path: String },
    /// The path is not one that memwright may write.
    #[error("{path} is not a setting: only paths below /proc/sys and /sys without '..' are")]
    NotASetting { path: String },
    /// The content is not one line of text, so that it could not be put back by writing it.
    #[error(
        "{path} does not hold one line of text of at most {SETTING_BYTES_MAX} bytes; memwright could not restore it and does not change it"
    )]
    NotOneLine { path: String },
    /// The value was written, but something else reads back.
    #[error(
        "wrote '{value}' to {path}, but it now reads '{now}': the kernel accepted only part of it, or another program wrote at the same time"
    )]
    NotTaken { path: String, value: String, now: String },
    #[error("cannot {access} {path}: {source}")]
    Io { path: String, access: Access, source: std::io::Error },
}

impl KernelError {
    /// True if more privilege would help: exit code 4.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Denied { .. } | Self::ReadOnly { .. })
    }

    /// True if the file is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    fn from_io(path: &str, access: Access, value: &str, error: std::io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied { path, access },
            Some(Errno::ROFS) => Self::ReadOnly { path },
            Some(Errno::NOENT | Errno::NOTDIR) => Self::Absent { path },
            Some(errno @ (Errno::INVAL | Errno::RANGE | Errno::OVERFLOW))
                if access == Access::Write =>
            {
                Self::Refused { path, value: value.to_owned(), errno }
            }
            _ => Self::Io { path, access, source: error },
        }
    }
}

impl Kernel {
    pub fn live() -> Self {
        Self::at("/")
    }

    /// A tree that holds `proc/sys`, `sys` and `etc`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The content of a setting.
    ///
    /// # Errors
    /// The path is not a setting's, or the file cannot be read or is too long.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, KernelError> {
        let file = self.setting_path(path)?;
        let fail = |error| KernelError::from_io(path, Access::Read, "", error);
        let mut bytes = Vec::new();
        mw_sys::guarded::open(&file)
            .map_err(fail)?
            .take(SETTING_BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(fail)?;
        if bytes.len() > SETTING_BYTES_MAX {
            return Err(KernelError::NotOneLine { path: path.to_owned() });
        }
        Ok(bytes)
    }

    /// The content of a setting that can be put back: one line of text.
    ///
    /// # Errors
    /// As [`Kernel::read`], or the content is something else.
    pub fn read_setting(&self, path: &str) -> Result<Vec<u8>, KernelError> {
        let bytes = self.read(path)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) if is_one_line(text.trim_end_matches('\n')) => Ok(bytes),
            _ => Err(KernelError::NotOneLine { path: path.to_owned() }),
        }
    }

    /// Writes a setting as `echo` does.
    ///
    /// # Errors
    /// The path is not a setting's, the file is not there, or the kernel refuses.
    pub fn write(&self, path: &str, value: &str) -> Result<(), KernelError> {
        let name = self.setting_path(path)?;
        let fail = |error| KernelError::from_io(path, Access::Write, value, error);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let opened = rustix::fs::open(name, flags, Mode::empty());
        let mut file = File::from(opened.map_err(|errno| fail(errno.into()))?);
        let line = format!("{value}\n");
        let written = file.write(line.as_bytes()).map_err(fail)?;
        if written != line.len() {
            let short = std::io::Error::other(format!("short write: {written} bytes"));
            return Err(fail(short));
        }
        // In a copy of the tree the tail of a longer former value would stay behind.
        if self.root != Path::new("/") {
            file.set_len(line.len() as u64).map_err(fail)?;
        }
        Ok(())
    }

    /// Writes a setting and checks that it reads back.
    ///
    /// # Errors
    /// As [`Kernel::write`] and [`Kernel::read`], or something else reads back.
    pub fn write_checked(&self, path: &str, value: &str) -> Result<(), KernelError> {
        self.write(path, value)?;
        let now = setting_of(&self.read(path)?);
        if same_setting(&now, value) {
            return Ok(());
        }
        Err(KernelError::NotTaken { path: path.to_owned(), value: value.to_owned(), now })
    }

    /// Path in this tree of a path of the machine.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn setting_path(&self, path: &str) -> Result<PathBuf, KernelError> {
        let below = path.starts_with("/proc/sys/") || path.starts_with("/sys/");
        let plain = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if below && plain && is_one_line(path) {
            return Ok(self.resolve(path));
        }
        Err(KernelError::NotASetting { path: path.to_owned() })
    }
}

/// The value that brings a setting back to this content: the bracketed word of a choice file
/// (`always [madvise] never`), or else the text without the space around it.
pub fn setting_of(content: &[u8]) -> String {
    let text = String::from_utf8_lossy(content);
    let mut chosen =
        text.split_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match (chosen.next(), chosen.next()) {
        (Some(word), None) => word.to_owned(),
        _ => text.trim().to_owned(),
    }
}

/// True if two values mean the same to the kernel: word by word, numbers as numbers.
pub fn same_setting(left: &str, right: &str) -> bool {
    left.split_whitespace().map(number_or_word).eq(right.split_whitespace().map(number_or_word))
}

fn number_or_word(word: &str) -> Result<i128, &str> {
    word.parse().map_err(|_| word)
}

/// True if a text can be written in one line, and read in one.
pub(crate) fn is_one_line(text: &str) -> bool {
    text.len() <= SETTING_BYTES_MAX && !text.chars().any(|c| c.is_control() && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, setting: &str) {
        assert_eq!(setting_of(content.as_bytes()), setting, "{content:?}");
    }

    #[test]
    fn the_setting_of_a_content() {
        check("7\n", "7");
        check("always [madvise] never\n", "madvise");
        check("[always] defer defer+madvise madvise never\n", "always");
        check("256\t256\t32\t0\t0\n", "256\t256\t32\t0\t0");
        check("[a] [b]\n", "[a] [b]");
        check("\n", "");
        check("", "");
    }

    #[test]
    fn settings_are_compared_as_the_kernel_reads_them() {
        assert!(same_setting("256\t256\t32", "256 256 32"));
        assert!(same_setting("007", "7"));
        assert!(!same_setting("7", "70"));
        assert!(!same_setting("madvise", "defer+madvise"));
        assert!(!same_setting("", "0"));
    }

    #[test]
    fn only_settings_are_written() {
        let kernel = Kernel::at("/nonexistent");
        for path in ["/etc/passwd", "/proc/sys/../../etc/passwd", "proc/sys/vm/x", "/proc/sys/a\nb"]
        {
            let error = kernel.write(path, "0").unwrap_err();
            assert!(matches!(error, KernelError::NotASetting { .. }), "{path}: {error}");
        }
        assert!(kernel.write("/proc/sys/vm/x", "0").unwrap_err().is_absent());
    }
}
