//! The tables that are in force and saved.

use super::failed;
use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_iotune::{LIVE, SAVED, Setting, TABLE_MAX_BYTES};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A table, with whatever lines it has: comments, and what is wrong, stay as they are.
#[derive(Debug, Default, Clone)]
pub(super) struct Table {
    lines: Vec<String>,
}

impl Table {
    /// The one that programs obey.
    pub(super) fn in_force() -> Result<Self, Failure> {
        let live = Self::read(LIVE)?;
        Ok(match live {
            Some(table) => table,
            None => Self::read(SAVED)?.unwrap_or_default(),
        })
    }

    /// What a file says; none where it is not there.
    pub(super) fn read(path: &str) -> Result<Option<Self>, Failure> {
        let mut text = Vec::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(TABLE_MAX_BYTES as u64 + 1).read_to_end(&mut text));
        match read {
            Ok(length) if length > TABLE_MAX_BYTES => {
                Err(Failure::new(Exit::CouldNotLook, format!("{path}: longer than 16 KiB")))
            }
            Ok(_) => {
                let text = String::from_utf8_lossy(&text);
                Ok(Some(Self { lines: text.lines().map(str::to_owned).collect() }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }

    /// The text of the table.
    pub(super) fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }

    /// The paths, as they are written, and their settings; of two lines of a path the last.
    pub(super) fn settings(&self) -> Vec<(String, Setting)> {
        let text = self.text();
        let mut settings: Vec<(String, Setting)> = Vec::new();
        for line in mw_iotune::lines(text.as_bytes()).filter_map(|(_, line)| line.ok()) {
            let path = String::from_utf8_lossy(line.path).into_owned();
            settings.retain(|(known, _)| *known != path);
            settings.push((path, line.setting));
        }
        settings
    }

    /// What is wrong with which line.
    pub(super) fn wrong(&self) -> Vec<(usize, &'static str)> {
        let text = self.text();
        let lines = mw_iotune::lines(text.as_bytes());
        lines.filter_map(|(number, line)| Some((number, line.err()?))).collect()
    }

    /// The setting of a path itself.
    pub(super) fn get(&self, path: &str) -> Option<Setting> {
        let settings = self.settings();
        settings.into_iter().find(|(known, _)| known == path).map(|(_, setting)| setting)
    }

    pub(super) fn put(&mut self, path: &str, setting: Setting) {
        let line = format!("{path} {setting}");
        match self.lines.iter().position(|line| is_of(line, path)) {
            Some(at) => self.lines[at] = line,
            None => self.lines.push(line),
        }
    }

    /// Takes the lines of a path away; false where there is none.
    pub(super) fn take(&mut self, path: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !is_of(line, path));
        self.lines.len() < before
    }

    /// Puts the table in the place of a file, whole or not at all.
    pub(super) fn write(&self, path: &str) -> Result<(), Failure> {
        let text = self.text();
        if text.len() > TABLE_MAX_BYTES {
            return Err(Failure::new(Exit::Usage, "the table would be longer than 16 KiB"));
        }
        let Some(dir) = Path::new(path).parent() else { return Ok(()) };
        let write = || {
            make(dir)?;
            let mut file = tempfile::Builder::new()
                .permissions(Permissions::from_mode(0o644))
                .tempfile_in(dir)?;
            file.write_all(text.as_bytes())?;
            // The umask does not count: programs of others read it.
            file.as_file().set_permissions(Permissions::from_mode(0o644))?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            std::fs::File::open(dir)?.sync_all()
        };
        without_interruption(|| write().map_err(|error| failed(path, &error)))
    }
}

/// Makes a folder that programs of others can read in, whatever the umask.
fn make(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(dir)?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o755))
}

fn is_of(line: &str, path: &str) -> bool {
    !line.trim_start().starts_with('#') && line.split_whitespace().next() == Some(path)
}

/// Held while a table is changed.
pub(super) fn lock() -> Result<OwnedFd, Failure> {
    let dir = Path::new(LIVE).parent().unwrap_or(Path::new("/run"));
    let lock = || {
        make(dir)?;
        let fd = rustix::fs::open(dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::flock(&fd, FlockOperation::LockExclusive)?;
        Ok(fd)
    };
    lock().map_err(|error: std::io::Error| failed(dir, &error))
}

/// A path as the table has it: as the kernel knows it, without links.
pub(super) fn real(path: &Path) -> Result<String, Failure> {
    let real = path.canonicalize().map_err(|error| failed(path, &error))?;
    named(&real).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{}: the table takes no such name", path.display()))
    })
}

/// A path as the table has it, where it is whole and text.
pub(super) fn named(path: &Path) -> Option<String> {
    path.is_absolute().then(|| path.to_str().map(mw_iotune::escape)).flatten()
}
