//! Exit codes: scripts depend on them.

use crate::advice;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

/// Meaning of an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything is fine, or was done.
    Fine,
    /// Findings at or above `--fail-on`, a request that would fail, findings that `fix` left, trends, things that
    /// `doctor` misses, hazards that drain a node, or receivers that `notify --test` does not reach.
    Findings,
    /// The command line or the configuration is wrong.
    Usage,
    /// The machine or the tree could not be checked.
    CouldNotCheck,
    PermissionDenied,
    /// A change failed part-way and what was done was reverted.
    RolledBack,
    /// `run`: the command was found and could not be executed, as of env(1).
    CommandNotExecutable,
    /// `run`: there is no such command, as of env(1).
    CommandNotFound,
    /// `why`, `make-room`: the command's own exit code, or 128 and the number of the signal that ended it.
    Command(u8),
    /// The state of a Nagios plugin, which has codes of its own.
    Plugin(mw_render::nagios::PluginState),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::CouldNotCheck => 3,
            Self::PermissionDenied => 4,
            Self::RolledBack => 5,
            Self::CommandNotExecutable => 126,
            Self::CommandNotFound => 127,
            Self::Command(code) => code,
            Self::Plugin(state) => state as u8,
        }
    }

    /// The end of a command, as the shell has it.
    pub(crate) fn from_status(status: ExitStatus) -> Self {
        let signal = status.signal().and_then(|signal| u8::try_from(signal).ok());
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Self::Command(
            signal.map(|signal| 128_u8.saturating_add(signal)).or(code).unwrap_or(u8::MAX),
        )
    }

    /// An error of execve(2).
    pub(crate) fn from_exec_error(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::CommandNotFound,
            _ => Self::CommandNotExecutable,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A failure: one line for people, and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    line: String,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(exit: Exit, line: impl fmt::Display) -> Self {
        Self { exit, line: line.to_string() }
    }

    /// A failure to read or check: [`Exit::PermissionDenied`] with the command that works where the user lacks a
    /// permission, otherwise [`Exit::CouldNotCheck`].
    pub(crate) fn from_error(error: &(dyn Error + 'static)) -> Self {
        if is_denied(error) {
            Self::new(Exit::PermissionDenied, advice::with_sudo(&error, true))
        } else {
            Self::new(Exit::CouldNotCheck, error)
        }
    }

    /// A failure to open or read a file, as [`Self::from_error`].
    pub(crate) fn of_file(path: impl AsRef<Path>, error: &io::Error) -> Self {
        let line = format!("{}: {error}", path.as_ref().display());
        if is_denied(error) {
            Self::new(Exit::PermissionDenied, advice::with_sudo(&line, true))
        } else {
            Self::new(Exit::CouldNotCheck, line)
        }
    }

    /// A failure to write the file that `option` names, of which another one may be writable.
    pub(crate) fn of_output(path: &Path, error: &io::Error, option: &str) -> Self {
        let exit = if is_denied(error) { Exit::PermissionDenied } else { Exit::CouldNotCheck };
        let path = path.display();
        Self::new(exit, format_args!("{path}: {error}; choose another file with {option}"))
    }

    /// A failure without a message: its reader has gone.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { exit, line: String::new() }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.line.is_empty()
    }
}

/// True if the error, or the one that caused it, is EACCES or EPERM.
fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let errno = error.downcast_ref::<rustix::io::Errno>().map(|errno| errno.kind());
    io.or(errno) == Some(ErrorKind::PermissionDenied) || error.source().is_some_and(is_denied)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl Error for Failure {}
