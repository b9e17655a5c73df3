//! The program that a command names.

use super::elf::{self, ExecutableKind};
use crate::{Exit, Failure};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Headers and notes are at the beginning.
const START_BYTES: u64 = 64 << 10;

/// The bits of a file's mode that have it run as its owner or group.
const SET_ID: u32 = 0o6000;
const MAY_EXECUTE: u32 = 0o111;

#[derive(Debug)]
pub(super) struct Executable {
    pub(super) path: PathBuf,
    /// Its kind; of a script, that of its interpreter.
    pub(super) kind: ExecutableKind,
    /// The program that reads it, where it is a script.
    pub(super) interpreter: Option<PathBuf>,
    /// True if it runs with other privileges than who starts it: the dynamic linker then ignores
    /// what is to be loaded before.
    pub(super) is_privileged: bool,
}

impl Executable {
    /// As execvp(3) looks for it.
    pub(super) fn find(name: &OsStr) -> Result<Self, Failure> {
        let path = look_up(name).ok_or_else(|| not_executable(name))?;
        let start = start_of(&path).unwrap_or_default();
        let mut program = Self {
            kind: elf::kind(&start),
            interpreter: None,
            is_privileged: is_privileged(&path),
            path,
        };
        if program.kind == ExecutableKind::Script {
            program.follow(&start);
        }
        Ok(program)
    }

    /// A script is run by the program that its first line names.
    fn follow(&mut self, start: &[u8]) {
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.get(2..).unwrap_or_default().split(u8::is_ascii_whitespace);
        let mut word = || words.find(|word| !word.is_empty()).map(OsStr::from_bytes);
        let Some(mut name) = word() else { return };
        if Path::new(name).file_name() == Some(OsStr::new("env"))
            && let Some(named) = word()
        {
            name = named;
        }
        let Some(path) = look_up(name) else { return };
        self.kind = elf::kind(&start_of(&path).unwrap_or_default());
        self.is_privileged = is_privileged(&path);
        self.interpreter = Some(path);
    }
}

fn look_up(name: &OsStr) -> Option<PathBuf> {
    candidates(name).into_iter().find(|path| {
        let about = path.metadata();
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & MAY_EXECUTE != 0)
    })
}

/// Paths at which execvp(3) searches for a program.
fn candidates(name: &OsStr) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|dir| dir.join(name)).collect()
}

/// The reason that there is nothing to run, with the exit codes of env(1).
fn not_executable(name: &OsStr) -> Failure {
    let is_missing = |path: &PathBuf| {
        path.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let missing = candidates(name).iter().all(is_missing);
    let name = Path::new(name).display();
    if missing {
        Failure::new(Exit::CommandNotFound, format!("command not found: {name}"))
    } else {
        let line = format!("{name}: permission denied, or not an executable file");
        Failure::new(Exit::CommandNotExecutable, line)
    }
}

#[allow(clippy::disallowed_methods, reason = "the program that the user has started next")]
fn start_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(START_BYTES as usize + 1);
    File::open(path)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

fn is_privileged(path: &Path) -> bool {
    let set_id = path.metadata().is_ok_and(|about| {
        let own = rustix::process::geteuid().as_raw() == about.uid()
            && rustix::process::getegid().as_raw() == about.gid();
        about.mode() & SET_ID != 0 && !own
    });
    let mut value = [0_u8; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value[..]);
    set_id || capable.is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        let shell = Executable::find(OsStr::new("sh")).unwrap();
        assert!(
            shell.path.is_absolute() && matches!(shell.kind, ExecutableKind::Dynamic(_)),
            "{shell:?}"
        );
        assert!(Executable::find(OsStr::new("no-such-program-at-all")).is_err());
        assert!(Executable::find(OsStr::new("/etc/passwd")).is_err(), "not executable");
    }

    #[test]
    fn a_script_is_what_its_interpreter_is() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        for line in ["#!/bin/sh\n", "#! /usr/bin/env sh\n"] {
            std::fs::write(&script, line).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
            let program = Executable::find(script.as_os_str()).unwrap();
            assert!(matches!(program.kind, ExecutableKind::Dynamic(_)), "{program:?}");
            assert!(program.interpreter.is_some());
        }
    }
}
